//! Networks of the office: namespaces behind routers that translate addresses.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::support::Running;
use super::wait_for;

/// A network namespace, as long as this value is there.
pub(crate) struct Net {
    keeper: Running,
}

impl Net {
    fn new(folder: &Path, name: &str) -> Self {
        let log = folder.join(format!("{name}.log"));
        let keeper = Running::start("unshare", &["-n", "sleep", "900"], &log);
        let of = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).unwrap();
        let id = keeper.child.id().to_string();
        wait_for("a namespace", || of(&id) != of("self"));
        Self { keeper }
    }

    fn id(&self) -> String {
        self.keeper.child.id().to_string()
    }

    /// What runs a program in it.
    pub(crate) fn enter(&self) -> Vec<String> {
        ["nsenter", "-t", &self.id(), "-n"]
            .map(str::to_owned)
            .into()
    }

    /// Runs lines of the shell in it, each of which must succeed.
    fn shell(&self, lines: &str) {
        let id = self.id();
        run("nsenter", &["-t", &id, "-n", "sh", "-ec", lines]);
    }
}

fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}\n{told}");
}

/// Runs lines of the shell here, each of which must succeed.
pub(crate) fn shell(lines: &str) {
    run("sh", &["-ec", lines]);
}

/// A network behind a router that has `outside` in the office's network, lets nothing in that
/// was not begun from within, and forgets a datagram's way after eight seconds. `how` is what nftables does with what leaves it.
pub(crate) struct Branch {
    pub(crate) inside: Net,
    _router: Net,
}

impl Branch {
    /// `nth` tells it from others: its network is 192.168.NTH.0/24, its phones have 2 to 9.
    pub(crate) fn new(folder: &Path, nth: u8, outside: &str, how: &str) -> Self {
        let router = Net::new(folder, &format!("router-{nth}"));
        let inside = Net::new(folder, &format!("branch-{nth}"));
        let (of_router, of_inside) = (router.id(), inside.id());
        shell(&format!(
            "ip link add out{nth} type veth peer name up{nth}\nip link set up{nth} netns {of_router}\n\
             ip link set out{nth} master office\nip link set out{nth} up\n"
        ));
        router.shell(&format!(
            "ip link set lo up\nip addr add {outside}/24 dev up{nth}\nip link set up{nth} up\n\
             ip link add in0 type veth peer name in1\nip link set in1 netns {of_inside}\n\
             ip addr add 192.168.{nth}.1/24 dev in0\nip link set in0 up\n\
             echo 1 > /proc/sys/net/ipv4/ip_forward\n\
             nft add table ip nat\n\
             nft 'add chain ip nat out {{ type nat hook postrouting priority 100; }}'\n\
             nft add rule ip nat out oifname up{nth} {how}\n\
             nft add table ip filter\n\
             nft 'add chain ip filter through {{ type filter hook forward priority 0; }}'\n\
             nft add rule ip filter through iifname up{nth} ct state new drop\n\
             echo 8 > /proc/sys/net/netfilter/nf_conntrack_udp_timeout\n\
             echo 8 > /proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream\n"
        ));
        let own: String = (2..10)
            .map(|host| format!("ip addr add 192.168.{nth}.{host}/24 dev in1\n"))
            .collect();
        inside.shell(&format!(
            "ip link set lo up\n{own}ip link set in1 up\nip route add default via 192.168.{nth}.1\n"
        ));
        Self {
            inside,
            _router: router,
        }
    }
}
