use std::collections::HashSet;

use slab::Slab;

use super::*;

const QUIET_MS: u64 = 10;

#[derive(Default)]
struct Table {
    /// `None` for one that is closing.
    conns: Slab<Option<Usefulness>>,
    /// Those whose source has many that have carried nothing.
    of_many: HashSet<usize>,
    /// Those that wait for this side.
    waiting: HashSet<usize>,
    ranks: Ranks,
}

impl Table {
    /// A connection that carried a message then, or never.
    fn add(&mut self, carried_ms: Option<u64>) -> usize {
        let place = self.conns.insert(Some(Usefulness::default()));
        match carried_ms {
            Some(now_ms) => self.carry(place, "SIP/2.0 200 OK", now_ms),
            None => self.change(place, |_| {}),
        }
        place
    }

    /// One that never carried a message, and got on then.
    fn add_unused(&mut self, got_on_ms: u64) -> usize {
        let place = self.add(None);
        self.change(place, |conn| conn.carried_ms = got_on_ms);
        place
    }

    /// The same of a source that had many by then.
    fn add_one_of_many(&mut self, got_on_ms: u64) -> usize {
        let place = self.add_unused(got_on_ms);
        self.of_many.insert(place);
        self.ranks.put(place, Class::Crowd);
        place
    }

    fn change(&mut self, place: usize, change: impl FnOnce(&mut Usefulness)) {
        let conn = self.conns[place].as_mut().unwrap();
        change(conn);
        self.ranks.put(place, conn.class(false));
    }

    fn carry(&mut self, place: usize, message: &str, now_ms: u64) {
        self.change(place, |conn| conn.carried(message.as_bytes(), now_ms));
    }

    fn bind(&mut self, place: usize, until_ms: u64) {
        self.change(place, |conn| conn.bound_until_ms = until_ms);
    }

    fn least(&mut self, now_ms: u64) -> Option<(usize, Class)> {
        self.ranks.least_useful(now_ms, QUIET_MS, |place| {
            let conn = self.conns[place].as_mut()?;
            conn.expire(now_ms);
            let waits_for_us = self.waiting.contains(&place);
            Some(Standing {
                waits_for_us,
                class: conn.class(false),
                carried_ms: conn.carried_ms,
                heard_ms: conn.lived_ms(),
                is_one_of_many: self.of_many.contains(&place),
            })
        })
    }

    /// The order in which all of them go.
    fn order(&mut self, now_ms: u64) -> Vec<usize> {
        let mut order = Vec::new();
        while let Some((place, _)) = self.least(now_ms) {
            self.ranks.take_out(place);
            self.conns.remove(place);
            order.push(place);
        }
        order
    }
}

#[test]
fn the_one_used_least_lately_goes_first() {
    let mut table = Table::default();
    let [a, b, c, d] = [1, 2, 3, 4].map(|ms| table.add(Some(ms)));
    table.carry(b, "SIP/2.0 200 OK", 5);
    table.carry(a, "SIP/2.0 200 OK", 6);
    assert_eq!(table.order(100), [c, d, b, a]);
    assert_eq!(table.least(100), None);
}

#[test]
fn one_that_was_used_a_moment_ago_stays_and_hides_none_that_was_never_used() {
    let mut table = Table::default();
    let used = table.add(Some(95));
    assert_eq!(table.least(100), None);
    assert_eq!(table.least(95 + QUIET_MS), Some((used, Class::Idle)));
    let never = [table.add(None), table.add(None)];
    assert_eq!(table.least(0), Some((never[0], Class::Unused)));
    assert_eq!(table.order(100), never);
    // With its first message it is one like the others.
    let late = table.add(None);
    table.carry(late, "SIP/2.0 200 OK", 96);
    assert_eq!(table.order(200), [used, late]);
}

#[test]
fn what_is_relied_on_goes_last_and_what_is_under_way_not_at_all() {
    let mut table = Table::default();
    let [bound, busy, both, idle] = [1, 2, 3, 4].map(|ms| table.add(Some(ms)));
    table.bind(bound, u64::MAX);
    table.bind(both, u64::MAX);
    table.carry(busy, "INVITE sip:a SIP/2.0", 5);
    table.carry(both, "INVITE sip:a SIP/2.0", 5);
    assert_eq!(table.order(100), [idle, bound]);
    assert!(table.conns.contains(busy) && table.conns.contains(both));
    // Long after any transaction its request is taken for forgotten.
    let stale_ms = 5 + STALE_MS;
    assert_eq!(table.least(stale_ms - 1), None);
    assert_eq!(table.order(stale_ms), [busy, both]);
}

#[test]
fn a_contact_that_has_expired_protects_no_more() {
    let mut table = Table::default();
    let expired = table.add(Some(1));
    let bound = table.add(Some(2));
    let idle = table.add(Some(3));
    table.bind(expired, 50);
    table.bind(bound, u64::MAX);
    assert_eq!(table.least(100), Some((idle, Class::Idle)));
    table.ranks.take_out(idle);
    table.conns.remove(idle);
    // The first of the bound ones is moved before any bound one is given up.
    assert_eq!(table.order(100), [expired, bound]);
}

#[test]
fn one_that_is_closing_is_passed_over() {
    let mut table = Table::default();
    let (closing, open) = (table.add(Some(1)), table.add(Some(2)));
    table.conns[closing] = None;
    assert_eq!(table.order(100), [open]);
}

#[test]
fn the_lists_stay_whole_whatever_happens() {
    let mut table = Table::default();
    let mut seed = 12_345u32;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    for now_ms in 0..5_000 {
        let places: Vec<usize> = table.conns.iter().map(|(place, _)| place).collect();
        let any = (!places.is_empty()).then(|| places[random(places.len())]);
        match (random(5), any) {
            (0 | 1, _) => {
                table.add(Some(now_ms));
            }
            (2, Some(place)) => table.carry(place, "BYE sip:a SIP/2.0", now_ms),
            (3, Some(place)) => table.bind(place, now_ms + 5),
            (4, Some(place)) => {
                table.ranks.take_out(place);
                table.conns.remove(place);
            }
            _ => {}
        }
    }
    let left = table.conns.len();
    assert!(left > 100, "{left}");
    assert_eq!(table.order(u64::MAX).len(), left);
}

/// Else each newcomer to a full table would close the one before.
#[test]
fn who_gets_on_is_closed_after_who_is_quiet_and_before_all_others() {
    let mut table = Table::default();
    let quiet = table.add(Some(0));
    let busy = table.add(Some(0));
    table.carry(busy, "INVITE sip:b@x SIP/2.0", 0);
    let [early, late] = [4_000, 5_000].map(|got_on_ms| table.add_unused(got_on_ms));
    assert_eq!(table.least(6_999), Some((quiet, Class::Idle)));
    assert_eq!(table.least(7_000), Some((early, Class::Unused)));
    assert_eq!(table.order(7_500), [early, quiet, late]);
}

/// Else phones that get on would hide a flood behind them, and all others would pay.
#[test]
fn who_has_no_time_to_get_on_goes_first_wherever_it_stands() {
    for count in [2, 16, 1_000] {
        let mut table = Table::default();
        let quiet = table.add(Some(0));
        let phones: Vec<_> = (0..count).map(|_| table.add_unused(5_000)).collect();
        let flood = [5_001, 5_002].map(|got_on_ms| table.add_one_of_many(got_on_ms));
        let order = [&flood[..], &[quiet], &phones].concat();
        assert_eq!(table.order(5_100), order, "{count}");
    }
}

#[test]
fn who_was_given_time_to_get_on_keeps_it_and_who_was_not_gets_it_where_they_are_few_again() {
    let mut table = Table::default();
    let quiet = table.add(Some(0));
    let early = table.add_unused(5_000);
    let late = table.add_one_of_many(5_001);
    table.of_many.insert(early);
    assert_eq!(table.least(5_100), Some((late, Class::Crowd)));
    table.of_many.clear();
    assert_eq!(table.order(5_100), [quiet, early, late]);
    // Whoever has had his time goes first, many or not.
    let early = table.add_unused(5_000);
    let late = table.add_one_of_many(7_000);
    assert_eq!(table.order(8_000), [early, late]);
}

#[test]
fn who_waits_for_this_side_is_not_closed_and_hides_nobody() {
    let mut table = Table::default();
    let quiet = table.add(Some(0));
    let waiting: Vec<_> = (0..17).map(|ms| table.add_unused(100 + ms)).collect();
    table.waiting.extend(&waiting);
    let stale = table.add_unused(200);
    let young = table.add_unused(9_900);
    assert_eq!(table.order(10_000), [stale, quiet, young]);
    // Where only such are left the newcomer is refused, whoever is registered.
    let bound = table.add(Some(0));
    table.bind(bound, u64::MAX);
    assert_eq!(table.least(10_000), None);
    table.waiting.clear();
    assert_eq!(table.order(10_000).len(), waiting.len() + 1);
}

#[test]
fn however_many_wait_for_this_side_they_hide_nobody() {
    for count in [32, 33, 40, 1_000] {
        let mut table = Table::default();
        let waiting: Vec<_> = (0..count).map(|ms| table.add_unused(100 + ms)).collect();
        table.waiting.extend(&waiting);
        let silent = [2_000, 2_001].map(|ms| table.add_unused(ms));
        assert_eq!(table.order(2_002), silent, "{count}");
        // Who is put back stands among the others again.
        let served = waiting[0];
        table.waiting.remove(&served);
        assert!(table.ranks.is_waiting(served));
        table.change(served, |conn| conn.carried_ms = 2_003);
        assert!(!table.ranks.is_waiting(served));
        assert_eq!(table.order(2_004), [served]);
        assert_eq!(table.least(10_000), None);
    }
}

/// Phones that left their keep-alives out, since the last message or keep-alive of each.
fn bound(table: &mut Table, heard_ms: &[u64]) -> Vec<usize> {
    let phones: Vec<_> = heard_ms.iter().map(|_| table.add(Some(0))).collect();
    for (place, heard_ms) in phones.iter().zip(heard_ms) {
        table.bind(*place, u64::MAX);
        table.change(*place, |conn| conn.heard(*heard_ms));
    }
    phones
}

/// Else a table full of phones that are dead has each newcomer closed for the next one.
#[test]
fn while_few_have_carried_nothing_who_was_not_heard_for_long_goes_before_them() {
    let mut table = Table::default();
    let phones = bound(&mut table, &[1, 2, 3, 4, 500_000]);
    let now_ms = UNHEARD_MS + 3;
    let mut gone = Vec::new();
    for _ in 0..6 {
        let (place, _) = table.least(now_ms).unwrap();
        table.ranks.take_out(place);
        table.conns.remove(place);
        gone.push(place);
        table.add_unused(now_ms);
    }
    // Three have had their time; then the youngest newcomers close the oldest.
    assert_eq!(gone[..3], phones[..3]);
    assert!(gone[3..].iter().all(|place| !phones[3..].contains(place)));
}

/// A flood of silence closes a few phones that may be dead, and no more.
#[test]
fn where_many_have_carried_nothing_they_go_and_no_phone() {
    for (phones, few) in [(6, 4), (639, 9)] {
        let mut table = Table::default();
        bound(&mut table, &vec![1; phones]);
        let now_ms = 2 * UNHEARD_MS;
        let mut bound_gone = 0;
        for _ in 0..100 {
            let (place, class) = table.least(now_ms).unwrap();
            table.ranks.take_out(place);
            table.conns.remove(place);
            bound_gone += usize::from(class == Class::Bound);
            table.add_unused(now_ms);
        }
        assert_eq!(bound_gone, few, "{phones}");
    }
}
