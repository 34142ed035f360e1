//! Keeps its own books on who said what, and holds what the server sends to them.
//!
//! It knows nothing of tokens, permits or transactions: only which party
//! emitted which request, and what each party may reach by right.

use crate::plan::{Hostility, Standing};
use crate::server::DOMAIN;
use crate::text::{Name, Text};
use sip_engine::Binding;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Max-Breadth as the server gives it: no request may have more branches at a time.
const BRANCHES_MAX: usize = 60;
/// The name of the hostile user, and the domain of the hostile neighbour.
pub(crate) const MALLORY: &str = "mallory";
pub(crate) const EVIL: &str = "evil.test";

/// Addresses-of-record, each with its contacts.
pub(crate) type Bindings = Vec<(Arc<[u8]>, Vec<Arc<Binding>>)>;

/// Somebody who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    Honest,
    Gateway,
    Neighbour,
    Mallory,
}

/// Where everybody is.
pub(crate) struct Places {
    pub(crate) server: SocketAddr,
    pub(crate) gateway: SocketAddr,
    pub(crate) neighbour: SocketAddr,
    pub(crate) mallory: SocketAddr,
    pub(crate) hosts: Vec<SocketAddr>,
}

/// A request as its sender meant it. The server may change none of this.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Said {
    method: String,
    call_id: String,
    from: Name,
    to: Name,
    cseq: u32,
}

pub(crate) struct Warden {
    places: Places,
    hostility: Hostility,
    /// Who said it.
    said: HashMap<Said, HashSet<Party>>,
    /// What was said to mallory, by the address that counts, whoever To names.
    to_mallory: HashSet<Said>,
    /// The calls that an address takes part in by its own messages.
    spoke: HashSet<(IpAddr, String)>,
    /// Calls that the gateway made, or that reached it by right.
    gateway_calls: HashSet<String>,
    /// Who called the neighbour, by Call-ID.
    called_neighbour: HashMap<String, Name>,
    /// Calls of the hostile: how many requests had this Call-ID, and their branches.
    branches: HashMap<String, (usize, HashSet<String>)>,
    /// Where a hostile caller said that he is: his call, his name in it, that of whom
    /// he called, and the Contact.
    shown: HashSet<(String, Name, Name, Name)>,
    /// By which name each party called whom.
    called: HashSet<(Party, String, Name, Name)>,
    /// The contacts of honest users' phones.
    contacts: HashMap<String, HashSet<String>>,
    /// Call-IDs of honest users' registrations.
    registrations: HashSet<(String, String)>,
    /// The bindings of honest users when they were last looked at, and when each ends.
    bindings: HashMap<(String, String), u64>,
    pub(crate) faults: Vec<String>,
}

impl Warden {
    pub(crate) fn new(places: Places, hostility: Hostility) -> Self {
        Self {
            places,
            hostility,
            said: HashMap::new(),
            to_mallory: HashSet::new(),
            spoke: HashSet::new(),
            gateway_calls: HashSet::new(),
            called_neighbour: HashMap::new(),
            branches: HashMap::new(),
            shown: HashSet::new(),
            called: HashSet::new(),
            contacts: HashMap::new(),
            registrations: HashSet::new(),
            bindings: HashMap::new(),
            faults: Vec::new(),
        }
    }

    /// An honest user has a phone with this contact.
    pub(crate) fn add_contact(&mut self, user: &str, contact: &str) {
        let contacts = self.contacts.entry(user.to_owned()).or_default();
        contacts.insert(contact.to_owned());
    }

    /// Somebody, not the server, sends.
    pub(crate) fn emitted(&mut self, addr: SocketAddr, bytes: &[u8]) {
        let text = Text::read(bytes);
        let call_id = text.call_id().to_owned();
        self.spoke.insert((addr.ip(), call_id.clone()));
        if !text.is_request() {
            return;
        }
        let party = self.party(addr.ip()).unwrap_or(Party::Honest);
        match party {
            Party::Honest => {
                if text.method() == "REGISTER" {
                    self.registrations.insert((text.to().user, call_id.clone()));
                }
                if text.to().host == EVIL {
                    self.called_neighbour
                        .entry(call_id.clone())
                        .or_insert_with(|| text.from());
                }
            }
            Party::Gateway => {
                self.gateway_calls.insert(call_id.clone());
            }
            Party::Neighbour | Party::Mallory => {
                for contact in text.values("contact") {
                    let contact = self.bare(Name::of(crate::text::inner(&contact)));
                    self.shown
                        .insert((call_id.clone(), text.from(), text.to(), contact));
                }
                self.branches.entry(call_id).or_default().0 += 1;
            }
        }
        self.called
            .insert((party, text.call_id().to_owned(), text.from(), text.to()));
        // RFC 3261 16.4: behind a Request-URI that the server put into a Record-Route
        // stands the one that counts, as the last Route.
        let last_route = text.values("route").pop().unwrap_or_default();
        let leads_to_mallory = |uri: &str| {
            let uri = Name::of(uri);
            self.is_ours(&uri.host) && uri.user == MALLORY
        };
        if leads_to_mallory(text.uri()) || leads_to_mallory(crate::text::inner(&last_route)) {
            self.to_mallory.insert(said(&text));
        }
        self.said.entry(said(&text)).or_default().insert(party);
    }

    /// The server sends.
    pub(crate) fn server_sent(&mut self, to: SocketAddr, bytes: &[u8]) {
        let text = Text::read(bytes);
        let objection = if text.is_request() {
            self.object_to_request(to, &text)
        } else {
            self.object_to_response(to, &text)
        };
        if let Some(why) = objection {
            self.faults.push(format!(
                "{why}\nto {to}:\n{}",
                String::from_utf8_lossy(bytes)
            ));
        }
    }

    fn object_to_response(&self, to: SocketAddr, text: &Text) -> Option<String> {
        // Who sends a request without a Call-ID has an answer without one.
        let is_known = text.call_id().is_empty() && self.party(to.ip()).is_some();
        let spoke = (to.ip(), text.call_id().to_owned());
        (!is_known && !self.spoke.contains(&spoke))
            .then(|| format!("{} had no part in this call and hears of it", to.ip()))
    }

    fn object_to_request(&mut self, to: SocketAddr, text: &Text) -> Option<String> {
        if to == self.places.server || is_inside(to.ip()) {
            return Some("a request leaves for where none is relayed".to_owned());
        }
        if let Some(why) = self.object_to_breadth(text) {
            return Some(why);
        }
        let speakers = self.said.get(&said(text)).cloned().unwrap_or_default();
        // Other ports of its host are not the gateway's (docs/decisions/0082).
        let receiver = self
            .party(to.ip())
            .filter(|party| *party != Party::Gateway || to == self.places.gateway);
        // A hostile caller hears from whoever answers him, by the name that he wrote himself.
        let is_answer = receiver
            .filter(|party| matches!(party, Party::Mallory | Party::Neighbour))
            .map(|party| (party, text.call_id().to_owned(), text.to(), text.from()))
            .is_some_and(|call| self.called.contains(&call));
        if !is_answer && let Some(why) = self.object_to_speaker(text, &speakers) {
            return Some(format!("{why}; said by {speakers:?}"));
        }
        let why = match receiver {
            Some(Party::Gateway) => self
                .object_at_gateway(text, &speakers)
                .or_else(|| self.object_to_identity(text, &speakers)),
            Some(Party::Honest) => self
                .object_at_phone(text, &speakers)
                .or_else(|| self.object_to_identity(text, &speakers)),
            Some(Party::Mallory | Party::Neighbour) => None,
            None => self.object_to_relay(text, &speakers),
        };
        why.map(|why| format!("{why}; said by {speakers:?}"))
    }

    fn object_to_breadth(&mut self, text: &Text) -> Option<String> {
        let (requests, branches) = self.branches.get_mut(text.call_id())?;
        branches.insert(text.branch().to_owned());
        let allowed = *requests * BRANCHES_MAX;
        (branches.len() > allowed)
            .then(|| format!("{requests} requests had {} branches", branches.len()))
    }

    /// Nobody speaks in another's name, wherever it goes.
    fn object_to_speaker(&self, text: &Text, speakers: &HashSet<Party>) -> Option<String> {
        let from = text.from();
        if speakers.is_empty() {
            return Some("nobody said this".to_owned());
        }
        if !self.is_ours(&from.host) {
            return None;
        }
        let owner = match from.user.as_str() {
            // Where his calls are answered, and so who speaks there, he chooses himself.
            MALLORY => return None,
            user if self.contacts.contains_key(user) => Party::Honest,
            _ => return Some("the name is of no user".to_owned()),
        };
        (!speakers.contains(&owner)).then(|| "he whose name is in From did not say this".to_owned())
    }

    /// Nobody claims another identity by the headers that are made for it.
    fn object_to_identity(&self, text: &Text, speakers: &HashSet<Party>) -> Option<String> {
        for header in [
            "p-asserted-identity",
            "p-preferred-identity",
            "remote-party-id",
            "p-charge-info",
        ] {
            for value in text.all(header) {
                let host = Name::of(crate::text::inner(value)).host;
                let may = speakers.contains(&Party::Gateway)
                    || speakers.contains(&Party::Neighbour)
                        && self.hostility.neighbour != Standing::Unlisted
                        && host == EVIL;
                if !may {
                    return Some(format!("{header} claims what nobody vouches for"));
                }
            }
        }
        None
    }

    /// Whether one of our users says it. He may hide (RFC 3323): his digest says who he is.
    fn is_of_ours(&self, from: &Name, speakers: &HashSet<Party>) -> bool {
        let hides = from.is_nobody();
        self.is_ours(&from.host) || hides && speakers.contains(&Party::Mallory)
    }

    fn object_at_gateway(&mut self, text: &Text, speakers: &HashSet<Party>) -> Option<String> {
        let (from, to) = (text.from(), text.to());
        let uri = Name::of(text.uri());
        let is_of_ours = self.is_of_ours(&from, speakers);
        let is_peer = self.hostility.neighbour == Standing::Relays
            && speakers.contains(&Party::Neighbour)
            && !self.is_ours(&from.host);
        if self.gateway_calls.contains(text.call_id()) && uri.user == "gw" {
            // Within a dialog that the gateway has: who speaks was looked at.
            let is_side = is_of_ours || speakers.contains(&Party::Gateway);
            return (!is_side && !is_peer)
                .then(|| "the gateway's dialog has no such side".to_owned());
        }
        if speakers.contains(&Party::Gateway)
            || speakers.contains(&Party::Honest) && text.method() != "INVITE"
        {
            // Somebody who answered named the gateway as his contact: the BYE of
            // him whom he answered is that one's own.
            return None;
        }
        // The tables give it numbers at its own address; users reach it by nothing else.
        let is_by_table = uri.host == self.places.gateway.ip().to_string();
        if is_of_ours && !(is_by_table && uri.user.starts_with('+')) {
            return Some("the gateway is reached past the tables".to_owned());
        }
        let is_mallory = from.user == MALLORY || !self.is_ours(&from.host);
        let is_user = speakers.contains(&Party::Mallory) && is_mallory
            || speakers.contains(&Party::Honest) && to.user == uri.user;
        let may = if is_of_ours { is_user } else { is_peer };
        if !may {
            return Some("the gateway is reached without a right to it".to_owned());
        }
        self.gateway_calls.insert(text.call_id().to_owned());
        None
    }

    fn object_at_phone(&self, text: &Text, speakers: &HashSet<Party>) -> Option<String> {
        let (from, to) = (text.from(), text.to());
        // A phone's contact is its user's name and a number.
        let at_phone = Name::of(text.uri());
        let owner = at_phone.user.clone();
        let owner = owner.split('-').next().unwrap_or("");
        // Two in league: a hostile caller showed somebody else's phone as his own, and
        // whoever he called sends there, under the name that he called. The phone does
        // not know the dialog (docs/THREATS.md).
        let by_name = Name {
            user: owner.to_owned(),
            host: DOMAIN.to_owned(),
        };
        let is_shown = |place| {
            let call = (text.call_id().to_owned(), to.clone(), from.clone(), place);
            self.shown.contains(&call)
        };
        if is_shown(at_phone) || is_shown(by_name) {
            return None;
        }
        if self.is_of_ours(&from, speakers) {
            // Mallory may have his own calls answered wherever he wants.
            let is_diverted = self.is_ours(&to.host) && to.user == MALLORY;
            let is_honest = !speakers.contains(&Party::Mallory);
            return (is_honest && !is_diverted && to.user != owner)
                .then(|| format!("{owner} was not called"));
        }
        if speakers.contains(&Party::Gateway) || self.hostility.is_open_to_strangers {
            return None;
        }
        let is_listed = self.hostility.neighbour != Standing::Unlisted;
        let is_nobody = from.is_nobody() || text.header("from").contains("tel:");
        let is_answering = self
            .called_neighbour
            .get(text.call_id())
            .is_some_and(|caller| caller.user == owner);
        let may = speakers.contains(&Party::Neighbour)
            && (is_listed && (from.host == EVIL || is_nobody) || is_answering);
        (!may).then(|| format!("a stranger reaches {owner}"))
    }

    /// What leaves for the world outside. Mallory may have his own calls answered
    /// wherever he wants.
    fn object_to_relay(&self, text: &Text, speakers: &HashSet<Party>) -> Option<String> {
        let to = text.to();
        let may = speakers.contains(&Party::Neighbour)
            && self.hostility.neighbour == Standing::Relays
            || self.is_ours(&to.host) && to.user == MALLORY
            || self.to_mallory.contains(&said(text))
            || speakers.iter().any(|party| *party != Party::Neighbour);
        (!may).then(|| "a stranger's request is relayed".to_owned())
    }

    /// The bindings as they are: the server's table, read through its own window.
    pub(crate) fn look_at(&mut self, unix_ms: u64, bindings: &Bindings, contacts_max: usize) {
        let mut seen = HashMap::new();
        for (aor, of_aor) in bindings {
            let aor = String::from_utf8_lossy(aor).into_owned();
            let name = Name::of(&aor);
            if name.user == MALLORY && of_aor.len() <= contacts_max {
                self.look_at_mallory(of_aor);
                continue;
            }
            let Some(contacts) = self.contacts.get(&name.user) else {
                self.faults
                    .push(format!("{aor} has {} bindings", of_aor.len()));
                continue;
            };
            for binding in of_aor {
                let uri = String::from_utf8_lossy(&binding.uri).into_owned();
                let call_id = String::from_utf8_lossy(&binding.call_id).into_owned();
                let is_own = contacts.contains(&uri)
                    && self.registrations.contains(&(name.user.clone(), call_id));
                if !is_own {
                    self.faults
                        .push(format!("{aor} is bound to {uri}, not by himself"));
                }
                seen.insert((name.user.clone(), uri), binding.expires_unix_ms);
            }
        }
        for (lost, expires_unix_ms) in &self.bindings {
            if !seen.contains_key(lost) && *expires_unix_ms > unix_ms {
                self.faults
                    .push(format!("{lost:?} is gone before its time"));
            }
        }
        self.bindings = seen;
    }

    /// A hostile user's contacts: not SIPS over what is not TLS.
    fn look_at_mallory(&mut self, bindings: &[Arc<Binding>]) {
        for binding in bindings {
            if binding.uri.to_ascii_lowercase().starts_with(b"sips:") {
                self.faults.push(format!(
                    "a sips contact was bound over a transport in the clear: {}",
                    binding.uri.escape_ascii()
                ));
            }
        }
    }

    fn party(&self, ip: IpAddr) -> Option<Party> {
        let places = &self.places;
        if ip == places.gateway.ip() {
            Some(Party::Gateway)
        } else if ip == places.neighbour.ip() {
            Some(Party::Neighbour)
        } else if ip == places.mallory.ip() {
            Some(Party::Mallory)
        } else if places.hosts.iter().any(|host| host.ip() == ip) {
            Some(Party::Honest)
        } else {
            None
        }
    }

    /// A name of ours by the domain, whichever of our hosts it has.
    fn bare(&self, name: Name) -> Name {
        let host = match self.is_ours(&name.host) {
            true => DOMAIN.to_owned(),
            false => name.host,
        };
        Name { host, ..name }
    }

    fn is_ours(&self, host: &str) -> bool {
        host == DOMAIN || host == self.places.server.ip().to_string()
    }
}

/// Networks to which nothing is relayed.
fn is_inside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            ip.is_loopback() || ip.is_link_local() || ip.is_multicast() || ip.is_unspecified()
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_multicast() || ip.is_unspecified(),
    }
}

/// ACK and CANCEL are of their INVITE: the server makes some itself.
fn said(text: &Text) -> Said {
    let method = match text.method() {
        "ACK" | "CANCEL" => "INVITE",
        method => method,
    };
    Said {
        method: method.to_owned(),
        call_id: text.call_id().to_owned(),
        from: text.from(),
        to: text.to(),
        cseq: text.cseq(),
    }
}
