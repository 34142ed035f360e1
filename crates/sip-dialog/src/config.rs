//! How agents are set up.

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
    /// The most calls in both directions; past it 503.
    pub calls_max: usize,
    /// The most REGISTER, OPTIONS and MESSAGE under way.
    pub requests_max: usize,
    /// The most events that wait to be polled; past it they are dropped and
    /// counted.
    pub events_max: usize,
    /// After how long a call that we make is cancelled if nobody answers it.
    pub setup_timeout_ms: u64,
    /// Whether a request bears credentials as soon as there is a nonce to
    /// compute them with; else only after it was itself challenged.
    pub credentials_first: bool,
    /// Whether a call that is over is remembered until no response of a fork
    /// can come any more (64 times T1). Without it such a response is ignored,
    /// and a load of many short calls takes less memory.
    pub linger: bool,
    /// For how long an answer is kept after nothing more should come: after the
    /// ACK of an INVITE, and after the answer to any other request. `None` for
    /// as long as RFC 3261 17.2 and RFC 6026 say, 64 times T1: a load of many
    /// short calls then holds 32 seconds' worth of transactions. With T4, "the
    /// maximum duration a message will remain in the network", a request that
    /// comes again later is answered 481, or 404, or is a new one.
    pub keep_answers_ms: Option<u64>,
    /// Whether every request of an agent is sent to its proxy, wherever the
    /// dialog's routes and its peer's contact lead: what a proxy is loaded
    /// with then does not depend on its record-routing. Request-URI and Route
    /// are written as ever.
    pub always_proxy: bool,
    /// Whether a REGISTER is answered as a registrar would that keeps nothing:
    /// 200 with the contacts that it bears. Without it the answer is 405.
    pub is_registrar: bool,
    /// The session description in calls and answers.
    pub session: Vec<u8>,
    /// The User-Agent header; empty for none.
    pub user_agent: String,
}

impl Config {
    /// The defaults, with these keys: for the matching of requests, for the
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

/// A session that sends its media to nobody: the discard port of a loopback
/// address.
const DEFAULT_SESSION: &[u8] = b"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\n\
    t=0 0\r\nm=audio 9 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

/// A user's name and password at a realm.
#[derive(Clone)]
pub struct Credentials {
    /// The realm: a challenge for any other is never answered.
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
    /// How the user proves who he is.
    pub credentials: Option<Credentials>,
    /// Where requests go that no dialog sends elsewhere: the outbound proxy.
    pub proxy: Target,
}
