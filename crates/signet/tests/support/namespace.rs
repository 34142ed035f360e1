//! Network namespaces, and phones in them behind a real address translation.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::command::text;
use super::{ADDRESS, Running};

/// The outside of the translation.
pub const OUTSIDE: &str = "10.77.0.2";
/// Where a caller is who is behind none.
pub const CALLER: &str = "10.77.0.9";
/// The phone, as it knows itself.
pub const PHONE: &str = "192.168.77.2";
const PATIENCE: Duration = Duration::from_secs(60);

/// A network namespace, as long as this value is there.
pub struct Net {
    keeper: Running,
}

impl Net {
    pub fn new(folder: &Path, name: &str) -> Self {
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

    /// Runs lines of the shell in it, each of which must succeed.
    pub fn shell(&self, lines: &str) -> Output {
        let id = self.id();
        let words = ["-t", &id, "-n", "sh", "-ec", lines];
        let output = Command::new("nsenter").args(words).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{lines}\n{told}");
        output
    }

    pub fn start(&self, words: &[&str], log: &Path) -> Running {
        let id = self.id();
        let enter = ["-t", &id, "-n"];
        Running::start("nsenter", &[&enter, words].concat(), log)
    }
}

pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

pub fn shell(lines: &str) {
    let output = Command::new("sh").args(["-ec", lines]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{lines}\n{told}");
}

/// A router that translates, and the network behind it.
pub struct Translation {
    pub router: Net,
    pub inside: Net,
}

impl Translation {
    /// Between this namespace, which [`super::in_namespace`] has made, and one behind it. What was
    /// silent for seven seconds is forgotten.
    pub fn new(at: &Path) -> Self {
        let (router, inside) = (Net::new(at, "router"), Net::new(at, "inside"));
        shell(&format!(
            "ip link set ve1 netns {}\nip addr add {CALLER}/24 dev ve0\n",
            router.id()
        ));
        router.shell(&format!(
            "ip link set lo up\nip addr add {OUTSIDE}/24 dev ve1\nip link set ve1 up\n\
             ip link add ph0 type veth peer name ph1\nip link set ph1 netns {}\n\
             ip addr add 192.168.77.1/24 dev ph0\nip link set ph0 up\n\
             echo 1 > /proc/sys/net/ipv4/ip_forward\n\
             nft add table ip nat\n\
             nft 'add chain ip nat out {{ type nat hook postrouting priority 100; }}'\n\
             nft add rule ip nat out oifname ve1 masquerade\n\
             nft add table ip filter\n\
             nft 'add chain ip filter through {{ type filter hook forward priority 0; }}'\n\
             echo 7 > /proc/sys/net/netfilter/nf_conntrack_udp_timeout\n\
             echo 7 > /proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream\n",
            inside.id()
        ));
        inside.shell(&format!(
            "ip link set lo up\nip addr add {PHONE}/24 dev ph1\nip link set ph1 up\n\
             ip route add default via 192.168.77.1\n"
        ));
        Self { router, inside }
    }
}

/// Bob's baresip in that network, which keeps nothing open by itself, answers calls, and gives
/// back what it hears.
pub fn baresip(folder: &Path, inside: &Net, domain: &str) -> Running {
    let home = folder.join("bob");
    fs::create_dir_all(&home).unwrap();
    let config = format!(
        "poll_method epoll\nsip_listen {PHONE}:5966\naudio_source aubridge,bob\n\
         audio_player aubridge,bob\nrtp_ports 15966-15974\n\
         module_path /usr/lib/baresip/modules\nmodule g711.so\nmodule aubridge.so\n\
         module_tmp uuid.so\nmodule_tmp account.so\nmodule_app menu.so\n"
    );
    fs::write(home.join("config"), config).unwrap();
    let account = format!(
        "<sip:bob@{domain};transport=udp>;auth_user=bob;auth_pass=bob-secret;\
         outbound=\"sip:{ADDRESS}:5060;transport=udp\";regint=600;answermode=auto\n"
    );
    fs::write(home.join("accounts"), account).unwrap();
    fs::write(home.join("contacts"), "").unwrap();
    let words = ["baresip", "-f", text(&home)];
    inside.start(&words, &home.join("log"))
}
