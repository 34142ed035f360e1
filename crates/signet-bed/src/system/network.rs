//! What is between server and load: the loopback, or a pair of interfaces between two
//! namespaces of the network.
//!
//! With namespaces each side has an address and a stack of its own, and what is sent crosses a
//! pair of virtual interfaces, as it would cross a cable. The load stays where the bed is;
//! the server moves. The database stays too, and is reached through the relay.

use std::net::Ipv4Addr;
use std::path::Path;

use super::namespace::{Namespace, REMEDY, ip};
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
    namespace: Option<ServerNamespace>,
}

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
    /// That this needs root, `ip`, or a kernel with namespaces.
    pub fn namespaces() -> Result<Self, Error> {
        Ok(Self {
            server: SERVER,
            load: LOAD,
            callers: Some(CALLERS),
            namespace: Some(ServerNamespace::make()?),
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
        match &self.namespace {
            None => Process::start(core, program, arguments, log),
            Some(apart) => apart.namespace.start(core, program, arguments, log),
        }
    }
}

/// The server's namespace and the interface that leads to it, both of which go with this value.
#[derive(Debug)]
struct ServerNamespace {
    namespace: Namespace,
    link: String,
}

impl ServerNamespace {
    fn make() -> Result<Self, Error> {
        let failed = |why: String| Error::new(why, format!("{REMEDY}, or leave --network out"));
        let made = Self {
            namespace: Namespace::make("").map_err(failed)?,
            // Names of interfaces have at most 15 characters.
            link: format!("sgb{}", std::process::id()),
        };
        for line in made.commands() {
            ip(&line).map_err(failed)?;
        }
        Ok(made)
    }

    fn commands(&self) -> Vec<String> {
        let (name, link) = (self.namespace.name(), &self.link);
        vec![
            format!("link add {link} type veth peer name server netns {name}"),
            format!("addr add {LOAD}/24 dev {link}"),
            format!("link set {link} up"),
            format!("-n {name} addr add {SERVER}/24 dev server"),
            format!("-n {name} link set server up"),
            format!("route replace local {CALLERS} dev lo"),
            format!("-n {name} route add {CALLERS} dev server"),
        ]
    }
}

impl Drop for ServerNamespace {
    fn drop(&mut self) {
        let _ = ip(&format!("route del local {CALLERS} dev lo"));
        let _ = ip(&format!("link del {}", self.link));
    }
}
