"""Opens packets and protects them by scapy's IPsec layer.

Each line of standard input is a case, in words: protocol, cipher, its key, authentication,
its key, tunnel, SPI, sequence number, upper half of an extended one or -, the packet, and the
same packet as it was protected elsewhere. For each line it prints what it opened, and the packet
as it protects it itself. Octets are in hexadecimal, "-" is none.
"""

import sys
import warnings

warnings.filterwarnings("ignore")

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import AH, ESP, SecurityAssociation

TUNNELS = {
    "-": None,
    "4": IP(src="192.0.2.1", dst="192.0.2.2"),
    "6": IPv6(src="2001:db8::1", dst="2001:db8::2"),
}


def octets(word):
    return None if word == "-" else bytes.fromhex(word)


def packet(raw):
    return IPv6(raw) if raw[0] >> 4 == 6 else IP(raw)


def association(words):
    protocol, cipher, cipher_key, auth, auth_key, tunnel, spi, number, upper = words
    named = {"crypt_algo": cipher, "crypt_key": octets(cipher_key)} if protocol == "esp" else {}
    if upper != "-":
        named.update(esn_en=True, esn=int(upper))
    return SecurityAssociation(
        ESP if protocol == "esp" else AH,
        spi=int(spi),
        seq_num=int(number),
        auth_algo=None if auth == "-" else auth,
        auth_key=octets(auth_key),
        tunnel_header=TUNNELS[tunnel],
        **named,
    )


for line in sys.stdin:
    words = line.split()
    plain, sealed = octets(words[9]), octets(words[10])
    opened = bytes(association(words[:9]).decrypt(packet(sealed)))
    made = bytes(association(words[:9]).encrypt(packet(plain)))
    print(opened.hex(), made.hex(), flush=True)
