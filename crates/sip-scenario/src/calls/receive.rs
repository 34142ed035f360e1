//! Finds the step that a message belongs to.

use std::sync::Arc;

use invariant::broken;

use crate::program::{Expects, Presence, RecvStep, Step, What};
use crate::scan::{self, Received, Start};
use crate::stats::Counter;
use crate::template::Kind;

use super::act::Acted;
use super::call::{Call, Txn, Verdict, Waits};
use super::{Core, Event, Outputs};

/// Where a message belongs.
#[derive(Clone, Copy)]
enum Place {
    /// At this step.
    Step(u32),
    /// Behind the call: it was acknowledged by this step, and is again.
    AckedBy(u32),
    /// Behind the call, where it changes nothing.
    Behind,
}

impl Core {
    /// The part of a Call-ID by which a call is known: what stands behind
    /// `///`, where a scenario put another in front.
    pub(super) fn call_id<'a>(&self, id: &'a [u8]) -> &'a [u8] {
        if self.settings.slashes_plain {
            return id;
        }
        match memchr::memmem::find(id, b"///") {
            Some(at) => id.get(at + 3..).unwrap_or(id),
            None => id,
        }
    }

    /// Takes a message of a call.
    pub(super) fn take_message(
        &mut self,
        call: &mut Call,
        received: &Received<'_>,
        out: &mut Outputs,
    ) -> Verdict {
        if call.waits == Waits::Pause && self.settings.pauses_deaf {
            return Verdict::Waits;
        }
        let is_datagram = !self.settings.transport.is_reliable();
        let hash = if is_datagram && self.settings.retransmits {
            received.hash(&self.hasher)
        } else {
            0
        };
        if hash != 0 && self.is_known(call, hash, out) {
            return Verdict::Waits;
        }
        if call.waits == Waits::Turn {
            // It may answer what the call was about to send.
            self.leave_pause(call);
            let verdict = self.run(call, out);
            if verdict != Verdict::Waits {
                return verdict;
            }
        }
        // As in SIPp, nobody expects a message without To.
        if scan::header(received.bytes, b"To").is_none() {
            return self.unexpected(call, received, out);
        }
        let place = self.find_place(call, received);
        if let Some(Place::Step(index)) = place
            && self.loses(index)
        {
            return Verdict::Waits;
        }
        self.keep_peer_tag(call, received);
        match place {
            Some(Place::Step(index)) => self.arrive(call, index, received, hash, out),
            Some(Place::AckedBy(step)) => {
                self.send_ack_again(call, step, out);
                Verdict::Waits
            }
            Some(Place::Behind) => Verdict::Waits,
            None => self.unexpected(call, received, out),
        }
    }

    /// Takes a message at the step that it belongs to.
    fn arrive(
        &mut self,
        call: &mut Call,
        index: u32,
        received: &Received<'_>,
        hash: u64,
        out: &mut Outputs,
    ) -> Verdict {
        let program = Arc::clone(&self.program);
        let Some(step) = program.steps.get(index as usize) else {
            return broken!(
                "the step that was found is one of the program's",
                Verdict::Waits
            );
        };
        let What::Recv(recv) = &step.what else {
            return broken!("only a step that receives is found", Verdict::Waits);
        };
        if !recv.advances {
            return self.look_at(call, index, step, recv, received, out);
        }
        self.heed_answer(call, index, received);
        if matches!(received.start, Start::Request(_)) {
            // `[cseq]` goes on from here.
            call.cseq = call.cseq.max(received.cseq);
        }
        call.seen_hash = hash;
        call.seen_step = index;
        self.stats.step(index).done += 1;
        self.keep_dialog(call, recv, received);
        let acted = self.do_as_told(call, step, Some(received.bytes), out);
        keep_last(call, received);
        let target = match acted {
            Acted::Ends(verdict) => return verdict,
            Acted::Jumped(target) => target,
            Acted::Done if self.leaves_alone(call, step, recv) => return self.stay(call, out),
            Acted::Done => self.next_step(call, index, step),
        };
        self.leave_pause(call);
        call.step = target;
        self.run(call, out)
    }

    /// Whether a message that may come leaves the call where it stands: its `next` is not
    /// followed. As in SIPp, one to the first step never is.
    fn leaves_alone(&mut self, call: &mut Call, step: &Step, recv: &RecvStep) -> bool {
        let Some(target) = step.next.filter(|_| recv.optional != Presence::Mandatory) else {
            return false;
        };
        target == 0
            || step
                .test
                .is_some_and(|test| !self.scopes(call).get(test).is_set())
    }

    /// Goes on as before, where what was sent again is answered now.
    fn stay(&mut self, call: &mut Call, out: &mut Outputs) -> Verdict {
        match call.waits {
            Waits::Answer => self.run(call, out),
            _ => Verdict::Waits,
        }
    }

    /// Takes a message that leaves the call where it stands (`advance_state`).
    fn look_at(
        &mut self,
        call: &mut Call,
        index: u32,
        step: &Step,
        recv: &RecvStep,
        received: &Received<'_>,
        out: &mut Outputs,
    ) -> Verdict {
        self.heed_answer(call, index, received);
        if matches!(received.start, Start::Request(_)) {
            call.cseq = call.cseq.max(received.cseq);
        }
        self.stats.step(index).done += 1;
        self.keep_dialog(call, recv, received);
        match self.do_as_told(call, step, Some(received.bytes), out) {
            Acted::Ends(verdict) => verdict,
            Acted::Done | Acted::Jumped(_) => self.stay(call, out),
        }
    }

    /// Stops or slows what is being sent again, if this message answers it: only
    /// one that is expected behind it does.
    fn heed_answer(&mut self, call: &mut Call, index: u32, received: &Received<'_>) {
        if index <= call.resending.step || !ends_resending(received.start) {
            return;
        }
        // RFC 3261 17.1.2.2: after a provisional response a request other than
        // INVITE is sent again every T2.
        match received.start {
            Start::Response(code) if code < 200 && received.cseq_method != b"INVITE" => {
                self.slow_resending(call);
            }
            _ => self.stop_resending(call),
        }
    }

    /// Whether the message came before; then it was answered as it was before.
    fn is_known(&mut self, call: &mut Call, hash: u64, out: &mut Outputs) -> bool {
        if hash == call.answered_hash {
            if self.loses(call.answered_step) {
                return true;
            }
            self.stats.step(call.answered_step).retransmitted += 1;
            self.send_again(call, out);
            return true;
        }
        if hash == call.seen_hash {
            // Nothing was sent since.
            if self.loses(call.seen_step) {
                return true;
            }
            self.stats.step(call.seen_step).retransmitted += 1;
            return true;
        }
        false
    }

    /// Whether chance has it that a message for this step is lost; then it is
    /// counted there.
    fn loses(&mut self, index: u32) -> bool {
        let program = Arc::clone(&self.program);
        let step = program.steps.get(index as usize);
        let is_lost = step.is_some_and(|step| self.is_lost(step));
        if is_lost {
            self.stats.step(index).lost += 1;
        }
        is_lost
    }

    /// Keeps the tag of the other side: what stands in the To of a request is this side's.
    fn keep_peer_tag(&self, call: &mut Call, received: &Received<'_>) {
        if matches!(received.start, Start::Response(_))
            && let Some(to) = scan::header(received.bytes, b"To")
            && let Some(tag) = scan::parameter(to, b"tag")
        {
            call.peer_tag.clear();
            scan::write_unfolded(tag, &mut call.peer_tag);
        }
    }

    /// Where a message belongs: at the step that the call stands at or, past
    /// optional ones, at a later one; else at one of the optional ones just
    /// before, or any before that is optional globally; else behind the call,
    /// where it is late.
    fn find_place(&self, call: &Call, received: &Received<'_>) -> Option<Place> {
        let steps = &self.program.steps;
        for (index, step) in (call.step..).zip(steps.iter().skip(call.step as usize)) {
            let What::Recv(recv) = &step.what else {
                break;
            };
            if self.matches(call, recv, received) {
                return Some(Place::Step(index));
            }
            if recv.optional == Presence::Mandatory {
                break;
            }
        }
        let mut is_contiguous = true;
        for index in (0..call.step).rev() {
            let Some(What::Recv(recv)) = steps.get(index as usize).map(|step| &step.what) else {
                is_contiguous = false;
                continue;
            };
            is_contiguous &= recv.optional != Presence::Mandatory;
            if !self.matches(call, recv, received) {
                continue;
            }
            if is_contiguous || recv.optional == Presence::Global {
                return Some(Place::Step(index));
            }
            let place = self.late_place(call, index, recv, received);
            if place.is_some() {
                return place;
            }
        }
        None
    }

    /// What becomes of a message that a step behind the call would have taken;
    /// `None` where that step makes no difference.
    fn late_place(
        &self,
        call: &Call,
        index: u32,
        recv: &RecvStep,
        received: &Received<'_>,
    ) -> Option<Place> {
        let Start::Response(code) = received.start else {
            return None;
        };
        let Some(txn) = named_txn(call, recv) else {
            // RFC 3261 17.1.1.2: "Any retransmissions of the final response
            // that are received while in the "Completed" state MUST cause the
            // ACK to be re-passed to the transport layer for retransmission".
            let ack = index.saturating_add(1);
            let is_acked = received.cseq_method == b"INVITE" && self.sends_ack(ack);
            return is_acked.then_some(Place::AckedBy(ack));
        };
        if code < 200 {
            return Some(Place::Behind);
        }
        if let Some(step) = txn.ack_step {
            return Some(Place::AckedBy(step));
        }
        // Another final response to the same request is none that came before.
        (txn.response_hash == received.hash(&self.hasher)).then_some(Place::Behind)
    }

    fn sends_ack(&self, index: u32) -> bool {
        match self.program.steps.get(index as usize).map(|s| &s.what) {
            Some(What::Send(send)) => {
                matches!(&send.kind, Kind::Request(method) if method == b"ACK")
            }
            _ => false,
        }
    }

    fn matches(&self, call: &Call, recv: &RecvStep, received: &Received<'_>) -> bool {
        match (&recv.expects, received.start) {
            (Expects::Response(code), Start::Response(got)) => {
                *code == got && self.is_answer(call, recv, received)
            }
            (Expects::Request(method), Start::Request(got)) => method == got,
            (Expects::RequestMatching(regex, _), Start::Request(got)) => self
                .program
                .regexes
                .get(usize::from(*regex))
                .is_some_and(|regex| regex.is_match(got)),
            _ => false,
        }
    }

    /// Whether a response belongs to the transaction that the step names or,
    /// where it names none, to a request of a method that was sent before.
    fn is_answer(&self, call: &Call, recv: &RecvStep, received: &Received<'_>) -> bool {
        match named_txn(call, recv) {
            Some(txn) => {
                let branch = scan::branch(received.bytes);
                !branch.is_empty() && branch == txn.branch
            }
            // As in SIPp, one without CSeq is an answer to any of them.
            None => recv.methods.iter().any(|method| {
                method.is_empty()
                    || received.cseq_method.is_empty()
                    || method == received.cseq_method
            }),
        }
    }

    fn keep_dialog(&mut self, call: &mut Call, recv: &RecvStep, received: &Received<'_>) {
        match received.start {
            Start::Response(code) => {
                if (200..300).contains(&code) && received.cseq_method == b"INVITE" {
                    call.owes_ack = true;
                }
                let txn = recv.response_txn;
                if let Some(txn) = txn.and_then(|n| call.txns.get_mut(usize::from(n))) {
                    // Over a stream too, a response may come again.
                    txn.response_hash = received.hash(&self.hasher);
                }
            }
            Start::Request(method) => {
                if method == b"ACK" {
                    call.is_inviting = false;
                }
            }
        }
        if recv.keeps_routes {
            keep_routes(call, received);
        }
        // A 200 that has auth="true" too leaves the challenge before it as it is.
        if recv.keeps_challenge && matches!(received.start, Start::Response(401 | 407)) {
            call.challenge = Some(Box::new(super::credentials::Challenge::new(received.bytes)));
        }
    }

    /// A message that no step expects.
    fn unexpected(
        &mut self,
        call: &mut Call,
        received: &Received<'_>,
        out: &mut Outputs,
    ) -> Verdict {
        let behaviors = self.settings.behaviors;
        if let Start::Request(method) = received.start {
            if matches!(method, b"BYE" | b"CANCEL") {
                self.stats.step(call.step).unexpected += 1;
                let goes_on = !behaviors.abort_unexpected;
                self.warn(
                    format!(
                        "{} call on an unexpected {} for call: {}",
                        if goes_on { "Continuing" } else { "Aborting" },
                        String::from_utf8_lossy(method),
                        String::from_utf8_lossy(&call.id)
                    ),
                    out,
                );
                if goes_on {
                    keep_last(call, received);
                    return Verdict::Waits;
                }
                if behaviors.bye {
                    self.answer(call, received, out);
                }
                self.abort_twin(call, out);
                return Verdict::HungUp;
            }
            if self.is_answered_alone(method) {
                self.answer(call, received, out);
                self.stats.count(Counter::AutoAnswered);
                return Verdict::Waits;
            }
            if method == b"PING" {
                self.warn(
                    format!(
                        "Do not answer on an unexpected PING for call: {}",
                        String::from_utf8_lossy(&call.id)
                    ),
                    out,
                );
                keep_last(call, received);
                return Verdict::Waits;
            }
            if method == b"ACK" {
                call.is_inviting = false;
            }
        }
        self.stats.step(call.step).unexpected += 1;
        if let Start::Response(code) = received.start {
            out.events.push(Event::ErrorCode(code));
        }
        let goes_on = !behaviors.abort_unexpected;
        self.warn(
            format!(
                "{} call on unexpected message for Call-Id '{}': while {}, received '{}'",
                if goes_on { "Continuing" } else { "Aborting" },
                String::from_utf8_lossy(&call.id),
                self.expectation(call),
                String::from_utf8_lossy(received.bytes)
            ),
            out,
        );
        if goes_on {
            return Verdict::Waits;
        }
        self.abort_twin(call, out);
        if behaviors.bye {
            self.end_politely(call, Some(received.bytes), out);
        }
        Verdict::Failed(Counter::UnexpectedMessage)
    }

    /// Whether a request is answered 200 without the scenario's knowledge.
    pub(super) fn is_answered_alone(&self, method: &[u8]) -> bool {
        match method {
            b"PING" => self.settings.behaviors.ping_reply,
            b"INFO" | b"NOTIFY" | b"OPTIONS" | b"UPDATE" => self.settings.answers,
            _ => false,
        }
    }

    fn answer(&mut self, call: &Call, received: &Received<'_>, out: &mut Outputs) {
        let start = out.outbox.bytes.len();
        let (own, listener) = (call.local, call.target.listener);
        self.write_ok(received.bytes, own, listener, &mut out.outbox.bytes);
        out.outbox.send_since(start, call.target.0.clone(), 0);
    }

    fn expectation(&self, call: &Call) -> String {
        let index = call.step;
        match self.program.steps.get(index as usize).map(|s| &s.what) {
            Some(What::Recv(_)) => {
                let name = self.program.step_label(index as usize).name;
                format!("expecting '{name}' (index {index})")
            }
            Some(What::ReceiveCommand(_)) => format!("expecting command (index {index})"),
            Some(What::Pause(_)) => format!("pausing (index {index})"),
            _ => format!("sending (index {index})"),
        }
    }
}

/// Keeps a message for `[last_*]`.
fn keep_last(call: &mut Call, received: &Received<'_>) {
    call.last_received.clear();
    call.last_received.extend_from_slice(received.bytes);
}

/// The transaction that a step names.
fn named_txn<'c>(call: &'c Call, recv: &RecvStep) -> Option<&'c Txn> {
    let number = recv.response_txn?;
    call.txns.get(usize::from(number))
}

/// Whether a message that was expected answers what is being sent again. A
/// request of another method leaves that going on, as SIPp has it.
fn ends_resending(start: Start<'_>) -> bool {
    match start {
        Start::Response(_) => true,
        Start::Request(method) => matches!(method, b"ACK" | b"PRACK" | b"CANCEL" | b"BYE"),
    }
}

/// Keeps the route set and the remote target of a message (RFC 3261 12.1). A route set
/// that is there stays.
fn keep_routes(call: &mut Call, received: &Received<'_>) {
    let contact = scan::header(received.bytes, b"Contact");
    let Some(contact) = contact.filter(|_| call.routes.is_empty()) else {
        return;
    };
    call.next_url.clear();
    let mut routes: Vec<&[u8]> = scan::headers(received.bytes, b"Record-Route")
        .flat_map(|(_, value)| split_list(value))
        .collect();
    // RFC 3261 12.1.2: "The route set MUST be set to the list of URIs in the
    // Record-Route header field from the response, taken in reverse order"
    if matches!(received.start, Start::Response(_)) {
        routes.reverse();
    }
    // An address without a display name is given as its URI.
    let contact = if contact.starts_with(b"<") {
        scan::in_brackets(contact).unwrap_or(contact)
    } else {
        contact
    };
    let is_loose = routes
        .first()
        .is_none_or(|first| memchr::memmem::find(first, b";lr").is_some());
    let mut last = None;
    if is_loose {
        scan::write_unfolded(contact, &mut call.next_url);
    } else {
        // A strict router takes the place of the target (RFC 3261 12.2.1.1).
        let first = routes.remove(0);
        let first = scan::in_brackets(first).unwrap_or(first);
        scan::write_unfolded(first, &mut call.next_url);
        last = Some(contact);
    }
    for route in routes.into_iter().chain(last) {
        if !call.routes.is_empty() {
            call.routes.extend_from_slice(b", ");
        }
        call.routes.extend_from_slice(route);
    }
}

/// The members of a list of addresses: a comma in quotes or brackets divides
/// nothing.
fn split_list(value: &[u8]) -> Vec<&[u8]> {
    let mut members = Vec::new();
    let (mut start, mut is_quoted, mut is_bracketed) = (0, false, false);
    for (at, byte) in value.iter().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'<' if !is_quoted => is_bracketed = true,
            b'>' if !is_quoted => is_bracketed = false,
            b',' if !is_quoted && !is_bracketed => {
                members.push(value.get(start..at).unwrap_or_default().trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
    }
    members.push(value.get(start..).unwrap_or_default().trim_ascii());
    members
}
