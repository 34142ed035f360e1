//! Media engines: where they are, and which calls need them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::Deserialize;
use sip_engine::settings::{self, MediaSettings, MediaUse, WhenGone};
use sip_media::EngineId;

use super::check::Faults;
use super::values::{Network, within};
use super::{Config, Mode};

/// Engines, at most so many.
const ENGINES_MAX: usize = 16;
/// The port of rtpengine's own example.
const USUAL_PORT: u16 = 2_223;
/// The longest that all engines together may have for one message: after that long nobody waits
/// for its answer.
const PATIENCE_MAX_MS: u64 = 16_000;

/// Media engines.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Media {
    /// Where they take commands by the ng protocol; without any no media is relayed.
    pub engines: Vec<EngineAt>,
    /// What happens to calls that need one when none answers.
    pub when_gone: WhenGone,
    /// Networks with rules of their own; the first that one end of a call is in counts.
    pub networks: Vec<MediaNetwork>,
    /// The engines' interface towards all others.
    pub interface: Option<String>,
    /// Flags that go with each offer and answer.
    pub flags: Vec<String>,
    /// How long one engine may take.
    #[serde(deserialize_with = "within::<_, _, 50, 5_000>")]
    pub timeout_ms: u64,
    /// Engines that are asked for one call, one after the other.
    #[serde(deserialize_with = "within::<_, _, 1, 8>")]
    pub tries_max: usize,
    /// The time from one ping to the next.
    #[serde(deserialize_with = "within::<_, _, 1, 3_600>")]
    pub ping_interval_s: u64,
    /// Commands of one worker under way.
    #[serde(deserialize_with = "within::<_, _, 16, 1_000_000>")]
    pub commands_max: usize,
    /// The longest session description that an engine is given, or that is taken from one.
    #[serde(deserialize_with = "within::<_, _, 512, 60_000>")]
    pub sdp_bytes_max: usize,
}

/// A network and what holds for calls of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaNetwork {
    /// Where one end of the call is.
    pub network: Network,
    /// Whether its media is relayed; without it what the listener says.
    pub media: Option<MediaUse>,
    /// The engines' interface towards it.
    pub interface: Option<String>,
}

impl Default for Media {
    fn default() -> Self {
        let client = sip_media::Config::default();
        Self {
            engines: Vec::new(),
            when_gone: WhenGone::default(),
            networks: Vec::new(),
            interface: None,
            // Else whoever finds a port of the engine speaks to those who listen there.
            flags: vec!["strict-source".to_owned()],
            timeout_ms: client.timeout_ms,
            tries_max: client.tries_max,
            ping_interval_s: client.ping_interval_ms / 1_000,
            commands_max: client.commands_max,
            sdp_bytes_max: client.sdp_bytes_max,
        }
    }
}

/// Where an engine takes commands: `udp:127.0.0.1:2223`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct EngineAt {
    /// The address and port.
    pub addr: SocketAddr,
    /// Whether the operator has said that it may be a public one.
    is_allowed: bool,
}

impl TryFrom<String> for EngineAt {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let fault = |what: &str| {
            format!(
                "`{text}` is no media engine: {what}\nwrite udp:ADDRESS:PORT as it stands behind listen-ng in rtpengine.conf, for example udp:127.0.0.1:2223"
            )
        };
        let Some(("udp", rest)) = text.split_once(':') else {
            return Err(fault("it is asked by datagrams"));
        };
        let (place, is_allowed) = match rest.split_once('?') {
            None => (rest, false),
            Some((place, "public=yes")) => (place, true),
            Some((_, other)) => return Err(fault(&format!("`{other}` means nothing here"))),
        };
        let bare = place.trim_start_matches('[').trim_end_matches(']');
        let whole = place.parse::<SocketAddr>().ok();
        let alone = || {
            let ip = bare.parse::<IpAddr>().ok()?;
            Some(SocketAddr::new(ip, USUAL_PORT))
        };
        let addr = whole.or_else(alone).filter(|addr| addr.port() != 0);
        let Some(addr) = addr.filter(|addr| !addr.ip().is_unspecified()) else {
            return Err(fault(&format!("`{place}` is no address and port")));
        };
        Ok(Self { addr, is_allowed })
    }
}

impl fmt::Display for EngineAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp:{}", self.addr)
    }
}

impl Media {
    /// The same for the engine of the protocol, with the rules of the listeners in their order;
    /// none where no media is relayed.
    pub(crate) fn settings(
        &self,
        mode: Mode,
        listeners: impl Iterator<Item = MediaUse>,
    ) -> Option<Arc<MediaSettings>> {
        if self.engines.is_empty() || mode != Mode::Stateful {
            return None;
        }
        let name = |text: &String| Arc::<str>::from(text.as_str());
        let network = |of: &MediaNetwork| settings::MediaNetwork {
            network: of.network.0,
            uses: of.media,
            interface: of.interface.as_ref().map(name),
        };
        Some(Arc::new(MediaSettings {
            networks: self.networks.iter().map(network).collect(),
            listeners: listeners.collect(),
            interface: self.interface.as_ref().map(name),
            when_gone: self.when_gone,
            client: sip_media::Config {
                engines: self.engines.iter().map(|engine| engine.addr).collect(),
                timeout_ms: self.timeout_ms,
                tries_max: self.tries_max,
                ping_interval_ms: self.ping_interval_s.saturating_mul(1_000),
                commands_max: self.commands_max,
                sdp_bytes_max: self.sdp_bytes_max,
                flags: self.flags.iter().map(|flag| flag.as_str().into()).collect(),
            },
        }))
    }

    /// What it comes to, in a line; empty where no media is relayed.
    pub(crate) fn text(&self) -> String {
        if self.engines.is_empty() {
            return String::new();
        }
        let engines: Vec<String> = self.engines.iter().map(EngineAt::to_string).collect();
        let gone = match self.when_gone {
            WhenGone::Refuse => "refused with 503",
            WhenGone::Pass => "passed on without",
        };
        format!(
            "media engines: {}; where none answers, calls that need one are {gone}\n",
            engines.join(", ")
        )
    }

    fn check_engines(&self, faults: &mut Faults) {
        for (nth, engine) in self.engines.iter().enumerate() {
            let at = format!("media.engines.{nth}");
            if !engine.is_allowed && !is_private(engine.addr.ip()) {
                faults.add(
                    &at,
                    &format!(
                        "{} is a public address: whoever reaches an engine's port for commands hears every call and ends it, because the ng protocol has neither passwords nor encryption",
                        engine.addr
                    ),
                    &format!(
                        "write its address in a network of your own or, where a filter guards the way, \"{engine}?public=yes\""
                    ),
                );
            }
            let mut before = self.engines.iter().take(nth);
            if before.any(|other| EngineId::of(other.addr) == EngineId::of(engine.addr)) {
                faults.add(&at, "this engine stands above", "drop one of the two");
            }
        }
        if self.engines.len() > ENGINES_MAX {
            faults.add(
                "media.engines",
                "there are more than 16 engines",
                "drop some",
            );
        }
    }

    fn check_texts(&self, faults: &mut Faults) {
        let is_word = |text: &str| {
            (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let networks = self.networks.iter().enumerate();
        let of_networks = networks.filter_map(|(nth, of)| {
            let interface = of.interface.as_ref()?;
            Some((format!("media.networks.{nth}"), interface))
        });
        let own = self.interface.iter();
        let own = own.map(|interface| ("media.interface".to_owned(), interface));
        for (at, interface) in own.chain(of_networks) {
            if !is_word(interface) {
                faults.add(
                    &at,
                    &format!("`{interface}` is no name of an interface"),
                    "write the name behind interface = NAME/ADDRESS in rtpengine.conf",
                );
            }
        }
        for (nth, flag) in self.flags.iter().enumerate() {
            if !is_word(flag) {
                faults.add(
                    &format!("media.flags.{nth}"),
                    &format!("`{flag}` is no flag"),
                    "write it as rtpengine has it, with hyphens for spaces, for example \"strict-source\"",
                );
            }
        }
        let has_named = self.networks.iter().any(|of| of.interface.is_some());
        if has_named && self.interface.is_none() {
            faults.add(
                "media.networks",
                "the engines' interface towards all other networks is not named",
                "write interface = \"NAME\" in [media] too: an engine is told both or none",
            );
        }
        for (nth, of) in self.networks.iter().enumerate() {
            if of.media.is_none() && of.interface.is_none() {
                faults.add(
                    &format!("media.networks.{nth}"),
                    "nothing is said of this network",
                    "write media = \"rtpengine\", \"auto\" or \"never\", or interface = \"NAME\"",
                );
            }
        }
    }
}

/// Whether nobody outside reaches an address, by what it is.
fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let is_shared = matches!(ip.octets(), [100, 64..=127, ..]);
            ip.is_private() || ip.is_loopback() || ip.is_link_local() || is_shared
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

impl Config {
    pub(super) fn check_media(&self, faults: &mut Faults) {
        let media = &self.media;
        media.check_engines(faults);
        media.check_texts(faults);
        let patience_ms = media.timeout_ms.saturating_mul(media.tries_max as u64);
        if patience_ms > PATIENCE_MAX_MS {
            faults.add(
                "media.timeout_ms",
                &format!("all tries together may take {patience_ms} ms: nobody waits so long"),
                "write a smaller timeout_ms or tries_max: 16 seconds together at most",
            );
        }
        if !media.engines.is_empty() {
            return;
        }
        let listeners = self.listen.iter().enumerate();
        let listeners = listeners.map(|(nth, of)| (format!("listen.{nth}.media"), Some(of.media)));
        let groups = self.gateway_group.iter().enumerate();
        let groups = groups.map(|(nth, of)| (format!("gateway_group.{nth}.media"), of.media));
        let networks = media.networks.iter().enumerate();
        let networks = networks.map(|(nth, of)| (format!("media.networks.{nth}"), of.media));
        for (at, uses) in listeners.chain(groups).chain(networks) {
            if uses == Some(MediaUse::Always) {
                faults.add(
                    &at,
                    "there is no media engine",
                    "write engines = [\"udp:127.0.0.1:2223\"] in [media], or drop it",
                );
            }
        }
    }

    /// What the operator should look at again.
    pub(super) fn warn_of_media(&self, warnings: &mut Vec<String>) {
        if self.media.engines.is_empty() {
            return;
        }
        if self.mode != Mode::Stateful {
            warnings.push(
                "media: only a stateful server follows calls, so no media is relayed: write mode = \"stateful\""
                    .to_owned(),
            );
        }
        if !self.proxy.record_route {
            warnings.push(
                "media: without Record-Route neither BYE nor re-INVITE passes this server, so engines do not hear of the end of a call, nor of a change: write record_route = true in [proxy]"
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

    fn led(text: &str) -> Option<Arc<MediaSettings>> {
        let config = read(text).unwrap();
        let listeners = config.listen.iter().map(|listen| listen.media);
        config.media.settings(config.mode, listeners)
    }

    #[test]
    fn what_is_written_reaches_the_workers() {
        assert_eq!(led(""), None);
        let settings = led(
            "[[listen]]\non = \"udp:127.0.0.1:0\"\nmedia = \"never\"\n\
             [[listen]]\non = \"tcp:127.0.0.1:0\"\n\
             [media]\nengines = [\"udp:127.0.0.1:2223\", \"udp:[fd00::7]:22222\", \"udp:10.0.0.9\"]\n\
             when_gone = \"pass\"\ninterface = \"outside\"\nflags = [\"media-handover\"]\n\
             networks = [{ network = \"10.0.0.0/8\", media = \"rtpengine\", interface = \"inside\" }]\n\
             timeout_ms = 700\nping_interval_s = 9\n",
        )
        .unwrap();
        assert_eq!(settings.listeners, [MediaUse::Never, MediaUse::Auto]);
        assert_eq!(settings.when_gone, WhenGone::Pass);
        assert_eq!(settings.interface.as_deref(), Some("outside"));
        assert_eq!(settings.networks[0].uses, Some(MediaUse::Always));
        assert_eq!(settings.networks[0].interface.as_deref(), Some("inside"));
        let client = &settings.client;
        let engines: Vec<String> = client.engines.iter().map(SocketAddr::to_string).collect();
        assert_eq!(
            engines,
            ["127.0.0.1:2223", "[fd00::7]:22222", "10.0.0.9:2223"]
        );
        assert_eq!((client.timeout_ms, client.ping_interval_ms), (700, 9_000));
        assert_eq!(client.flags, [Box::from("media-handover")]);
        let stateless = "mode = \"stateless\"\n[media]\nengines = [\"udp:127.0.0.1\"]\n";
        assert_eq!(led(stateless), None);
    }

    #[test]
    fn what_cannot_be_is_pointed_at() {
        let engine = |text: &str| format!("[media]\nengines = [\"{text}\"]\n");
        let group = "[[gateway_group]]\nname = \"g\"\nmedia = \"rtpengine\"\ngateways = [{ uri = \"sip:a\" }]\n";
        for (text, told) in [
            (engine("udp:203.0.113.7:2223"), "test.toml:3:12: 203.0.113.7:2223 is a public address"),
            (engine("udp:[2001:db8::1]:2223"), "?public=yes"),
            (engine("tcp:127.0.0.1:2223"), "it is asked by datagrams"),
            (engine("127.0.0.1:2223"), "write udp:ADDRESS:PORT"),
            (engine("udp:localhost:2223"), "`localhost:2223` is no address"),
            (engine("udp:0.0.0.0:2223"), "is no address and port"),
            (engine("udp:127.0.0.1:0"), "is no address and port"),
            (engine("udp:127.0.0.1:2223?public=no"), "`public=no` means nothing"),
            (
                "[media]\nengines = [\"udp:127.0.0.1\", \"udp:127.0.0.1:2223\"]\n".to_owned(),
                "this engine stands above",
            ),
            (
                "[media]\ntimeout_ms = 5000\ntries_max = 4\n".to_owned(),
                "test.toml:3:14: all tries together may take 20000 ms",
            ),
            (
                "[media]\nengines = [\"udp:127.0.0.1\"]\nflags = [\"two words\"]\n".to_owned(),
                "`two words` is no flag",
            ),
            (
                "[media]\nengines = [\"udp:127.0.0.1\"]\nnetworks = [{ network = \"10.0.0.0/8\", interface = \"in\" }]\n"
                    .to_owned(),
                "towards all other networks is not named",
            ),
            (
                "[media]\nengines = [\"udp:127.0.0.1\"]\nnetworks = [{ network = \"10.0.0.0/8\" }]\n".to_owned(),
                "nothing is said of this network",
            ),
            (group.to_owned(), "there is no media engine"),
            (
                "[[listen]]\non = \"udp:127.0.0.1:0\"\nmedia = \"rtpengine\"\n".to_owned(),
                "test.toml:4:9: there is no media engine",
            ),
            (
                "[[listen]]\non = \"udp:127.0.0.1:0\"\nmedia = \"always\"\n".to_owned(),
                "write one of: auto, rtpengine, never",
            ),
            ("[media]\nwhen_gone = \"drop\"\n".to_owned(), "write one of: refuse, pass"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(told), "{told:?} is not in:\n{error}");
        }
        assert!(read(&engine("udp:203.0.113.7:2223?public=yes")).is_ok());
        for private in [
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "169.254.1.1",
        ] {
            assert!(
                read(&engine(&format!("udp:{private}:2223"))).is_ok(),
                "{private}"
            );
        }
    }

    #[test]
    fn what_it_comes_to_is_said() {
        assert_eq!(read("").unwrap().media.text(), "");
        let config = read("[media]\nengines = [\"udp:127.0.0.1\"]\n").unwrap();
        assert_eq!(
            config.media.text(),
            "media engines: udp:127.0.0.1:2223; where none answers, calls that need one are refused with 503\n"
        );
        assert!(config.warnings().is_empty());
        for (more, told) in [
            ("mode = \"redirect\"\n", "no media is relayed"),
            ("[proxy]\nrecord_route = false\n", "do not hear of the end"),
        ] {
            let text = format!("{more}[media]\nengines = [\"udp:127.0.0.1\"]\n");
            let warnings = read(&text).unwrap().warnings();
            assert!(warnings[0].contains(told), "{warnings:?}");
        }
    }
}
