//! What is asked of a service: the file that a plan is made from.

use std::path::Path;

use diagnose::{ConfigError, Fault};
use serde::{Deserialize, Serialize};

/// The version of the format.
pub const VERSION: u32 = 1;
/// Of larger files no more is read, and they are refused.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Where all keys are explained.
const EXAMPLE: &str = "etc/plan.toml";

/// What is asked of a service in its busy hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// [`VERSION`].
    pub version: u32,
    /// Who there is.
    pub subscribers: Subscribers,
    /// How they stay registered.
    #[serde(default)]
    pub registrations: Registrations,
    /// What they speak.
    #[serde(default)]
    pub transports: Transports,
    /// How long their connections live.
    #[serde(default)]
    pub connections: Connections,
    /// What they do.
    pub calls: Calls,
    /// TLS, where they speak it.
    #[serde(default)]
    pub tls: Tls,
    /// How they prove who they are.
    #[serde(default)]
    pub authentication: Authentication,
    /// When all come back at once.
    #[serde(default)]
    pub storm: Storm,
    /// What it is to run on.
    #[serde(default)]
    pub machines: Machines,
}

/// Who there is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribers {
    /// How many.
    pub count: u64,
    /// The share of them that is registered in the busy hour.
    #[serde(default = "one")]
    pub online: f64,
}

/// How subscribers stay registered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Registrations {
    /// After how long a registration is renewed, in seconds.
    pub interval_s: u64,
}

/// What subscribers speak: shares that come to 1 together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transports {
    /// The share over UDP.
    #[serde(default)]
    pub udp: f64,
    /// The share over TCP.
    #[serde(default)]
    pub tcp: f64,
    /// The share over TLS.
    #[serde(default)]
    pub tls: f64,
}

/// How long connections live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connections {
    /// After how long a subscriber's connection is opened anew, in seconds.
    pub lifetime_s: u64,
}

/// What subscribers do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// Calls in the busy hour.
    pub busy_hour: u64,
    /// How long one lasts, in seconds.
    #[serde(default = "hold_s")]
    pub hold_s: u64,
    /// The share that goes to subscribers; the rest goes to gateways.
    #[serde(default)]
    pub local: f64,
    /// What gateways speak.
    #[serde(default)]
    pub gateway: Transport,
    /// The share of calls that may find no line free.
    #[serde(default = "blocking_max")]
    pub blocking_max: f64,
}

/// What SIP goes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// UDP.
    #[default]
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
}

impl Transport {
    /// As it is written in URIs and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }
}

/// TLS, where subscribers speak it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// The key of the server's certificate.
    pub key: Key,
    /// The share of new connections that resume a session.
    pub resumed: f64,
    /// The share of subscribers who show a certificate.
    pub mutual: f64,
}

/// A kind of key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Key {
    /// ECDSA on P-256.
    #[default]
    P256,
    /// RSA with 2,048 bits.
    Rsa2048,
}

/// How subscribers prove who they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Authentication {
    /// Where passwords are looked up.
    pub users: Users,
    /// The share of requests that come without a good nonce and are challenged first.
    pub challenged: f64,
    /// The share of look-ups in a database that the cache before it answers.
    pub cached: f64,
    /// Round trip to the database, in milliseconds.
    pub rtt_ms: f64,
}

/// Where passwords are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Users {
    /// Nowhere: nobody is asked.
    None,
    /// In the server's own store.
    #[default]
    Own,
    /// In a database.
    Database,
}

/// When all subscribers with connections come back at once: after a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Storm {
    /// Within how long they are to be back, in seconds.
    pub absorb_s: u64,
    /// The share of their connections that resume a session.
    pub resumed: f64,
}

/// What it is to run on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machines {
    /// Cores of one machine.
    pub cores: u32,
    /// How many machines may fail while the others carry all of it.
    pub may_fail: u32,
    /// The share of a core that may be used.
    pub load_max: f64,
}

fn one() -> f64 {
    1.0
}

fn hold_s() -> u64 {
    180
}

fn blocking_max() -> f64 {
    0.001
}

impl Default for Registrations {
    fn default() -> Self {
        Self { interval_s: 3_600 }
    }
}

impl Default for Transports {
    fn default() -> Self {
        Self {
            udp: 1.0,
            tcp: 0.0,
            tls: 0.0,
        }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self { lifetime_s: 86_400 }
    }
}

impl Default for Authentication {
    fn default() -> Self {
        Self {
            users: Users::Own,
            challenged: 0.5,
            cached: 0.0,
            rtt_ms: 0.0,
        }
    }
}

impl Default for Storm {
    fn default() -> Self {
        Self {
            absorb_s: 300,
            resumed: 0.0,
        }
    }
}

impl Default for Machines {
    fn default() -> Self {
        Self {
            cores: 4,
            may_fail: 1,
            load_max: 0.7,
        }
    }
}

impl Demand {
    /// Reads a file, with keys that are set otherwise: `calls.busy_hour=50000`.
    ///
    /// # Errors
    /// Each fault with its place and what to write instead.
    pub fn open(path: &Path, set: &[String]) -> Result<Self, ConfigError> {
        let text = measure::file::read_text(path, FILE_BYTES_MAX).map_err(|error| {
            ConfigError::unreadable(
                path,
                &error,
                "name a file that is there, such as etc/plan.toml",
            )
        })?;
        Self::parse(path, &text, set)
    }

    /// The same from a text.
    ///
    /// # Errors
    /// As [`Demand::open`].
    pub fn parse(path: &Path, text: &str, set: &[String]) -> Result<Self, ConfigError> {
        let unparsable = |error| ConfigError::unparsable(path, text, &error, EXAMPLE);
        // What is set on the command line has no place in the file: faults of the file come first.
        let demand: Self = toml::from_str(text).map_err(unparsable)?;
        if set.is_empty() {
            return demand.checked(path, text);
        }
        let mut table: toml::Table = toml::from_str(text).map_err(unparsable)?;
        for one in set {
            put(&mut table, one).map_err(|fault| options(vec![fault]))?;
        }
        let changed = toml::to_string(&table)
            .map_err(|error| options(vec![fault("", error.to_string(), "leave --set out")]))?;
        let demand: Self = toml::from_str(&changed).map_err(|error| {
            ConfigError::unparsable(Path::new("--set"), &changed, &error, EXAMPLE)
        })?;
        demand.checked(Path::new("--set"), &changed)
    }

    fn checked(self, path: &Path, text: &str) -> Result<Self, ConfigError> {
        let faults = self.faults();
        if faults.is_empty() {
            Ok(self)
        } else {
            Err(ConfigError::faulty(path, text, faults))
        }
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.version != VERSION {
            faults.push(fault(
                "version",
                format!("version {} is not known here", self.version),
                "write version = 1",
            ));
        }
        for (at, share) in [
            ("subscribers.online", self.subscribers.online),
            ("transports.udp", self.transports.udp),
            ("transports.tcp", self.transports.tcp),
            ("transports.tls", self.transports.tls),
            ("calls.local", self.calls.local),
            ("tls.resumed", self.tls.resumed),
            ("tls.mutual", self.tls.mutual),
            ("authentication.challenged", self.authentication.challenged),
            ("authentication.cached", self.authentication.cached),
            ("storm.resumed", self.storm.resumed),
        ] {
            if !(0.0..=1.0).contains(&share) {
                faults.push(fault(at, "is no share", "write a number from 0 to 1"));
            }
        }
        let all = self.transports.udp + self.transports.tcp + self.transports.tls;
        if (all - 1.0).abs() > 1e-6 {
            faults.push(fault(
                "transports",
                format!("the shares come to {all:.3} together"),
                "make them 1 together; one that is left out is 0",
            ));
        }
        for (at, number, most) in [
            ("subscribers.count", self.subscribers.count, 1_000_000_000),
            ("calls.busy_hour", self.calls.busy_hour, 10_000_000_000),
            ("calls.hold_s", self.calls.hold_s, 86_400),
        ] {
            if number > most {
                faults.push(fault(
                    at,
                    "is out of bounds",
                    format!("write at most {most}"),
                ));
            }
        }
        for (at, number) in [
            ("registrations.interval_s", self.registrations.interval_s),
            ("connections.lifetime_s", self.connections.lifetime_s),
            ("storm.absorb_s", self.storm.absorb_s),
            ("machines.cores", u64::from(self.machines.cores)),
        ] {
            if number == 0 || number > 31_536_000 {
                faults.push(fault(at, "is out of bounds", "write 1 to 31536000"));
            }
        }
        for (at, number, least, most) in [
            ("machines.load_max", self.machines.load_max, 0.05, 0.95),
            ("calls.blocking_max", self.calls.blocking_max, 1e-9, 0.5),
            (
                "authentication.rtt_ms",
                self.authentication.rtt_ms,
                0.0,
                10_000.0,
            ),
        ] {
            if !(least..=most).contains(&number) {
                faults.push(fault(
                    at,
                    "is out of bounds",
                    format!("write {least} to {most}"),
                ));
            }
        }
        if self.machines.may_fail > 1_000 {
            faults.push(fault(
                "machines.may_fail",
                "is out of bounds",
                "write 0 to 1000",
            ));
        }
        faults
    }
}

fn fault(at: &str, what: impl Into<String>, remedy: impl Into<String>) -> Fault {
    Fault {
        at: at.to_owned(),
        what: what.into(),
        remedy: remedy.into(),
    }
}

fn options(faults: Vec<Fault>) -> ConfigError {
    ConfigError::faulty(Path::new("--set"), "", faults)
}

/// Sets one key: `calls.busy_hour=50000`. A word that is no number is taken as text.
fn put(table: &mut toml::Table, one: &str) -> Result<(), Fault> {
    let wrong = || {
        fault(
            "",
            format!("`{one}` sets nothing"),
            "write SECTION.KEY=VALUE, as in calls.busy_hour=50000",
        )
    };
    let (key, value) = one.split_once('=').ok_or_else(wrong)?;
    let (section, key) = key.trim().split_once('.').ok_or_else(wrong)?;
    let value = value.trim();
    // The reader of TOML takes numbers; anything else is a word.
    let value = match toml::from_str::<toml::Table>(&format!("it = {value}")) {
        Ok(mut read) => read.remove("it").ok_or_else(wrong)?,
        Err(_) => toml::Value::String(value.to_owned()),
    };
    let section = table
        .entry(section)
        .or_insert_with(|| toml::Value::Table(toml::Table::new()));
    section
        .as_table_mut()
        .ok_or_else(wrong)?
        .insert(key.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/plan.toml");
        std::fs::read_to_string(path).unwrap()
    }

    fn parse(text: &str, set: &[&str]) -> Result<Demand, String> {
        let set: Vec<String> = set.iter().map(|one| (*one).to_owned()).collect();
        Demand::parse(Path::new("it.toml"), text, &set).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = Demand::open(Path::new("/dev/zero"), &[]).unwrap_err();
        let told = error.to_string();
        assert!(told.contains("it is too large to be one"), "{told}");
    }

    #[test]
    fn the_example_has_every_key_and_is_taken() {
        let text = example();
        let demand = parse(&text, &[]).unwrap();
        let all = toml::Table::try_from(&demand).unwrap();
        let given: toml::Table = toml::from_str(&text).unwrap();
        for (section, keys) in &all {
            let Some(keys) = keys.as_table() else {
                continue;
            };
            for key in keys.keys() {
                let there = given.get(section).and_then(|found| found.get(key));
                assert!(there.is_some(), "etc/plan.toml has no {section}.{key}");
            }
        }
    }

    #[test]
    fn the_least_is_enough() {
        let text = "version = 1\n[subscribers]\ncount = 10\n[calls]\nbusy_hour = 5\n";
        let demand = parse(text, &[]).unwrap();
        assert_eq!(demand.transports, Transports::default());
        assert_eq!(demand.machines.may_fail, 1);
        assert_eq!(demand.authentication.users, Users::Own);
    }

    #[test]
    fn each_key_can_be_set() {
        let set = [
            "calls.busy_hour=50000",
            "tls.key=rsa2048",
            "transports.udp=0",
            "transports.tls = 0.9",
            "authentication.users=\"database\"",
        ];
        let demand = parse(&example(), &set).unwrap();
        assert_eq!(demand.calls.busy_hour, 50_000);
        assert_eq!(demand.tls.key, Key::Rsa2048);
        assert_eq!(demand.transports.tls, 0.9);
        assert_eq!(demand.authentication.users, Users::Database);
        for wrong in ["calls", "calls.busy_hour", "busy_hour=5", "version.x=1"] {
            let error = parse(&example(), &[wrong]).unwrap_err();
            assert!(error.contains("SECTION.KEY=VALUE"), "{wrong}: {error}");
        }
        let error = parse(&example(), &["calls.busy_hours=5"]).unwrap_err();
        assert!(error.contains("did you mean `busy_hour`?"), "{error}");
    }

    #[test]
    fn faults_have_their_place_and_a_remedy() {
        for (from, to, expected) in [
            ("online = 0.9", "online = 1.9", "a number from 0 to 1"),
            ("online = 0.9", "online = nan", "a number from 0 to 1"),
            ("udp = 0.3", "udp = 0.2", "1 together"),
            ("absorb_s = 120", "absorb_s = 0", "write 1 to"),
            ("load_max = 0.7", "load_max = 1.0", "write 0.05 to 0.95"),
            ("hold_s = 180", "hold_s = 86401", "at most 86400"),
            ("version = 1", "version = 2", "write version = 1"),
            ("busy_hour = 40000", "busy_hours = 40000", "did you mean"),
        ] {
            let text = example().replacen(from, to, 1);
            let error = parse(&text, &[]).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
            assert!(error.contains("it.toml:"), "{to}: {error}");
        }
    }
}
