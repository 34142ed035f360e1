//! Whether there is what an experiment names: sizes, algorithms, providers and tunnels.

use std::path::Path;

use diagnose::{ConfigError, Fault, nearest};
use signet_bed::Error;
use signet_bed::experiment::{PriceFigure, PricesExperiment};

use crate::crypto::{self, Choice};
use crate::tunnel;

/// The experiment of this name that the program brings, or else in this file, and its text;
/// `None` where it is not of this kind.
///
/// # Errors
/// Where its file cannot be used, or names what there is not: each fault with its line and remedy.
pub fn open(name: &str) -> Result<Option<(PricesExperiment, String)>, ConfigError> {
    let Some((experiment, text)) = PricesExperiment::open(name)? else {
        return Ok(None);
    };
    let faults = faults(&experiment);
    if faults.is_empty() {
        Ok(Some((experiment, text)))
    } else {
        Err(ConfigError::faulty(Path::new(name), &text, faults))
    }
}

fn faults(experiment: &PricesExperiment) -> Vec<Fault> {
    let packets = &experiment.packets;
    let mut faults = refused("packets.sizes_bytes", &packets.sizes_bytes, |size| {
        Choice::new(&[*size], &[], &[]).map(drop)
    });
    faults.extend(refused("packets.only", &packets.only, |word| {
        Choice::new(&[], std::slice::from_ref(word), &[]).map(drop)
    }));
    faults.extend(refused("packets.providers", &packets.providers, |name| {
        Choice::new(&[], &[], std::slice::from_ref(name)).map(drop)
    }));
    if let Some(tunnels) = &experiment.tunnels {
        faults.extend(refused("tunnels.only", &tunnels.only, |name| {
            tunnel::among(std::slice::from_ref(name)).map(drop)
        }));
    }
    if !faults.is_empty() {
        return faults;
    }
    // Each by itself can be; only of sizes there may be too many.
    match Choice::new(&packets.sizes_bytes, &packets.only, &packets.providers) {
        Ok(choice) => of_findings(experiment, &choice),
        Err(error) => vec![fault("packets.sizes_bytes".to_owned(), &error)],
    }
}

/// A fault for each of a list that is refused by itself.
fn refused<T>(key: &str, list: &[T], tried: impl Fn(&T) -> Result<(), Error>) -> Vec<Fault> {
    let all = list.iter().enumerate();
    all.filter_map(|(nth, one)| {
        let error = tried(one).err()?;
        Some(fault(format!("{key}.{nth}"), &error))
    })
    .collect()
}

fn fault(at: String, error: &Error) -> Fault {
    Fault {
        at,
        what: error.what().to_owned(),
        remedy: error.remedy().to_owned(),
    }
}

/// What findings name and nobody measures.
fn of_findings(experiment: &PricesExperiment, choice: &Choice) -> Vec<Fault> {
    let (packets, tunnels) = (crypto::names(choice), tunnels(experiment));
    let mut faults = Vec::new();
    for (nth, finding) in experiment.findings.iter().enumerate() {
        let (names, table) = match finding.figure {
            PriceFigure::Throughput => (&tunnels, "[tunnels]"),
            PriceFigure::Time | PriceFigure::TimePerByte | PriceFigure::LineError => {
                (&packets, "[packets]")
            }
        };
        let picks = [("of", Some(&finding.of)), ("than", finding.than.as_ref())];
        for (key, pick) in picks {
            let Some(pick) = pick else { continue };
            let known = names.iter().find(|(name, _)| *name == pick.name);
            let (what, remedy) = match known {
                Some((_, true)) => continue,
                Some((name, false)) => (
                    format!("`{name}` is not measured"),
                    format!("add it to `only` of {table}"),
                ),
                None => (
                    format!("nothing that can be measured is called `{}`", pick.name),
                    meant(&pick.name, names),
                ),
            };
            faults.push(Fault {
                at: format!("finding.{nth}.{key}.name"),
                what,
                remedy,
            });
        }
    }
    faults
}

/// The names of all tunnels, each with whether it is measured.
fn tunnels(experiment: &PricesExperiment) -> Vec<(String, bool)> {
    let only = experiment.tunnels.as_ref().map(|it| it.only.as_slice());
    let measured = only.and_then(|only| tunnel::among(only).ok());
    let measured = measured.unwrap_or_default();
    let all = tunnel::TUNNELS.iter();
    all.map(|tunnel| {
        let is_measured = measured.iter().any(|it| it.name == tunnel.name);
        (tunnel.name.to_owned(), is_measured)
    })
    .collect()
}

/// The nearest name, or else those that are measured.
fn meant(given: &str, names: &[(String, bool)]) -> String {
    let known: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    if let Some(word) = nearest(given, &known) {
        return format!("did you mean `{word}`?");
    }
    let measured = names.iter().filter(|(_, is_measured)| *is_measured);
    let measured: Vec<&str> = measured.map(|(name, _)| name.as_str()).collect();
    format!("write one of: {}", measured.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use signet_bed::experiment::SHIPPED_PRICES;

    /// The error after a change of the shipped file's text.
    fn told(from: &str, to: &str) -> String {
        let text = SHIPPED_PRICES[0].1;
        assert!(text.contains(from), "{from}");
        let (path, text) = (Path::new("mine.toml"), text.replacen(from, to, 1));
        let experiment = PricesExperiment::from_text(path, &text).unwrap();
        ConfigError::faulty(path, &text, faults(&experiment)).to_string()
    }

    #[test]
    fn what_the_program_brings_names_what_there_is() {
        for (name, _) in SHIPPED_PRICES {
            assert!(open(name).unwrap().is_some(), "{name}");
        }
        assert!(open("shen-2010").unwrap().is_none());
    }

    #[test]
    fn what_there_is_not_is_told_with_its_line() {
        let text = SHIPPED_PRICES[0].1;
        for (from, to, what, remedy) in [
            (
                "\"aes-192-cbc\"",
                "\"aes-192-cbd\"",
                "there is no algorithm \"aes-192-cbd\"",
                "did you mean aes-192-cbc?",
            ),
            (
                "\"hmac-md5-96\"",
                "\"rot13\"",
                "there is no algorithm \"rot13\"",
                "write one of: null, aes-128-cbc",
            ),
            (
                "\"rustcrypto\"",
                "\"rustcryto\"",
                "this build has no provider \"rustcryto\"",
                "write one of: rustcrypto, aws-lc",
            ),
            (
                "[64, 300",
                "[64, 0, 300",
                "a packet of 0 bytes carries nothing",
                "give sizes from 1 to 65380 bytes",
            ),
            (
                "[64, 300",
                "[64, 65500, 300",
                "65500 bytes leave no room",
                "give sizes from 1 to 65380 bytes",
            ),
            (
                "\"strongswan\"",
                "\"strongswam\"",
                "no tunnel is called `strongswam`",
                "did you mean strongswan?",
            ),
            (
                "\"strongswan\"",
                "\"carrier-pigeon\"",
                "no tunnel is called `carrier-pigeon`",
                "write one of: none, ipsec/aes-128-gcm",
            ),
            (
                "\"ah/transport/ipv4/hmac-md5-96\"",
                "\"ah/transport/ipv4/hmac-md5\"",
                "nothing that can be measured is called `ah/transport/ipv4/hmac-md5`",
                "did you mean `ah/transport/ipv4/hmac-md5-96`?",
            ),
            (
                "\"esp/transport/ipv4/blowfish-192-cbc\"",
                "\"esp/transport/ipv4/aes-256-cbc\"",
                "`esp/transport/ipv4/aes-256-cbc` is not measured",
                "add it to `only` of [packets]",
            ),
            (
                "name = \"openvpn/none\"",
                "name = \"wireguard\"",
                "`wireguard` is not measured",
                "add it to `only` of [tunnels]",
            ),
        ] {
            let error = told(from, to);
            let before = text.split(from).next().unwrap();
            let line = 1 + before.matches('\n').count();
            assert!(error.contains(&format!("mine.toml:{line}:")), "{error}");
            assert!(error.contains(what), "{what}: {error}");
            assert!(error.contains(remedy), "{remedy}: {error}");
        }
    }

    #[test]
    fn too_many_sizes_are_refused() {
        let sizes: Vec<String> = (1..=40).map(|size| size.to_string()).collect();
        let sizes = format!("[64, 300, 700, 1400, {}]", sizes.join(", "));
        let error = told("[64, 300, 700, 1400]", &sizes);
        assert!(error.contains("44 sizes are too many"), "{error}");
        assert!(error.contains("give at most 32"), "{error}");
    }
}
