//! What an INVITE costs whose user is in the embedded database, in memory: it is read, judged,
//! looked up, its digest compared, and forwarded. To count instructions, which come out alike
//! each time:
//!
//! ```text
//! cargo bench -p sip-store --bench authenticated --no-run
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!     --toggle-collect='*InviteOfAUser*walk*' target/release/deps/authenticated-* 1000
//! ```
//!
//! `Collected` over the number of calls is what one costs. Challenges, the phones' own work and
//! the ends of calls are not in it; neither is the hand-over to the thread of the store, which is
//! none of the walk's instructions.
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sip_auth::{Attempt, AuthConfig, Authenticator, ClientAuth, Reply, RequestParts};
use sip_engine::location::{Binding, BindingChange};
use sip_engine::sender::Sender;
use sip_engine::settings::{AuthSettings, Listener, Settings};
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{Effect, Location, Now, Outputs, Shard, Shared};
use sip_limit::{Guard, Limits as GuardLimits, Rates};
use sip_msg::{ConnId, Flow, HeaderName, Limits, ListenerId, Message, Transport};
use sip_store::{CredentialStore, Credentials, Database};

const USERS: u64 = 10_000;
const CALLS: u64 = 20_000;
/// The time between two calls: no user begins more than he may.
const STEP_MS: u64 = 10;
const DOMAIN: &str = "example.org";
const SERVER: &str = "192.0.2.1:5060";
const CALLER: &str = "198.51.100.1:5060";
const CALLED: &str = "203.0.113.9:5070";

fn main() {
    let given = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let calls: u64 = given.unwrap_or(CALLS);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("authenticated-bench");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let mut bench = InviteOfAUser::new(&folder.join("signet.db"));
    for _ in 0..calls {
        bench.call();
    }
    let ns = bench.spent.as_nanos() as f64 / calls as f64;
    println!("{calls} calls of {USERS} users: {ns:.0} ns for each authenticated INVITE");
    std::fs::remove_dir_all(&folder).unwrap();
}

struct InviteOfAUser {
    shard: Shard,
    store: Credentials,
    out: Outputs,
    now: Now,
    calls: u64,
    spent: Duration,
}

impl InviteOfAUser {
    fn new(path: &Path) -> Self {
        let now = Now {
            mono_ms: 1_000,
            unix_ms: 1_700_000_000_000,
        };
        let settings = Settings {
            domains: vec![DOMAIN.into()],
            listeners: vec![Listener {
                transport: Transport::Udp,
                bound: SERVER.parse().unwrap(),
                advertised_host: None,
                advertised_port: 5060,
                certificates_authenticate: false,
            }],
            authenticate: Some(AuthSettings::default()),
            ..Settings::default()
        };
        let location = Arc::new(Location::new(1_000, [2; 16]));
        location.apply(&[contact_of_bob(now)]);
        let shared = Shared {
            location,
            authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &[3; 32], 1)),
            guard: Arc::new(Guard::new([9; 16], GuardLimits::default())),
            rates: Arc::new(Rates::new([10; 16])),
            token_keys: Arc::new(TokenKeys::of([4; 32], 1)),
            gateways: Arc::default(),
        };
        Self {
            shard: Shard::new(Arc::new(settings), Arc::new(shared), Seed([5; 32])),
            store: users(path),
            out: Outputs::default(),
            now,
            calls: 0,
            spent: Duration::ZERO,
        }
    }

    /// A call that is let in, and that bob declines.
    fn call(&mut self) {
        self.calls += 1;
        self.now.mono_ms += STEP_MS;
        self.now.unix_ms += STEP_MS;
        self.shard.handle_timers(self.now, &mut self.out);
        let user = format!("user{:06}", self.calls * 7_919 % USERS);
        let invite = self.request("INVITE", &user, "first", "", "");
        self.receive(CALLER, &invite);
        let challenge = self.sent(407);
        let proof = self.proof(&user, &challenge);
        let invite = self.request("INVITE", &user, "second", "", &proof);
        let begun = Instant::now();
        self.walk(&invite);
        self.spent += begun.elapsed();
        let forwarded = self.sent(0);
        self.receive(CALLED, &decline(&forwarded));
        let declined = self.sent(603);
        let tag = format!(
            ";tag={}",
            String::from_utf8_lossy(declined.to_tag().unwrap_or_default())
        );
        let ack = self.request("ACK", &user, "second", &tag, "");
        self.receive(CALLER, &ack);
    }

    /// All that is counted.
    #[inline(never)]
    fn walk(&mut self, invite: &str) {
        self.receive(CALLER, invite);
        let Some(Effect::FindCredential { park, question, .. }) = self.out.effects.pop() else {
            panic!("the store is not asked");
        };
        let key = question.subject.into_key(question.algorithm);
        let mut answers = Vec::new();
        self.store.find(&[key], &mut answers);
        let found = answers.pop().and_then(Result::ok).flatten();
        let reply = found.map_or(Reply::Unknown, Reply::Secret);
        self.shard
            .handle_credential(self.now, park, Ok(reply), &mut self.out);
    }

    fn receive(&mut self, from: &str, text: &str) {
        self.out.clear();
        let mut message = self.shard.spare_message();
        message.fill(text.as_bytes(), &Limits::default()).unwrap();
        let sender = Sender::unproved(flow(from));
        self.shard
            .handle_message(self.now, &sender, message, &mut self.out);
    }

    /// The last message that was sent with this status; 0 is a request's.
    fn sent(&self, status: u16) -> Message {
        let sends = self.out.outbox.sends.iter().rev();
        let mut sent = sends.map(|send| {
            let bytes = &self.out.outbox.bytes[send.start..send.end];
            Message::parse(bytes, &Limits::default()).unwrap()
        });
        match sent.find(|message| message.status() == status) {
            Some(message) => message,
            None => panic!("nothing was sent with status {status}"),
        }
    }

    fn request(&self, method: &str, user: &str, turn: &str, tag: &str, more: &str) -> String {
        const SDP: &str = "v=0\r\no=user1 53655765 2353687637 IN IP4 198.51.100.1\r\ns=-\r\nc=IN IP4 198.51.100.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";
        let body = if method == "INVITE" { SDP } else { "" };
        let call = self.calls;
        format!(
            "{method} sip:bob@{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK-{call}-{turn}\r\n\
             From: <sip:{user}@{DOMAIN}>;tag=a{call}\r\nTo: bob <sip:bob@{DOMAIN}>{tag}\r\n\
             Call-ID: {call}-4711@198.51.100.1\r\nCSeq: 1 {method}\r\nContact: <sip:{user}@{CALLER}>\r\n\
             Max-Forwards: 70\r\n{more}Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn proof(&self, user: &str, challenge: &Message) -> String {
        let mut client = ClientAuth::new();
        client.add(DOMAIN, user, &format!("secret of {user}"));
        let mut attempt = Attempt::default();
        client.handle_challenge(&mut attempt, challenge).unwrap();
        let uri = format!("sip:bob@{DOMAIN}");
        let parts = RequestParts {
            method: b"INVITE",
            uri: uri.as_bytes(),
            body: b"",
        };
        let mut line = Vec::new();
        client.write_credentials(&mut attempt, parts, self.calls, &mut line);
        String::from_utf8(line).unwrap()
    }
}

fn flow(remote: &str) -> Flow {
    let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
    Flow {
        transport: Transport::Udp,
        listener: ListenerId(0),
        local: address(SERVER),
        remote: address(remote),
        conn: ConnId::NONE,
    }
}

/// A database with all users.
fn users(path: &Path) -> Credentials {
    let mut list = String::from("user,realm,password\n");
    for nth in 0..USERS {
        list.push_str(&format!("user{nth:06},{DOMAIN},secret of user{nth:06}\n"));
    }
    let mut database = Database::open(path).unwrap();
    database.import_users(&list, None, 0).unwrap();
    database.credentials().unwrap()
}

fn contact_of_bob(now: Now) -> BindingChange {
    let uri = format!("sip:bob@{CALLED}");
    BindingChange::Put {
        aor: format!("sip:bob@{DOMAIN}").into_bytes().into(),
        key: b"k".as_slice().into(),
        binding: Arc::new(Binding {
            uri: uri.into_bytes().into(),
            q: 1_000,
            expires_unix_ms: now.unix_ms + 30 * 86_400_000,
            call_id: b"r".as_slice().into(),
            cseq: 1,
            instance: None,
            reg_id: None,
            path: Box::default(),
            flow: Some(flow(CALLED)),
            user_agent: Box::default(),
            node: "".into(),
            since_unix_ms: 0,
            source: None,
            is_translated: false,
            had_flow: false,
        }),
    }
}

/// Bob's answer to what came to him.
fn decline(request: &Message) -> String {
    let mut text = "SIP/2.0 603 Decline\r\n".to_owned();
    for field in request.fields() {
        let line = String::from_utf8_lossy(request.slice(field.line_span));
        match field.name {
            HeaderName::To => text.push_str(&format!("{};tag=b\r\n", line.trim_end())),
            HeaderName::Via | HeaderName::From | HeaderName::CallId | HeaderName::CSeq => {
                text.push_str(&line);
            }
            _ => {}
        }
    }
    text + "Content-Length: 0\r\n\r\n"
}
