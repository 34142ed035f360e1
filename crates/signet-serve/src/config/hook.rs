//! The operator's hook: which program is asked, about what, and what it may answer.

use std::path::PathBuf;

use invariant::broken;
use serde::Deserialize;
use sip_engine::hook::{HookSettings, OnFailure};
use sip_hook::{Field, Kind};

use super::check::Faults;
use super::values::within;
use super::{Config, Mode};

/// Headers that a hook may set, at most so many: more is in no answer.
const HEADERS_MAX: usize = 16;

/// The operator's hook.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hook {
    /// Where it is; without it nobody is asked.
    pub url: Option<HookUrl>,
    /// A file with the token that shows it who asks.
    pub token_file: Option<PathBuf>,
    /// PEM file with the authorities that certify it; without one, the system's.
    pub tls_roots: Option<PathBuf>,
    /// What it is asked about.
    pub asks: Vec<HookKind>,
    /// How long a request waits for it.
    #[serde(deserialize_with = "within::<_, _, 10, 10_000>")]
    pub timeout_ms: u64,
    /// What happens to a request where it fails.
    pub on_failure: OnFailure,
    /// Whether it may send strangers' calls to gateways and foreign domains.
    pub may_relay: bool,
    /// The headers that it may set, and nobody else.
    pub headers: Vec<HookHeader>,
    /// What must be the same where an answer is given again.
    pub cache_by: Vec<HookField>,
    /// Answers that are remembered.
    #[serde(deserialize_with = "within::<_, _, 1, 10_000_000>")]
    pub cache_entries_max: usize,
    /// Questions in one request.
    #[serde(deserialize_with = "within::<_, _, 1, 1_024>")]
    pub batch_max: usize,
    /// Requests under way.
    #[serde(deserialize_with = "within::<_, _, 1, 63>")]
    pub connections_max: usize,
    /// Requests of one worker that wait for it.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub waiting_max: usize,
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum HookKind {
    Call,
    Registration,
    Message,
    Subscription,
}

/// What an answer is remembered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum HookField {
    From,
    To,
    RequestUri,
    Number,
    Route,
    User,
    Class,
    Source,
    Transport,
}

/// The URL of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HookUrl(pub String);

impl TryFrom<String> for HookUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_http = ["http://", "https://"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        if !is_http {
            return Err(format!(
                "`{text}` is no URL of a hook\nwrite https://HOST/PATH, or http://127.0.0.1:PORT/PATH for a program on this machine"
            ));
        }
        match sip_userdb::check_url(&text) {
            Ok(()) => Ok(Self(text)),
            Err(error) => Err(format!("{}\n{}", error.what(), error.remedy())),
        }
    }
}

/// What the program at a URL is called where it is shown: its path or its query may be a secret.
pub(crate) fn hook_name(url: &str) -> String {
    sip_userdb::store_name(url)
        .unwrap_or_else(|_| broken!("a hook's URL was read before", String::new()))
}

/// The name of a header that a hook may set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HookHeader(pub Box<str>);

impl TryFrom<String> for HookHeader {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match sip_hook::may_be_set(&text) {
            true => Ok(Self(text.into())),
            false => Err(format!(
                "`{text}` is no header that a hook may set\nname one by which nothing is routed, framed or proved, for example X-Account or P-Asserted-Identity"
            )),
        }
    }
}

impl From<HookKind> for Kind {
    fn from(kind: HookKind) -> Self {
        match kind {
            HookKind::Call => Self::Call,
            HookKind::Registration => Self::Registration,
            HookKind::Message => Self::Message,
            HookKind::Subscription => Self::Subscription,
        }
    }
}

impl From<HookField> for Field {
    fn from(field: HookField) -> Self {
        match field {
            HookField::From => Self::From,
            HookField::To => Self::To,
            HookField::RequestUri => Self::RequestUri,
            HookField::Number => Self::Number,
            HookField::Route => Self::Route,
            HookField::User => Self::User,
            HookField::Class => Self::Class,
            HookField::Source => Self::Source,
            HookField::Transport => Self::Transport,
        }
    }
}

impl Default for Hook {
    fn default() -> Self {
        Self {
            url: None,
            token_file: None,
            tls_roots: None,
            asks: vec![HookKind::Call],
            timeout_ms: 1_000,
            on_failure: OnFailure::Reject,
            may_relay: false,
            headers: Vec::new(),
            cache_by: Vec::new(),
            cache_entries_max: 10_000,
            batch_max: 64,
            connections_max: 4,
            waiting_max: 10_000,
        }
    }
}

impl Hook {
    /// What the engine is told; `None` where there is no hook.
    pub(crate) fn settings(&self) -> Option<HookSettings> {
        self.url.as_ref()?;
        Some(HookSettings {
            asks: self.asks.iter().map(|kind| Kind::from(*kind)).collect(),
            timeout_ms: self.timeout_ms,
            waiting_max: self.waiting_max,
            on_failure: self.on_failure,
            may_relay: self.may_relay,
            headers: self.headers.iter().map(|name| name.0.clone()).collect(),
        })
    }

    /// What it comes to, in a line; empty where there is none.
    pub(crate) fn text(&self) -> String {
        let Some(url) = &self.url else {
            return String::new();
        };
        let kinds: Vec<&str> = self.asks.iter().map(|of| Kind::from(*of).name()).collect();
        let failure = match self.on_failure {
            OnFailure::Reject => "refused",
            OnFailure::Continue => "let through",
        };
        format!(
            "hook: {} is asked about each {}; what it does not answer within {} ms is {failure}\n",
            hook_name(&url.0),
            kinds.join(", "),
            self.timeout_ms
        )
    }

    /// The files that it names.
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.token_file.iter_mut().chain(self.tls_roots.iter_mut())
    }
}

impl Config {
    pub(super) fn check_hook(&self, faults: &mut Faults) {
        let hook = &self.hook;
        if hook.headers.len() > HEADERS_MAX {
            faults.add(
                "hook.headers",
                &format!("there are more than {HEADERS_MAX} headers"),
                "drop some",
            );
        }
        if hook.url.is_none() {
            return;
        }
        if hook.asks.is_empty() {
            faults.add(
                "hook.asks",
                "the hook is asked about nothing",
                "write asks = [\"call\"], or drop url",
            );
        }
        // Nobody waits there: what is to be judged would pass unseen.
        if self.mode == Mode::Stateless {
            faults.add(
                "hook.url",
                "a stateless server keeps no request, so it could wait for no answer of a hook",
                "write mode = \"stateful\", or drop the hook",
            );
        }
    }

    /// What the operator should look at again.
    pub(super) fn warn_of_hook(&self, warnings: &mut Vec<String>) {
        let hook = &self.hook;
        if hook.url.is_some() && hook.on_failure == OnFailure::Continue {
            warnings.push(
                "hook.on_failure: whoever silences the hook can call as if there were none"
                    .to_owned(),
            );
        }
        let tells_callers_apart = |field: &HookField| {
            matches!(field, HookField::User | HookField::From | HookField::Source)
        };
        if !hook.cache_by.is_empty() && !hook.cache_by.iter().any(tells_callers_apart) {
            warnings.push(
                "hook.cache_by: without user, from or source an answer to one caller is given to all others"
                    .to_owned(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> Result<Config, super::super::ConfigError> {
        Config::from_text(Path::new("test.toml"), &format!("version = 1\n{text}"))
    }

    const URL: &str = "[hook]\nurl = \"http://127.0.0.1:8090/\"\n";

    #[test]
    fn what_cannot_be_is_pointed_at() {
        for (text, told) in [
            (
                "[hook]\nurl = \"redis://localhost/0\"\n",
                "is no URL of a hook",
            ),
            (
                "[hook]\nurl = \"https://a:b@hook.example.org/\"\n",
                "has a password in it",
            ),
            (
                "[hook]\nheaders = [\"Via\"]\n",
                "`Via` is no header that a hook may set",
            ),
            ("[hook]\nasks = [\"calls\"]\n", "did you mean `call`?"),
            ("[hook]\nasks = [\"x\"]\n", "write one of: call"),
            ("[hook]\ncache_by = [\"x\"]\n", "write one of: "),
            (
                "[hook]\non_failure = \"ignore\"\n",
                "write one of: reject, continue",
            ),
            ("[hook]\ntimeout_ms = 9\n", "from 10 to 10000"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(told), "{told:?} is not in:\n{error}");
        }
        let nothing = read(&format!("{URL}asks = []\n")).unwrap_err().to_string();
        assert!(
            nothing.contains("test.toml:4:8: the hook is asked about nothing"),
            "{nothing}"
        );
        let stateless = read(&format!("mode = \"stateless\"\n{URL}"))
            .unwrap_err()
            .to_string();
        assert!(
            stateless.contains("a stateless server keeps no request"),
            "{stateless}"
        );
        let many: Vec<String> = (0..17).map(|nth| format!("\"X-{nth}\"")).collect();
        let many = read(&format!("[hook]\nheaders = [{}]\n", many.join(", ")));
        assert!(
            many.unwrap_err()
                .to_string()
                .contains("more than 16 headers")
        );
    }

    #[test]
    fn what_it_comes_to_is_said() {
        assert_eq!(read("").unwrap().hook.text(), "");
        assert_eq!(read("").unwrap().hook.settings(), None);
        let both = format!("{URL}asks = [\"call\", \"message\"]\n");
        assert_eq!(
            read(&both).unwrap().hook.text(),
            "hook: http://127.0.0.1:8090 is asked about each call, message; what it does not answer \
             within 1000 ms is refused\n"
        );
        let secret = read("[hook]\nurl = \"https://hook.example.org/secret?key=secret\"\n");
        let told = secret.unwrap().hook.text();
        assert!(
            told.starts_with("hook: https://hook.example.org:443 is asked"),
            "{told}"
        );
    }

    #[test]
    fn what_lets_others_through_is_said() {
        let told = |text: &str| read(&format!("{URL}{text}")).unwrap().warnings();
        assert_eq!(told(""), [""; 0]);
        assert!(told("on_failure = \"continue\"\n")[0].starts_with("hook.on_failure: whoever"));
        assert!(told("cache_by = [\"request_uri\"]\n")[0].contains("given to all others"));
        assert_eq!(told("cache_by = [\"user\", \"request_uri\"]\n"), [""; 0]);
    }
}
