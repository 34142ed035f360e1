//! What all tunnels have in common: they are made on a link, and are there until they go.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use signet_bed::certificates::Certificates;
use signet_bed::process::{Process, SERVER_CORE, load_core};
use signet_bed::system::{Namespace, tail};

use super::kind::{Kind, Tunnel};
use super::link::{DEVICE, FAR, FAR_WITHIN, Folder, Link};
use super::{openvpn, strongswan, stunnel, wireguard, xfrm};

/// What services at the far end are reached at, through every tunnel.
pub(super) const PORTS: [u16; 3] = [THROUGHPUT, ECHO, SIP];
/// iperf3's.
pub(super) const THROUGHPUT: u16 = 5_201;
/// That of the service that sends messages back.
pub(super) const ECHO: u16 = 5_202;
/// That of the called side.
pub(super) const SIP: u16 = 5_060;

/// How long a program may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a log is read meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// What the driver of a tunnel is given.
pub(super) struct AtHand<'a> {
    pub(super) link: &'a Link,
    pub(super) folder: &'a Folder,
    pub(super) certificates: &'a Certificates,
}

/// An end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Near,
    Far,
}

impl End {
    pub(super) const BOTH: [Self; 2] = [Self::Far, Self::Near];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// A tunnel's program at one end.
pub(super) struct Member {
    pub(super) process: Process,
    log: PathBuf,
}

impl Member {
    /// # Errors
    /// That it has ended, with the end of its log.
    pub(super) fn must_run(&mut self) -> Result<(), String> {
        if self.process.is_running() {
            return Ok(());
        }
        Err(format!("it ended: {}", tail(&self.log)))
    }

    /// The end of its log.
    pub(super) fn said(&self) -> String {
        tail(&self.log)
    }
}

/// What tells how many bytes a tunnel has carried.
pub(super) enum Counted {
    /// A device of the near end.
    Device(String),
    /// The log of the near end, by what a line of it says.
    Log(PathBuf, fn(&str) -> Option<u64>),
    /// Nobody counts them.
    Nowhere,
}

/// A tunnel that was made, though it may not let anything through yet.
pub(super) struct Up {
    /// Where the near end finds the services.
    pub(super) to: Ipv4Addr,
    /// Where they are, at the far end.
    pub(super) at: Ipv4Addr,
    /// Its programs; none where the kernel is the tunnel.
    pub(super) members: Vec<Member>,
    pub(super) counted: Counted,
    /// What the near end's log says where it protects as it was told to; empty where it has no
    /// choice.
    pub(super) says: String,
    /// What else is to be told of it: which of two implementations it is.
    pub(super) by: Option<String>,
}

impl Up {
    /// One that leads to the addresses within.
    pub(super) fn within(members: Vec<Member>, counted: Counted) -> Self {
        Self {
            to: FAR_WITHIN,
            at: FAR_WITHIN,
            members,
            counted,
            says: String::new(),
            by: None,
        }
    }

    /// Bytes that it has carried so far; `None` where nobody counts them.
    pub(super) fn carried_bytes(&self, link: &Link) -> Option<u64> {
        match &self.counted {
            Counted::Device(device) => link.bytes(device),
            Counted::Log(log, of) => {
                let text = std::fs::read_to_string(log).ok()?;
                Some(text.lines().filter_map(of).sum())
            }
            Counted::Nowhere => None,
        }
    }
}

impl AtHand<'_> {
    pub(super) fn namespace(&self, end: End) -> &Namespace {
        match end {
            End::Near => &self.link.near,
            End::Far => &self.link.far,
        }
    }

    /// Starts a program of a tunnel at an end.
    pub(super) fn start(
        &self,
        end: End,
        program: &str,
        words: &[String],
    ) -> Result<Member, String> {
        let log = self.folder.path(&format!("tunnel-{}.log", end.name()));
        let process = self.namespace(end).start(core(end), program, words, &log)?;
        Ok(Member { process, log })
    }

    /// Waits until the log at an end says something.
    ///
    /// # Errors
    /// That its program has ended, or does not say it.
    pub(super) fn wait_for(&self, end: End, member: &mut Member, says: &str) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let log = std::fs::read_to_string(self.log(end)).unwrap_or_default();
            if log.contains(says) {
                return Ok(());
            }
            member.must_run()?;
            if Instant::now() > until {
                return Err(format!("it does not begin: {}", member.said()));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// # Errors
    /// That the programs have agreed on something else than what is to be measured.
    pub(super) fn must_say(&self, says: &str) -> Result<(), String> {
        let log = std::fs::read_to_string(self.log(End::Near)).unwrap_or_default();
        if says.is_empty() || log.contains(says) {
            return Ok(());
        }
        Err(format!(
            "its log does not say `{says}`: it protects otherwise"
        ))
    }

    /// The log of a tunnel's program at an end.
    pub(super) fn log(&self, end: End) -> PathBuf {
        self.folder.path(&format!("tunnel-{}.log", end.name()))
    }
}

/// The core of everything at an end.
pub(super) fn core(end: End) -> &'static str {
    match end {
        End::Near => load_core(),
        End::Far => SERVER_CORE,
    }
}

impl Tunnel {
    /// Makes it. It goes with what is returned and with the link.
    ///
    /// # Errors
    /// Why it cannot be on this machine, with the remedy where there is one.
    pub(super) fn make(&self, at_hand: &AtHand<'_>) -> Result<Up, String> {
        match self.kind {
            Kind::Bare => Ok(Up {
                to: FAR,
                at: FAR,
                members: Vec::new(),
                counted: Counted::Device(DEVICE.to_owned()),
                says: String::new(),
                by: None,
            }),
            Kind::Xfrm(esp) => xfrm::make(at_hand, esp),
            Kind::StrongSwan { esp, says } => strongswan::make(at_hand, esp, says),
            Kind::Stunnel(suite) => stunnel::make(at_hand, suite),
            Kind::OpenVpn {
                cipher,
                auth,
                is_legacy,
            } => openvpn::make(at_hand, cipher, auth, is_legacy),
            Kind::WireGuard => wireguard::make(at_hand),
        }
    }
}

/// Arguments as text.
pub(super) fn words(of: &[&str]) -> Vec<String> {
    of.iter().map(|word| (*word).to_owned()).collect()
}

/// Whether a path is there; used for devices of the kernel.
pub(super) fn must_be(path: &str, remedy: &str) -> Result<(), String> {
    if Path::new(path).exists() {
        Ok(())
    } else {
        Err(format!("{path} is not there: {remedy}"))
    }
}
