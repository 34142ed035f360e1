//! Settings that cannot be.

use super::case::{
    Authentication, Connection, Flow, Resumption, Role, Security, Setting, Suite, Transport,
};
use super::fragment::Fragment;

/// Groups by their registered names.
const GROUPS: [&str; 4] = ["x25519", "secp256r1", "secp384r1", "X25519MLKEM768"];
/// Keys of certificates.
const KEYS: [&str; 2] = ["rsa2048", "p256"];
/// Users, processes and the like that one machine can be asked for.
const USERS_MAX: u32 = 1_000_000;
const PROCESSES_MAX: u32 = 1_024;
const BATCH_MAX: u32 = 128;
const RTT_MAX_MS: u64 = 10_000;
const HOLD_MAX_MS: u64 = 600_000;
/// The kernel gives no group less than a millisecond of each period.
const SHARE_MIN: f64 = 0.05;

/// What cannot be: the key that is at fault, what is wrong, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Misfit {
    pub(super) key: &'static str,
    pub(super) what: String,
    pub(super) remedy: String,
}

fn misfit(key: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Misfit {
    Misfit {
        key,
        what: what.into(),
        remedy: remedy.into(),
    }
}

/// All that cannot be in a setting.
pub(super) fn misfits(setting: &Setting) -> Vec<Misfit> {
    let mut found = Vec::new();
    found.extend(of_flow(setting));
    found.extend(of_agents(setting));
    found.extend(of_share(setting));
    found.extend(of_database(setting));
    found.extend(of_security(setting));
    found
}

fn of_flow(setting: &Setting) -> Vec<Misfit> {
    let mut found = Vec::new();
    let is_registrar = setting.role == Role::Registrar;
    if is_registrar != (setting.flow != Flow::Calls) {
        let (what, remedy) = if is_registrar {
            (
                "a registrar without registrations is a proxy",
                "set flow = \"registrations\" or \"calls-to-registered\", or role = \"proxy\"",
            )
        } else {
            (
                "a proxy that forwards to one next hop has no registrations",
                "set role = \"registrar\", or flow = \"calls\"",
            )
        };
        found.push(misfit(
            if is_registrar { "role" } else { "flow" },
            what,
            remedy,
        ));
    }
    if setting.flow == Flow::Registrations && setting.hold_ms > 0 {
        found.push(misfit(
            "hold_ms",
            "a registration is not held",
            "leave `hold_ms` out where flow = \"registrations\"",
        ));
    }
    if setting.hold_ms > HOLD_MAX_MS {
        found.push(misfit(
            "hold_ms",
            "calls of more than ten minutes do not end within a measurement",
            format!("write at most {HOLD_MAX_MS}"),
        ));
    }
    if setting.flow != Flow::CallsToRegistered && setting.called_connection == Connection::PerAgent
    {
        found.push(misfit(
            "called_connection",
            "a next hop that has not registered has no connections of its own",
            "write \"one\" or \"per-call\", or flow = \"calls-to-registered\"",
        ));
    }
    found
}

fn of_agents(setting: &Setting) -> Vec<Misfit> {
    let mut found = Vec::new();
    let agents = setting.agents;
    let mut bounded = |key, value: u32, most: u32| {
        if value == 0 || value > most {
            found.push(misfit(
                key,
                format!("{value} is out of bounds"),
                format!("write a number from 1 to {most}"),
            ));
        }
    };
    bounded("callers", agents.callers, USERS_MAX);
    bounded("called", agents.called, USERS_MAX);
    bounded("users", agents.users, USERS_MAX);
    bounded("workers", setting.workers.unwrap_or(1), 255);
    let (processes, batch) = setting.lookups.unwrap_or((1, 1));
    bounded("processes", processes, PROCESSES_MAX);
    bounded("batch", batch, BATCH_MAX);
    let part = match setting.flow {
        Flow::CallsToRegistered => agents.callers.saturating_add(agents.called),
        Flow::Calls | Flow::Registrations => agents.callers,
    };
    if agents.users < part {
        found.push(misfit(
            "users",
            format!(
                "{} users are fewer than the {part} who take part",
                agents.users
            ),
            format!("write at least {part}, or fewer callers and called"),
        ));
    }
    found
}

fn of_share(setting: &Setting) -> Option<Misfit> {
    let share = setting.server_share?;
    (!(SHARE_MIN..=1.0).contains(&share)).then(|| {
        misfit(
            "server_share",
            format!("{share} is no share of a core that can be held"),
            format!("write a number from {SHARE_MIN} to 1"),
        )
    })
}

fn of_database(setting: &Setting) -> Vec<Misfit> {
    let mut found = Vec::new();
    if setting.database_rtt_ms > 0 && setting.authentication != Authentication::Mariadb {
        found.push(misfit(
            "database_rtt_ms",
            "a distance to a database that nobody asks",
            "set authentication = \"mariadb\", or leave `database_rtt_ms` out",
        ));
    }
    if setting.database_rtt_ms > RTT_MAX_MS {
        found.push(misfit(
            "database_rtt_ms",
            "a request does not wait for so long",
            format!("write at most {RTT_MAX_MS}"),
        ));
    }
    if setting.lookups.is_some_and(|(_, batch)| batch > 1)
        && setting.authentication != Authentication::Mariadb
    {
        found.push(misfit(
            "batch",
            "look-ups in batches, and no database to send them to",
            "set authentication = \"mariadb\", or leave `batch` out",
        ));
    }
    found
}

fn of_security(setting: &Setting) -> Vec<Misfit> {
    let security = &setting.security;
    if setting.transport != Transport::Tls {
        if *security == Security::default() {
            return Vec::new();
        }
        return vec![misfit(
            "security",
            "TLS is set for a transport that has none",
            "set transport = \"tls\", or leave `security` out",
        )];
    }
    let mut found = Vec::new();
    let is_rsa = matches!(security.suite, Suite::RsaAes | Suite::RsaTripleDes);
    if let Some(group) = &security.group {
        if !GROUPS.contains(&group.as_str()) {
            found.push(unknown("group", group, &GROUPS));
        } else if is_rsa {
            found.push(misfit(
                "group",
                "RSA key exchange has no group",
                "leave `group` out with the suites of RFC 3261",
            ));
        } else if group == "X25519MLKEM768" && security.suite != Suite::Tls13 {
            found.push(misfit(
                "group",
                "X25519MLKEM768 is for TLS 1.3 alone",
                "set suite = \"tls13\"",
            ));
        }
    }
    if let Some(key) = &security.key {
        if !KEYS.contains(&key.as_str()) {
            found.push(unknown("key", key, &KEYS));
        } else if is_rsa && key != "rsa2048" {
            found.push(misfit(
                "key",
                "RSA key exchange needs an RSA key",
                "set key = \"rsa2048\" with the suites of RFC 3261",
            ));
        }
    }
    found.extend(of_resumption(setting));
    found
}

fn of_resumption(setting: &Setting) -> Vec<Misfit> {
    let mut found = Vec::new();
    let security = &setting.security;
    if security.suite == Suite::Tls13 && security.resumption == Resumption::Ids {
        found.push(misfit(
            "resumption",
            "TLS 1.3 has no session identifiers",
            "set resumption = \"tickets\"",
        ));
    }
    let is_kept = |side| side == Connection::One;
    let is_all_kept = is_kept(setting.caller_connection) && is_kept(setting.called_connection);
    if security.resumption != Resumption::None && is_all_kept {
        found.push(misfit(
            "resumption",
            "one connection for all calls has nothing to resume",
            "set `caller_connection` or `called_connection`, or leave `resumption` out",
        ));
    }
    found
}

fn unknown(key: &'static str, given: &str, known: &[&str]) -> Misfit {
    misfit(
        key,
        format!("unknown value `{given}`"),
        match diagnose::nearest(given, known) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("write one of: {}", known.join(", ")),
        },
    )
}

impl Fragment {
    /// The keys from here to what a misfit is about, if it is set here.
    pub(super) fn path_of(&self, key: &str) -> Option<String> {
        let security = &self.security;
        let agents = &self.agents;
        let is_set = match key {
            "role" => self.role.is_some(),
            "flow" => self.flow.is_some(),
            "hold_ms" => self.hold_ms.is_some(),
            "called_connection" => self.called_connection.is_some(),
            "database_rtt_ms" => self.database_rtt_ms.is_some(),
            "workers" => self.workers.is_some(),
            "server_share" => self.server_share.is_some(),
            "processes" => self.processes.is_some(),
            "batch" => self.batch.is_some(),
            "security" => *security != super::SecurityFragment::default(),
            "group" => security.group.is_some(),
            "key" => security.key.is_some(),
            "resumption" => security.resumption.is_some(),
            "callers" => agents.callers.is_some(),
            "called" => agents.called.is_some(),
            "users" => agents.users.is_some(),
            _ => false,
        };
        let table = match key {
            "group" | "key" | "resumption" => "security.",
            "callers" | "called" | "users" => "agents.",
            _ => "",
        };
        is_set.then(|| format!("{table}{key}"))
    }
}
