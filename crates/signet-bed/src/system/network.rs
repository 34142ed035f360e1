//! What is between server and load: the loopback, or a pair of interfaces between two
//! namespaces of the network.
//!
//! With namespaces each side has an address and a stack of its own, and what is sent crosses a
//! pair of virtual interfaces, as it would cross a cable. The load stays where the bed is;
//! the server moves. The database stays too, and is reached through the relay.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use crate::Error;
use crate::process::Process;

/// Where both ends of a run are.
#[derive(Debug)]
pub struct Network {
    /// The server's address.
    pub server: Ipv4Addr,
    /// That of the called side and of the distance to the database.
    pub load: Ipv4Addr,
    /// The range that callers come from where each connection is a new one; the load's own
    /// choice if left out.
    pub callers: Option<&'static str>,
    /// The server's namespace, where it has one.
    namespace: Option<Namespace>,
}

/// The names of what namespaces leave behind begin so.
const PREFIX: &str = "signet-bed-";
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 2);
const LOAD: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 1);
const CALLERS: &str = "10.213.1.0/24";

impl Network {
    /// Everybody at 127.0.0.1.
    pub const fn loopback() -> Self {
        Self {
            server: Ipv4Addr::LOCALHOST,
            load: Ipv4Addr::LOCALHOST,
            callers: None,
            namespace: None,
        }
    }

    /// The server in a namespace of its own, which goes with this value.
    ///
    /// # Errors
    /// That this takes root, `ip`, or a kernel with namespaces.
    pub fn namespaces() -> Result<Self, Error> {
        Ok(Self {
            server: SERVER,
            load: LOAD,
            callers: Some(CALLERS),
            namespace: Some(Namespace::make()?),
        })
    }

    /// As a record calls it.
    pub const fn name(&self) -> &'static str {
        match self.namespace {
            Some(_) => "namespaces",
            None => "loopback",
        }
    }

    /// Whether all is at one address.
    pub const fn is_loopback(&self) -> bool {
        self.namespace.is_none()
    }

    /// Starts a server on a core where servers are.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start(
        &self,
        core: &str,
        program: &str,
        arguments: &[String],
        log: &Path,
    ) -> Result<Process, String> {
        let Some(namespace) = &self.namespace else {
            return Process::start(core, program, arguments, log);
        };
        let mut words = ["netns", "exec", &namespace.name, program]
            .map(str::to_owned)
            .to_vec();
        words.extend_from_slice(arguments);
        // It becomes the program that it starts, under the same process id.
        Process::start(core, "ip", &words, log)
    }
}

/// A namespace and the interface that leads to it, both of which go with this value.
#[derive(Debug)]
struct Namespace {
    name: String,
    link: String,
}

impl Namespace {
    fn make() -> Result<Self, Error> {
        remove_stale();
        let id = std::process::id();
        let made = Self {
            name: format!("{PREFIX}{id}"),
            // Names of interfaces have at most 15 characters.
            link: format!("sgb{id}"),
        };
        for line in made.commands() {
            ip(&line)?;
        }
        Ok(made)
    }

    fn commands(&self) -> Vec<String> {
        let (name, link) = (&self.name, &self.link);
        vec![
            format!("netns add {name}"),
            format!("link add {link} type veth peer name server netns {name}"),
            format!("addr add {LOAD}/24 dev {link}"),
            format!("link set {link} up"),
            format!("-n {name} addr add {SERVER}/24 dev server"),
            format!("-n {name} link set lo up"),
            format!("-n {name} link set server up"),
            format!("route replace local {CALLERS} dev lo"),
            format!("-n {name} route add {CALLERS} dev server"),
        ]
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&format!("route del local {CALLERS} dev lo"));
        let _ = ip(&format!("link del {}", self.link));
        let _ = ip(&format!("netns del {}", self.name));
    }
}

fn ip(line: &str) -> Result<String, Error> {
    let remedy = "be root on a kernel with namespaces and veth, and have `ip` (apt-get install iproute2), or leave --network out";
    let failed = |why: &str| Error::new(format!("ip {line}: {why}"), remedy);
    let output = Command::new("ip")
        .args(line.split(' '))
        .output()
        .map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// Removes namespaces of runs that were killed.
fn remove_stale() {
    for line in ip("netns list").unwrap_or_default().lines() {
        let name = line.split(' ').next().unwrap_or("");
        let Some(id) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if id.parse::<u32>().is_ok() && !Path::new("/proc").join(id).exists() {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}
