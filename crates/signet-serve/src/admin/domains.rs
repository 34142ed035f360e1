//! The domains that a server is responsible for besides those of its
//! configuration.

use sip_net::clock;
use sip_store::Database;

use super::{Instance, say};
use crate::Error;
use crate::config::Domain;

/// The domains in the database.
pub struct Domains {
    database: Database,
}

impl Domains {
    /// Opens them.
    pub fn open(instance: &Instance) -> Result<Self, Error> {
        let opened = instance.open()?;
        let database = opened.data.open_database()?;
        Ok(Self { database })
    }

    /// Adds a domain.
    pub fn add(&mut self, domain: &Domain) -> Result<(), Error> {
        if self.database.add_domain(&domain.0, clock::unix_ms())? {
            say(&format!(
                "added {domain}\n  A running server takes it up on SIGHUP.\n"
            ))
        } else {
            say(&format!("{domain} is there already\n"))
        }
    }

    /// Removes a domain; its users stay.
    pub fn remove(&mut self, domain: &Domain) -> Result<(), Error> {
        if self.database.remove_domain(&domain.0)? {
            say(&format!(
                "removed {domain}\n  A running server drops it on SIGHUP.\n"
            ))
        } else {
            Err(Error::new(
                format!("{domain} is not in the database"),
                "signet domain list shows those that are",
            ))
        }
    }

    /// Lists the domains.
    pub fn list(&mut self) -> Result<(), Error> {
        let domains = self.database.domains()?;
        say(&domains
            .iter()
            .map(|domain| format!("{domain}\n"))
            .collect::<String>())
    }
}
