//! An agent: one user, one contact, one way to the proxy.

use crate::compose::is_sips;
use crate::config::AgentConfig;
use crate::slots::{Key, Reset};
use invariant::broken;
use sip_auth::ClientAuth;
use sip_msg::uri::Scheme;
use sip_msg::{ConnId, Target, Uri};
use smime::BodySecurity;
use std::sync::Arc;

/// No agent, no call: the end of a list.
pub(crate) const NOBODY: u32 = u32::MAX;

/// The strings of an agent.
#[derive(Clone, Copy)]
pub(crate) enum Text {
    /// The address-of-record.
    Aor,
    /// The contact's URI.
    Contact,
    /// The contact's parameters in a REGISTER.
    ContactParams,
    /// The sent-by of the Via.
    SentBy,
    /// The registrar's URI.
    Registrar,
}

const TEXTS: usize = 5;

/// An agent, as compact as it can be: there may be 100,000 of them.
pub(crate) struct Agent {
    texts: Box<[u8]>,
    ends: [u16; TEXTS],
    pub(crate) auth: Option<Box<ClientAuth>>,
    pub(crate) proxy: Target,
    /// The Call-ID of its registrations, as a number.
    pub(crate) register_id: u64,
    pub(crate) register_cseq: u32,
    /// The Service-Route that its registrar gave it.
    pub(crate) service_route: Box<[u8]>,
    /// The first of its calls; the calls are a list.
    pub(crate) first_call: u32,
    /// Its neighbours in the list of the agents with the same connection.
    pub(crate) conn_next: u32,
    pub(crate) conn_previous: u32,
    /// The REGISTER under way.
    pub(crate) registering: Option<Key>,
    /// The first of its requests outside of a dialog; they are a list.
    pub(crate) first_request: u32,
    /// Whether its registrar has bound a contact of it.
    pub(crate) is_bound: bool,
    /// The contact that is bound and leads to it no more.
    pub(crate) left: Option<Box<[u8]>>,
    /// Whether requests go to the proxy, wherever their dialog leads.
    pub(crate) always_proxy: bool,
    /// How bodies are protected, and what is asked of those that come.
    pub(crate) security: Option<Arc<BodySecurity>>,
}

impl Agent {
    /// `None` where the strings are no URIs, or too long.
    pub(crate) fn fill(&mut self, config: &AgentConfig) -> Option<()> {
        let texts = AgentTexts::of(
            [
                config.aor.as_bytes(),
                config.contact.as_bytes(),
                config.contact_params.as_bytes(),
                config.sent_by.as_bytes(),
                config.registrar.as_bytes(),
            ],
            config.proxy.transport.is_secure(),
        )?;
        self.put(texts);
        self.proxy = config.proxy.clone();
        self.auth = config.credentials.as_ref().map(|credentials| {
            let mut auth = ClientAuth::new();
            auth.add(&credentials.realm, &credentials.user, &credentials.password);
            Box::new(auth)
        });
        Some(())
    }

    /// Its strings with another contact and sent-by; `None` where they are not good.
    pub(crate) fn moved(&self, contact: &[u8], sent_by: &[u8]) -> Option<AgentTexts> {
        AgentTexts::of(
            [
                self.text(Text::Aor),
                contact,
                self.text(Text::ContactParams),
                sent_by,
                self.text(Text::Registrar),
            ],
            self.proxy.transport.is_secure(),
        )
    }

    /// Takes these strings for its own.
    pub(crate) fn put(&mut self, texts: AgentTexts) {
        self.texts = texts.bytes;
        self.ends = texts.ends;
    }

    pub(crate) fn text(&self, text: Text) -> &[u8] {
        let index = text as usize;
        let start = index
            .checked_sub(1)
            .and_then(|i| self.ends.get(i))
            .copied()
            .unwrap_or(0);
        let end = self.ends.get(index).copied().unwrap_or(start);
        let text = self.texts.get(start as usize..end as usize);
        text.unwrap_or_else(|| broken!("each text ends within the buffer", b""))
    }
}

/// The strings of an agent, each checked.
pub(crate) struct AgentTexts {
    bytes: Box<[u8]>,
    ends: [u16; TEXTS],
}

impl AgentTexts {
    /// In the order of [`Text`]; `None` where they are no URIs, or too long.
    fn of(texts: [&[u8]; TEXTS], is_secure: bool) -> Option<Self> {
        let [aor, contact, _, _, registrar] = texts;
        // RFC 3261 10.2: "This address-of-record MUST be a SIP URI or SIPS URI."
        // RFC 3261 12.1.1: "The URI provided in the Contact header field MUST be a SIP or SIPS URI."
        let are_good = [aor, contact, registrar]
            .iter()
            .all(|uri| Uri::parse(uri).is_some_and(|u| u.is_sip()));
        // RFC 3261 10.2: "The "userinfo" and "@" components of the SIP URI MUST NOT be present."
        let parsed = Uri::parse(registrar)?;
        let needs_tls = parsed.scheme == Scheme::Sips;
        if parsed.user.is_some() || (needs_tls && !(is_sips(contact) && is_secure)) {
            return None;
        }
        let are_lines = texts
            .iter()
            .all(|text| !text.iter().any(|&b| b < 0x20 || b == 0x7f));
        if !are_good || !are_lines {
            return None;
        }
        let mut bytes = Vec::with_capacity(texts.iter().map(|text| text.len()).sum());
        let mut ends = [0; TEXTS];
        for (text, end) in texts.into_iter().zip(&mut ends) {
            bytes.extend_from_slice(text);
            *end = u16::try_from(bytes.len()).ok()?;
        }
        Some(Self {
            bytes: bytes.into_boxed_slice(),
            ends,
        })
    }
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            texts: Box::default(),
            ends: [0; TEXTS],
            auth: None,
            proxy: nowhere(),
            register_id: 0,
            register_cseq: 0,
            service_route: Box::default(),
            first_call: NOBODY,
            conn_next: NOBODY,
            conn_previous: NOBODY,
            registering: None,
            first_request: NOBODY,
            is_bound: false,
            left: None,
            always_proxy: false,
            security: None,
        }
    }
}

impl Reset for Agent {
    fn reset(&mut self) {
        *self = Self::default();
    }
}

/// A target that leads to nobody.
fn nowhere() -> Target {
    Target {
        transport: sip_msg::Transport::Udp,
        listener: sip_msg::ListenerId(0),
        remote: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
        conn: ConnId::NONE,
        may_open: false,
        tls_name: None,
        lane: sip_msg::Lane::Shared,
        local: None,
    }
}
