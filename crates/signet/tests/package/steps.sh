# The life of the package, from `apt install` to `apt purge`. Each step says its name; the
# first that fails ends it.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive SYSTEMD_COLORS=0 SYSTEMD_PAGER=cat HOME=/root
config=/etc/signet/signet.toml

trap 'code=$?; [ $code = 0 ] || { journalctl -u signet --no-pager -n 40; systemctl status signet --no-pager; }' EXIT
until_true() {
    for _ in $(seq 100); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    echo "not within ten seconds: $*"
    return 1
}
# `!` before a command would end nothing.
not() {
    "$@" || return 0
    echo "went well, and was not to: $*"
    return 1
}
said() { journalctl -u signet --no-pager -o cat | grep -q "$1"; }

echo "step: the machine has no signet"
[ ! -e /usr/bin/signet ]
[ ! -e /etc/signet ]

echo "step: apt installs it, and it runs"
apt-get install -y -qq /run/out/signet.deb
systemctl is-active signet
systemctl is-enabled signet
[ "$(systemctl show -P StatusText signet)" = serving ]
pid=$(systemctl show -P MainPID signet)
[ "$(stat -c %U /proc/"$pid")" = signet ]
grep -x 'CapEff:	0000000000000400' /proc/"$pid"/status
[ "$(stat -c '%U %a' /var/lib/signet)" = 'signet 700' ]
[ "$(stat -c '%U %a' /var/log/signet)" = 'signet 750' ]
[ "$(find /usr/bin/signet -newer /usr/lib/os-release | wc -l)" = 1 ]
[ "$(readelf -S /usr/bin/signet | grep -c debug_info)" = 0 ]

echo "step: how systemd rates it"
systemd-analyze security signet | tail -1
systemd-analyze security --threshold=25 signet >/dev/null

echo "step: root adds users, and the server can read them"
printf 'user,password\n' >/run/users.csv
for n in 1 2; do
    printf 'user%s,secret%s\n' $n $n >>/run/users.csv
    printf 'secret%s\n' $n | signet user add user$n --password-stdin --config $config
done
chmod 600 /run/users.csv
signet user import /run/users.csv --config $config
signet user list --config $config
[ -z "$(find /var/lib/signet ! -user signet)" ]

echo "step: a call goes through"
domain=$(cat /var/lib/signet/domain)
common=(--users /run/users.csv --domain "$domain" --no-check-self --late-max 30s --stall-max 30s)
signet load call "${common[@]}" --to sip:127.0.0.1:5060 --pairs ring --rate 2 --count 4 --hold 50ms
signet load register "${common[@]}" --transport tls --to sip:127.0.0.1:5061 --ca /var/lib/signet/ca.pem --rate 2 --count 2 ||
    { echo "over TLS: $?"; exit 1; }

echo "step: a reload, and one with a mistake"
printf '\n[log]\ntrace_sip = false\n' >>$config
systemctl reload signet
until_true said '^.*reloaded'
echo 'nonsense = 1' >>$config
systemctl reload signet || true
until_true said 'reload refused'
[ "$(systemctl show -P MainPID signet)" = "$pid" ]
sed -i '$d' $config

again() { [ "$(systemctl show -P MainPID signet)" != "$pid" ] && systemctl -q is-active signet; }
echo "step: a server that is killed comes back, as often as it takes"
for _ in 1 2 3 4 5 6 7; do
    pid=$(systemctl show -P MainPID signet)
    kill -KILL "$pid"
    until_true again
done

restarted() {
    pid=$(systemctl show -P MainPID signet)
    systemctl restart signet
    until_true again
}
document=/usr/share/doc/signet/OPERATING.md
cp $config /run/before.toml

echo "step: a secret that the server's user cannot read is told by root's check"
(umask 077; openssl rand -hex 32 >/etc/signet/ticket.secret)
printf '\n[tls]\nticket_keys = "file"\nticket_secret_file = "/etc/signet/ticket.secret"\n' >>$config
not signet check $config
bash -euc "$(grep '^openssl rand -hex 32 | install ' $document)"
signet check $config
restarted
cp /run/before.toml $config

echo "step: root's check passes a folder by a group of the server's, as the server does"
groupadd --system signet-keys
usermod --append --groups signet-keys signet
install -d -o root -g signet-keys -m 0750 /etc/signet/keys
install -o signet -g signet -m 0600 /etc/signet/ticket.secret /etc/signet/keys/ticket.secret
printf '\n[tls]\nticket_keys = "file"\nticket_secret_file = "/etc/signet/keys/ticket.secret"\n' >>$config
signet check $config
restarted
cp /run/before.toml $config

echo "step: nodes share tickets by the drop-in of the document"
install -d -o signet -g signet -m 0700 /var/lib/signet-shared
mkdir /etc/systemd/system/signet.service.d
sed -n '/^\[Service\]$/,/^$\|^```$/p' $document | grep -v '^```$' >/etc/systemd/system/signet.service.d/override.conf
systemctl daemon-reload
printf '\n[tls]\nticket_store = "/var/lib/signet-shared/tickets.db"\n' >>$config
signet check $config
restarted
[ "$(stat -c '%U %a' /var/lib/signet-shared/tickets.db)" = 'signet 600' ]
[ "$(journalctl -u signet --no-pager -o cat | grep -c 'secrets of session tickets cannot be read')" = 0 ]
cp /run/before.toml $config
rm -r /etc/systemd/system/signet.service.d
systemctl daemon-reload

echo "step: an expired certificate keeps no server from its start, and no upgrade back"
install -d -o root -g signet -m 0750 /etc/signet/tls
install -o signet -g signet -m 0644 /run/out/expired.pem /etc/signet/tls/chain.pem
install -o signet -g signet -m 0600 /run/out/expired.key /etc/signet/tls/key.pem
cat >>$config <<'LISTEN'
[[listen]]
on = "udp:0.0.0.0:5060"
[[listen]]
on = "tls:0.0.0.0:5061"
security = { certificate = "/etc/signet/tls/chain.pem", key = "/etc/signet/tls/key.pem" }
LISTEN
not signet check $config
restarted
signet load call "${common[@]}" --to sip:127.0.0.1:5060 --pairs ring --rate 2 --count 2 --hold 50ms
pid=$(systemctl show -P MainPID signet)
dpkg -i /run/out/signet.deb
until_true again
cp /run/before.toml $config
restarted

echo "step: an upgrade that would not start leaves the server that runs"
pid=$(systemctl show -P MainPID signet)
echo 'nonsense = 1' >>$config
dpkg -i /run/out/signet.deb
[ "$(systemctl show -P MainPID signet)" = "$pid" ]
systemctl -q is-active signet
sed -i '$d' $config
dpkg -i /run/out/signet.deb
until_true again

echo "step: root cannot spoil the folder by hand"
systemctl stop signet
not signet serve --config $config
[ -z "$(find /var/lib/signet ! -user signet)" ]
systemctl start signet

echo "step: manual pages and completions"
for page in /usr/share/man/man1/signet*.1.gz; do
    said=$(man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
    [ -z "$said" ] || { echo "$page: $said"; exit 1; }
done
bash -n /usr/share/bash-completion/completions/signet

echo "step: removal leaves no process and keeps what is the operator's"
apt-get remove -y -qq signet
not pgrep -x signet
[ ! -e /usr/bin/signet ]
[ -e $config ]
[ -e /var/lib/signet/signet.db ]
[ -e /etc/signet/tls/key.pem ]

echo "step: purging leaves nothing"
apt-get purge -y -qq signet
[ ! -e /etc/signet ]
[ ! -e /var/lib/signet ]
[ ! -e /var/log/signet ]
[ ! -e /usr/share/doc/signet ]
