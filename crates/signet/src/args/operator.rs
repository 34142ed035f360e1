//! What an operator has a running server do.

use std::net::{IpAddr, SocketAddr};

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum BindingsCommand {
    /// Remove the contacts of a user, or one of them
    ///
    /// A phone that registers again is bound again: to prevent it, remove the user or change their
    /// password (`signet user passwd`).
    Remove {
        /// alice or alice@example.com
        user: String,
        /// The contact's URI, as `signet bindings` shows it; all of them if left out
        contact: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatewaysCommand {
    /// Send a gateway no new calls; those in progress go on
    ///
    /// It stays so through reloads, until the server ends.
    Drain {
        /// Its host, host:port, or the name of a group for all of that
        name: String,
    },
    /// Send a gateway new calls again
    Undrain {
        /// Its host, host:port, or the name of a group for all of that
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Forget the hook's cached answers and ask it again
    ///
    /// Answers that say how long they hold are reused until then; a reload forgets them too.
    Forget,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MediaCommand {
    /// Send a media engine no new calls; those in progress go on
    ///
    /// It stays so through reloads, until the server ends.
    Drain {
        /// Its address and port, as `signet media` shows it
        engine: SocketAddr,
    },
    /// Send a media engine new calls again
    Undrain {
        /// Its address and port, as `signet media` shows it
        engine: SocketAddr,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum BansCommand {
    /// Answer a source again, and forget its wrong passwords
    Lift {
        /// Its address, as `signet bans` shows it
        #[arg(value_parser = banned_source)]
        source: IpAddr,
    },
}

/// Sources of IPv6 are shown as the networks that they are judged by.
fn banned_source(text: &str) -> Result<IpAddr, String> {
    let network = text
        .strip_suffix("/64")
        .and_then(|of| of.parse::<IpAddr>().ok());
    match network {
        Some(ip @ IpAddr::V6(_)) => Ok(ip),
        _ => text.parse::<IpAddr>().map_err(|_| {
            "write an address, or 2001:db8::/64 for a network of IPv6 as it is shown".to_owned()
        }),
    }
}
