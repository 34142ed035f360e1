//! Media engines: calls whose media is led through rtpengine by the ng protocol
//! (`docs/decisions/0225-media-is-a-question.md`).
//!
//! An engine is asked as DNS and the store are: whatever has a session description and needs
//! one is parked with a deadline, the question leaves as [`crate::Effect::Media`], and the answer
//! comes back by [`crate::Shard::handle_media`]. For each copy of an INVITE that is decided where
//! it is known by which transport it leaves ([`need`]), because the description depends on it.
//! Within the dialog the route token says which engine has the call.
//!
//! Responses keep their order: one that waits for an engine has those of its branch behind it
//! wait too ([`state`]). A BYE waits for nothing.
//!
//! Where there are no engines, nothing of this costs more than a look at an empty field.

mod answered;
mod asking;
pub(crate) mod body;
mod ends;
pub(crate) mod need;
mod responses;
pub(crate) mod state;

use std::sync::Arc;

use sip_msg::network::IpNet;

pub(crate) use answered::MediaWait;
pub(crate) use body::NewBody;
pub(crate) use ends::Offered;
pub(crate) use state::ContextMedia;

/// Which calls have their media led through an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum MediaUse {
    /// Those of a phone behind an address translation, and those of a browser with anything
    /// but a browser.
    #[default]
    Auto,
    /// All.
    #[cfg_attr(feature = "serde", serde(rename = "rtpengine"))]
    Always,
    /// None. Of a network or a listener: the other end of the call may need one all the same.
    Never,
}

/// What becomes of a call that needs an engine where none answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum WhenGone {
    /// It is refused with 503.
    #[default]
    Refuse,
    /// It is passed on as it came, and its media finds its way or not.
    Pass,
}

/// A network with a rule of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaNetwork {
    /// Where one end of a call is.
    pub network: IpNet,
    /// Whether calls of it have an engine; none for what its listener says.
    pub uses: Option<MediaUse>,
    /// The engine's interface towards it, by its name there.
    pub interface: Option<Arc<str>>,
}

/// Where the engines are, and which calls need them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaSettings {
    /// Of networks; the first that one end is in counts for it.
    pub networks: Vec<MediaNetwork>,
    /// Of listeners, in the order of their numbers; [`MediaUse::Auto`] for those that are not
    /// there.
    pub listeners: Vec<MediaUse>,
    /// The engine's interface towards all others.
    pub interface: Option<Arc<str>>,
    /// What becomes of calls where no engine answers.
    pub when_gone: WhenGone,
    /// The engines, and how they are asked.
    pub client: sip_media::Config,
}

impl MediaSettings {
    /// How long a message waits for an engine at most: as long as all that are tried may take.
    pub(crate) fn patience_ms(&self) -> u64 {
        /// For the way to whoever asks and back.
        const SLACK_MS: u64 = 500;
        let tries = self.client.tries_max.max(1) as u64;
        self.client.timeout_ms.saturating_mul(tries) + SLACK_MS
    }
}
