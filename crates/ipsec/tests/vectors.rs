//! The vectors of the RFCs, and of what they refer to, through each provider that has the
//! algorithm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ipsec::primitive::Provider;
use ipsec::{Association, Auth, Cipher, Esp, Keys, Mode, SetupError, Transform, Tunnel};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    assert!(digits.len().is_multiple_of(2), "{text}");
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Those providers of this build that have it; at least one must.
fn providers(has: impl Fn(Provider) -> Result<(), SetupError>) -> Vec<Provider> {
    let all = Provider::ALL.iter().copied();
    let found: Vec<Provider> = all
        .filter(|provider| match has(*provider) {
            Ok(()) => true,
            Err(SetupError::Unavailable(_)) => false,
            Err(error) => panic!("{provider}: {error}"),
        })
        .collect();
    assert!(!found.is_empty());
    found
}

fn mac(auth: Auth, key: &str, data: &[u8], wanted: &str) {
    let key = hex(key);
    for provider in providers(|provider| provider.mac(auth, &key).map(|_| ())) {
        let mut mac = provider.mac(auth, &key).unwrap();
        let mut icv = vec![0; auth.icv_bytes()];
        mac.compute(&[data], &mut icv).unwrap();
        assert_eq!(icv, hex(wanted)[..auth.icv_bytes()], "{provider} {auth}");
        // The same in parts, and after another use of the key.
        let (front, back) = data.split_at(data.len() / 3);
        mac.compute(&[front, &[], back], &mut icv).unwrap();
        assert_eq!(icv, hex(wanted)[..auth.icv_bytes()], "{provider} {auth}");
    }
}

/// RFC 2202 2, those cases whose key has the length that RFC 2403 asks for.
#[test]
fn hmac_md5_of_rfc_2202() {
    let (auth, b) = (Auth::HmacMd5_96, "0b".repeat(16));
    mac(auth, &b, b"Hi There", "9294727a3638bb1c13f48ef8158bfc9d");
    mac(
        auth,
        &"aa".repeat(16),
        &[0xdd; 50],
        "56be34521d144c88dbb8c733f0e8b3f6",
    );
    let c = "0c".repeat(16);
    mac(
        auth,
        &c,
        b"Test With Truncation",
        "56461ef2342edc00f9bab995690efd4c",
    );
}

/// RFC 2202 3, those cases whose key has the length that RFC 2404 asks for.
#[test]
fn hmac_sha1_of_rfc_2202() {
    let (auth, b) = (Auth::HmacSha1_96, "0b".repeat(20));
    mac(
        auth,
        &b,
        b"Hi There",
        "b617318655057264e28bc0b6fb378c8ef146be00",
    );
    let a = "aa".repeat(20);
    mac(
        auth,
        &a,
        &[0xdd; 50],
        "125d7342b9ac11cd91a39af48aa17b4f63f175d3",
    );
    let c = "0c".repeat(20);
    mac(
        auth,
        &c,
        b"Test With Truncation",
        "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04",
    );
}

/// RFC 4868 2.7.2.1 and 2.7.2.2 (AUTH256-1 and AUTH256-2): keys of 32 octets.
#[test]
fn hmac_sha_256_of_rfc_4868() {
    let auth = Auth::HmacSha256_128;
    let b = "0b".repeat(32);
    mac(auth, &b, b"Hi There", "198a607eb44bfbc69903a0f1cf2bbdc5");
    let jefe = "4a656665".repeat(8);
    let asked = b"what do ya want for nothing?";
    mac(auth, &jefe, asked, "167f928588c5cc2eef8e3093caa0e87c");
    let a = "aa".repeat(32);
    mac(auth, &a, &[0xdd; 50], "cdcb1220d1ecccea91e53aba3092f962");
}

fn cbc(cipher: Cipher, key: &str, iv: &str, plain: &str, wanted: &str) {
    let key = hex(key);
    for provider in providers(|provider| provider.cbc(cipher, &key).map(|_| ())) {
        let mut keyed = provider.cbc(cipher, &key).unwrap();
        let mut data = hex(plain);
        keyed.encrypt(&hex(iv), &mut data).unwrap();
        assert_eq!(data, hex(wanted), "{provider} {cipher}");
        keyed.decrypt(&hex(iv), &mut data).unwrap();
        assert_eq!(data, hex(plain), "{provider} {cipher}");
        assert!(keyed.encrypt(&hex(iv)[1..], &mut data).is_err());
        assert!(keyed.decrypt(&hex(iv), &mut data[1..]).is_err());
    }
}

/// RFC 3602 4, cases 1 and 2.
#[test]
fn aes_128_cbc_of_rfc_3602() {
    let cipher = Cipher::Aes128Cbc;
    cbc(
        cipher,
        "06a9214036b8a15b512e03d534120006",
        "3dafba429d9eb430b422da802c9fac41",
        "53696e676c6520626c6f636b206d7367",
        "e353779c1079aeb82708942dbe77181a",
    );
    cbc(
        cipher,
        "c286696d887c9aa0611bbb3e2025a45a",
        "562e17996d093d28ddb3ba695a2e6f58",
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
    );
}

/// NIST SP 800-38A F.2.3 and F.2.5: the first two blocks.
#[test]
fn aes_192_and_256_cbc_of_sp_800_38a() {
    let iv = "000102030405060708090a0b0c0d0e0f";
    let plain = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51";
    cbc(
        Cipher::Aes192Cbc,
        "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
        iv,
        plain,
        "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a",
    );
    cbc(
        Cipher::Aes256Cbc,
        "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        iv,
        plain,
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
    );
}

/// FIPS 81, table C1: "Now is the time for all ".
#[test]
fn des_cbc_of_fips_81() {
    cbc(
        Cipher::DesCbc,
        "0123456789abcdef",
        "1234567890abcdef",
        "4e6f77206973207468652074696d6520666f7220616c6c20",
        "e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6",
    );
}

/// NIST SP 800-67 B.1, its first block: CBC with an IV of zeros is the bare cipher there.
#[test]
fn triple_des_of_sp_800_67() {
    cbc(
        Cipher::TripleDesCbc,
        "0123456789abcdef23456789abcdef01456789abcdef0123",
        "0000000000000000",
        "5468652071756663",
        "a826fd8ce53b855f",
    );
}

/// The CBC vector that Blowfish's author refers to.
#[test]
fn blowfish_128_cbc() {
    cbc(
        Cipher::Blowfish128Cbc,
        "0123456789abcdeff0e1d2c3b4a59687",
        "fedcba9876543210",
        "37363534333231204e6f77206973207468652074696d6520666f722000000000",
        "6b77b4d63006dee605b156e27403979358deb9e7154616d959f1652bd5ff92cc",
    );
}

/// The set-key vectors of Blowfish's author: a key of 24 octets, and a block under it.
#[test]
fn blowfish_192() {
    cbc(
        Cipher::Blowfish192Cbc,
        "f0e1d2c3b4a5968778695a4b3c2d1e0f0011223344556677",
        "0000000000000000",
        "fedcba9876543210",
        "05044b62fa52d080",
    );
}

/// An AEAD's vector as RFC 4106 and RFC 7634 use it: salt and IV apart.
struct Sealed {
    cipher: Cipher,
    key: &'static str,
    nonce: &'static str,
    aad: &'static str,
    plain: &'static str,
    sealed: &'static str,
}

/// draft-mcgrew-gcm-test-01, two cases, and RFC 7634 appendix A.
const SEALED: [Sealed; 3] = [
    Sealed {
        cipher: Cipher::Aes128Gcm,
        key: "4c80cdefbb5d10da906ac73c3613a634",
        nonce: "2e443b68 4956ed7e3b244cfe",
        aad: "00004321 87654321 00000000",
        plain: "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000\
                00000000045f736970045f756470037369700963796265726369747902646b00\
                0021000101020201",
        sealed: "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34\
                 cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce\
                 61bc17d768fd9732459018148f6cbe722fd04796562dfdb4",
    },
    Sealed {
        cipher: Cipher::Aes256Gcm,
        key: "abbccddef00112233445566778899aababbccddef00112233445566778899aab",
        nonce: "11223344 0102030405060708",
        aad: "4a2cbfe3 00000002",
        plain: "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee000000000\
                7002400020bf0000020405b40101040201020201",
        sealed: "ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763\
                 748a637985771d347f0545659f14e99def842d8eb335f4eecfdbf831824b4c49\
                 15956c96",
    },
    Sealed {
        cipher: Cipher::ChaCha20Poly1305,
        key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
        nonce: "a0a1a2a3 1011121314151617",
        aad: "01020304 00000005",
        plain: "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec10\
                0007362708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223\
                2425262728292a2b2c2d2e2f303132333435363701020204",
        sealed: "24039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c6\
                 14ee8099d52844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3\
                 cbec163fac469b502773f6fb94e664da9165b82829f641e076aaa8266b7fb0f7\
                 b11b369907e1ad43",
    },
];

#[test]
fn aeads_of_rfc_4106_and_rfc_7634() {
    for vector in &SEALED {
        let key = hex(vector.key);
        let nonce: [u8; 12] = hex(vector.nonce).try_into().unwrap();
        let (aad, sealed) = (hex(vector.aad), hex(vector.sealed));
        let (wanted, wanted_tag) = sealed.split_last_chunk::<16>().unwrap();
        let has = |provider: Provider| provider.aead(vector.cipher, &key).map(|_| ());
        for provider in providers(has) {
            let mut keyed = provider.aead(vector.cipher, &key).unwrap();
            let (mut data, mut tag) = (hex(vector.plain), [0; 16]);
            keyed.seal(&nonce, &aad, &mut data, &mut tag).unwrap();
            assert_eq!((&data[..], &tag), (wanted, wanted_tag), "{provider}");
            keyed.open(&nonce, &aad, &mut data, &tag).unwrap();
            assert_eq!(data, hex(vector.plain), "{provider}");
            let mut data = wanted.to_vec();
            tag[15] ^= 1;
            assert!(
                keyed.open(&nonce, &aad, &mut data, &tag).is_err(),
                "{provider}"
            );
        }
    }
}

fn association(spi: u32, cipher: Cipher, mode: Mode, provider: Provider) -> Association {
    Association {
        spi,
        transform: Transform::Esp(Esp::new(cipher, None).unwrap()),
        mode,
        is_extended: false,
        provider,
    }
}

/// RFC 3602 4, case 5: a whole packet in transport mode.
#[test]
fn a_transport_packet_of_rfc_3602() {
    let plain = hex("45000054 08f20000 4001f9fe c0a87b03 c0a87b64
        08000ebd a70a0000 8e9c083d b95b0700 08090a0b 0c0d0e0f 10111213 14151617
        18191a1b 1c1d1e1f 20212223 24252627 28292a2b 2c2d2e2f 30313233 34353637");
    let wanted = hex("4500007c 08f20000 4032f9a5 c0a87b03 c0a87b64
        00004321 00000001 e96e8c08 ab465763 fd098d45 dd3ff893
        f663c25d 325c18c6 a9453e19 4e120849 a4870b66 cc6b9965 330013b4 898dc856
        a4699e52 3a55db08 0b59ec3a 8e4b7e52 775b07d1 db34ed9c 538ab50c 551b874a
        a269add0 47ad2d59 13ac19b7 cfbad4a6");
    let keys = Keys::new(&hex("90d382b4 10eeba7a d938c46c ec1a82bf"), &[]);
    let iv = hex("e96e8c08 ab465763 fd098d45 dd3ff893");
    let it = association(
        0x4321,
        Cipher::Aes128Cbc,
        Mode::Transport,
        Provider::RustCrypto,
    );
    let mut sealed = Vec::new();
    it.outbound(&keys, [0; 16])
        .unwrap()
        .seal_with_iv(&plain, &iv, &mut sealed)
        .unwrap();
    assert_eq!(sealed, wanted);
    let mut receiver = it.inbound(&keys).unwrap();
    let opened = receiver.open(&mut sealed).unwrap();
    assert_eq!(opened.packet(), plain);
    assert!(!opened.is_authenticated());
}

/// RFC 3602 4, case 7: a whole packet in tunnel mode. What of the outer header the RFC leaves
/// to who sends (identification, TTL) is not compared.
#[test]
fn a_tunnel_packet_of_rfc_3602() {
    let plain = hex(
        "45000054 09040000 4001f988 c0a87b03 c0a87bc8 08009f76 a90a0100 b49c083d
        02a20400 08090a0b 0c0d0e0f 10111213 14151617 18191a1b 1c1d1e1f 20212223
        24252627 28292a2b 2c2d2e2f 30313233 34353637",
    );
    let wanted = hex("00008765 00000002 f4e76524 4f6407ad f13dc138 0f673f37
        773b5241 a4c44922 5e4f3ce5 ed611b0c 237ca96c f74a9301 3c1b0ea1 a0cf70f8
        e4ecaec7 8ac53aad 7a0f022b 859243c6 47752e94 a859352b 8a4d4d2d ecd136e5
        c177f132 ad3fbfb2 201ac990 4c74ee0a 109e0ca1 e4dfe9d5 a100b842 f1c22f0d");
    let keys = Keys::new(&hex("01234567 89abcdef 01234567 89abcdef"), &[]);
    let iv = hex("f4e76524 4f6407ad f13dc138 0f673f37");
    let (from, to) = ([192, 168, 123, 3].into(), [192, 168, 123, 200].into());
    let mode = Mode::Tunnel(Tunnel::V4 { from, to });
    let it = association(0x8765, Cipher::Aes128Cbc, mode, Provider::RustCrypto);
    let mut sender = it.outbound(&keys, [0; 16]).unwrap();
    sender.resume_after(1);
    let mut sealed = Vec::new();
    sender.seal_with_iv(&plain, &iv, &mut sealed).unwrap();
    assert_eq!(sealed[20..], wanted);
    assert_eq!(sealed[12..20], [192, 168, 123, 3, 192, 168, 123, 200]);
    assert_eq!(sealed[2..4], [0, 0x8c]);
    let mut receiver = it.inbound(&keys).unwrap();
    assert_eq!(receiver.open(&mut sealed).unwrap().packet(), plain);
}

/// The packets of the AEADs' vectors, opened and sealed whole; that of AES-128-GCM has an
/// extended number, 0x8765432100000000.
#[test]
fn whole_packets_of_aeads() {
    for vector in &SEALED {
        let (nonce, aad) = (hex(vector.nonce), hex(vector.aad));
        let word = |at: usize| u32::from_be_bytes(aad[at..at + 4].try_into().unwrap());
        let is_extended = aad.len() == 12;
        let number = if is_extended {
            u64::from(word(4)) << 32 | u64::from(word(8))
        } else {
            u64::from(word(4))
        };
        let plain = hex(vector.plain);
        let (pad, next) = (plain[plain.len() - 2], plain[plain.len() - 1]);
        let payload = &plain[..plain.len() - 2 - usize::from(pad)];
        let key = [hex(vector.key), nonce[..4].to_vec()].concat();
        let keys = Keys::new(&key, &[]);
        // In transport mode between two IPv4 addresses, whatever the payload says that it is.
        let mut packet = hex("45000000 00000000 40000000 0a000001 0a000002");
        packet[9] = next;
        packet.extend(payload);
        let length = u16::try_from(packet.len()).unwrap().to_be_bytes();
        packet[2..4].copy_from_slice(&length);
        for provider in providers(|p| p.aead(vector.cipher, &hex(vector.key)).map(|_| ())) {
            let mut it = association(word(0), vector.cipher, Mode::Transport, provider);
            it.is_extended = is_extended;
            let mut sender = it.outbound(&keys, [0; 16]).unwrap();
            sender.resume_after(number - 1);
            let mut sealed = Vec::new();
            sender
                .seal_with_iv(&packet, &nonce[4..], &mut sealed)
                .unwrap();
            let low = (number as u32).to_be_bytes();
            let wanted = [&aad[..4], &low, &nonce[4..], &hex(vector.sealed)].concat();
            assert_eq!(sealed[20..], wanted, "{provider} {}", vector.cipher);
            let mut receiver = it.inbound(&keys).unwrap();
            receiver.resume_after(number - 1);
            let opened = receiver.open(&mut sealed).unwrap();
            assert_eq!(opened.packet()[20..], *payload);
            assert_eq!((opened.sequence(), opened.packet()[9]), (number, next));
        }
    }
}
