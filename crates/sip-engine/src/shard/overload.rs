//! What a shard refuses when its worker falls behind.

use sip_limit::{Class, Share, Shares};
use sip_msg::{HeaderName, Message, Method};
use sip_txn::ServerId;

use crate::permit::is_registration;
use crate::refusal::{Reason, StatusLine};
use crate::sender::Sender;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// Sets the share of each class of requests that is admitted; to be called in each
    /// interval while less than all is admitted.
    pub fn set_shares(&mut self, shares: Shares) {
        self.overload.set(shares);
    }

    /// Sets the brake on top of the shares; to be called in each turn.
    pub fn set_brake(&mut self, brake: Share) {
        self.overload.set_brake(brake);
    }

    /// Whether a request that would begin something is let in.
    pub(super) fn is_let_in(&mut self, now: Now, request: &Message) -> bool {
        if self.overload.is_open() {
            return true;
        }
        let class = self.class(now, request);
        self.overload.admits(class)
    }

    /// Refuses it: 503 with Retry-After as often as the gate allows an answer, else silence. By a
    /// stream it is answered always, since its sender would not repeat it.
    pub(super) fn refuse_for_overload(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: Box<Message>,
        out: &mut Outputs,
    ) {
        if sender.flow.transport.is_reliable() || self.overload.may_answer() {
            self.counters.overload_refused += 1;
            let line = StatusLine::refused(503, Reason::Overloaded);
            self.refuse(now, sender, server, request, line, out);
            return;
        }
        self.counters.overload_dropped += 1;
        if let Some(server) = server {
            self.txns.release_server(server);
        }
        self.pool.recycle(request);
    }

    /// Refuses a request that belongs to another shard, whose worker has no room for it: 503 with
    /// Retry-After by a stream. A datagram comes again. The ACK to it is for this shard's answer
    /// ([`Shard::is_for_own_answer`]).
    pub fn refuse_for_another(
        &mut self,
        now: Now,
        sender: &Sender,
        mut request: Box<Message>,
        out: &mut Outputs,
    ) {
        let is_repeated = !sender.flow.transport.is_reliable();
        if is_repeated || request.method() == Method::Ack || !request.is_answerable() {
            self.pool.recycle(request);
            return;
        }
        self.counters.overload_refused += 1;
        let line = StatusLine::refused(503, Reason::Overloaded);
        // RFC 3261 18.2.1: "If the host portion of the "sent-by" parameter contains a domain name,
        // or if it contains an IP address that differs from the packet source address, the server
        // MUST add a "received" parameter to that Via header field value."
        request.stamp_received(sender.flow.remote);
        self.refuse(now, sender, None, request, line, out);
    }

    fn class(&mut self, now: Now, request: &Message) -> Class {
        let method = request.method();
        let is_within = request.to_tag().is_some();
        if is_within || matches!(method, Method::Ack | Method::Cancel) {
            return Class::Within;
        }
        if is_registration(&self.own, request) {
            return if self.has_contacts(now, request) {
                Class::LetIn
            } else {
                Class::FirstRegistration
            };
        }
        let has_answered = [HeaderName::ProxyAuthorization, HeaderName::Authorization]
            .into_iter()
            .any(|name| request.has(name));
        if has_answered {
            Class::LetIn
        } else {
            Class::NewWork
        }
    }

    /// Whether the user whom a REGISTER names has contacts.
    fn has_contacts(&mut self, now: Now, request: &Message) -> bool {
        let Some(uri) = request.to().ok().and_then(|to| to.uri()) else {
            return false;
        };
        self.aor.clear();
        crate::aor::write_aor(&self.settings, &self.own, &uri, &mut self.aor);
        self.bindings.clear();
        let location = &self.shared.location;
        location.find(&self.aor, now.unix_ms, &mut self.bindings);
        let has = !self.bindings.is_empty();
        self.bindings.clear();
        has
    }
}
