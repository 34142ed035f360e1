//! A server on its core, with its database at its distance: set up for one measurement, and
//! gone after it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::hold::Apart;
use super::profiled::Profiling;
use super::stop::Stop;
use crate::certificates::Certificates;
use crate::database::Database;
use crate::distance::RelayProcess;
use crate::experiment::{Authentication, Setting};
use crate::share::Share;
use crate::system::{Driver, Network, Ports, Server, Stage};
use crate::watch::{EVERY, Glance, Subject, Watch};

/// Who takes part in a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Server,
    Database,
    Load,
    Called,
}

/// Which core each has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    /// The server's, and that of the distance to its database.
    pub(super) server: String,
    /// That of the load, the called side and the database.
    pub(super) load: String,
}

/// What all measurements of a run have in common.
#[derive(Debug)]
pub(super) struct Bed {
    /// The program of load and distance.
    pub(super) signet: PathBuf,
    /// Configurations, data and logs.
    pub(super) folder: PathBuf,
    pub(super) ports: Ports,
    pub(super) cores: Cores,
    pub(super) certificates: Certificates,
    /// MariaDB with users, where a case wants it.
    pub(super) database: Option<Database>,
    pub(super) network: Network,
    /// Whether a server can be held to a share of its core here.
    pub(super) has_shares: bool,
    pub(super) stop: Stop,
}

impl Bed {
    /// What a driver has at hand for a setting.
    pub(super) fn stage(&self, setting: &Setting) -> Stage<'_> {
        let database = self.database.as_ref().map(|database| {
            if self.has_relay(setting) {
                self.relay()
            } else {
                SocketAddr::from((Ipv4Addr::LOCALHOST, database.port))
            }
        });
        Stage {
            signet: &self.signet,
            folder: &self.folder,
            ports: self.ports,
            core: &self.cores.server,
            certificates: &self.certificates,
            network: &self.network,
            database,
        }
    }

    /// Whether there is a relay before the database: for a distance, and where the server is
    /// not at the loopback, which is the database's place.
    fn has_relay(&self, setting: &Setting) -> bool {
        setting.database_rtt_ms > 0 || !self.network.is_loopback()
    }

    /// The share of its core that a server is to be held to; `None` where it has all of it.
    fn share(&self, driver: &dyn Driver, setting: &Setting) -> Option<f64> {
        let share = setting.server_share.filter(|share| *share < 1.0)?;
        (self.has_shares && driver.is_started()).then_some(share)
    }

    fn relay(&self) -> SocketAddr {
        SocketAddr::from((self.network.load, self.ports.relay()))
    }

    /// Sets the scene for one measurement.
    pub(super) fn scene(&self, driver: &dyn Driver, setting: &Setting) -> Result<Scene, String> {
        let stage = self.stage(setting);
        let has_database = setting.authentication == Authentication::Mariadb;
        let own = self.database.as_ref().filter(|_| has_database);
        let relay = match own {
            Some(database) if self.has_relay(setting) && driver.is_started() => {
                Some(RelayProcess::start(
                    &self.signet,
                    (self.relay(), database.port),
                    setting.database_rtt_ms,
                    &self.cores.server,
                    &self.folder,
                )?)
            }
            _ => None,
        };
        let server = driver.start(&stage, setting)?;
        let share = match (self.share(driver, setting), &server.process) {
            (Some(share), Some(process)) => Some(Share::hold(share, || process.members())?),
            _ => None,
        };
        let started = own.filter(|_| driver.is_started());
        let database = driver
            .database()
            .or_else(|| started.map(|database| database.process.id()));
        Ok(Scene {
            server,
            relay,
            share,
            database,
        })
    }
}

/// Server, distance and database.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) server: Server,
    /// Ends after the server does.
    relay: Option<RelayProcess>,
    /// As does this.
    share: Option<Share>,
    /// The database's process.
    database: Option<u32>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(share) = &self.share {
            share.lift();
        }
    }
}

impl Scene {
    /// The share of its core that the server is held to; `None` where it has all of it.
    pub(super) fn share(&self) -> Option<f64> {
        self.share.as_ref().map(Share::share)
    }

    /// Begins to watch all of them, and the load. Memory is weighed after so long.
    pub(super) fn watch(
        &self,
        (load, called): (u32, Option<u32>),
        cores: &Cores,
        weighs_in: Duration,
    ) -> Watch<Who> {
        let all = [
            (Who::Server, self.server.watched),
            (Who::Database, self.database),
            (Who::Load, Some(load)),
            (Who::Called, called),
        ];
        let processes = all
            .into_iter()
            .filter_map(|(who, id)| Some((who, id?)))
            .collect();
        // Nobody knows where a server runs that was not started here.
        let server = self.server.process.is_some().then_some(&cores.server);
        let server = server.map(|core| (Who::Server, core.clone()));
        let glance = |relay: &RelayProcess| -> Glance { Box::new(relay.glance()) };
        let subject = Subject {
            processes,
            cores: server
                .into_iter()
                .chain([(Who::Load, cores.load.clone())])
                .collect(),
            glance: self.relay.as_ref().map(glance),
            weighs: Some((Who::Server, weighs_in)),
        };
        Watch::begin(subject, EVERY)
    }

    /// Takes the CPU time of server and database apart, so many seconds from now.
    pub(super) fn profile(&self, driver: &dyn Driver, apart: &Apart, in_s: u64) -> Profiling {
        // What is given by its address is known by the name of its program.
        let system = driver.is_started().then(|| driver.name());
        let server = self.server.watched.map(|id| ("server", system, id));
        let database = self.database.map(|id| ("database", None, id));
        let processes: Vec<(&str, Option<&str>, u32)> =
            server.into_iter().chain(database).collect();
        Profiling::new(&processes, in_s, apart.flame.clone())
    }

    /// # Errors
    /// Who of them is gone, with the end of its log.
    pub(super) fn must_run(&mut self) -> Result<(), String> {
        self.server.must_run()?;
        if let Some(relay) = &mut self.relay {
            relay.process.must_run("the distance to the database")?;
        }
        if let Some(id) = self.database
            && !Path::new(&format!("/proc/{id}")).exists()
        {
            return Err(
                "the database has ended: look at its log, and begin the run again".to_owned(),
            );
        }
        Ok(())
    }
}
