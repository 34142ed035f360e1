use super::*;

const PATIENCE_MS: u64 = 50;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

const fn id(number: u64) -> ConnId {
    ConnId(number)
}

/// So many clients of a source, numbered from there on.
fn flood(clients: &mut AwaitedClients, count: u64, from: u64, source: u8, awaited: Awaited) {
    for number in from..from + count {
        clients.put(id(number), ip(source), awaited, 90 + number % 7);
    }
}

/// Else a flood that replaces its own is always younger than a slow phone, whether it is silent
/// or says a hello and leaves the answer alone.
#[test]
fn a_source_with_many_gives_a_place_up_however_young_they_are() {
    for awaited in [Awaited::Hello, Awaited::Reply] {
        let mut clients = AwaitedClients::default();
        clients.put(id(1), ip(1), Awaited::Hello, 5);
        clients.put(id(2), ip(1), Awaited::Reply, 6);
        flood(&mut clients, FEW as u64 + 2, 100, 9, awaited);
        flood(&mut clients, FEW as u64 + 1, 300, 8, awaited);
        let mut gone = Vec::new();
        while let Some(next) = clients.of_all(100, PATIENCE_MS)
            && next.0 >= 100
        {
            clients.take_out(next);
            gone.push(next.0);
        }
        // Of each so many that it has few, and of those with most first, the oldest first.
        assert_eq!(gone, [105, 112, 301], "{awaited:?}");
        assert_eq!(clients.of_all(100, PATIENCE_MS), Some(id(1)));
    }
}

/// Else many small sources could have each office closed that has more phones than they.
#[test]
fn where_no_source_has_many_who_is_waited_for_longest_goes() {
    let mut clients = AwaitedClients::default();
    for source in 10..50 {
        clients.put(id(u64::from(source)), ip(source), Awaited::Hello, 50);
        clients.put(id(u64::from(source) + 100), ip(source), Awaited::Hello, 51);
    }
    for number in 1..=3 {
        clients.put(id(number), ip(1), Awaited::Hello, 60);
    }
    clients.put(id(4), ip(1), Awaited::Reply, 40);
    for source in 10..50 {
        assert_eq!(clients.of_all(100, PATIENCE_MS), Some(id(source)));
        clients.take_out(id(source));
    }
    assert_eq!(clients.of_all(100, PATIENCE_MS), Some(id(110)));
}

#[test]
fn of_one_source_only_its_own_are_chosen_whoever_else_waits() {
    let mut clients = AwaitedClients::default();
    flood(&mut clients, 40, 100, 9, Awaited::Hello);
    clients.put(id(50), ip(1), Awaited::Hello, 60);
    clients.put(id(51), ip(1), Awaited::Reply, 10);
    let of = |clients: &AwaitedClients, last| clients.of_source(ip(last), 100, PATIENCE_MS);
    assert_eq!(of(&clients, 1), Some(id(50)));
    assert_eq!(of(&clients, 2), None);
    // It says hello, is answered, and is asked for another one: it waits anew, and once.
    clients.put(id(50), ip(1), Awaited::Reply, 70);
    assert_eq!(of(&clients, 1), Some(id(51)));
    clients.put(id(50), ip(1), Awaited::Hello, 80);
    assert_eq!(of(&clients, 1), Some(id(50)));
    clients.take_out(id(50));
    assert!(!clients.has(id(50)) && clients.has(id(51)));
    assert_eq!(of(&clients, 1), Some(id(51)));
}

#[test]
fn who_has_just_been_answered_is_left_alone() {
    let mut clients = AwaitedClients::default();
    for number in 1..=3 {
        clients.put(id(number), ip(1), Awaited::Reply, 40 + number);
    }
    assert_eq!(clients.of_all(90, PATIENCE_MS), None);
    assert_eq!(clients.of_all(91, PATIENCE_MS), Some(id(1)));
    // Nor is one of many, for another of its own source.
    flood(&mut clients, 2 * FEW as u64, 100, 1, Awaited::Reply);
    assert_eq!(clients.of_source(ip(1), 90, PATIENCE_MS), None);
    assert_eq!(clients.of_source(ip(1), 91, PATIENCE_MS), Some(id(1)));
}

#[test]
fn nothing_is_kept_of_who_is_gone() {
    let mut clients = AwaitedClients::default();
    let mut held: Vec<(u64, u8, Awaited, u64)> = Vec::new();
    let mut seed = 12_345u32;
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    let mut chosen_of_many = 0;
    for number in 1..4_000 {
        let source = random(3) as u8;
        let awaited = [Awaited::Hello, Awaited::Reply][random(2) as usize];
        let since_ms = u64::from(random(1_000));
        if held.is_empty() || random(7) < 4 {
            clients.put(id(number), ip(source), awaited, since_ms);
            held.push((number, source, awaited, since_ms));
        } else {
            let gone = held.swap_remove(random(held.len() as u32) as usize);
            clients.take_out(id(gone.0));
        }
        let count = |source| held.iter().filter(|one| one.1 == source).count();
        let first = |source: Option<u8>| {
            let of = |one: &&(u64, u8, Awaited, u64)| source.is_none_or(|source| one.1 == source);
            let of = held.iter().filter(of);
            of.map(|one| (one.2, one.3, one.0)).min().map(|one| one.2)
        };
        let most = (0..3)
            .max_by_key(|source| (count(*source), *source))
            .unwrap_or(0);
        let many = (count(most) > FEW).then_some(most);
        chosen_of_many += usize::from(many.is_some());
        let chosen = clients.of_all(1_000, 0).map(|id| id.0);
        assert_eq!(chosen, first(many), "{number}");
    }
    assert!(chosen_of_many > 1_000, "{chosen_of_many}");
    for (number, ..) in held {
        clients.take_out(id(number));
    }
    assert!(clients.clients.is_empty() && clients.counts.is_empty() && clients.shares.is_empty());
    assert!(clients.by_time.is_empty() && clients.by_source.is_empty());
}
