//! The ways to be refused.

use super::sipp::Ask;

/// A trusted peer, one who may not relay, one who speaks for one domain, one who asks too much.
pub(crate) const PEER: &str = "127.0.0.7";
pub(crate) const GUEST: &str = "127.0.0.17";
pub(crate) const SPEAKER: &str = "127.0.0.27";
pub(crate) const HASTY: &str = "127.0.0.37";
/// Strangers, and a phone.
pub(crate) const STRANGER: &str = "127.0.0.8";
pub(crate) const GUESSER: &str = "127.0.0.18";
pub(crate) const PHONE: &str = "127.0.0.77";
/// A gateway that is dead and may not call in.
pub(crate) const GATEWAY: &str = "127.0.0.9";
/// Hosts elsewhere: one that sends everything back, one that is busy, one that says nothing.
pub(crate) const MIRROR: &str = "127.0.0.47";
pub(crate) const BUSY: &str = "127.0.0.57";
pub(crate) const SILENT: &str = "127.0.0.58";

/// How a way is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// One request without credentials.
    Once,
    /// One that was challenged comes again with this user's name and that password.
    Proved(&'static str, &'static str),
    /// So many requests without credentials; the last is refused.
    Often(u32),
    /// The same with credentials.
    Guesses(u32, &'static str, &'static str),
    /// Something of its own, by the reason's name.
    Own,
}

/// Which server it is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// One with authentication, peers, gateways.
    Proxy,
    /// One that redirects and lets anybody register, on a full disk.
    Open,
}

/// One way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) reason: &'static str,
    pub(crate) status: u16,
    /// For the table.
    pub(crate) told: &'static str,
    pub(crate) source: &'static str,
    pub(crate) ask: Ask<'static>,
    pub(crate) how: How,
    pub(crate) at: At,
    /// Made by text of our own, because SIPp cannot.
    pub(crate) by: &'static str,
}

impl Row {
    const fn new(reason: &'static str, status: u16, told: &'static str) -> Self {
        Self {
            reason,
            status,
            told,
            source: PEER,
            ask: Ask {
                method: "MESSAGE",
                uri: "sip:x@far.example",
                from: "sip:x@far.example",
                to: "sip:somebody@example.com",
                more: "",
            },
            how: How::Once,
            at: At::Proxy,
            by: "SIPp",
        }
    }

    const fn source(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }

    const fn uri(mut self, uri: &'static str) -> Self {
        self.ask.uri = uri;
        self
    }

    const fn from(mut self, from: &'static str) -> Self {
        self.ask.from = from;
        self
    }

    const fn to(mut self, to: &'static str) -> Self {
        self.ask.to = to;
        self
    }

    const fn method(mut self, method: &'static str) -> Self {
        self.ask.method = method;
        self
    }

    const fn more(mut self, more: &'static str) -> Self {
        self.ask.more = more;
        self
    }

    const fn how(mut self, how: How) -> Self {
        self.how = how;
        self
    }

    const fn by(mut self, by: &'static str) -> Self {
        self.by = by;
        self
    }

    /// A REGISTER of that user.
    const fn register(self, of: &'static str) -> Self {
        let mut row = self
            .method("REGISTER")
            .uri("sip:example.com")
            .from(of)
            .to("");
        row.source = PHONE;
        row
    }

    const fn open(mut self) -> Self {
        self.at = At::Open;
        self
    }
}

const ALICE: &str = "sip:alice@example.com";
const HERS: How = How::Proved("alice", "alice-secret");
const EXAMPLE: &str = "SIPp, and the example of docs/HOOK.md";

/// All of them, but for what a flood brings about.
pub(crate) const ROWS: &[Row] = &[
    // Who is it?
    Row::new("challenged", 407, "a user's phone asks without credentials")
        .source(STRANGER)
        .method("SUBSCRIBE")
        .uri(ALICE)
        .from(ALICE),
    Row::new("wrong_password", 407, "a user's name with another password")
        .source(STRANGER)
        .uri(ALICE)
        .from(ALICE)
        .how(How::Proved("alice", "guessed")),
    Row::new("unknown_user", 407, "the name of nobody with a password")
        .source(STRANGER)
        .uri(ALICE)
        .from("sip:ghost@example.com")
        .how(How::Proved("ghost", "guessed")),
    Row::new("too_many_guesses", 401, "twelve wrong passwords in a row")
        .register("sip:eve@example.com")
        .source(GUESSER)
        .how(How::Guesses(12, "eve", "guessed")),
    Row::new("stale_nonce", 401, "the right password six seconds after the challenge, where five are allowed")
        .register("sip:late@example.com")
        .how(How::Own),
    Row::new("replay", 401, "the same credentials in another request")
        .register("sip:twice@example.com")
        .how(How::Own)
        .by("text of our own, as SIPp makes credentials anew"),
    Row::new("forged_nonce", 401, "credentials by a nonce of another server")
        .register(ALICE)
        .more("Authorization: Digest username=\"alice\", realm=\"example.com\", nonce=\"x\", uri=\"sip:example.com\", response=\"6629fae49393a05397450978507c4ef1\", algorithm=MD5, cnonce=\"y\", qop=auth, nc=00000001\n"),
    Row::new("algorithm_not_offered", 401, "credentials by SHA-1")
        .register(ALICE)
        .more("Authorization: Digest username=\"alice\", realm=\"example.com\", nonce=\"x\", uri=\"sip:example.com\", response=\"6629fae49393a05397450978507c4ef1\", algorithm=SHA-1, cnonce=\"y\", qop=auth, nc=00000001\n"),
    Row::new("digest_of_other_algorithm", 401, "a digest as long as one of SHA-256, called MD5")
        .register(ALICE)
        .more("Authorization: Digest username=\"alice\", realm=\"example.com\", nonce=\"x\", uri=\"sip:example.com\", response=\"6629fae49393a05397450978507c4ef16629fae49393a05397450978507c4ef1\", algorithm=MD5, cnonce=\"y\", qop=auth, nc=00000001\n"),
    Row::new("credentials_malformed", 400, "credentials whose count is no number")
        .register(ALICE)
        .more("Authorization: Digest username=\"alice\", realm=\"example.com\", nonce=\"x\", uri=\"sip:example.com\", response=\"6629fae49393a05397450978507c4ef1\", algorithm=MD5, cnonce=\"y\", qop=auth, nc=x\n"),
    Row::new("not_himself", 403, "alice's password under bob's name")
        .source(STRANGER)
        .uri(ALICE)
        .from("sip:bob@example.com")
        .how(HERS),
    // May it come in?
    Row::new("foreign_from", 403, "a stranger of a foreign domain calls a user")
        .source(STRANGER)
        .uri(ALICE)
        .from("sip:mallory@far.example"),
    Row::new("anonymous_caller", 407, "an anonymous stranger calls a user")
        .source(STRANGER)
        .uri(ALICE)
        .from("sip:anonymous@anonymous.invalid"),
    Row::new("gateway_not_trusted", 403, "a gateway of the routes calls in, and is in no list")
        .source(GATEWAY)
        .uri(ALICE)
        .from("sip:+4930@gw.example"),
    Row::new("not_for_our_users", 403, "a peer with may_relay = false calls somebody elsewhere")
        .source(GUEST),
    Row::new("not_relayed", 403, "the same peer calls a user with a Route that leads elsewhere")
        .source(GUEST)
        .uri(ALICE)
        .more("Route: <sip:203.0.113.9;lr>\n"),
    Row::new("speaks_for_others", 403, "a peer calls in the name of a domain that is not in its speaks_for")
        .source(SPEAKER)
        .uri(ALICE)
        .from("sip:x@other.example"),
    Row::new("rate_limited", 503, "fourteen requests of a peer at once, where ten are allowed")
        .source(HASTY)
        .method("OPTIONS")
        .uri(ALICE)
        .how(How::Often(14)),
    // Can it be read and forwarded?
    Row::new("malformed", 400, "Max-Forwards is no number").more("Max-Forwards: many\n"),
    Row::new("too_many_hops", 483, "Max-Forwards is 0").more("Max-Forwards: 0\n"),
    Row::new("breadth_spent", 440, "Max-Breadth is 0").more("Max-Breadth: 0\n"),
    Row::new("extension_required", 420, "Proxy-Require names an unknown extension")
        .more("Proxy-Require: y\n"),
    Row::new("unknown_scheme", 416, "the Request-URI is urn:service:sos").uri("urn:service:sos"),
    Row::new("nothing_to_cancel", 481, "a CANCEL of nothing").method("CANCEL"),
    Row::new("loop", 482, "a host elsewhere sends the request back")
        .source(MIRROR)
        .how(How::Own),
    // Is he there?
    Row::new("no_such_user", 404, "a call to the name of nobody").uri("sip:nobody@example.com"),
    Row::new("not_registered", 480, "a call to a user without a phone").uri(ALICE),
    Row::new("nobody_there", 404, "a call to the domain itself").uri("sip:example.com"),
    Row::new("phone_unreachable", 480, "a call to a phone whose port is closed")
        .uri("sip:dead@example.com")
        .how(How::Own),
    Row::new("not_under_tls", 480, "the same phone called by a SIPS URI").uri("sips:dead@example.com"),
    Row::new("phone_flow_gone", 480, "a call to a phone whose connection was closed")
        .uri("sip:flow@example.com")
        .how(How::Own),
    // Does a way lead there?
    Row::new("no_route_for_number", 404, "a number without a route").uri("tel:+1555"),
    Row::new("not_permitted", 403, "a user calls a number of numbers.premium")
        .source(STRANGER)
        .uri("sip:0137123@example.com")
        .from(ALICE)
        .how(HERS),
    Row::new("number_blocked", 403, "a number of numbers.blocked, in another spelling")
        .uri("sip:0049900123@example.com"),
    Row::new("led_in_circle", 482, "an alias that leads through five others")
        .uri("sip:lost@example.com"),
    Row::new("gateways_unreachable", 503, "a number whose only gateway is dead")
        .uri("sip:+4930@example.com"),
    Row::new("names_gateway", 403, "a user calls a gateway by its own address")
        .source(STRANGER)
        .uri("sip:x@127.0.0.9:9")
        .from(ALICE)
        .how(HERS),
    Row::new("network_denied", 403, "a call into a network of relay_denied").uri("sip:x@10.1.1.1"),
    Row::new("no_such_server", 404, "a domain that DNS does not have").uri("sip:x@nowhere.example"),
    Row::new("dns_silent", 504, "a domain while the DNS server is silent").how(How::Own),
    Row::new("no_transport", 502, "a call by SCTP").uri("sip:x@203.0.113.9;transport=sctp"),
    Row::new("next_hop_unreachable", 502, "an address where nobody listens")
        .uri("sip:x@127.0.0.66:9"),
    Row::new("next_hop_busy", 500, "a host elsewhere answers 503").how(How::Own),
    Row::new("timed_out", 408, "a host elsewhere says nothing")
        .method("INVITE")
        .how(How::Own),
    // May it register so?
    Row::new("register_malformed", 400, "Contact: * without Expires: 0")
        .register(ALICE)
        .more("Contact: *\n")
        .how(HERS),
    Row::new("bad_contact", 403, "a SIPS contact over UDP")
        .register(ALICE)
        .more("Contact: <sips:alice@127.0.0.77:9>\n")
        .how(HERS),
    Row::new("interval_too_brief", 423, "a registration for five seconds")
        .register(ALICE)
        .more("Contact: <sip:alice@127.0.0.77:9>\nExpires: 5\n")
        .how(HERS),
    Row::new("too_many_contacts", 403, "three phones where two are allowed")
        .register(ALICE)
        .more("Contact: <sip:a@127.0.0.77:9>, <sip:b@127.0.0.77:9>, <sip:c@127.0.0.77:9>\n")
        .how(HERS),
    Row::new("no_address_of_record", 404, "To is of another domain than the registrar's")
        .register("sip:alice@far.example")
        .open(),
    Row::new("out_of_order", 500, "a REGISTER that is older than the one before it")
        .register("sip:bob@example.com")
        .how(How::Own)
        .open(),
    Row::new("nowhere_else", 404, "a foreign URI, where calls are redirected")
        .source(STRANGER)
        .open(),
    Row::new("not_stored", 500, "a registration while the disk is full")
        .register("sip:carol@example.com")
        .how(How::Own)
        .open(),
    // Does the operator's hook want it?
    Row::new("hook", 403, "a subscription to a number that begins with 0900, which the hook rejects")
        .method("SUBSCRIBE")
        .uri("sip:0900555@example.com")
        .by(EXAMPLE),
    Row::new("hook_failed", 503, "the hook sets a header that is not in `hook.headers`")
        .method("SUBSCRIBE")
        .uri("sip:0301@example.com")
        .by(EXAMPLE),
    // Does the server take it at all?
    Row::new("draining", 503, "a call after SIGTERM, while another is under way")
        .method("INVITE")
        .how(How::Own),
];
