//! From what is asked of a service to what happens in it in a second.

use crate::demand::{Demand, Key, Transport, Users};
use crate::event::{Event, Rates};

const HOUR_S: f64 = 3_600.0;

/// What happens in a second of the busy hour.
pub fn busy(demand: &Demand) -> Rates {
    let mut rates = Rates::default();
    calls(&mut rates, demand);
    renewals(&mut rates, demand);
    // A connection that ends is opened anew, and its subscriber registers over it.
    let opened_per_s = connected(demand) / demand.connections.lifetime_s as f64;
    arrive(
        &mut rates,
        demand,
        opened_per_s,
        demand.tls.resumed,
        demand.authentication.challenged,
    );
    rates
}

/// What happens anyway in a second in which subscribers come back.
pub fn meanwhile(demand: &Demand) -> Rates {
    busy(&restarted(demand))
}

/// What happens in a second in which subscribers come back, besides what happens anyway.
pub fn returning(demand: &Demand) -> Rates {
    let demand = &restarted(demand);
    let mut rates = Rates::default();
    let opened_per_s = connected(demand) / demand.storm.absorb_s as f64;
    // Nobody has a nonce that is still good.
    arrive(&mut rates, demand, opened_per_s, demand.storm.resumed, 1.0);
    rates
}

/// The cache before a database is in the server's memory: after a restart nobody is in it, and
/// it is reckoned to answer nothing until all are back.
fn restarted(demand: &Demand) -> Demand {
    let mut demand = demand.clone();
    demand.authentication.cached = 0.0;
    demand
}

/// Subscribers who are registered.
pub fn online(demand: &Demand) -> f64 {
    demand.subscribers.count as f64 * demand.subscribers.online
}

/// Subscribers who hold a connection.
pub fn connected(demand: &Demand) -> f64 {
    online(demand) * (demand.transports.tcp + demand.transports.tls)
}

/// Calls that begin in a second.
pub fn calls_per_s(demand: &Demand) -> f64 {
    demand.calls.busy_hour as f64 / HOUR_S
}

/// Digests that are verified in a second.
pub fn verified_per_s(rates: &Rates) -> f64 {
    rates.get(Event::VerifyOwn) + rates.get(Event::VerifyRemote) + rates.get(Event::VerifyCached)
}

/// Look-ups in a store in a second, the server's own or a database: not those that a cache
/// answers.
pub fn lookups_per_s(rates: &Rates) -> f64 {
    rates.get(Event::VerifyOwn) + rates.get(Event::VerifyRemote)
}

fn calls(rates: &mut Rates, demand: &Demand) {
    let per_s = calls_per_s(demand);
    let local_per_s = per_s * demand.calls.local;
    for (transport, share) in shares(demand) {
        rates.add(leg(transport), (per_s + local_per_s) * share);
    }
    rates.add(leg(demand.calls.gateway), per_s - local_per_s);
    rates.add(Event::Local, local_per_s);
    if demand.authentication.users != Users::None {
        let challenged_per_s = per_s * demand.authentication.challenged;
        rates.add(Event::ChallengeCall, challenged_per_s);
        verify(rates, demand, per_s);
    }
}

fn renewals(rates: &mut Rates, demand: &Demand) {
    let per_s = online(demand) / demand.registrations.interval_s as f64;
    for (transport, share) in shares(demand) {
        rates.add(register(transport), per_s * share);
    }
    registered(rates, demand, per_s, demand.authentication.challenged);
}

/// So many connections a second, over TCP and TLS as subscribers have them, and a registration
/// over each.
fn arrive(rates: &mut Rates, demand: &Demand, opened_per_s: f64, resumed: f64, challenged: f64) {
    let streams = demand.transports.tcp + demand.transports.tls;
    if streams <= 0.0 {
        return;
    }
    let tls_per_s = opened_per_s * demand.transports.tls / streams;
    let tcp_per_s = opened_per_s * demand.transports.tcp / streams;
    rates.add(Event::ConnectTcp, tcp_per_s);
    rates.add(Event::RegisterTcp, tcp_per_s);
    let full_per_s = tls_per_s * (1.0 - resumed);
    rates.add(full(demand.tls.key), full_per_s);
    rates.add(Event::Resumed, tls_per_s * resumed);
    rates.add(Event::Mutual, full_per_s * demand.tls.mutual);
    rates.add(Event::RegisterTls, tls_per_s);
    registered(rates, demand, opened_per_s, challenged);
}

/// What so many registrations a second are asked for.
fn registered(rates: &mut Rates, demand: &Demand, per_s: f64, challenged: f64) {
    if demand.authentication.users != Users::None {
        rates.add(Event::ChallengeRegister, per_s * challenged);
        verify(rates, demand, per_s);
    }
}

fn verify(rates: &mut Rates, demand: &Demand, per_s: f64) {
    match demand.authentication.users {
        Users::None => {}
        Users::Own => rates.add(Event::VerifyOwn, per_s),
        Users::Database => {
            let cached_per_s = per_s * demand.authentication.cached;
            rates.add(Event::VerifyCached, cached_per_s);
            rates.add(Event::VerifyRemote, per_s - cached_per_s);
        }
    }
}

fn shares(demand: &Demand) -> [(Transport, f64); 3] {
    [
        (Transport::Udp, demand.transports.udp),
        (Transport::Tcp, demand.transports.tcp),
        (Transport::Tls, demand.transports.tls),
    ]
}

/// A side of a call over this transport.
pub(crate) const fn leg(transport: Transport) -> Event {
    match transport {
        Transport::Udp => Event::LegUdp,
        Transport::Tcp => Event::LegTcp,
        Transport::Tls => Event::LegTls,
    }
}

/// A registration over this transport.
pub(crate) const fn register(transport: Transport) -> Event {
    match transport {
        Transport::Udp => Event::RegisterUdp,
        Transport::Tcp => Event::RegisterTcp,
        Transport::Tls => Event::RegisterTls,
    }
}

/// A full handshake with this kind of key.
pub(crate) const fn full(key: Key) -> Event {
    match key {
        Key::P256 => Event::FullP256,
        Key::Rsa2048 => Event::FullRsa2048,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::demand;

    #[test]
    fn a_call_has_two_sides() {
        let demand = demand(|demand| {
            demand.calls.busy_hour = 3_600;
            demand.calls.local = 0.25;
            demand.calls.gateway = Transport::Tls;
        });
        let rates = busy(&demand);
        let legs = rates.get(Event::LegUdp) + rates.get(Event::LegTcp) + rates.get(Event::LegTls);
        assert!((legs - 2.0).abs() < 1e-9, "{rates:?}");
        assert!((rates.get(Event::Local) - 0.25).abs() < 1e-9);
        // 1.25 by subscribers of whom 0.6 speak it, 0.75 to gateways.
        assert!((rates.get(Event::LegTls) - 1.5).abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn each_subscriber_renews_and_each_connection_is_opened_anew() {
        let demand = demand(|demand| {
            demand.subscribers.count = 10_000;
            demand.subscribers.online = 0.5;
            demand.registrations.interval_s = 100;
            demand.connections.lifetime_s = 1_000;
            demand.tls.resumed = 0.25;
            demand.tls.mutual = 0.5;
            demand.calls.busy_hour = 0;
        });
        let rates = busy(&demand);
        // 5,000 / 100 s, and 70 % of them / 1,000 s.
        assert!(
            (rates.registrations_per_s() - 53.5).abs() < 1e-9,
            "{rates:?}"
        );
        assert!((rates.handshakes_per_s() - 3.0).abs() < 1e-9, "{rates:?}");
        assert!((rates.get(Event::Resumed) - 0.75).abs() < 1e-9);
        assert!((rates.get(Event::Mutual) - 1.125).abs() < 1e-9);
        assert!((rates.get(Event::ConnectTcp) - 0.5).abs() < 1e-9);
        assert!((verified_per_s(&rates) - 53.5).abs() < 1e-9);
    }

    #[test]
    fn nobody_is_asked_where_users_are_nowhere() {
        let demand = demand(|demand| demand.authentication.users = Users::None);
        for rates in [busy(&demand), returning(&demand)] {
            assert_eq!(verified_per_s(&rates), 0.0);
            assert_eq!(rates.get(Event::ChallengeCall), 0.0);
            assert_eq!(rates.get(Event::ChallengeRegister), 0.0);
        }
    }

    #[test]
    fn the_cache_answers_its_share() {
        let demand = demand(|demand| {
            demand.authentication.users = Users::Database;
            demand.authentication.cached = 0.75;
        });
        let rates = busy(&demand);
        let ratio = rates.get(Event::VerifyCached) / rates.get(Event::VerifyRemote);
        assert!((ratio - 3.0).abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn after_a_restart_the_cache_is_empty() {
        let demand = demand(|demand| {
            demand.authentication.users = Users::Database;
            demand.authentication.cached = 0.95;
        });
        for rates in [meanwhile(&demand), returning(&demand)] {
            assert_eq!(rates.get(Event::VerifyCached), 0.0);
            assert_eq!(rates.get(Event::VerifyRemote), verified_per_s(&rates));
            assert_eq!(lookups_per_s(&rates), verified_per_s(&rates));
        }
        let (warm, cold) = (busy(&demand), meanwhile(&demand));
        assert!((verified_per_s(&warm) - verified_per_s(&cold)).abs() < 1e-9);
        assert!((lookups_per_s(&warm) - 0.05 * lookups_per_s(&cold)).abs() < 1e-9);
    }

    #[test]
    fn who_returns_has_a_connection() {
        let all_udp = demand(|demand| {
            demand.transports.udp = 1.0;
            demand.transports.tcp = 0.0;
            demand.transports.tls = 0.0;
        });
        assert_eq!(returning(&all_udp), Rates::default());
        let some = demand(|demand| demand.storm.absorb_s = 100);
        let rates = returning(&some);
        assert!((rates.registrations_per_s() - connected(&some) / 100.0).abs() < 1e-9);
        assert_eq!(
            rates.get(Event::ChallengeRegister),
            verified_per_s(&rates),
            "each is challenged"
        );
    }
}
