//! Registrations with providers, as transactions of this shard, and the names of their members
//! (`docs/decisions/0213-a-registration-is-one-workers.md`). What is to be done is said by
//! [`Registration`]; here it is done.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use sip_auth::{Attempt, GiveUp};
use sip_locate::{Hop, LocateError, Located};
use sip_msg::header::{Contact, delta_seconds};
use sip_msg::{ConnId, HeaderName, Message, Method, Target};
use sip_txn::ClientId;
use wheel::TimerId;

use super::auth::{Account, all, realm_of};
use super::registration::{Answer, Change, Failure, Next, Registration};
use super::{Registering, State, Trunk, TrunkEvent};
use crate::effect::{Effect, ParkId};
use crate::gateways::Why;
use crate::hops::of_next_hop;
use crate::park::Parked;
use crate::proxy::context::Owner;
use crate::proxy::failover::pause_ms;
use crate::proxy::ways::in_order;
use crate::routes::{Care, GatewayGroup, NextHop};
use crate::timer::Timer;
use crate::{Now, Outputs, Shard};

/// How often the names of members are resolved.
const NAMED_MS: u64 = 300_000;
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;

/// What a name is resolved for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// To know who its trunk's members are.
    Members(Arc<str>),
    /// To register the account of the trunk of that name.
    Registration(Arc<str>),
}

/// The trunks that are this shard's to register, and whose names are its to resolve.
#[derive(Default)]
pub(crate) struct Registrations {
    own: Vec<Own>,
    last: u32,
    timer: TimerId,
    /// When names are resolved next; `None` before that was planned.
    names_due_ms: Option<u64>,
}

/// A trunk of this shard's.
struct Own {
    trunk: Arc<Trunk>,
    group: Arc<GatewayGroup>,
    /// `None` where its members' names are all that is wanted.
    kept: Option<Kept>,
}

/// A registration.
struct Kept {
    registering: Registering,
    machine: Registration,
    account: Option<Account>,
    attempt: Attempt,
    call_id: String,
    tag: u32,
    /// Whether the last answer was a challenge that was taken up, and whether what was sent
    /// bore credentials before any.
    is_challenged: bool,
    is_ahead: bool,
    /// Host and port of the contact as it was written last.
    place: Vec<u8>,
    /// Where the contact is bound.
    good: Option<Way>,
    /// Where to try in this round, beside the way at hand: addresses, then members.
    ways: VecDeque<Way>,
    members: VecDeque<NextHop>,
    resolving: Option<(ParkId, Arc<str>)>,
    under_way: Option<UnderWay>,
    /// Why the last way came to nothing.
    failure: Failure,
    /// Whether it is configured no more.
    is_leaving: bool,
}

/// An address of a member.
#[derive(Clone)]
struct Way {
    host: Arc<str>,
    hop: Hop,
}

struct UnderWay {
    number: u32,
    client: ClientId,
    way: Way,
    timer: TimerId,
    has_contact: bool,
}

impl Kept {
    fn new(trunk: &Trunk, registering: &Registering, (call_id, tag): (String, u32)) -> Self {
        Self {
            registering: registering.clone(),
            machine: Registration::new(registering.expires_s),
            account: trunk.credentials.as_ref().map(Account::new),
            attempt: Attempt::default(),
            call_id,
            tag,
            is_challenged: false,
            is_ahead: false,
            place: Vec::new(),
            good: None,
            ways: VecDeque::new(),
            members: VecDeque::new(),
            resolving: None,
            under_way: None,
            failure: Failure::Unreachable,
            is_leaving: false,
        }
    }

    /// Forgets what a round before it came to.
    fn begin_anew(&mut self) {
        self.attempt = Attempt::default();
        (self.is_challenged, self.is_ahead) = (false, false);
        self.ways = self.good.iter().cloned().collect();
        self.members.clear();
    }

    /// Adds an address, unless it is the one that is tried first.
    fn add_way(&mut self, host: &Arc<str>, hop: Hop) {
        if self.good.as_ref().is_none_or(|good| good.hop != hop) {
            self.ways.push_back(Way {
                host: Arc::clone(host),
                hop,
            });
        }
    }

    fn has_other(&self) -> bool {
        !self.ways.is_empty() || !self.members.is_empty()
    }
}

impl Own {
    fn care(&self) -> &Care {
        self.group.care.as_deref().unwrap_or(&Care::USUAL)
    }

    /// Whether another trunk has the same contact of the same account.
    fn is_same_binding(&self, trunk: &Trunk) -> bool {
        let contact = |registering: &Registering| registering.contact.clone();
        let own = self.trunk.registering.as_ref().map(contact);
        let other = trunk.registering.as_ref().map(contact);
        self.trunk.account == trunk.account && self.trunk.domain == trunk.domain && own == other
    }
}

impl Registrations {
    /// Registrations that are to be taken back before the process ends, if it is to.
    pub(crate) fn to_be_ended(&self, is_ending: bool) -> usize {
        if !is_ending {
            return 0;
        }
        let kept = self.own.iter().filter_map(|own| own.kept.as_ref());
        let of = kept.filter(|kept| {
            let machine = &kept.machine;
            !machine.is_over() && (machine.is_ending() || machine.until_ms() > 0)
        });
        of.count()
    }

    fn find(&mut self, number: u32) -> Option<usize> {
        self.own.iter().position(|own| {
            let under_way = own.kept.as_ref().and_then(|kept| kept.under_way.as_ref());
            under_way.is_some_and(|of| of.number == number)
        })
    }

    fn kept(&mut self, at: usize) -> Option<&mut Kept> {
        self.own.get_mut(at)?.kept.as_mut()
    }
}

impl Shard {
    /// Takes over whose registrations are this shard's. Those that are configured no more are
    /// taken back.
    pub(crate) fn plan_registrations(&mut self) {
        let mut before = std::mem::take(&mut self.registrations.own);
        let settings = Arc::clone(&self.settings);
        for group in &settings.routes.groups {
            let Some(trunk) = group
                .trunk
                .as_ref()
                .filter(|trunk| self.is_mine(trunk, group))
            else {
                continue;
            };
            let same = before.iter().position(|own| own.is_same_binding(trunk));
            let own = match same.map(|at| before.swap_remove(at)) {
                Some(same) => renewed(same, trunk, group),
                None => {
                    let identity = self.registration_identity();
                    Own {
                        trunk: Arc::clone(trunk),
                        group: Arc::new(group.clone()),
                        kept: (trunk.registering.as_ref())
                            .map(|registering| Kept::new(trunk, registering, identity)),
                    }
                }
            };
            self.registrations.own.push(own);
        }
        for mut left in before {
            let is_bound = left.kept.as_mut().is_some_and(|kept| {
                kept.is_leaving = true;
                !kept.machine.is_over()
            });
            if is_bound {
                self.registrations.own.push(left);
            }
        }
        self.registrations.names_due_ms = None;
        self.wake_registrations();
    }

    /// Has the registrations looked at with the next timers.
    pub(crate) fn wake_registrations(&mut self) {
        self.wheel
            .cancel(std::mem::take(&mut self.registrations.timer));
        if !self.registrations.own.is_empty() {
            self.registrations.timer = self.wheel.start(0, Timer::Trunks);
        }
    }

    /// Whether a trunk is this shard's to register, or to resolve.
    fn is_mine(&self, trunk: &Trunk, group: &GatewayGroup) -> bool {
        let has_names = || {
            let mut hosts = group.gateways.iter().map(|of| &of.next_hop.host);
            hosts.any(|host| host.parse::<std::net::IpAddr>().is_err())
        };
        match &trunk.registering {
            // The responses to a REGISTER come to the shard of the user in its To.
            Some(_) => self.is_home_of(trunk.account.as_bytes()),
            None => has_names() && self.is_home_of(trunk.name.as_bytes()),
        }
    }

    fn registration_identity(&mut self) -> (String, u32) {
        let mut draw = || self.dice.below(u32::MAX);
        (format!("trunk-{:08x}{:08x}", draw(), draw()), draw())
    }

    /// Does what is due.
    pub(crate) fn registrations_due(&mut self, now: Now, out: &mut Outputs) {
        self.registrations.timer = TimerId::NONE;
        for at in 0..self.registrations.own.len() {
            let is_ending = self.refuses_calls();
            let Some(kept) = self.registrations.kept(at) else {
                continue;
            };
            let machine = &mut kept.machine;
            if is_ending || kept.is_leaving {
                if !machine.is_ending() && !machine.is_over() {
                    self.begin_end(now, at, out);
                }
            } else if machine.due_ms().is_some_and(|due_ms| due_ms <= now.mono_ms) {
                self.begin_round(now, at, out);
            }
        }
        self.registrations.own.retain(|own| {
            let over = |kept: &Kept| kept.is_leaving && kept.machine.is_over();
            !own.kept.as_ref().is_some_and(over)
        });
        self.resolve_members(now, out);
        let kept = self
            .registrations
            .own
            .iter()
            .filter_map(|own| own.kept.as_ref());
        let due = kept.filter_map(|kept| kept.machine.due_ms());
        let next_ms = due.chain(self.registrations.names_due_ms).min();
        if let Some(next_ms) = next_ms.filter(|_| !self.refuses_calls()) {
            // What came of an answer at once may have planned it.
            self.wheel
                .cancel(std::mem::take(&mut self.registrations.timer));
            self.registrations.timer = self.wheel.start(next_ms, Timer::Trunks);
        }
    }

    /// Resolves the names of members, so that it is known who they are.
    fn resolve_members(&mut self, now: Now, out: &mut Outputs) {
        let due_ms = self.registrations.names_due_ms;
        if self.refuses_calls() || due_ms.is_some_and(|due_ms| due_ms > now.mono_ms) {
            return;
        }
        let mut hosts: Vec<(Arc<str>, sip_locate::Query)> = Vec::new();
        let reach = self.own.reach();
        for own in &self.registrations.own {
            for gateway in &own.group.gateways {
                let hop = &gateway.next_hop;
                let is_known = hosts.iter().any(|(host, _)| *host == hop.host);
                if let (Located::Ask(query), false) = (of_next_hop(hop, false, reach), is_known) {
                    hosts.push((Arc::clone(&hop.host), query));
                }
            }
        }
        self.registrations.names_due_ms = (!hosts.is_empty()).then(|| now.mono_ms + NAMED_MS);
        for (host, query) in hosts {
            self.resolve_for_trunk(now, Wanted::Members(host), query, out);
        }
    }

    fn resolve_for_trunk(
        &mut self,
        now: Now,
        wanted: Wanted,
        query: sip_locate::Query,
        out: &mut Outputs,
    ) -> ParkId {
        let deadline_ms = now.mono_ms + self.settings.proxy.resolve_timeout_ms;
        let park = self
            .parks
            .park(Parked::Trunk(wanted), deadline_ms, &mut self.wheel);
        out.effects.push(Effect::Resolve { park, query });
        park
    }

    /// What DNS said of a member's name, or did not.
    pub(crate) fn trunk_resolved(
        &mut self,
        now: Now,
        park: ParkId,
        wanted: &Wanted,
        answer: Result<Vec<Hop>, LocateError>,
        out: &mut Outputs,
    ) {
        let name = match wanted {
            Wanted::Members(host) => {
                if let Ok(hops) = answer {
                    self.members_given(now, host, &hops);
                }
                return;
            }
            Wanted::Registration(name) => name,
        };
        let own = &mut self.registrations.own;
        let found = own.iter().position(|own| {
            let resolving = own.kept.as_ref().and_then(|kept| kept.resolving.as_ref());
            own.trunk.name == *name && resolving.is_some_and(|(of, _)| *of == park)
        });
        let Some(at) = found else { return };
        let resolving = self
            .registrations
            .kept(at)
            .and_then(|kept| kept.resolving.take());
        let Some((_, host)) = resolving else { return };
        match answer {
            Ok(mut hops) => {
                self.members_given(now, &host, &hops);
                hops.truncate(ADDRESSES_MAX);
                self.gateways.sort(&mut hops, now.mono_ms);
                if let Some(kept) = self.registrations.kept(at) {
                    hops.into_iter().for_each(|hop| kept.add_way(&host, hop));
                }
            }
            Err(_) => {
                if let Some(kept) = self.registrations.kept(at) {
                    kept.failure = Failure::NotResolved;
                }
            }
        }
        self.next_way(now, at, out);
    }

    fn members_given(&mut self, now: Now, host: &str, hops: &[Hop]) {
        let addresses: Vec<_> = hops.iter().map(|hop| hop.addr.ip()).collect();
        let shared = &self.shared.gateways.trunks;
        shared.given(host, &addresses, now.mono_ms);
        for hop in hops {
            self.gateways.learn(host, hop.addr, now.mono_ms);
        }
        self.follow_trunks();
    }

    /// Begins to ask for a registration, or to renew it.
    fn begin_round(&mut self, now: Now, at: usize, out: &mut Outputs) {
        let Some(own) = self.registrations.own.get_mut(at) else {
            return;
        };
        let mut members = in_order(&own.group, |_| true, &mut self.dice).into_vec();
        let gateways = &self.gateways;
        // RFC 3261 10.2.4: "Registration refreshes SHOULD be sent to the same network address as the
        // original registration, unless redirected."
        members.sort_by_key(|hop| is_out(hop, gateways, now));
        let name = Arc::clone(&own.trunk.name);
        let Some(kept) = &mut own.kept else { return };
        kept.machine.begin();
        kept.begin_anew();
        kept.failure = Failure::Unreachable;
        kept.members = members.into();
        let shared = &self.shared.gateways.trunks;
        if shared
            .shown(&name, now.mono_ms)
            .state
            .is_none_or(|of| of == State::Ended)
        {
            shared.stands(&name, now.mono_ms, State::Asking, 0, None);
        }
        self.next_way(now, at, out);
    }

    /// Begins to take a registration back: where it is bound.
    fn begin_end(&mut self, now: Now, at: usize, out: &mut Outputs) {
        let Some(kept) = self.registrations.kept(at) else {
            return;
        };
        let under_way = kept.under_way.take();
        let resolving = kept.resolving.take();
        kept.begin_anew();
        let is_to_be_sent = kept.machine.begin_end(now.mono_ms);
        if is_to_be_sent && let Some(under_way) = &under_way {
            kept.ways.push_front(under_way.way.clone());
            kept.ways.truncate(1);
        }
        if let Some(under_way) = under_way {
            self.wheel.cancel(under_way.timer);
            self.txns.release_client(under_way.client);
        }
        if let Some((park, _)) = resolving {
            self.parks.take(park, &mut self.wheel);
        }
        if is_to_be_sent {
            self.next_way(now, at, out);
        }
    }

    /// Sends a REGISTER the next way, or says that there is none.
    fn next_way(&mut self, now: Now, at: usize, out: &mut Outputs) {
        loop {
            let reach = self.own.reach();
            let Some(own) = self.registrations.own.get_mut(at) else {
                return;
            };
            let Some(kept) = &mut own.kept else { return };
            if let Some(way) = kept.ways.pop_front() {
                match self.send_register(now, at, way, out) {
                    true => return,
                    false => continue,
                }
            }
            let Some(member) = kept.members.pop_front() else {
                let failure = Answer::Member(kept.failure);
                return self.register_came_to(now, at, failure, None, out);
            };
            match of_next_hop(&member, false, reach) {
                Located::Hop { hop, .. } => kept.add_way(&member.host, hop),
                Located::Ask(query) => {
                    let wanted = Wanted::Registration(Arc::clone(&own.trunk.name));
                    let park = self.resolve_for_trunk(now, wanted, query, out);
                    if let Some(kept) = self.registrations.kept(at) {
                        kept.resolving = Some((park, member.host));
                    }
                    return;
                }
                Located::Nowhere(_) => kept.failure = Failure::NoTransport,
            }
        }
    }

    /// Sends a REGISTER; false where that cannot be done.
    fn send_register(&mut self, now: Now, at: usize, way: Way, out: &mut Outputs) -> bool {
        let hop = &way.hop;
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
            return false;
        };
        self.registrations.last = self.registrations.last.wrapping_add(1);
        let number = self.registrations.last;
        let Some(own) = self.registrations.own.get_mut(at) else {
            return false;
        };
        let timeout_ms = own.care().timeout_ms;
        let Some(kept) = &mut own.kept else {
            return false;
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
            way,
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

    // RFC 3261 10.2: "The following header fields, except Contact, MUST be included in a REGISTER
    // request.  A Contact header field MAY be included:"
    /// Writes a REGISTER; whether it has a contact.
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

    /// A REGISTER has a response.
    pub(crate) fn register_answered(
        &mut self,
        now: Now,
        number: u32,
        response: &Message,
        out: &mut Outputs,
    ) {
        let status = response.status();
        let Some(at) = self.registrations.find(number).filter(|_| status >= 200) else {
            return;
        };
        let Some(under_way) = self
            .registrations
            .kept(at)
            .and_then(|of| of.under_way.take())
        else {
            return;
        };
        self.wheel.cancel(under_way.timer);
        let Some(own) = self.registrations.own.get_mut(at) else {
            return;
        };
        let care = own.care().clone();
        let pause = pause_ms(response, care.retry_after_max_s);
        let name = Arc::clone(&own.trunk.name);
        let Some(kept) = &mut own.kept else { return };
        let answer = understood(kept, under_way.has_contact, response);
        let place = (under_way.way.hop.transport, under_way.way.hop.addr);
        if matches!(answer, Answer::Bound { .. }) {
            kept.good = Some(under_way.way.clone());
            if let Some(account) = kept.account.as_mut().filter(|_| kept.is_ahead) {
                account.taken_ahead();
            }
        }
        kept.is_challenged = answer == Answer::Challenged;
        if matches!(
            answer,
            Answer::Challenged | Answer::Done | Answer::TooBrief { .. }
        ) {
            // It may go out again, the same way.
            kept.ways.push_front(under_way.way.clone());
        }
        let is_good = !matches!(answer, Answer::Member(_));
        self.note_member(now, &under_way.way, Ok((status, is_good)), pause, out);
        let shown = Some((place.1, status));
        self.register_told(
            now,
            at,
            answer,
            pause,
            (name, shown, realm_of(response)),
            out,
        );
    }

    /// A REGISTER came to nothing: it was not answered, or could not be sent.
    pub(crate) fn register_failed(
        &mut self,
        now: Now,
        number: u32,
        failure: Failure,
        out: &mut Outputs,
    ) {
        let Some(at) = self.registrations.find(number) else {
            return;
        };
        let Some(kept) = self.registrations.kept(at) else {
            return;
        };
        let Some(under_way) = kept.under_way.take() else {
            return;
        };
        kept.failure = failure;
        self.wheel.cancel(under_way.timer);
        let why = match failure {
            Failure::Silent => Why::Silent,
            _ => Why::Unreachable,
        };
        self.note_member(now, &under_way.way, Err(why), None, out);
        self.register_came_to(now, at, Answer::Member(failure), None, out);
    }

    /// A REGISTER has had its time, and there is another way.
    pub(crate) fn register_timed_out(&mut self, now: Now, number: u32, out: &mut Outputs) {
        let client = self.registrations.find(number).and_then(|at| {
            let kept = self.registrations.kept(at)?;
            let under_way = kept.under_way.as_mut()?;
            under_way.timer = TimerId::NONE;
            Some(under_way.client)
        });
        if let Some(client) = client {
            self.txns.release_client(client);
            self.register_failed(now, number, Failure::Silent, out);
        }
    }

    fn register_came_to(
        &mut self,
        now: Now,
        at: usize,
        answer: Answer,
        pause: Option<u64>,
        out: &mut Outputs,
    ) {
        let Some(own) = self.registrations.own.get(at) else {
            return;
        };
        let name = Arc::clone(&own.trunk.name);
        self.register_told(now, at, answer, pause, (name, None, Box::default()), out);
    }

    /// Has the machine say what is to be done, tells of it, and does it.
    fn register_told(
        &mut self,
        now: Now,
        at: usize,
        answer: Answer,
        pause: Option<u64>,
        (name, shown, realm): (Arc<str>, Option<(SocketAddr, u16)>, Box<str>),
        out: &mut Outputs,
    ) {
        let dice = &mut self.dice;
        let lot = |most: u64| u64::from(dice.below(u32::try_from(most).unwrap_or(u32::MAX)));
        let Some(kept) = self.registrations.kept(at) else {
            return;
        };
        let has_other = kept.has_other();
        let (next, change) = kept
            .machine
            .answered(now.mono_ms, answer, has_other, pause, lot);
        let (until_ms, due_ms) = (kept.machine.until_ms(), kept.machine.due_ms());
        let failure = failure_of(answer);
        match next {
            Next::Again => return self.next_way(now, at, out),
            Next::Other => {
                if let (Some(failure), Some(kept)) = (failure, self.registrations.kept(at)) {
                    kept.failure = failure;
                }
                return self.next_way(now, at, out);
            }
            Next::Rest => {}
        }
        let (state, until_ms) = match due_ms {
            None => (State::Ended, 0),
            Some(_) if until_ms > now.mono_ms && failure.is_none() => (State::Registered, until_ms),
            Some(due_ms) => (State::Failing(failure.unwrap_or(Failure::Silent)), due_ms),
        };
        let mut is_leaving = false;
        if let Some(kept) = self.registrations.kept(at) {
            kept.ways.clear();
            kept.members.clear();
            is_leaving = kept.is_leaving;
        }
        // Another may be registered by its trunk's name, here or by another shard.
        let is_current = |of: &Arc<Trunk>| of.name == name && of.registering.is_some();
        if !is_leaving || !all(&self.settings).any(is_current) {
            let shared = &self.shared.gateways.trunks;
            shared.stands(&name, now.mono_ms, state, until_ms, shown);
        }
        if let Some(change) = change {
            let change = match change {
                Change::Failed { why, again_ms, .. } if why == Failure::ForeignRealm => {
                    Change::Failed {
                        why,
                        realm,
                        again_ms,
                    }
                }
                other => other,
            };
            let event = TrunkEvent::Registration(change);
            out.effects.push(Effect::Trunk { name, event });
        }
        // When it is due next is seen with the next timers.
        self.wake_registrations();
    }

    /// What is found out of a member counts for calls as well.
    fn note_member(
        &mut self,
        now: Now,
        way: &Way,
        came: Result<(u16, bool), Why>,
        pause: Option<u64>,
        out: &mut Outputs,
    ) {
        let (transport, addr) = (way.hop.transport, way.hop.addr);
        let dead_hop_ms = self.settings.proxy.dead_hop_ms;
        let held = match (came, pause) {
            (Err(why), _) => Some((why, dead_hop_ms)),
            (Ok((500 | 503, _)), Some(pause_ms)) => Some((Why::RetryAfter, pause_ms)),
            (Ok((503, _)), None) => Some((Why::Busy, dead_hop_ms)),
            (Ok(_), _) => None,
        };
        let change = match (held, came) {
            (Some((why, for_ms)), _) => {
                let health = (self.gateways).health_at(transport, addr, &way.host, now.mono_ms);
                health.and_then(|of| of.failed(now.mono_ms, why, for_ms))
            }
            (None, Ok((status, is_good))) => {
                let health = self.gateways.health_of(transport, addr);
                health.and_then(|of| of.answered(now.mono_ms, status, is_good, true))
            }
            (None, Err(_)) => None,
        };
        if let Some(change) = change {
            let name = (&*way.host).into();
            self.tell_of_gateway((transport, addr), name, change, out);
        }
    }
}

/// The same registration by other settings.
fn renewed(mut own: Own, trunk: &Arc<Trunk>, group: &GatewayGroup) -> Own {
    if let (Some(kept), Some(registering)) = (&mut own.kept, &trunk.registering) {
        let is_other = own.trunk != *trunk || *own.group != *group;
        if own.trunk.credentials != trunk.credentials {
            kept.account = trunk.credentials.as_ref().map(Account::new);
        }
        if is_other {
            kept.good = None;
            kept.machine.ask_anew(registering.expires_s);
        }
        kept.registering = registering.clone();
        kept.is_leaving = false;
    }
    own.trunk = Arc::clone(trunk);
    own.group = Arc::new(group.clone());
    own
}

/// Whether a member that is written as an address is passed over.
fn is_out(hop: &NextHop, gateways: &crate::gateways::Gateways, now: Now) -> bool {
    let Ok(ip) = hop.host.parse::<std::net::IpAddr>() else {
        return false;
    };
    let transport = hop.transport.unwrap_or(sip_msg::Transport::Udp);
    let port = hop.port.unwrap_or(transport.default_port());
    gateways.is_out(transport, SocketAddr::new(ip, port), now.mono_ms)
}

/// What a final response to a REGISTER means.
fn understood(kept: &mut Kept, has_contact: bool, response: &Message) -> Answer {
    match response.status() {
        200..=299 if !has_contact || kept.machine.is_ending() => Answer::Done,
        200..=299 => Answer::Bound {
            expires_s: granted_s(kept, response),
        },
        status @ (401 | 407) => {
            let Some(account) = &mut kept.account else {
                return Answer::Account(Failure::Refused(status));
            };
            match account.challenged(&mut kept.attempt, response, kept.is_ahead) {
                Ok(()) => Answer::Challenged,
                Err(GiveUp::Rejected) => Answer::Account(Failure::WrongPassword),
                Err(GiveUp::ForeignRealm) => Answer::Account(Failure::ForeignRealm),
                Err(_) => Answer::Account(Failure::BadChallenge),
            }
        }
        423 => {
            let field = response.first(HeaderName::MinExpires);
            Answer::TooBrief {
                min_s: field.and_then(|field| delta_seconds(field.value)),
            }
        }
        status @ (408 | 500..=599) => Answer::Member(Failure::Refused(status)),
        status => Answer::Account(Failure::Refused(status)),
    }
}

/// For how long our contact is bound.
// RFC 3261 10.2.4: "The UA compares each contact address to see if it created the contact address,
// using comparison rules in Section 19.1.4.  If so, it updates the expiration time interval
// according to the expires parameter or, if absent, the Expires field value."
fn granted_s(kept: &Kept, response: &Message) -> u32 {
    let asked_s = kept.machine.asked_s();
    let of_all = response.expires_s().unwrap_or(asked_s);
    let contacts = response.contacts().filter_map(|contact| match contact {
        Ok(Contact::Addr(contact)) => Some(contact),
        Ok(Contact::Star) | Err(_) => None,
    });
    let contacts: Vec<_> = contacts.collect();
    if let Some(ours) = contacts.iter().find(|of| is_ours(kept, &of.uri)) {
        return ours.expires_s.unwrap_or(of_all).min(asked_s);
    }
    // Registrars that mend what an address translation has spoilt show another in its place.
    let given_s = match &*contacts {
        [alone] => alone.expires_s,
        _ => None,
    };
    given_s.unwrap_or(of_all).min(asked_s)
}

/// Whether a contact is at the place that was written.
fn is_ours(kept: &Kept, uri: &sip_msg::Uri<'_>) -> bool {
    let mut place = uri.host_port.host.to_vec();
    if let Some(port) = uri.host_port.port {
        let _ = write!(place, ":{port}");
    }
    place.eq_ignore_ascii_case(&kept.place)
}

fn failure_of(answer: Answer) -> Option<Failure> {
    match answer {
        Answer::Member(failure) | Answer::Account(failure) => Some(failure),
        Answer::Bound { expires_s: 0 } => Some(Failure::Refused(200)),
        Answer::TooBrief { .. } => Some(Failure::Refused(423)),
        Answer::Challenged => Some(Failure::BadChallenge),
        Answer::Done => Some(Failure::NoTransport),
        Answer::Bound { .. } => None,
    }
}
