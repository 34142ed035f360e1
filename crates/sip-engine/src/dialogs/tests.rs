use super::*;
use crate::testing::{NOW, parse, request};
use crate::token::{Grant, Holder, Sides, TokenKeys};

const LIFETIME_S: u64 = 86_400;

struct Bench {
    dialogs: Dialogs,
    tokens: Tokens,
    now: Now,
}

fn uri(text: &str) -> Uri<'_> {
    Uri::parse(text.as_bytes()).unwrap()
}

/// A request of alice's in the dialog with that number.
fn of(number: u32) -> Message {
    by(number, "BYE")
}

fn by(number: u32, method: &str) -> Message {
    let (from, to) = ("<sip:a@example.org>;tag=a", "<sip:b@example.org>;tag=b");
    let text = request(method, "sip:b@203.0.113.9", from, to, "");
    parse(text.replace("call-1", &format!("call-{number}")).as_bytes())
}

impl Bench {
    fn new(max: usize) -> Self {
        Self {
            dialogs: Dialogs::new([1; 16], max),
            tokens: Tokens::new(std::sync::Arc::new(TokenKeys::of([2; 32], 1))),
            now: NOW,
        }
    }

    fn token(&self, message: &Message) -> RouteToken {
        let target = uri("sip:b@203.0.113.9");
        let grant = Grant {
            unix_ms: NOW.unix_ms,
            target: Some(&target),
            ..Grant::default()
        };
        let mut text = Vec::new();
        self.tokens.write_grant(
            &Sides::of(message).unwrap(),
            Holder::Sender,
            &grant,
            &mut text,
        );
        self.tokens.read_grant(&text, message, &[]).unwrap()
    }

    fn judge(&self, number: u32, target: &str) -> Standing {
        self.judge_of(&of(number), target)
    }

    fn judge_of(&self, message: &Message, target: &str) -> Standing {
        let token = self.token(message);
        self.dialogs.judge(
            self.now,
            LIFETIME_S,
            &self.tokens,
            &token,
            message,
            &uri(target),
        )
    }

    fn announce(&mut self, number: u32, tag: &[u8], target: &str) {
        self.show(number, tag, target, Shown::Open);
    }

    fn show(&mut self, number: u32, tag: &[u8], target: &str, as_shown: Shown) {
        let shown = (tag, &uri(target));
        self.dialogs
            .announce(self.now, LIFETIME_S, &of(number), shown, as_shown);
    }

    fn wait_s(&mut self, seconds: u64) {
        self.now.unix_ms += seconds * 1_000;
    }
}

#[test]
fn a_target_is_known_once_its_side_has_announced_it() {
    let mut bench = Bench::new(10);
    assert_eq!(bench.judge(1, "sip:b@203.0.113.9"), Standing::Part);
    let moved = "sip:b@203.0.113.10:5070";
    assert_eq!(bench.judge(1, moved), Standing::UnknownTarget);
    // Alice has said where she is herself: that is no place to send to.
    bench.announce(1, b"a", moved);
    assert_eq!(bench.judge(1, moved), Standing::UnknownTarget);
    bench.announce(1, b"b", moved);
    assert_eq!(bench.judge(1, moved), Standing::Part);
    assert_eq!(bench.judge(1, "sip:b@203.0.113.9"), Standing::Part);
    assert_eq!(bench.judge(2, moved), Standing::UnknownTarget);
}

#[test]
fn a_place_that_is_shown_to_end_something_is_good_for_nothing_else() {
    let mut bench = Bench::new(10);
    let moved = "sip:b@203.0.113.10:5070";
    let (from, to) = ("<sip:a@example.org>;tag=a", "<sip:b@example.org>;tag=b");
    let by = |method| parse(request(method, moved, from, to, "").as_bytes());
    bench.show(1, b"b", moved, Shown::Nowhere);
    assert_eq!(bench.dialogs.len(), 0);
    bench.show(1, b"b", moved, Shown::ToEnd);
    for (method, expected) in [
        ("BYE", Standing::Part),
        ("ACK", Standing::Part),
        ("NOTIFY", Standing::UnknownTarget),
        ("INVITE", Standing::UnknownTarget),
        ("UPDATE", Standing::UnknownTarget),
        ("MESSAGE", Standing::UnknownTarget),
        ("OPTIONS", Standing::UnknownTarget),
    ] {
        assert_eq!(bench.judge_of(&by(method), moved), expected, "{method}");
    }
    // Once it is shown by whoever is known to be there, it is as any other.
    bench.show(1, b"b", moved, Shown::Open);
    assert_eq!(bench.judge_of(&by("INVITE"), moved), Standing::Part);
}

#[test]
fn of_many_targets_the_latest_are_known() {
    let mut bench = Bench::new(10);
    let target = |n: usize| format!("sip:b@203.0.113.{n}");
    for n in 10..20 {
        bench.announce(1, b"b", &target(n));
    }
    let known = |n| bench.judge(1, &target(n)) == Standing::Part;
    assert_eq!((10..20).filter(|n| known(*n)).count(), TARGETS_MAX);
    assert!(known(19));
}

#[test]
fn an_ended_dialog_has_five_minutes() {
    let mut bench = Bench::new(10);
    bench.dialogs.end(bench.now, LIFETIME_S, &of(1));
    bench.wait_s(END_S - 1);
    assert_eq!(bench.judge(1, "sip:b@203.0.113.9"), Standing::Part);
    // Another end, and another target, do not make it longer.
    bench.dialogs.end(bench.now, LIFETIME_S, &of(1));
    bench.announce(1, b"b", "sip:b@203.0.113.10");
    bench.wait_s(1);
    assert_eq!(bench.judge(1, "sip:b@203.0.113.9"), Standing::Ended);
    assert_eq!(bench.judge(1, "sip:b@203.0.113.10"), Standing::Ended);
    assert_eq!(bench.judge(2, "sip:b@203.0.113.9"), Standing::Part);
}

#[test]
fn what_begins_something_is_no_part_of_an_ended_dialog() {
    let mut bench = Bench::new(10);
    let judged = |bench: &Bench, method| bench.judge_of(&by(1, method), "sip:b@203.0.113.9");
    let winding_up = ["ACK", "BYE", "CANCEL", "PRACK", "NOTIFY"];
    let others = [
        "INVITE",
        "UPDATE",
        "REFER",
        "SUBSCRIBE",
        "MESSAGE",
        "INFO",
        "OPTIONS",
        "PUBLISH",
        "DANCE",
    ];
    for method in winding_up.into_iter().chain(others) {
        assert_eq!(judged(&bench, method), Standing::Part, "{method}");
    }
    bench.dialogs.end(bench.now, LIFETIME_S, &of(1));
    for method in winding_up {
        assert_eq!(judged(&bench, method), Standing::Part, "{method}");
    }
    for method in others {
        assert_eq!(judged(&bench, method), Standing::Ended, "{method}");
    }
}

#[test]
fn a_long_call_outlives_its_tokens() {
    let mut bench = Bench::new(10);
    let message = of(1);
    let token = bench.token(&message);
    for _ in 0..10 {
        bench.wait_s(LIFETIME_S * 2 / 3);
        assert_eq!(bench.judge(1, "sip:b@203.0.113.9"), Standing::Part);
        bench
            .dialogs
            .seen_alive(bench.now, LIFETIME_S, &token, &message);
    }
    assert_eq!(bench.judge(2, "sip:b@203.0.113.9"), Standing::Old);
    bench.wait_s(LIFETIME_S + 1);
    assert_eq!(bench.judge(1, "sip:b@203.0.113.9"), Standing::Old);
}

#[test]
fn what_a_side_says_of_itself_makes_no_old_token_good() {
    let mut bench = Bench::new(10);
    let message = of(1);
    let token = bench.token(&message);
    let moved = "sip:b@203.0.113.10";
    bench.wait_s(LIFETIME_S / 4);
    bench.announce(1, b"b", moved);
    assert_eq!(bench.judge(1, moved), Standing::Part);
    bench.wait_s(LIFETIME_S);
    assert_eq!(bench.judge(1, moved), Standing::Old);
    bench.announce(1, b"b", moved);
    bench
        .dialogs
        .is_there(bench.now, LIFETIME_S, &message, b"b");
    bench.dialogs.end(bench.now, LIFETIME_S, &message);
    assert_eq!(bench.judge(1, moved), Standing::Old);
    bench
        .dialogs
        .seen_alive(bench.now, LIFETIME_S, &token, &message);
    assert_eq!(bench.judge(1, moved), Standing::Part);
}

#[test]
fn a_dialog_that_is_remembered_in_any_case_is_alive_for_its_lifetime_from_then_on() {
    let mut bench = Bench::new(10);
    let message = of(1);
    let token = bench.token(&message);
    bench.wait_s(LIFETIME_S / 4);
    bench.announce(1, b"b", "sip:b@203.0.113.10");
    bench
        .dialogs
        .seen_alive(bench.now, LIFETIME_S, &token, &message);
    bench.wait_s(LIFETIME_S - 1);
    assert_eq!(bench.judge(1, "sip:b@203.0.113.9"), Standing::Part);
    bench.wait_s(1);
    assert_eq!(bench.judge(1, "sip:b@203.0.113.9"), Standing::Old);
}

#[test]
fn a_young_token_is_remembered_by_nobody() {
    let mut bench = Bench::new(10);
    let message = of(1);
    let token = bench.token(&message);
    bench
        .dialogs
        .seen_alive(bench.now, LIFETIME_S, &token, &message);
    assert_eq!(bench.dialogs.len(), 0);
}

#[test]
fn past_the_bound_the_oldest_goes() {
    let mut bench = Bench::new(100);
    let moved = "sip:b@203.0.113.10";
    for number in 0..1_000 {
        // The first is refreshed again and again.
        bench.announce(0, b"b", moved);
        bench.announce(number, b"b", moved);
        assert!(bench.dialogs.len() <= 100);
        assert!(bench.dialogs.order.len() <= 202);
    }
    assert_eq!(bench.judge(0, moved), Standing::Part);
    assert_eq!(bench.judge(999, moved), Standing::Part);
    assert_eq!(bench.judge(500, moved), Standing::UnknownTarget);
    assert_eq!(bench.dialogs.forgotten(), 900);
    // What is over makes room without being counted.
    bench.wait_s(LIFETIME_S + 1);
    bench.announce(5, b"b", moved);
    assert_eq!((bench.dialogs.len(), bench.dialogs.forgotten()), (1, 900));
}

#[test]
fn ended_connections_are_remembered_within_a_bound() {
    let mut dialogs = Dialogs::new([1; 16], 1);
    dialogs.conn_ended(ConnId::NONE);
    assert!(!dialogs.is_conn_ended(ConnId::NONE));
    for n in 1..=2 * CONNS_MAX as u64 {
        dialogs.conn_ended(ConnId(n));
        dialogs.conn_ended(ConnId(n));
    }
    assert!(dialogs.is_conn_ended(ConnId(2 * CONNS_MAX as u64)));
    assert!(!dialogs.is_conn_ended(ConnId(1)));
    assert_eq!(dialogs.ended_order.len(), CONNS_MAX);
    assert_eq!(dialogs.ended_conns.len(), CONNS_MAX);
}
