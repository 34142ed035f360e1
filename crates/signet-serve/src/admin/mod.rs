//! What an operator does beside a server: users, certificates, a look at the
//! configuration and at the bindings. A running server sees changes of users
//! at once, because both read the same database. What it does besides it is asked and told
//! on its socket ([`socket`]).

mod address;
mod ask;
mod bans;
mod bindings;
mod calls;
mod domains;
mod elsewhere;
mod figures;
mod forget;
mod gateways;
mod hook;
mod level;
mod limits;
mod media;
mod password;
mod people;
pub(crate) mod socket;
mod tls;
pub mod top;
pub(crate) mod trace;
mod trunks;
mod users;
mod why;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(crate) use ask::path as socket_path;
pub use bans::{bans, bans_lift};
pub use bindings::{bindings, bindings_remove};
pub use calls::calls;
pub use domains::Domains;
pub use figures::{FiguresAt, FiguresPage, figures};
pub use gateways::{gateways, gateways_drain};
pub use hook::hook_forget;
pub use level::log_level;
pub use limits::limits;
pub use media::{media, media_drain};
pub use password::PasswordFrom;
pub use people::{People, UserChanges};
pub use tls::{Form, tls, tls_rotate_secret};
pub use trace::{Tracing, trace};
pub use trunks::trunks;
pub use users::{UserList, Users};
pub use why::{Wanted, why};
pub(crate) use why::{names, written};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use sip_tls::TlsEngine;

use crate::ca::{Ca, KeyKind};
use crate::config::{Config, Domain, Fault, NAME_ANOTHER, Written};
use crate::data_dir::{DATABASE, DataDir, become_owner, this_user, unreadable};
use crate::server::{domains_without_certificate, faults_of_files, faults_that_a_start_survives};
use crate::{Error, places, setup, userdb};

/// Which server's data is meant.
#[derive(Clone, Debug)]
pub enum Instance {
    /// That of a configuration file.
    Config(PathBuf),
    /// A data folder.
    Data(PathBuf),
}

/// What of a server the commands need.
struct Opened {
    data: DataDir,
    /// The domain of names that are given without one.
    domain: Domain,
    /// The realm, where it is not the domain.
    realm: Option<Domain>,
    /// Where users are kept.
    users: crate::config::Users,
}

impl Instance {
    /// The data folder.
    fn folder(&self) -> Result<PathBuf, Error> {
        match self {
            Self::Config(path) => Ok(Config::from_file(path)?.data),
            Self::Data(path) => Ok(path.clone()),
        }
    }

    /// An error where there is no data yet. Who only looks, or changes what
    /// is there, has then mistaken the folder and is not to find an empty one.
    pub fn must_exist(&self) -> Result<(), Error> {
        let folder = self.folder()?;
        let database = folder.join(DATABASE);
        match database.try_exists() {
            Ok(true) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(ask::no_rights(&database, &error))
            }
            Ok(false) | Err(_) => Err(Error::new(
                format!("there is no server's data in {}", folder.display()),
                "name the server's folder with --data DIR or its file with --config FILE; \
                 `signet serve` or `signet user add` makes a new one",
            )),
        }
    }

    /// `alice@example.com` of a user's name, which may be without its domain.
    fn full_name(&self, user: &str) -> Result<String, Error> {
        let bare = user.strip_prefix("sip:").unwrap_or(user);
        match bare.contains('@') {
            true => Ok(bare.to_owned()),
            false => Ok(format!("{bare}@{}", self.open()?.domain)),
        }
    }

    fn open(&self) -> Result<Opened, Error> {
        match self {
            Self::Config(path) => {
                let config = Config::from_file(path)?;
                become_owner(&config.data)?;
                let data = DataDir::open(&config.data)?;
                let domain = data.default_domain(config.domains.first())?;
                data.keep_domain(&domain)?;
                Ok(Opened {
                    data,
                    domain,
                    realm: config.authentication.realm,
                    users: config.users,
                })
            }
            Self::Data(path) => {
                become_owner(path)?;
                let data = DataDir::open(path)?;
                let domain = data.default_domain(None)?;
                data.keep_domain(&domain)?;
                Ok(Opened {
                    data,
                    domain,
                    realm: None,
                    users: crate::config::Users::default(),
                })
            }
        }
    }
}

/// What a configuration is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckFor {
    /// An operator who is about to use it.
    Use,
    /// A start: it goes on with a certificate whose time is not now, so that is warned of.
    Start,
}

/// Reads a configuration, and the files that it names, and says that it is good, or what is wrong.
/// Root goes on as the owner of the data folder: what only root can read is of no use to the
/// server.
pub fn check(path: &Path, what_for: CheckFor) -> Result<(), Error> {
    let written = Written::read(path, NAME_ANOTHER)?;
    become_owner(written.data())?;
    // Root could read it; a server that is told to reload must be able to as well. What is no file
    // is read once.
    if path.is_file() {
        File::open(path).map_err(|error| unreadable("read", path, &error))?;
    }
    let mut survived = Vec::new();
    let config = written.checked(|config| {
        let mut faults = faults_of_files(config);
        match what_for {
            CheckFor::Use => faults.extend(faults_that_a_start_survives(config)),
            // A file that is checked elsewhere may be for another machine.
            CheckFor::Start => {
                faults.extend(places::faults(config));
                survived = faults_that_a_start_survives(config);
            }
        }
        faults
    })?;
    let mut known = config.clone();
    let unknown = match what_for {
        CheckFor::Use => Vec::new(),
        CheckFor::Start => leave_out_unknown_passwords(&mut known),
    };
    check_what_it_names(&known)?;
    say_what_it_comes_to(&config)?;
    for name in unknown {
        say(&format!(
            "warning: there is no variable {name} in this environment: what needs it was not checked\n"
        ))?;
    }
    for Fault { at, what, .. } in survived {
        say(&format!("warning: {at}: {what}\n"))?;
    }
    say(&format!("{}: good\n", path.display()))
}

/// Leaves out what has its password from a variable that is not there: whoever upgrades has not the
/// environment of the server. The names of those variables.
fn leave_out_unknown_passwords(config: &mut Config) -> Vec<String> {
    let mut unknown = Vec::new();
    // A file comes first.
    let mut is_unknown = |file: &Option<PathBuf>, name: &Option<String>| {
        let missing = name.iter().filter(|_| file.is_none());
        let missing = missing.filter(|name| std::env::var_os(name).is_none());
        let before = unknown.len();
        unknown.extend(missing.cloned());
        unknown.len() > before
    };
    if is_unknown(&config.users.password_file, &config.users.password_env) {
        config.users = crate::config::Users::default();
    }
    let tables = &mut config.records.table;
    tables.retain(|table| !is_unknown(&table.password_file, &table.password_env));
    unknown
}

/// Whether stores, records, hook and trunks can be used as far as that shows without them.
fn check_what_it_names(config: &Config) -> Result<(), Error> {
    let stores = userdb::options(&config.users, None)?;
    let capabilities = userdb::capabilities(&stores)?;
    if let Some(can) = &capabilities {
        userdb::pipeline_config(&config.users, stores.len(), can)?;
    }
    userdb::fit_auth(&mut setup::auth_config(config), capabilities.as_ref())?;
    let planned = setup::listeners(config);
    let bound: Vec<_> = planned.iter().map(|listener| listener.at.addr).collect();
    let mut settings = setup::settings(config, &config.domains, &planned, &bound);
    userdb::fit_settings(&mut settings, capabilities.as_ref(), false)?;
    crate::records::check(&config.records)?;
    crate::hook::check(&config.hook)?;
    crate::trunks::check(config)
}

/// Says what is worked out of it, and what may not be meant.
fn say_what_it_comes_to(config: &Config) -> Result<(), Error> {
    for listen in &config.listen {
        if listen.security.tls_engine() == TlsEngine::Legacy {
            say(&format!(
                "warning: {}: {}\n",
                listen.on,
                sip_tls::LEGACY_WARNING
            ))?;
        }
    }
    if let Ok(policies) = config.policies() {
        say(&policies.text(config))?;
    }
    say(&config.cares_text())?;
    say(&config.trunks_text())?;
    say(&config.records.text())?;
    say(&config.hook.text())?;
    say(&config.media.text())?;
    let names = domains_without_certificate(config);
    for warning in config.warnings().into_iter().chain(names) {
        say(&format!("warning: {warning}\n"))?;
    }
    Ok(())
}

/// Makes the authority of a data folder.
pub fn ca_init(instance: &Instance) -> Result<(), Error> {
    let opened = instance.open()?;
    Ca::init(&opened.data)?;
    say(&format!(
        "{} is for phones and neighbours: they trust what it certifies.\n{} stays here, and secret.\n",
        opened.data.file("ca.pem").display(),
        opened.data.file("ca.key").display()
    ))
}

/// Issues a certificate by the authority of a data folder.
pub fn ca_issue(
    instance: &Instance,
    names: &[String],
    out: Option<&Path>,
    kind: KeyKind,
) -> Result<(), Error> {
    let opened = instance.open()?;
    let stem = match (out, names.first()) {
        (Some(out), _) => out.to_owned(),
        (None, Some(name)) => PathBuf::from(name),
        (None, None) => {
            return Err(Error::new(
                "a certificate needs a name",
                "type: signet ca issue sip.example.com",
            ));
        }
    };
    must_be_writable(&stem)?;
    let ca = Ca::open_or_init(&opened.data)?;
    let issued = ca.issue_with(names, &stem, kind)?;
    say(&format!(
        "{}\n{}\n",
        issued.certificate.display(),
        issued.key.display()
    ))
}

/// An error where a file cannot be made in the folder that the operator named for it. What root
/// may do says nothing: the command goes on as the owner of the data folder.
fn must_be_writable(file: &Path) -> Result<(), Error> {
    let folder = file.parent().filter(|of| !of.as_os_str().is_empty());
    let all = AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK;
    match access(folder.unwrap_or(Path::new(".")), all) {
        Err(cause @ Errno::EACCES) => Err(Error::new(
            format!("cannot write {}: {}", file.display(), cause.desc()),
            format!(
                "this command goes on as the user {}: name a place where that user may write",
                this_user()
            ),
        )),
        Err(cause) => Err(Error::file("write", file, &cause.into())),
        Ok(()) => Ok(()),
    }
}

/// An error of a value: what is wrong, a line end, the remedy.
fn value_error(error: &str) -> Error {
    let (what, remedy) = error.split_once('\n').unwrap_or((error, ""));
    Error::new(what, remedy)
}

/// A number of things: `1 user`, `2 users`.
fn many(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

/// A time in the unit that suits it.
fn lasting(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Writes to the standard output. A reader that has gone is no error.
fn say(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::new(
            format!("cannot write to the standard output: {error}"),
            "look at the terminal, file or program that it goes to",
        )),
        _ => Ok(()),
    }
}
