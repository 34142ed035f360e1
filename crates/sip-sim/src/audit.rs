//! Watches what goes over the wire, and holds it to what must be true of it.

use crate::media::is_led;
use crate::server::SERVER;
use crate::text::{Name, Text, inner, param};
use crate::warden::Bindings;
use sip_dialog::{CallKey, Cause, Event, RequestKey};
use sip_engine::Binding;
use sip_msg::{Limits, Message, Method, StartLine};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Timer J over unreliable transports.
const TIMER_J_MS: u64 = 32_000;

/// Counts of a run, and its fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls that were made.
    pub calls: u64,
    /// Calls that were established, by the caller's word.
    pub established: u64,
    /// Calls that were refused, cancelled or not answered.
    pub failed: u64,
    /// Registrations that succeeded.
    pub registered: u64,
    /// Registrations that failed.
    pub register_failed: u64,
    /// OPTIONS and MESSAGE that had an answer.
    pub replied: u64,
    /// Messages that were sent.
    pub messages: u64,
    /// Datagrams that were lost.
    pub lost: u64,
    /// Datagrams that came twice.
    pub repeated: u64,
    /// Messages that the server gave to its sockets and that did not leave.
    pub unsent: u64,
    /// Streams that broke.
    pub broken: u64,
    /// Dialogs of forks that answered too.
    pub forks: u64,
    /// Challenges that were answered.
    pub challenges: u64,
    /// Calls that were answered and whose 200 nobody acknowledged.
    pub unacknowledged: u64,
    /// What workers handed to each other.
    pub handed_over: u64,
    /// What a worker had no room for, or the store, or the resolver.
    pub refused: u64,
    /// Names that led somewhere.
    pub resolved: u64,
    /// Names that did not, or of which nobody could say.
    pub unresolved: u64,
    /// Changes of contacts that the store did not make.
    pub unsaved: u64,
    /// Times that a gateway died, or the server of somebody else.
    pub deaths: u64,
    /// Times that the process was killed while something was under way.
    pub killed: u64,
    /// Contacts that a process found in the store when it began.
    pub restored: u64,
    /// Times that other settings came while something was under way.
    pub reloads: u64,
    /// Times that a drain began while something was under way.
    pub drains: u64,
    /// Look-ups that a cache answered.
    pub cached: u64,
    /// Answers of databases at a distance.
    pub batches: u64,
    /// Probes of gateways that had a good answer.
    pub probed: u64,
    /// Calls that left a gateway for its silence.
    pub left: u64,
    /// Keep-alives that the server sent to phones behind translations.
    pub kept: u64,
    /// Flows to phones that the server found to have ended.
    pub flows_ended: u64,
    /// Answers of the operator's hook that could be used.
    pub hooked: u64,
    /// Requests about which it had none.
    pub undecided: u64,
    /// Session descriptions that media engines have given.
    pub led: u64,
    /// Calls that were refused because no media engine took them.
    pub unled: u64,
    /// How calls ended, by cause.
    pub causes: std::collections::BTreeMap<String, u64>,
    /// A hash of every message and event with its time.
    pub trace: u64,
    /// How long it took on the virtual clock.
    pub virtual_ms: u64,
}

/// A server transaction: whose, its branch and method.
type Transaction = (SocketAddr, Vec<u8>, Method);

/// The auditor.
pub(crate) struct Audit {
    pub(crate) report: Report,
    pub(crate) faults: Vec<String>,
    scratch: Message,
    /// The final response that each server transaction gave, and when: who gave
    /// it, to which branch and method.
    finals: HashMap<Transaction, (u16, u64)>,
    /// Server transactions that may have ended early.
    failed: HashSet<Transaction>,
    /// Calls that have not ended, and whether the host made them.
    open: HashMap<(usize, CallKey), bool>,
    requests: HashMap<(usize, RequestKey), ()>,
    distrusted: Vec<IpAddr>,
    is_short_of_memory: bool,
    /// Whether all media is led by engines.
    pub(crate) has_engines: bool,
    /// Registrations that were answered, by Call-ID and number.
    answered: HashSet<(String, u32)>,
    /// What users were told is bound: their contacts, and until when.
    acknowledged: HashMap<String, HashMap<String, u64>>,
    history: Option<String>,
}

impl Audit {
    pub(crate) fn new(keeps_history: bool, is_short_of_memory: bool) -> Self {
        Self {
            report: Report::default(),
            faults: Vec::new(),
            scratch: Message::default(),
            finals: HashMap::new(),
            failed: HashSet::new(),
            open: HashMap::new(),
            requests: HashMap::new(),
            distrusted: Vec::new(),
            is_short_of_memory,
            has_engines: false,
            answered: HashSet::new(),
            acknowledged: HashMap::new(),
            history: keeps_history.then(String::new),
        }
    }

    /// A message leaves somebody of whom nothing is expected.
    pub(crate) fn overheard(&mut self, now_ms: u64, from: SocketAddr, bytes: &[u8]) {
        self.report.messages += 1;
        self.mix(now_ms, bytes);
        if let Some(history) = &mut self.history {
            let text = String::from_utf8_lossy(bytes);
            let _ = writeln!(history, "--- {now_ms} {from} says\n{text}");
        }
    }

    /// From now on the answers that this address is given are not looked at.
    pub(crate) fn distrust(&mut self, addr: SocketAddr) {
        self.distrusted.push(addr.ip());
    }

    /// A message leaves.
    pub(crate) fn sent(&mut self, now_ms: u64, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.report.messages += 1;
        self.mix(now_ms, bytes);
        if let Some(history) = &mut self.history {
            let _ = writeln!(
                history,
                "--- {now_ms} {from} -> {to}\n{}",
                String::from_utf8_lossy(bytes)
            );
        }
        if is_keepalive(bytes) {
            return;
        }
        // Who sends what is broken, or uses a branch twice, is answered in kind.
        if self.distrusted.contains(&to.ip()) && bytes.starts_with(b"SIP/") {
            return;
        }
        let well_formed = self
            .scratch
            .fill(bytes, &Limits::default())
            .and_then(|()| self.scratch.validate());
        if let Err(error) = well_formed {
            self.fault(format!(
                "{from} sent what is no message: {error}\n{}",
                String::from_utf8_lossy(bytes)
            ));
            return;
        }
        let session = self.scratch.body();
        let is_astray = self.has_engines
            && from == SocketAddr::from(SERVER)
            && self.scratch.method() == Method::Invite
            && !session.is_empty()
            && !is_led(session);
        if is_astray && self.scratch.is_request() {
            self.fault(format!(
                "an INVITE leads its media around the engines, to {to}"
            ));
        }
        self.check_final(now_ms, from, to, bytes, is_astray);
    }

    /// If the message that was just read is a final response, it must not differ from another to
    /// the same request.
    fn check_final(
        &mut self,
        now_ms: u64,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        is_astray: bool,
    ) {
        let StartLine::Response { status: 200.., .. } = self.scratch.start_line() else {
            return;
        };
        let (status, method) = (self.scratch.status(), self.scratch.method());
        match (status, method) {
            (200, Method::Register) => self.acknowledge(now_ms, bytes),
            // A change that the store took too long for counts when it comes: nobody knows
            // of his contacts until he is told again.
            (500, Method::Register) => {
                self.acknowledged.remove(&Text::read(bytes).to().user);
            }
            _ => {}
        }
        let Ok(branch) = self.scratch.top_via().map(|via| via.branch.to_vec()) else {
            return;
        };
        if self.failed.contains(&(from, branch.clone(), method)) {
            return;
        }
        // Who answers too late is hung up on, and his media leads nowhere.
        let transaction = (from, branch.clone(), method);
        if is_astray && status < 300 && !self.finals.contains_key(&transaction) {
            self.fault(format!(
                "an answer leads its media around the engines, to {to}"
            ));
        }
        let first = self
            .finals
            .entry((from, branch, method))
            .or_insert((status, now_ms));
        // RFC 3261 17.2.2: "When the server transaction enters the "Completed" state, it MUST set Timer
        // J to fire in 64*T1 seconds for unreliable transports, and zero seconds for reliable
        // transports." The client's last retransmission leaves half a second before that, and a slow
        // network delivers it to whoever has forgotten the first.
        if method != Method::Invite && now_ms >= first.1 + TIMER_J_MS {
            *first = (status, now_ms);
        }
        let before = first.0;
        // RFC 3261 13.2.2.4 lets several forks answer an INVITE with 2xx.
        let is_fork = method == Method::Invite && before / 100 == 2 && status / 100 == 2;
        // A challenge is given without state, so that strangers cost no memory.
        // The same request, come again, is judged again: it may be refused for
        // another reason by then, but never accepted.
        let is_refused_again = matches!(before, 401 | 407) && status >= 400;
        // Where there is no memory for a request, there is none for what it was answered.
        let was_without_room = self.is_short_of_memory && before == 503;
        // RFC 3261 16.7 has a 2xx forwarded whatever came before it: that of a gateway which was
        // left for its silence, and which has the call after all.
        let is_late = method == Method::Invite
            && status == 200
            && before >= 400
            && Text::read(bytes).header("contact").contains("sip:gw@");
        let may_differ = is_fork || is_refused_again || was_without_room || is_late;
        if before != status && !may_differ {
            self.fault(format!("{from} gave two final responses to one request: {before} and {status} to {method:?}"));
        }
    }

    /// A message did not leave after all. RFC 3261 17.2.4 has a server transaction end
    /// where a response could not be sent: the same request, come again, is a new one.
    pub(crate) fn failed(&mut self, from: SocketAddr, bytes: &[u8]) {
        if self.scratch.fill(bytes, &Limits::default()).is_ok()
            && let Ok(branch) = self.scratch.top_via().map(|via| via.branch.to_vec())
        {
            self.failed.insert((from, branch, self.scratch.method()));
        }
    }

    /// A process has ended, and remembers no transaction.
    pub(crate) fn server_died(&mut self, addr: SocketAddr) {
        self.finals.retain(|(from, ..), _| *from != addr);
    }

    /// RFC 3261 10.3: "The response MUST contain Contact header field values enumerating
    /// all current bindings."
    fn acknowledge(&mut self, now_ms: u64, bytes: &[u8]) {
        let text = Text::read(bytes);
        if !self
            .answered
            .insert((text.call_id().to_owned(), text.cseq()))
        {
            return;
        }
        let contacts = text.values("contact").into_iter().map(|contact| {
            let expires_s = param(&contact, "expires").and_then(|text| text.parse::<u64>().ok());
            let until_ms = now_ms + expires_s.unwrap_or(0) * 1_000;
            (inner(&contact).to_owned(), until_ms)
        });
        self.acknowledged.insert(text.to().user, contacts.collect());
    }

    /// A contact was removed because its flow has ended, which its user is not told.
    pub(crate) fn removed(&mut self, aor: &[u8], uri: &[u8]) {
        let user = Name::of(&String::from_utf8_lossy(aor)).user;
        if let Some(contacts) = self.acknowledged.get_mut(&user) {
            contacts.remove(&*String::from_utf8_lossy(uri));
        }
    }

    /// What users were told is bound is in the table. Of those whose changes were under
    /// way when a process was killed nothing is known until they are told again.
    pub(crate) fn look_at(&mut self, now_ms: u64, bindings: &Bindings, unsure: &HashSet<Vec<u8>>) {
        let name = |aor: &[u8]| Name::of(&String::from_utf8_lossy(aor)).user;
        for aor in unsure {
            self.acknowledged.remove(&name(aor));
        }
        let bound: HashMap<String, Vec<String>> = bindings
            .iter()
            .map(|(aor, of_aor)| {
                let uri = |binding: &Arc<Binding>| String::from_utf8_lossy(&binding.uri).into();
                (name(aor), of_aor.iter().map(uri).collect())
            })
            .collect();
        let mut lost = Vec::new();
        for (user, contacts) in &self.acknowledged {
            for (uri, until_ms) in contacts {
                let is_bound = bound.get(user).is_some_and(|uris| uris.contains(uri));
                // A second is what rounding may take.
                if !is_bound && *until_ms > now_ms + 1_000 {
                    lost.push(format!(
                        "{user} was told that {uri} is bound, and it is not"
                    ));
                }
            }
        }
        lost.sort();
        lost.into_iter().for_each(|fault| self.fault(fault));
    }

    pub(crate) fn call_made(&mut self, host: usize, call: CallKey) {
        self.report.calls += 1;
        if self.open.insert((host, call), true).is_some() {
            self.fault(format!("host {host} has the call {call:?} twice"));
        }
    }

    pub(crate) fn request_made(&mut self, host: usize, request: RequestKey) {
        self.requests.insert((host, request), ());
    }

    /// Something happens at a host. `must_answer`: nothing can be lost in this world.
    pub(crate) fn event(&mut self, now_ms: u64, host: usize, event: &Event, must_answer: bool) {
        let text = format!("{host} {event:?}");
        self.mix(now_ms, text.as_bytes());
        if let Some(history) = &mut self.history {
            let _ = writeln!(history, "--- {now_ms} event at host {text}");
        }
        if let Event::Ended {
            cause: Cause::NoAck,
            ..
        } = *event
        {
            self.report.unacknowledged += 1;
        }
        // What nobody answered was lost somewhere, or somebody was gone.
        if must_answer
            && let Event::Failed { cause, .. }
            | Event::Ended { cause, .. }
            | Event::RegisterFailed { cause, .. }
            | Event::Replied { cause, .. } = *event
            && matches!(cause, Cause::Timeout | Cause::Transport | Cause::NoAck)
        {
            self.fault(format!(
                "nothing was lost, and host {host} ends with {cause:?}"
            ));
        }
        match *event {
            Event::Incoming { call, .. } => {
                if self.open.insert((host, call), false).is_some() {
                    self.fault(format!("host {host} has the call {call:?} twice"));
                }
            }
            Event::Answered { call } => {
                self.report.established += 1;
                self.must_be_open(host, call);
            }
            Event::Provisional { call, .. } | Event::Established { call } => {
                self.must_be_open(host, call)
            }
            Event::Failed { call, cause } => self.call_ended(host, call, "failed", cause),
            Event::Ended { call, cause } => self.call_ended(host, call, "ended", cause),
            Event::Registered { request, .. } => {
                self.report.registered += 1;
                self.request_ended(host, request);
            }
            Event::RegisterFailed { request, .. } => {
                self.report.register_failed += 1;
                self.request_ended(host, request);
            }
            Event::Replied { request, .. } => {
                self.report.replied += 1;
                self.request_ended(host, request);
            }
            Event::Received { .. } | Event::BodyRefused { .. } | Event::Disconnected { .. } => {}
        }
    }

    /// Nothing is open any more.
    pub(crate) fn finish(&mut self) {
        if !self.open.is_empty() {
            let open = self.open.len();
            self.fault(format!("{open} calls never ended"));
        }
        if !self.requests.is_empty() {
            let open = self.requests.len();
            self.fault(format!("{open} requests never ended"));
        }
    }

    pub(crate) fn fault(&mut self, fault: String) {
        if self.faults.len() < 20 {
            self.faults.push(fault);
        }
    }

    pub(crate) fn history(&self) -> Option<&str> {
        self.history.as_deref()
    }

    fn must_be_open(&mut self, host: usize, call: CallKey) {
        if !self.open.contains_key(&(host, call)) {
            self.fault(format!("host {host} hears of {call:?}, which has ended"));
        }
    }

    fn call_ended(&mut self, host: usize, call: CallKey, how: &str, cause: Cause) {
        match self.open.remove(&(host, call)) {
            None => self.fault(format!("{call:?} of host {host} ended twice")),
            Some(true) => {
                self.report.failed += u64::from(how == "failed");
                *self
                    .report
                    .causes
                    .entry(format!("{how}: {cause:?}"))
                    .or_default() += 1;
            }
            Some(false) => {}
        }
    }

    fn request_ended(&mut self, host: usize, request: RequestKey) {
        if self.requests.remove(&(host, request)).is_none() {
            self.fault(format!("{request:?} of host {host} ended twice"));
        }
    }

    /// FNV-1a over everything that happens.
    fn mix(&mut self, now_ms: u64, bytes: &[u8]) {
        let mut hash = self.report.trace ^ 0xcbf2_9ce4_8422_2325;
        for &byte in now_ms.to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.report.trace = hash;
    }
}

/// Whether a datagram says nothing but that it is there.
pub(crate) fn is_keepalive(bytes: &[u8]) -> bool {
    bytes == b"\r\n\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, method: &str) -> String {
        format!(
            "SIP/2.0 {status} x\r\nVia: SIP/2.0/UDP 192.0.2.4;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:c@d>;tag=2\r\nCall-ID: x\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
        )
    }

    /// Whether the auditor minds these finals of one transaction.
    fn minds(method: &str, finals: &[(u64, u16)]) -> bool {
        let addr = SocketAddr::from(([192, 0, 2, 1], 5060));
        let mut audit = Audit::new(false, false);
        for &(now_ms, status) in finals {
            audit.sent(now_ms, addr, addr, response(status, method).as_bytes());
        }
        !audit.faults.is_empty()
    }

    #[test]
    fn one_final_response() {
        assert!(!minds("BYE", &[(0, 200), (500, 200)]));
        assert!(minds("BYE", &[(0, 200), (500, 481)]));
        assert!(
            !minds("BYE", &[(0, 200), (32_000, 481)]),
            "timer J has fired"
        );
        assert!(!minds("INVITE", &[(0, 180), (1, 200), (2, 202)]));
        assert!(minds("INVITE", &[(0, 486), (32_500, 200)]));
        assert!(minds("INVITE", &[(0, 200), (1, 486)]));
        assert!(!minds("INVITE", &[(0, 407), (1, 503)]));
        assert!(minds("INVITE", &[(0, 407), (1, 200)]));
    }

    #[test]
    fn what_is_sent_is_a_message() {
        let addr = SocketAddr::from(([192, 0, 2, 1], 5060));
        let mut audit = Audit::new(false, false);
        audit.sent(0, addr, addr, b"SIP/2.0 200 OK\r\n\r\n");
        assert_eq!(audit.faults.len(), 1);
    }
}
