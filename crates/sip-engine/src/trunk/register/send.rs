//! How a REGISTER is written and sent.

use std::io::Write as _;
use std::net::SocketAddr;

use invariant::broken;
use sip_msg::{ConnId, Method, Target};
use sip_txn::ClientId;
use wheel::TimerId;

use super::{MemberAddress, UnderWay};
use crate::proxy::context::Owner;
use crate::timer::Timer;
use crate::trunk::registration::Failure;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// Sends a REGISTER; false where that cannot be done.
    pub(super) fn send_register(
        &mut self,
        now: Now,
        at: usize,
        member: MemberAddress,
        out: &mut Outputs,
    ) -> bool {
        let hop = &member.hop;
        let listener = self.own.first_towards(hop.transport, &hop.addr);
        let listener = listener.filter(|_| !self.own.is_at(hop.transport, &hop.addr));
        let client = listener.and_then(|_| self.txns.reserve_client());
        let (Some(listener), Some(client)) = (listener, client) else {
            if let Some(kept) = self.registrations.kept(at) {
                kept.failure = Failure::NoTransport;
            }
            return false;
        };
        let to = Target {
            transport: hop.transport,
            listener,
            remote: hop.addr,
            conn: ConnId::NONE,
            may_open: true,
            tls_name: hop.tls_name.clone(),
            lane: sip_msg::Lane::Shared,
            local: None,
        };
        let start = out.outbox.bytes.len();
        let Some(has_contact) = self.write_register(at, client, &to, &mut out.outbox.bytes) else {
            self.txns.release_client(client);
            return broken!("a registration stays while it is tried", false);
        };
        self.registrations.last = self.registrations.last.wrapping_add(1);
        let number = self.registrations.last;
        let Some(own) = self.registrations.own.get_mut(at) else {
            return broken!("a registration stays while it is tried", false);
        };
        let timeout_ms = own.care().timeout_ms;
        let Some(kept) = &mut own.kept else {
            return broken!("a registration stays while it is tried", false);
        };
        if let Some(account) = &mut kept.account {
            let halves = [u32::MAX; 2].map(|most| u64::from(self.dice.below(most)));
            let cnonce = halves[0] << 32 | halves[1];
            let (attempt, is_challenged) = (&mut kept.attempt, kept.is_challenged);
            let bytes = &mut out.outbox.bytes;
            let bears = account.authorize(attempt, is_challenged, cnonce, bytes, start);
            kept.is_ahead = bears && !is_challenged;
        }
        let is_left = kept.has_other() && timeout_ms > 0 && !kept.machine.is_ending();
        let timer = match is_left {
            true => {
                let due_ms = now.mono_ms + timeout_ms;
                self.wheel.start(due_ms, Timer::Register(number))
            }
            false => TimerId::NONE,
        };
        kept.under_way = Some(UnderWay {
            number,
            client,
            member,
            timer,
            has_contact,
        });
        self.counters.trunk_registers += 1;
        let owner = Owner::Register(number).encode();
        let (outbox, method) = (&mut out.outbox, Method::Register);
        self.txns
            .start_client(now.mono_ms, client, method, to, owner, start, outbox);
        true
    }

    /// Writes a REGISTER; whether it has a contact.
    // RFC 3261 10.2: "The following header fields, except Contact, MUST be included in a REGISTER
    // request.  A Contact header field MAY be included:"
    fn write_register(
        &mut self,
        at: usize,
        client: ClientId,
        to: &Target,
        text: &mut Vec<u8>,
    ) -> Option<bool> {
        let own = self.registrations.own.get_mut(at)?;
        let (trunk, kept) = (&own.trunk, own.kept.as_mut()?);
        let local: SocketAddr = match to.remote.is_ipv4() {
            true => ([0_u8; 4], 0).into(),
            false => ([0_u16; 8], 0).into(),
        };
        let mut place = Vec::new();
        self.own.write_host_port(to.listener, &local, &mut place);
        // Where a listener is on all addresses, and nothing has come yet, its own is not known.
        // RFC 3261 10.2.3: "A success response to any REGISTER request contains the complete list of
        // existing bindings, regardless of whether the request contained a Contact header field."
        let is_known = !place.starts_with(b"0.0.0.0") && !place.starts_with(b"[::]");
        let contact = match &kept.registering.contact {
            Some(given) => Some(given.as_bytes().to_vec()),
            None => is_known.then(|| place.clone()),
        };
        kept.place
            .clone_from(contact.as_ref().unwrap_or(&Vec::new()));
        let (domain, account) = (&trunk.domain, &trunk.account);
        // RFC 3261 10.2: "Request-URI: The Request-URI names the domain of the location service for
        // which the registration is meant (for example, "sip:chicago.com").  The "userinfo" and "@"
        // components of the SIP URI MUST NOT be present."
        let _ = write!(text, "REGISTER sip:{domain} SIP/2.0\r\nVia: SIP/2.0/");
        let via = to.transport.via_name();
        text.extend_from_slice(via.as_bytes());
        text.push(b' ');
        text.extend_from_slice(&place);
        text.extend_from_slice(b";rport;branch=");
        self.txns.write_branch(client, text);
        let (cseq, expires_s) = (kept.machine.next_cseq(), kept.machine.asked_s());
        let _ = write!(
            text,
            "\r\nMax-Forwards: 70\r\nFrom: <sip:{account}@{domain}>;tag={:08x}\r\n\
             To: <sip:{account}@{domain}>\r\nCall-ID: {}\r\nCSeq: {cseq} REGISTER\r\n",
            kept.tag, kept.call_id
        );
        if let Some(contact) = &contact {
            let _ = write!(text, "Contact: <sip:{account}@");
            text.extend_from_slice(contact);
            if to.transport != sip_msg::Transport::Udp {
                let _ = write!(text, ";transport={}", to.transport.uri_param());
            }
            let _ = write!(text, ">;expires={expires_s}\r\nExpires: {expires_s}\r\n");
        }
        if !self.settings.server_header.is_empty() {
            let _ = write!(text, "User-Agent: {}\r\n", self.settings.server_header);
        }
        text.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        Some(contact.is_some())
    }
}
