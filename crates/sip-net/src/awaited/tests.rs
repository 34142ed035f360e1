use super::*;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

const fn id(number: u64) -> ConnId {
    ConnId(number)
}

fn clients(of: &[(u64, u8, u64)]) -> AwaitedClients {
    let mut clients = AwaitedClients::default();
    for (number, source, since_ms) in of {
        clients.put(id(*number), ip(*source), Awaited::Hello, *since_ms);
    }
    clients
}

fn longest(clients: &AwaitedClients) -> Option<ConnId> {
    clients.longest(Awaited::Hello, None, 100, 0)
}

/// Else a flood that replaces its own is always younger than a slow phone.
#[test]
fn the_source_with_most_clients_gives_a_place_up_however_young_they_are() {
    let mut clients = clients(&[(1, 1, 5), (2, 2, 90), (3, 2, 91), (4, 3, 6)]);
    assert_eq!(longest(&clients), Some(id(2)));
    clients.take_out(id(2));
    // All have one now: the one that has waited longest goes.
    for expected in [1, 4, 3] {
        assert_eq!(longest(&clients), Some(id(expected)));
        clients.take_out(id(expected));
    }
    assert_eq!(longest(&clients), None);
}

#[test]
fn of_one_source_only_its_own_are_chosen_whoever_else_waits() {
    let many: Vec<_> = (1..=40).map(|number| (number, 9, number)).collect();
    let mut clients = clients(&many);
    clients.put(id(50), ip(1), Awaited::Hello, 60);
    clients.put(id(51), ip(1), Awaited::Reply, 10);
    let of =
        |clients: &AwaitedClients, last, awaited| clients.longest(awaited, Some(ip(last)), 100, 0);
    assert_eq!(of(&clients, 1, Awaited::Hello), Some(id(50)));
    assert_eq!(of(&clients, 1, Awaited::Reply), Some(id(51)));
    assert_eq!(of(&clients, 9, Awaited::Reply), None);
    assert_eq!(of(&clients, 2, Awaited::Hello), None);
    // It is asked for another hello: it waits anew, and once.
    clients.put(id(50), ip(1), Awaited::Reply, 70);
    clients.put(id(50), ip(1), Awaited::Hello, 80);
    assert_eq!(clients.get(id(50)), Some((Awaited::Hello, 80)));
    assert_eq!(of(&clients, 1, Awaited::Reply), Some(id(51)));
}

#[test]
fn who_has_not_been_waited_for_so_long_is_left_alone() {
    let mut clients = AwaitedClients::default();
    for number in 1..=3 {
        clients.put(id(number), ip(1), Awaited::Reply, 40 + number);
    }
    clients.put(id(9), ip(2), Awaited::Reply, 10);
    let at = |now_ms| clients.longest(Awaited::Reply, None, now_ms, 50);
    // The source with most has none that has waited so long.
    assert_eq!(at(59), None);
    assert_eq!(at(60), Some(id(9)));
    assert_eq!(at(91), Some(id(1)));
}

#[test]
fn nothing_is_kept_of_who_is_gone() {
    let mut clients = AwaitedClients::default();
    let mut held: Vec<(u64, u8, u64)> = Vec::new();
    let mut seed = 12_345u32;
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    for number in 1..4_000 {
        let (source, since_ms) = (random(7) as u8, u64::from(random(1_000)));
        if held.is_empty() || random(2) == 0 {
            clients.put(id(number), ip(source), Awaited::Hello, since_ms);
            held.push((number, source, since_ms));
        } else {
            let gone = held.swap_remove(random(held.len() as u32) as usize);
            clients.take_out(id(gone.0));
        }
        let count = |source| held.iter().filter(|one| one.1 == source).count();
        let oldest_of = |source| {
            let of = held.iter().filter(|one| one.1 == source);
            of.map(|one| (one.2, one.0)).min()
        };
        let most = (0..7).max_by_key(|source| (count(*source), Reverse(oldest_of(*source))));
        let expected = most.and_then(oldest_of).map(|(_, number)| number);
        let chosen = clients.longest(Awaited::Hello, None, 1_000, 0);
        // Of sources that have the same share for the same time either may be chosen.
        let rank = |number: u64| {
            let (_, source, since_ms) = held.iter().find(|one| one.0 == number)?;
            Some((count(*source), *since_ms))
        };
        assert_eq!(
            chosen.and_then(|chosen| rank(chosen.0)),
            expected.and_then(rank)
        );
    }
    for (number, ..) in held {
        clients.take_out(id(number));
    }
    assert!(clients.clients.is_empty() && clients.hellos.clients.is_empty());
    assert!(clients.hellos.counts.is_empty() && clients.hellos.shares.is_empty());
}
