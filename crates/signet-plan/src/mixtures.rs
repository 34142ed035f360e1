//! Loads of several kinds at once, drawn from a seed: some are in the calibration, others are what
//! predictions are held to.

use std::fmt::Write as _;

use crate::demand::{Key, Transport};
use crate::drive::{Connection, Flow, Mixture, PasswordStore, Stream};
use crate::profile::Profile;

/// What a mixture is to take of a core, at least and at most.
const CORES: (f64, f64) = (0.06, 0.30);
/// Loads and gateways have one core together: rates beyond these would be theirs.
const CALLS_MAX_PER_S: f64 = 4_000.0;
const REGISTRATIONS_MAX_PER_S: f64 = 5_000.0;
const HANDSHAKES_MAX_PER_S: f64 = 350.0;

/// Mixtures, drawn from a seed, each as large as suits the machine of the profile.
pub fn mixtures(profile: &Profile, count: u32, seed: u64, has_database: bool) -> Vec<Mixture> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count)
        .map(|nth| {
            let users = match nth % 5 {
                0 | 3 => PasswordStore::None,
                2 if has_database => PasswordStore::Database,
                _ => PasswordStore::Own,
            };
            let count = random.usize(2..=3);
            let mut streams: Vec<Stream> = (0..count).map(|_| stream(&mut random, users)).collect();
            streams.sort_by_key(described_stream);
            let mixture = Mixture {
                name: format!("mixture {}", nth + 1),
                users,
                rtt_ms: 0,
                streams,
            };
            sized(profile, mixture, &mut random)
        })
        .collect()
}

/// A load of some kind, at a rate that says how it stands to the others.
fn stream(random: &mut fastrand::Rng, users: PasswordStore) -> Stream {
    let transports = [Transport::Udp, Transport::Tcp, Transport::Tls];
    let mut any = || {
        let nth = random.usize(0..transports.len());
        transports.get(nth).copied().unwrap_or_default()
    };
    let (from, onward) = (any(), any());
    let weight = 0.25 + random.f64();
    let kind = random.u8(0..10);
    let is_challenged = users != PasswordStore::None && random.bool();
    let made = match kind {
        0..=3 => Stream::new(Flow::Calls(onward), from, 400.0 * weight),
        4..=6 => Stream::new(Flow::Registrations, from, 800.0 * weight),
        7 if users == PasswordStore::None => {
            Stream::new(Flow::Local, Transport::Udp, 250.0 * weight)
        }
        7 | 8 => {
            let key = if random.bool() {
                Key::P256
            } else {
                Key::Rsa2048
            };
            let resumed = f64::from(random.u8(0..=4)) / 4.0;
            Stream::per_call(Transport::Tls, 60.0 * weight, key, resumed)
        }
        _ => Stream::per_call(Transport::Tcp, 120.0 * weight, Key::P256, 0.0),
    };
    Stream {
        is_challenged,
        ..made
    }
}

/// The same mixture with rates that take a share of a core that is drawn, as far as the loads
/// can make them.
fn sized(profile: &Profile, mixture: Mixture, random: &mut fastrand::Rng) -> Mixture {
    let wanted = CORES.0 + (CORES.1 - CORES.0) * random.f64();
    let of = |mixture: &Mixture| {
        let (cores, _) = profile.fit.cores(&mixture.rates());
        (cores - profile.fit.base_cores).max(1e-6)
    };
    // Wake-ups are no line: twice comes close enough.
    let mut mixture = mixture;
    for _ in 0..2 {
        let factor = (wanted / of(&mixture)).min(room(&mixture));
        mixture = mixture.scaled(factor);
    }
    mixture
}

/// How many times as much the loads could still make.
fn room(mixture: &Mixture) -> f64 {
    let sum = |is_counted: &dyn Fn(&Stream) -> bool| -> f64 {
        let counted = mixture.streams.iter().filter(|stream| is_counted(stream));
        counted.map(|stream| stream.per_s).sum()
    };
    let calls = sum(&|stream| stream.flow != Flow::Registrations);
    let registrations = sum(&|stream| stream.flow == Flow::Registrations);
    let handshakes =
        sum(&|stream| stream.transport == Transport::Tls && stream.connection != Connection::Kept);
    // They share the core, so that what each takes of it is added.
    let used = calls / CALLS_MAX_PER_S
        + registrations / REGISTRATIONS_MAX_PER_S
        + handshakes / HANDSHAKES_MAX_PER_S;
    1.0 / used.max(1e-9)
}

/// A mixture in a line.
pub fn described(mixture: &Mixture) -> String {
    let streams: Vec<String> = mixture.streams.iter().map(described_stream).collect();
    let users = match mixture.users {
        PasswordStore::None => "",
        PasswordStore::Own => "; own store",
        PasswordStore::Database => "; database",
        PasswordStore::Cache => "; cache",
    };
    format!("{}{users}", streams.join(" + "))
}

fn described_stream(stream: &Stream) -> String {
    let name = stream.transport.name();
    let mut told = match stream.flow {
        Flow::Calls(onward) => format!("{:.0} calls {name}-{}", stream.per_s, onward.name()),
        Flow::Local => format!("{:.0} calls to users {name}", stream.per_s),
        Flow::Registrations => format!("{:.0} registrations {name}", stream.per_s),
    };
    if let Connection::PerCall { key, resumed, .. } = stream.connection {
        match (stream.transport, key) {
            (Transport::Tls, Key::P256) => told.push_str(", each P-256"),
            (Transport::Tls, Key::Rsa2048) => told.push_str(", each RSA"),
            _ => told.push_str(", each connected"),
        }
        if stream.transport == Transport::Tls && resumed > 0.0 {
            let _ = write!(told, " {:.0}% resumed", resumed * 100.0);
        }
    }
    if stream.is_challenged {
        told.push_str(", challenged");
    }
    told
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing;

    #[test]
    fn mixtures_are_drawn_again_and_are_no_runs_of_the_calibration() {
        let profile = testing::profile();
        let all = mixtures(&profile, 20, 1, true);
        assert_eq!(all, mixtures(&profile, 20, 1, true));
        assert_ne!(all, mixtures(&profile, 20, 2, true));
        assert!(all.iter().all(|mixture| mixture.streams.len() >= 2));
        let names: BTreeSet<String> = all.iter().map(described).collect();
        assert_eq!(names.len(), 20, "{names:#?}");
        let databases = all.iter().filter(|one| one.users.has_database());
        assert_eq!(databases.count(), 4);
        let without = mixtures(&profile, 20, 1, false);
        assert!(!without.iter().any(|mixture| mixture.users.has_database()));
    }

    #[test]
    fn mixtures_suit_the_machine_and_the_loads() {
        let profile = testing::profile();
        for mixture in mixtures(&profile, 200, 7, true) {
            let (cores, _) = profile.fit.cores(&mixture.rates());
            assert!(cores < CORES.1 * 1.1, "{cores}: {}", described(&mixture));
            assert!(room(&mixture) > 0.99, "{}", described(&mixture));
            assert!(profile.fit.unpriced(&mixture.rates()).is_empty());
        }
    }
}
