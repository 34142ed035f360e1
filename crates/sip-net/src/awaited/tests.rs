use super::*;

/// Shorter than outside, so that all that is said of times below is past it or not.
const PATIENCE_MS: u64 = 50;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

const fn id(number: u64) -> ConnId {
    ConnId(number)
}

fn has(clients: &AwaitedClients, number: u64) -> bool {
    clients.clients.contains_key(&id(number))
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
        while let Some(next) = clients.of_all(FEW, 100, PATIENCE_MS)
            && next.0 >= 100
        {
            clients.take_out(next);
            gone.push(next.0);
        }
        // Of each so many that it has few, and of those with most first, the oldest first.
        assert_eq!(gone, [105, 112, 301], "{awaited:?}");
        assert_eq!(clients.of_all(FEW, 100, PATIENCE_MS), Some(id(1)));
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
        assert_eq!(clients.of_all(FEW, 120, PATIENCE_MS), Some(id(source)));
        clients.take_out(id(source));
    }
    assert_eq!(clients.of_all(FEW, 120, PATIENCE_MS), Some(id(110)));
}

#[test]
fn of_one_source_only_its_own_are_chosen_whoever_else_waits() {
    let mut clients = AwaitedClients::default();
    flood(&mut clients, 40, 100, 9, Awaited::Hello);
    clients.put(id(50), ip(1), Awaited::Hello, 60);
    clients.put(id(51), ip(1), Awaited::Reply, 10);
    let of = |clients: &AwaitedClients, last| clients.of_source(ip(last), 140, PATIENCE_MS);
    assert_eq!(of(&clients, 1), Some(id(50)));
    assert_eq!(of(&clients, 2), None);
    // It says hello, is answered, and is asked for another one: it waits anew, and once.
    clients.put(id(50), ip(1), Awaited::Reply, 70);
    assert_eq!(of(&clients, 1), Some(id(51)));
    clients.put(id(50), ip(1), Awaited::Hello, 80);
    assert_eq!(of(&clients, 1), Some(id(50)));
    clients.take_out(id(50));
    assert!(!has(&clients, 50) && has(&clients, 51));
    assert_eq!(of(&clients, 1), Some(id(51)));
}

#[test]
fn who_has_just_been_answered_is_left_alone() {
    let mut clients = AwaitedClients::default();
    for number in 1..=3 {
        clients.put(id(number), ip(1), Awaited::Reply, 40 + number);
    }
    assert_eq!(clients.of_all(FEW, 90, PATIENCE_MS), None);
    assert_eq!(clients.of_all(FEW, 91, PATIENCE_MS), Some(id(1)));
    // Nor is one of many, for another of its own source.
    flood(&mut clients, 2 * FEW as u64, 100, 1, Awaited::Reply);
    assert_eq!(clients.of_source(ip(1), 90, PATIENCE_MS), None);
    assert_eq!(clients.of_source(ip(1), 91, PATIENCE_MS), Some(id(1)));
}

#[test]
fn what_few_are_is_said_of_all_workers_together() {
    let bounds = [1, 2, 8, 16, 64, 0].map(few);
    assert_eq!(bounds, [64, 32, 8, 4, 4, 64]);
}

/// So many places, and as many sources as one likes.
struct Places {
    clients: AwaitedClients,
    places: usize,
    /// Of these, places of one source.
    of_source: usize,
    came: u64,
}

impl Places {
    fn new(places: usize) -> Self {
        Self {
            clients: AwaitedClients::default(),
            places,
            of_source: places,
            came: 0,
        }
    }

    /// One comes and gets a place, if there is one or somebody gives way.
    fn come(&mut self, source: u32, now_ms: u64) -> Option<u64> {
        let source = IpAddr::from(source.to_be_bytes());
        let of_it = self.clients.counts.get(&source);
        let of_it = of_it.map_or(0, |counts| counts.sum());
        let gone = if of_it >= self.of_source {
            Some(self.clients.of_source(source, now_ms, GRACE_MS)?)
        } else if self.clients.clients.len() >= self.places {
            Some(self.clients.of_all(FEW, now_ms, GRACE_MS)?)
        } else {
            None
        };
        if let Some(gone) = gone {
            self.clients.take_out(gone);
        }
        self.came += 1;
        let number = self.came;
        self.clients.put(id(number), source, Awaited::Hello, now_ms);
        Some(number)
    }

    /// The same, and says a hello of somebody else's, which is answered.
    fn replay(&mut self, source: u32, now_ms: u64) -> Option<u64> {
        let number = self.come(source, now_ms)?;
        self.answer(number, source, now_ms);
        Some(number)
    }

    fn answer(&mut self, number: u64, source: u32, now_ms: u64) {
        let source = IpAddr::from(source.to_be_bytes());
        self.clients.put(id(number), source, Awaited::Reply, now_ms);
    }

    fn has(&self, number: u64) -> bool {
        has(&self.clients, number)
    }
}

const PHONE: u32 = 1;

/// Sources of a flood, of which none has many.
fn many(nth: u64) -> u32 {
    1_000 + (nth % 100) as u32
}

#[test]
fn a_flood_from_one_source_closes_its_own_be_it_silent_or_replayed() {
    for replays in [false, true] {
        let mut places = Places::new(200);
        let slow = places.come(PHONE, 0).unwrap();
        for now_ms in 0..5_000 {
            let flood = match replays {
                true => places.replay(9, now_ms),
                false => places.come(9, now_ms),
            };
            assert!(flood.is_some());
            // Whoever else comes gets in, and is answered in his time.
            if now_ms % 100 == 0 {
                let phone = places.come(PHONE + 1, now_ms).unwrap();
                places.answer(phone, PHONE + 1, now_ms);
                places.clients.take_out(id(phone));
            }
        }
        assert!(places.has(slow), "{replays}");
    }
}

#[test]
fn a_silent_flood_from_many_sources_leaves_each_newcomer_his_time() {
    let mut places = Places::new(200);
    for now_ms in 0..3_000 {
        let phone = places.come(PHONE, now_ms).unwrap();
        // As long as the flood takes to fill all places: here a fifth of the grace.
        for nth in 0..199 {
            assert!(places.has(phone), "{nth}");
            places.come(many(nth), now_ms).unwrap();
        }
        places.clients.take_out(id(phone));
    }
}

/// A hundred phones come one after another, at whatever moment of a flood of hellos of which one is
/// replayed in so many milliseconds. How many get in; who does is there until its grace is over.
fn in_of_a_hundred(places: &mut Places, flood: impl Fn(u64) -> u32, each_ms: u32) -> usize {
    let mut seed = 12_345u32;
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    let (mut phone, mut got_in, mut tries) = (None, 0, 0);
    let mut comes_ms = 3_000;
    for now_ms in 0.. {
        let mut come = |places: &mut Places| {
            phone = places.come(PHONE, now_ms);
            got_in += usize::from(phone.is_some());
            tries += 1;
        };
        let comes_first = random(2) == 0;
        if now_ms == comes_ms && comes_first {
            come(places);
        }
        if random(each_ms) == 0 {
            places.replay(flood(now_ms), now_ms);
        }
        if now_ms == comes_ms && !comes_first {
            come(places);
        }
        if let Some(number) = phone {
            assert!(places.has(number), "{now_ms}");
            if now_ms == comes_ms + 900 {
                places.clients.take_out(id(number));
                phone = None;
            }
        }
        // The flood has had the place for itself by then.
        if now_ms == comes_ms + 999 {
            if tries == 100 {
                break;
            }
            comes_ms += 1_000 + u64::from(random(500));
        }
    }
    got_in
}

/// Of those who come as many get in as places get free: a place is free a second after an answer.
#[test]
fn hellos_that_are_replayed_from_many_sources_do_not_close_who_has_just_come() {
    // As many as fill all places in the grace, and two and a half times as many.
    for (each_ms, share) in [(5, 85..=100), (2, 30..=50)] {
        let got_in = in_of_a_hundred(&mut Places::new(200), many, each_ms);
        assert!(share.contains(&got_in), "{got_in} at {each_ms} ms");
    }
}

#[test]
fn where_some_are_silent_and_some_replay_who_has_just_come_has_his_grace() {
    let mut places = Places::new(200);
    let (mut phone, mut answered) = (None, 0);
    for now_ms in 0..20_000 {
        // As many as fill all places in the grace.
        match now_ms % 10 {
            0 => places.come(many(now_ms), now_ms),
            5 => places.replay(many(now_ms), now_ms),
            _ => None,
        };
        if now_ms % 1_000 == 501 {
            phone = places.come(PHONE, now_ms);
        }
        if let Some(number) = phone {
            assert!(places.has(number), "{now_ms}");
            if now_ms % 1_000 == 901 {
                places.clients.take_out(id(number));
                (phone, answered) = (None, answered + 1);
            }
        }
    }
    assert!(answered >= 10, "{answered} of 20");
}

/// Behind the address of an office somebody replays hellos, and has all that an address may.
#[test]
fn hellos_that_are_replayed_from_an_office_do_not_close_its_phone_that_has_just_come() {
    // As many as fill all of these in the grace, and five times as many.
    for (each_ms, share) in [(10, 85..=100), (2, 10..=30)] {
        let mut places = Places::new(1_000);
        places.of_source = 100;
        let got_in = in_of_a_hundred(&mut places, |_| PHONE, each_ms);
        assert!(share.contains(&got_in), "{got_in} at {each_ms} ms");
    }
}

/// Phones of an office that come together are many, and its oldest go, not who has just come.
#[test]
fn an_office_with_many_keeps_a_few_and_its_youngest() {
    let mut places = Places::new(300);
    for now_ms in 0..200 {
        places.replay(many(now_ms), now_ms);
    }
    let office: Vec<_> = (200..300)
        .map(|now_ms| match now_ms < 290 {
            true => places.replay(PHONE, now_ms).unwrap(),
            false => places.come(PHONE, now_ms).unwrap(),
        })
        .collect();
    for nth in 0..1_000 {
        places.replay(many(nth), 300);
    }
    let kept: Vec<_> = office.iter().map(|number| places.has(*number)).collect();
    let gone = office.len() - FEW;
    assert_eq!(kept, [vec![false; gone], vec![true; FEW]].concat());
}

#[test]
fn a_slow_phone_has_its_grace_at_each_step() {
    let mut places = Places::new(200);
    for now_ms in (0..3_000).step_by(5) {
        places.replay(many(now_ms), now_ms);
    }
    let flood = |places: &mut Places, from_ms: u64, until_ms: u64| {
        for now_ms in from_ms..until_ms {
            places.replay(many(now_ms), now_ms);
        }
    };
    let phone = places.come(PHONE, 3_000).unwrap();
    flood(&mut places, 3_000, 3_990);
    assert!(places.has(phone));
    places.answer(phone, PHONE, 3_990);
    flood(&mut places, 3_990, 4_980);
    assert!(places.has(phone));
    flood(&mut places, 4_980, 6_100);
    assert!(!places.has(phone));
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
        let chosen = clients.of_all(FEW, 1_000, 0).map(|id| id.0);
        assert_eq!(chosen, first(many), "{number}");
    }
    assert!(chosen_of_many > 1_000, "{chosen_of_many}");
    for (number, ..) in held {
        clients.take_out(id(number));
    }
    assert!(clients.clients.is_empty() && clients.counts.is_empty() && clients.shares.is_empty());
    assert!(clients.by_time.is_empty() && clients.by_source.is_empty());
    assert_eq!(clients.all, Counts::default());
}
