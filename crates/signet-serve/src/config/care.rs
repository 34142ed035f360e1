//! When the next gateway of a group is tried, and how its gateways are watched.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Deserialize;
use sip_engine::routes::{Care, Failover, Probing};
use sip_engine::settings::Mode;

use super::Config;
use super::check::Faults;
use super::sections::GatewayGroup;

/// Failed probes in a row after which a gateway is passed over, where nothing is written.
const PROBE_FAIL: u32 = 3;
/// Good ones after which it is used again.
const PROBE_OK: u32 = 2;

/// Answers after which the next gateway is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub enum FailoverAnswer {
    /// One status.
    Status(u16),
    /// All from 500 to 599.
    ServerErrors,
}

/// The same as it is written.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "this is no status\nwrite numbers from 400 to 599, or \"5xx\" for all of those"
)]
enum Written {
    Number(i64),
    Text(String),
}

impl TryFrom<Written> for FailoverAnswer {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let told = match &written {
            Written::Text(text) if text.eq_ignore_ascii_case("5xx") => {
                return Ok(Self::ServerErrors);
            }
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text.clone(),
        };
        let status = match written {
            Written::Number(number) => u16::try_from(number).ok(),
            Written::Text(_) => None,
        };
        let status = status.filter(|status| Failover::may_have(*status));
        status.map(Self::Status).ok_or_else(|| {
            let what = match told.as_str() {
                "401" | "407" => "is a challenge, which is the caller's to answer",
                "487" => "says that the caller has hung up",
                _ => "is no answer after which another gateway may be tried",
            };
            format!("`{told}` {what}\nwrite numbers from 400 to 599 without 401, 407 and 487, or \"5xx\"")
        })
    }
}

/// How long a gateway may take to its first response, in milliseconds, where the group does not
/// say.
pub(super) const fn timeout_ms() -> u64 {
    Care::USUAL.timeout_ms
}

/// The longest pause that a gateway may ask for, in seconds, where the group does not say.
pub(super) const fn retry_after_max_s() -> u64 {
    Care::USUAL.retry_after_max_s
}

/// 503 alone, as RFC 3263 4.3 has it.
pub(super) fn failover() -> Vec<FailoverAnswer> {
    vec![FailoverAnswer::Status(503)]
}

impl GatewayGroup {
    /// What the engine is told of the group; `None` where all of it is the default.
    pub(crate) fn care(&self) -> Option<Arc<Care>> {
        let failover = self
            .failover
            .iter()
            .fold(Failover::NONE, |set, answer| match answer {
                FailoverAnswer::Status(status) => set.with(*status),
                FailoverAnswer::ServerErrors => (500..600).fold(set, Failover::with),
            });
        let probing = (self.probe_interval_s > 0).then(|| Probing {
            interval_ms: self.probe_interval_s * 1_000,
            fails_max: self.probe_fail.unwrap_or(PROBE_FAIL),
            goods_min: self.probe_ok.unwrap_or(PROBE_OK),
        });
        let care = Care {
            timeout_ms: self.timeout_ms,
            failover,
            retry_after_max_s: self.retry_after_max_s,
            probing,
            media: self.media,
        };
        (care != Care::USUAL).then(|| Arc::new(care))
    }

    fn check_care(&self, at: &str, faults: &mut Faults) {
        let given = [("probe_fail", self.probe_fail), ("probe_ok", self.probe_ok)];
        for (key, value) in given {
            if value.is_some() && self.probe_interval_s == 0 {
                faults.add(
                    &format!("{at}.{key}"),
                    "the gateways of this group are not probed",
                    &format!("write probe_interval_s = 30, or drop {key}"),
                );
            }
        }
    }

    /// What it comes to, where it is not the default.
    fn care_text(&self) -> Option<String> {
        let care = Care {
            media: None,
            ..Care::clone(&*self.care()?)
        };
        if care == Care::USUAL {
            return None;
        }
        let mut after = Vec::new();
        if care.timeout_ms > 0 {
            after.push(format!("{} ms without a response", care.timeout_ms));
        }
        let answers: Vec<String> = self.failover.iter().map(FailoverAnswer::text).collect();
        if !answers.is_empty() {
            after.push(answers.join(", "));
        }
        let mut text = match after.is_empty() {
            true => "the next gateway is tried only where one cannot be reached".to_owned(),
            false => format!(
                "the next gateway is tried after {}",
                after.join(", and after ")
            ),
        };
        match care.retry_after_max_s {
            0 => text.push_str("; Retry-After is not heeded"),
            max_s => _ = write!(text, "; Retry-After counts up to {max_s} s"),
        }
        if let Some(probing) = care.probing {
            let _ = write!(
                text,
                "; each is probed every {} s, passed over after {} that fail, used again after {} that do not",
                probing.interval_ms / 1_000,
                probing.fails_max,
                probing.goods_min
            );
        }
        Some(text)
    }
}

impl FailoverAnswer {
    fn text(&self) -> String {
        match self {
            Self::Status(status) => status.to_string(),
            Self::ServerErrors => "5xx".to_owned(),
        }
    }
}

impl Config {
    pub(super) fn check_cares(&self, faults: &mut Faults) {
        for (nth, group) in self.gateway_group.iter().enumerate() {
            group.check_care(&format!("gateway_group.{nth}"), faults);
        }
    }

    /// What each group comes to, a line for each whose care is not the default.
    pub(crate) fn cares_text(&self) -> String {
        let groups = self.gateway_group.iter();
        let lines = groups.filter_map(|group| Some((&group.name, group.care_text()?)));
        lines
            .map(|(name, text)| format!("group {name}: {text}\n"))
            .collect()
    }

    pub(super) fn warn_of_cares(&self, warnings: &mut Vec<String>) {
        if self.mode == Mode::Stateful {
            return;
        }
        for (nth, group) in self.gateway_group.iter().enumerate() {
            if group.care().is_some() {
                warnings.push(format!(
                    "gateway_group.{nth}: in this mode nobody waits for an answer, so no call goes on to another gateway; drop timeout_ms, failover and the like, or write mode = \"stateful\""
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(keys: &str) -> Result<Config, String> {
        let text = format!(
            "version = 1\n[[gateway_group]]\nname = \"g\"\n{keys}gateways = [{{ uri = \"sip:a\" }}]\n"
        );
        Config::from_text(Path::new("t.toml"), &text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_reaches_the_engine_and_is_told() {
        let usual = parse("").unwrap();
        assert_eq!(usual.gateway_group[0].care(), None);
        assert_eq!(usual.cares_text(), "");
        let config = parse(
            "timeout_ms = 1500\nfailover = [408, \"5xx\"]\nretry_after_max_s = 0\n\
             probe_interval_s = 20\nprobe_ok = 1\n",
        )
        .unwrap();
        let care = config.gateway_group[0].care().unwrap();
        let probing = Probing {
            interval_ms: 20_000,
            fails_max: 3,
            goods_min: 1,
        };
        assert_eq!((care.timeout_ms, care.probing), (1_500, Some(probing)));
        for (status, has) in [
            (408, true),
            (480, false),
            (500, true),
            (503, true),
            (599, true),
        ] {
            assert_eq!(care.failover.has(status), has, "{status}");
        }
        assert_eq!(
            config.cares_text(),
            "group g: the next gateway is tried after 1500 ms without a response, and after 408, 5xx; \
             Retry-After is not heeded; each is probed every 20 s, passed over after 3 that fail, \
             used again after 1 that do not\n"
        );
        let config = parse("timeout_ms = 0\nfailover = []\n").unwrap();
        assert!(!config.gateway_group[0].care().unwrap().failover.has(503));
        let told = config.cares_text();
        assert!(told.contains("only where one cannot be reached"), "{told}");
    }

    #[test]
    fn what_is_no_answer_to_fail_over_after_is_pointed_at() {
        for (keys, line, told) in [
            ("failover = [407]\n", 4, "is a challenge"),
            ("failover = [487]\n", 4, "the caller has hung up"),
            ("failover = [603]\n", 4, "`603` is no answer"),
            ("failover = [200]\n", 4, "write numbers from 400 to 599"),
            ("failover = [\"4xx\"]\n", 4, "`4xx` is no answer"),
            ("failover = [true]\n", 4, "this is no status"),
            ("timeout_ms = 60001\n", 4, "from 0 to 60000"),
            ("probe_interval_s = 3601\n", 4, "from 0 to 3600"),
            ("probe_fail = 2\n", 4, "write probe_interval_s = 30"),
            ("probe_interval_s = 0\nprobe_ok = 2\n", 5, "drop probe_ok"),
        ] {
            let error = parse(keys).unwrap_err();
            assert!(error.contains(&format!("t.toml:{line}")), "{keys}{error}");
            assert!(error.contains(told), "{keys}{error}");
        }
    }
}
