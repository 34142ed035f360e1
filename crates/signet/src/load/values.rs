//! Values of the command line.

use std::time::Duration;

use measure::Threshold;
use signet_load::Lifetime;
use sip_tls::{ClientResumption, TlsEngine, TlsVersion};

/// The command line without its passwords.
pub(super) fn masked(mut command: Vec<String>) -> Vec<String> {
    let mut is_secret = false;
    for word in &mut command {
        if is_secret {
            *word = "***".to_owned();
        } else if let Some((name, _)) = word
            .split_once('=')
            .filter(|(name, _)| *name == "--password")
        {
            *word = format!("{name}=***");
        }
        is_secret = word == "--password";
    }
    command
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn time(text: &str) -> Result<Duration, String> {
    signet_load::duration(text)
        .ok_or_else(|| format!("'{text}' is no time; write 500ms, 30s or 2m"))
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let (number, of) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |number| (number, 100.0));
    number
        .trim()
        .parse::<f64>()
        .ok()
        .map(|number| number / of)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("'{text}' is no share; write 0, 4% or 0.04"))
}

pub(super) fn resume_share(text: &str) -> Result<f64, String> {
    match text {
        "none" => Ok(0.0),
        "all" => Ok(1.0),
        other => share(other).map_err(|_| format!("'{text}' is no share; write none, all or 0.5")),
    }
}

pub(super) fn resume_by(text: &str) -> Result<ClientResumption, String> {
    match text {
        "any" => Ok(ClientResumption::Any),
        "tickets" => Ok(ClientResumption::Tickets),
        "ids" => Ok(ClientResumption::SessionIds),
        _ => Err(format!(
            "'{text}' is no way to resume; write any, tickets or ids"
        )),
    }
}

/// How callers may resume with the called side.
pub(super) fn called_resume_by(text: &str) -> Result<ClientResumption, String> {
    match text {
        "none" => Ok(ClientResumption::Off),
        other => resume_by(other).map_err(|error| format!("{error}; or none")),
    }
}

pub(super) fn lifetime(text: &str) -> Result<Lifetime, String> {
    match text {
        "one" => Ok(Lifetime::One),
        "per-call" => Ok(Lifetime::Calls(1)),
        "per-agent" => Ok(Lifetime::Agent),
        other => other
            .strip_prefix("per-")
            .and_then(|rest| rest.strip_suffix("-calls"))
            .and_then(|number| number.parse().ok())
            .filter(|calls| *calls > 0)
            .map(Lifetime::Calls)
            .ok_or_else(|| {
                format!("'{text}' is no lifetime; write one, per-call, per-10-calls or per-agent")
            }),
    }
}

/// What is offered by `--tls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsOffer {
    Version(TlsVersion),
    Legacy,
}

/// The versions that are offered, and by which engine.
pub(super) fn offered(offers: &[TlsOffer]) -> Result<(Vec<TlsVersion>, TlsEngine), String> {
    let versions: Vec<TlsVersion> = offers
        .iter()
        .filter_map(|offer| match offer {
            TlsOffer::Version(version) => Some(*version),
            TlsOffer::Legacy => None,
        })
        .collect();
    if versions.len() == offers.len() {
        return Ok((versions, TlsEngine::Modern));
    }
    if versions.is_empty() {
        return Ok((versions, TlsEngine::Legacy));
    }
    Err("--tls legacy is another engine, with suites of its own; write legacy alone, or versions alone".to_owned())
}

pub(super) fn tls_offer(text: &str) -> Result<TlsOffer, String> {
    if text == "legacy" {
        return Ok(TlsOffer::Legacy);
    }
    TlsVersion::by_name(text)
        .map(TlsOffer::Version)
        .map_err(|error| format!("{error}; or legacy"))
}

pub(super) fn threshold(text: &str) -> Result<Threshold, String> {
    Threshold::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_recorded() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            masked(words("signet load call --password pw{n} --user u")).join(" "),
            "signet load call --password *** --user u"
        );
        assert_eq!(
            masked(words("x --password=pw")).join(" "),
            "x --password=***"
        );
    }

    #[test]
    fn shares_and_lifetimes() {
        assert_eq!(
            (share("4%"), share("0.04"), share("0")),
            (Ok(0.04), Ok(0.04), Ok(0.0))
        );
        assert!(share("101%").is_err() && share("x").is_err());
        assert_eq!(
            (resume_share("all"), resume_share("50%")),
            (Ok(1.0), Ok(0.5))
        );
        assert_eq!(lifetime("per-10-calls"), Ok(Lifetime::Calls(10)));
        assert_eq!(lifetime("per-call"), Ok(Lifetime::Calls(1)));
        assert!(lifetime("per-0-calls").is_err());
    }

    #[test]
    fn the_legacy_engine_is_asked_for_alone() {
        let asked = |text: &str| {
            let offers: Result<Vec<_>, String> = text.split(',').map(tls_offer).collect();
            offered(&offers?)
        };
        assert_eq!(asked("legacy"), Ok((vec![], TlsEngine::Legacy)));
        assert_eq!(
            asked("1.2,1.3"),
            Ok((TlsVersion::ALL.to_vec(), TlsEngine::Modern))
        );
        assert!(asked("legacy,1.3").is_err());
        assert!(asked("1.1").unwrap_err().contains("or legacy"));
    }
}
