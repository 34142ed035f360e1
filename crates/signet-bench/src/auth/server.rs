//! Signet as a proxy that lets nobody through without a password, and its figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use signet_bed::experiment::Transport;
pub(super) use signet_bed::system::NUMBER;
use signet_bed::system::{Signet, Site, page};
use signet_bed::users::names;

use super::database::{Kind, PASSWORD};
use super::{Bench, DOMAIN, ports};
use crate::process::Process;

/// How long a request waits for a look-up: the paper's queue has to be worked off before a
/// caller sends again, after 500 ms.
const TIMEOUT_MS: u64 = 500;
/// How long users are remembered whose database is killed: for many of them that ends while
/// it is away. Who calls in the last fifth of it is looked up anew.
pub(super) const LIFETIME_S: usize = 10;

/// The same where passwords are guessed, as it is by default.
const PATIENT_MS: u64 = 4_000;

/// Where a server has its users.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Users {
    /// Nowhere: whoever calls is let through.
    Nobody,
    /// In its own folder.
    Embedded,
    /// In a database behind this port.
    Database {
        kind: Kind,
        port: u16,
        lookups: Lookups,
        /// Users that the cache has room for; 0 for no cache.
        cached: usize,
        /// Whether it is going to be killed: guesses are not bounded then, but each looked up,
        /// and users are remembered for [`LIFETIME_S`] only.
        is_killed: bool,
        /// Whether passwords are tried as fast as anybody likes, and what is known of a name
        /// stays in the cache or is renewed while that lasts.
        is_guessed_at: bool,
    },
}

/// How look-ups are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lookups {
    /// As the tuner finds.
    Tuned,
    /// As it is said here.
    Fixed {
        interval_us: u64,
        batch_max: u32,
        in_flight_max: u32,
    },
    /// As the paper's processes: each sends a batch and waits for its answer.
    Blocking { processes: u32, batch_max: u32 },
}

impl Lookups {
    /// `[users.lookups]` in the configuration.
    fn toml(self) -> String {
        let how = match self {
            Self::Tuned => "mode = \"tuned\"\n".to_owned(),
            Self::Fixed {
                interval_us,
                batch_max,
                in_flight_max,
            } => format!(
                "mode = \"fixed\"\ninterval_us = {interval_us}\nbatch_max = {batch_max}\nin_flight_max = {in_flight_max}\n"
            ),
            Self::Blocking {
                processes,
                batch_max,
            } => format!("mode = \"blocking\"\nprocesses = {processes}\nbatch_max = {batch_max}\n"),
        };
        format!("\n[users.lookups]\n{how}")
    }

    /// Connections to the database that it needs: one for each process that waits.
    const fn connections(self) -> u32 {
        match self {
            Self::Blocking { processes, .. } => processes,
            Self::Tuned | Self::Fixed { .. } => 8,
        }
    }
}

/// The configuration, with `data` and the password's file in `folder`.
fn configuration(folder: &Path, (port, called, metrics): (u16, u16, u16), users: &Users) -> String {
    let (timeout_ms, guesses) = match users {
        Users::Database {
            is_guessed_at: true,
            ..
        } => (
            PATIENT_MS,
            "failures_max = 0\nfailure_delay_max_ms = 0\nnonce_lifetime_s = 3600\n",
        ),
        Users::Database {
            is_killed: true, ..
        } => (TIMEOUT_MS, "failures_max = 0\nfailure_delay_max_ms = 0\n"),
        _ => (TIMEOUT_MS, ""),
    };
    let mut text = format!(
        "version = 1\ndata = {:?}\nworkers = 1\ndomains = [\"{DOMAIN}\"]\n\
         [[listen]]\non = \"udp:127.0.0.1:{port}\"\n\
         [[gateway_group]]\nname = \"called\"\n\
         gateways = [{{ uri = \"sip:127.0.0.1:{called};transport=udp\" }}]\n\
         [[route]]\nprefix = \"{NUMBER}\"\ngroup = \"called\"\n\
         [authentication]\nrequired = {}\nalgorithms = [\"MD5\"]\nlookup_timeout_ms = {timeout_ms}\n{guesses}\
         [sources]\nrefusals_per_s = 0\n\
         [rates]\nuser_calls_per_s = 0\nuser_bytes_per_s = 0\n\
         [metrics]\nlisten = \"127.0.0.1:{metrics}\"\n",
        Signet::data(folder).display().to_string(),
        *users != Users::Nobody
    );
    if let Users::Database {
        kind,
        port,
        lookups,
        cached,
        is_killed,
        is_guessed_at,
    } = users
    {
        let _ = write!(text, "\n[users]\nstores = [{:?}]\n", kind.url(*port));
        if *kind != Kind::Redis {
            let password = folder.join("password").display().to_string();
            let _ = writeln!(text, "password_file = {password:?}");
        }
        let _ = writeln!(text, "connections_max = {}", lookups.connections());
        text += &lookups.toml();
        let _ = write!(text, "\n[users.cache]\nentries_max = {cached}\n");
        if *is_killed {
            let _ = writeln!(text, "lifetime_s = {LIFETIME_S}");
        }
        if *is_guessed_at {
            text += "lifetime_s = 10\nunknown_lifetime_s = 3600\n";
            // Whatever else the machine does, guesses are refused because they are wrong.
            text += "\n[bounds]\nqueue_ms_max = 0\n";
        }
    }
    text
}

impl Bench<'_> {
    /// Where the server stands, and where it tells its figures.
    pub(super) fn site(&self) -> Site<'_> {
        let listens = [(Transport::Udp, self.port(ports::SERVER))];
        Site::here(&self.folder, &self.arguments.cores.server, &listens)
    }

    /// Starts Signet, and waits until it is ready.
    pub(super) fn start_signet(&self, users: &Users) -> Result<Process, String> {
        self.start_build(&self.arguments.signet, users)
    }

    /// The same with a build.
    pub(super) fn start_build(&self, signet: &Path, users: &Users) -> Result<Process, String> {
        let _ = std::fs::remove_dir_all(Signet::data(&self.folder));
        let metrics = self.port(ports::METRICS);
        let site = Site {
            ready: Some(SocketAddr::from(([127, 0, 0, 1], metrics))),
            ..self.site()
        };
        let password = self.folder.join("password");
        std::fs::write(&password, PASSWORD)
            .and_then(|()| {
                let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
                std::fs::set_permissions(&password, own)
            })
            .map_err(|e| format!("{}: {e}", password.display()))?;
        let ports = (self.port(ports::SERVER), self.port(ports::CALLED), metrics);
        let config = Signet::configure(&site, configuration(&self.folder, ports, users))?;
        let signet = Signet::new("signet", signet);
        if *users == Users::Embedded {
            signet.import(&config, names(super::USERS))?;
        }
        let server = signet.serve(&site, &config)?;
        // A pool opens its connections a round trip or two later.
        std::thread::sleep(Duration::from_millis(500));
        server.into_process()
    }
}

/// Signet's figures of look-ups: each sample by its name and labels.
pub(super) fn figures(port: u16) -> Result<BTreeMap<String, f64>, String> {
    page(SocketAddr::from(([127, 0, 0, 1], port)), "/metrics")
        .map(|text| lookups(&text))
        .map_err(|error| format!("no figures from 127.0.0.1:{port}: {error}"))
}

/// The samples that tell of look-ups; of histograms their sums and counts.
fn lookups(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter(|line| line.starts_with("signet_lookups_"))
        .filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            let is_bucket = name.contains("_bucket{");
            Some((name.to_owned(), value.parse().ok().filter(|_| !is_bucket)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_says_how_users_are_looked_up() {
        let with = |users: &Users| configuration(Path::new("/b"), (1, 2, 3), users);
        let database = |lookups| Users::Database {
            kind: Kind::MariaDb,
            port: 13_306,
            lookups,
            cached: 0,
            is_killed: false,
            is_guessed_at: false,
        };
        assert!(with(&Users::Nobody).contains("required = false"));
        assert!(!with(&Users::Embedded).contains("[users]"));
        let text = with(&database(Lookups::Blocking {
            processes: 512,
            batch_max: 4,
        }));
        for line in [
            "required = true",
            "stores = [\"mysql://signet@127.0.0.1:13306/signet\"]",
            "password_file = \"/b/password\"",
            "mode = \"blocking\"",
            "processes = 512",
            "connections_max = 512",
            "batch_max = 4",
            "entries_max = 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let tuned = with(&database(Lookups::Tuned));
        assert!(tuned.contains("connections_max = 8"));
        assert!(!tuned.contains("failures_max"), "guesses are bounded");
        let text = with(&Users::Database {
            kind: Kind::MariaDb,
            port: 13_306,
            lookups: Lookups::Tuned,
            cached: 100,
            is_killed: false,
            is_guessed_at: true,
        });
        for line in [
            "failures_max = 0",
            "lookup_timeout_ms = 4000",
            "entries_max = 100",
            "unknown_lifetime_s = 3600",
            "queue_ms_max = 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn figures_are_read_by_name_and_labels() {
        let found = lookups(
            "# HELP signet_lookups_total x\nsignet_lookups_total{store=\"0\"} 7\n\
             signet_lookups_wait_bucket{le=\"1\"} 2\nsignet_requests_total 9\n",
        );
        assert_eq!(
            found,
            BTreeMap::from([("signet_lookups_total{store=\"0\"}".to_owned(), 7.0)])
        );
    }
}
