//! The configuration of agents.

use sip_msg::Target;

/// What all agents of a [`UserAgents`](crate::UserAgents) have in common.
#[derive(Clone, Debug)]
pub struct Config {
    /// The transactions.
    pub transactions: sip_txn::Config,
    /// A secret, random per process: Call-IDs, tags and cnonces come from it.
    pub key: [u8; 16],
    /// The most agents.
    pub agents_max: usize,
    /// The most calls, incoming and outgoing; an INVITE past it is answered 503.
    pub calls_max: usize,
    /// The most REGISTER, OPTIONS and MESSAGE under way.
    pub requests_max: usize,
    /// The most events that wait to be polled; more are dropped and counted.
    pub events_max: usize,
    /// After how long a call that we make is cancelled if nobody answers it.
    pub setup_timeout_ms: u64,
    /// Whether requests carry credentials as soon as a nonce is known; otherwise a
    /// request carries them only after it was challenged itself.
    pub credentials_first: bool,
    /// Whether an ended call is kept until no 2xx of another fork can arrive any more
    /// (64 times T1). Without it such a response is ignored, and a load of many short
    /// calls takes less memory.
    pub linger: bool,
    /// For how long an answer is kept after nothing more should come: after the
    /// ACK of an INVITE, and after the answer to any other request. `None` for
    /// as long as RFC 3261 17.2 and RFC 6026 say, 64 times T1: a load of many
    /// short calls then holds 32 seconds' worth of transactions. With T4, "the
    /// maximum duration a message will remain in the network", a request that
    /// comes again later is answered 481, or 404, or is a new one.
    pub keep_answers_ms: Option<u64>,
    /// Whether every request of an agent is sent to its proxy, whatever the dialog's
    /// route set and the peer's contact say: the load of a proxy then does not depend on
    /// whether it adds Record-Route. Request-URI and Route are written as usual.
    pub always_proxy: bool,
    /// Whether a REGISTER is answered 200 with its own contacts, as by a registrar,
    /// though nothing is stored. Without it the answer is 405.
    pub is_registrar: bool,
    /// The session description in calls and answers.
    pub session: Vec<u8>,
    /// The User-Agent header; empty for none.
    pub user_agent: String,
}

impl Config {
    /// The defaults, with three secret keys: for matching requests to transactions, for
    /// branches, and for everything else that must not be guessed.
    pub fn new(hash_key: [u8; 16], branch_key: [u8; 16], key: [u8; 16]) -> Self {
        Self {
            transactions: sip_txn::Config::new(hash_key, branch_key),
            key,
            agents_max: 1 << 20,
            calls_max: 1 << 18,
            requests_max: 1 << 18,
            events_max: 1 << 20,
            setup_timeout_ms: 180_000,
            credentials_first: true,
            linger: true,
            keep_answers_ms: None,
            always_proxy: false,
            is_registrar: false,
            session: DEFAULT_SESSION.to_vec(),
            user_agent: "Signet".to_owned(),
        }
    }
}

/// A session description whose media goes nowhere: to the discard port of a loopback
/// address.
const DEFAULT_SESSION: &[u8] = b"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\n\
    t=0 0\r\nm=audio 9 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

/// A user's name and password at a realm.
#[derive(Clone)]
pub struct Credentials {
    /// The realm; challenges for other realms are not answered.
    pub realm: String,
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({}@{}, ***)", self.user, self.realm)
    }
}

/// One user and one of his phones.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The address-of-record: `sip:alice@example.org`.
    pub aor: String,
    /// The contact's URI: `sip:alice@192.0.2.4:5060;transport=tcp`.
    pub contact: String,
    /// Parameters of the contact in a REGISTER, each with its semicolon:
    /// `;q=0.5`, `;reg-id=1;+sip.instance="<urn:uuid:...>"`.
    pub contact_params: String,
    /// The sent-by of the Via: `192.0.2.4:5060`.
    pub sent_by: String,
    /// The registrar: `sip:example.org`.
    pub registrar: String,
    /// The credentials, if the user has any.
    pub credentials: Option<Credentials>,
    /// The outbound proxy: where requests outside of dialogs are sent.
    pub proxy: Target,
}
