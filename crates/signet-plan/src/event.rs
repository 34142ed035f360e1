//! What happens in a server, so that it can be counted and priced.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One thing that costs a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A side of a call over UDP, from INVITE to the answer to BYE; a call has two.
    LegUdp,
    /// The same over a TCP connection that is there.
    LegTcp,
    /// The same over a TLS connection that is there.
    LegTls,
    /// What it costs more to find the called side by its registration than by a route.
    Local,
    /// A REGISTER and its 200 over UDP.
    RegisterUdp,
    /// The same over a TCP connection that is there.
    RegisterTcp,
    /// The same over a TLS connection that is there.
    RegisterTls,
    /// A TCP connection from its beginning to its end.
    ConnectTcp,
    /// A TLS connection, TCP included, with a full handshake and a P-256 certificate.
    FullP256,
    /// The same with an RSA-2048 certificate.
    FullRsa2048,
    /// A TLS connection, TCP included, that resumes a session.
    Resumed,
    /// What a full handshake costs more where the client shows a certificate.
    Mutual,
    /// A 407, its ACK, and the INVITE again with credentials.
    ChallengeCall,
    /// A 401 and the REGISTER again with credentials.
    ChallengeRegister,
    /// A digest that is verified, its user looked up in the server's own store.
    VerifyOwn,
    /// The same with a look-up in a database.
    VerifyRemote,
    /// The same with a look-up that the cache before the database answers.
    VerifyCached,
}

impl Event {
    /// Each of them.
    pub const ALL: [Self; 17] = [
        Self::LegUdp,
        Self::LegTcp,
        Self::LegTls,
        Self::Local,
        Self::RegisterUdp,
        Self::RegisterTcp,
        Self::RegisterTls,
        Self::ConnectTcp,
        Self::FullP256,
        Self::FullRsa2048,
        Self::Resumed,
        Self::Mutual,
        Self::ChallengeCall,
        Self::ChallengeRegister,
        Self::VerifyOwn,
        Self::VerifyRemote,
        Self::VerifyCached,
    ];

    /// As it is called in text.
    pub const fn title(self) -> &'static str {
        match self {
            Self::LegUdp => "sides of calls over UDP",
            Self::LegTcp => "sides of calls over TCP",
            Self::LegTls => "sides of calls over TLS",
            Self::Local => "finding registered users",
            Self::RegisterUdp => "registrations over UDP",
            Self::RegisterTcp => "registrations over TCP",
            Self::RegisterTls => "registrations over TLS",
            Self::ConnectTcp => "TCP connections",
            Self::FullP256 => "full handshakes, P-256",
            Self::FullRsa2048 => "full handshakes, RSA-2048",
            Self::Resumed => "resumed handshakes",
            Self::Mutual => "certificates of clients",
            Self::ChallengeCall => "challenged calls",
            Self::ChallengeRegister => "challenged registrations",
            Self::VerifyOwn => "digests and look-ups in the own store",
            Self::VerifyRemote => "digests and look-ups in the database",
            Self::VerifyCached => "digests and look-ups in the cache",
        }
    }

    /// Messages and other things that may wake the server up for it: what comes in, and answers
    /// of its other threads.
    pub const fn arrivals(self) -> f64 {
        match self {
            Self::LegUdp | Self::LegTcp | Self::LegTls | Self::FullP256 | Self::FullRsa2048 => 3.0,
            Self::ConnectTcp
            | Self::Resumed
            | Self::ChallengeCall
            | Self::VerifyOwn
            | Self::VerifyRemote => 2.0,
            Self::RegisterUdp | Self::RegisterTcp | Self::RegisterTls | Self::ChallengeRegister => {
                1.0
            }
            Self::Local | Self::Mutual | Self::VerifyCached => 0.0,
        }
    }

    /// Transactions of it that stay for 64*T1 after they have done their work (RFC 3261
    /// 17.2.2, timer J; RFC 6026 timers L and M), as a mean over both sides of a call.
    pub const fn kept_transactions(self) -> f64 {
        match self {
            // INVITE on either side; over UDP the caller's BYE too.
            Self::LegUdp => 1.5,
            Self::LegTcp | Self::LegTls | Self::RegisterUdp => 1.0,
            _ => 0.0,
        }
    }
}

/// How long they stay, in seconds: 64*T1.
pub const KEPT_S: f64 = 32.0;

/// How often each thing happens in a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rates(BTreeMap<Event, f64>);

impl Rates {
    /// How often this happens in a second.
    pub fn get(&self, event: Event) -> f64 {
        self.0.get(&event).copied().unwrap_or(0.0)
    }

    /// Adds so many a second; what is not above 0 adds nothing.
    pub fn add(&mut self, event: Event, per_s: f64) {
        if per_s > 0.0 {
            *self.0.entry(event).or_insert(0.0) += per_s;
        }
    }

    /// Adds all of another's.
    pub fn add_all(&mut self, other: &Self) {
        for (event, per_s) in other.iter() {
            self.add(event, per_s);
        }
    }

    /// Each thing that happens, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Event, f64)> + '_ {
        self.0.iter().map(|(event, per_s)| (*event, *per_s))
    }

    /// What may wake the server up, a second.
    pub fn arrivals_per_s(&self) -> f64 {
        self.iter()
            .map(|(event, per_s)| event.arrivals() * per_s)
            .sum()
    }

    /// How likely it is that two arrivals, one after the other, are of different kinds: 0 where all
    /// are alike.
    pub fn mixed(&self) -> f64 {
        let all_per_s = self.arrivals_per_s();
        if all_per_s <= 0.0 {
            return 0.0;
        }
        let alike: f64 = self
            .iter()
            .map(|(event, per_s)| (event.arrivals() * per_s / all_per_s).powi(2))
            .sum();
        1.0 - alike
    }

    /// Transactions that begin in a second and stay for [`KEPT_S`].
    pub fn kept_per_s(&self) -> f64 {
        self.iter()
            .map(|(event, per_s)| event.kept_transactions() * per_s)
            .sum()
    }

    /// TLS handshakes of all kinds, a second.
    pub fn handshakes_per_s(&self) -> f64 {
        self.get(Event::FullP256) + self.get(Event::FullRsa2048) + self.get(Event::Resumed)
    }

    /// Registrations over all transports, a second.
    pub fn registrations_per_s(&self) -> f64 {
        self.get(Event::RegisterUdp) + self.get(Event::RegisterTcp) + self.get(Event::RegisterTls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_add_up() {
        let mut rates = Rates::default();
        rates.add(Event::LegUdp, 20.0);
        rates.add(Event::RegisterTls, 5.0);
        rates.add(Event::RegisterTls, -3.0);
        let mut twice = rates.clone();
        twice.add_all(&rates);
        assert_eq!(twice.get(Event::LegUdp), 40.0);
        assert_eq!(twice.get(Event::Mutual), 0.0);
        assert_eq!(twice.arrivals_per_s(), 130.0);
        let (legs, registers) = (120.0 / 130.0, 10.0 / 130.0);
        let alike: f64 = legs * legs + registers * registers;
        assert!((twice.mixed() - (1.0 - alike)).abs() < 1e-9);
        assert_eq!(Rates::default().mixed(), 0.0);
        assert_eq!(twice.kept_per_s(), 60.0);
        assert_eq!(twice.registrations_per_s(), 10.0);
    }

    #[test]
    fn each_thing_has_a_name_of_its_own() {
        let mut titles: Vec<&str> = Event::ALL.iter().map(|event| event.title()).collect();
        titles.sort_unstable();
        titles.dedup();
        assert_eq!(titles.len(), Event::ALL.len());
        let text = serde_json::to_string(&Event::FullRsa2048).unwrap();
        assert_eq!(text, "\"full-rsa2048\"");
    }
}
