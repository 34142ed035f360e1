//! What is logged of failed logins, and that fail2ban reads it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use sip_auth::Failure;
use sip_limit::Tell;
use sip_msg::{ConnId, ListenerId, Transport};

use super::*;

fn failed(remote: &str, user: &str) -> LoginFailed {
    LoginFailed {
        flow: Flow {
            transport: Transport::Udp,
            listener: ListenerId(0),
            local: ([192, 0, 2, 100], 5060).into(),
            remote: remote.parse().unwrap(),
            conn: ConnId::NONE,
        },
        is_proven: true,
        user: user.into(),
        realm: Arc::from("example.org"),
        failure: Failure::WrongPassword,
        tell: Tell::default(),
    }
}

/// The expression of the filter that is shipped, with fail2ban's own for an address.
fn filter() -> Regex {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/fail2ban/signet.conf");
    let text = std::fs::read_to_string(&file).expect("etc/fail2ban/signet.conf is there");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("failregex = "));
    let expression = line.expect("a line `failregex = `");
    let address = r"(?P<ip>[0-9a-fA-F.:]+)";
    assert_eq!(expression.matches("<ADDR>").count(), 1);
    Regex::builder()
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .build(&expression.replace("<ADDR>", address))
        .expect("an expression that can be read")
}

/// The address that the filter finds in a line, as a file and as the journal has it.
fn found(filter: &Regex, line: &str) -> Option<String> {
    // fail2ban takes the date out of a file's lines; the journal's have their own in front.
    let in_file = format!("  WARN {line}");
    let in_journal = format!("host signet[812]: 2026-11-23T03:22:11.123456Z  WARN {line}");
    let find = |text: &str| {
        let mut captures = filter.create_captures();
        filter.captures(text, &mut captures);
        let span = captures.get_group_by_name("ip")?;
        Some(text[span.range()].to_owned())
    };
    let (one, other) = (find(&in_file), find(&in_journal));
    assert_eq!(one, other, "{line}");
    one
}

#[test]
fn a_failed_login_is_one_line_that_says_who_from_where_and_why() {
    let mut failed = failed("192.0.2.1:5060", "alice");
    assert_eq!(
        line_of(&failed),
        "failed login from 192.0.2.1 as \"alice\" in example.org: wrong password"
    );
    failed.tell = Tell {
        more: 3,
        since_s: 12,
    };
    failed.failure = Failure::UnknownUser;
    failed.is_proven = false;
    assert_eq!(
        line_of(&failed),
        "failed login, perhaps not from 192.0.2.1, as \"alice\" in example.org: unknown user \
         (3 more in the 12 s before)"
    );
}

#[test]
fn fail2ban_reads_the_source_out_of_each_such_line() {
    let filter = filter();
    let reasons = [
        Failure::WrongPassword,
        Failure::UnknownUser,
        Failure::TooManyGuesses,
    ];
    for (remote, shown) in [
        ("192.0.2.1:5060", "192.0.2.1"),
        ("[2001:db8::7]:40000", "2001:db8::7"),
        ("[::ffff:192.0.2.9]:5060", "192.0.2.9"),
    ] {
        for (failure, more) in reasons.into_iter().zip([0, 3, 70_000]) {
            let failed = LoginFailed {
                failure,
                tell: Tell { more, since_s: 10 },
                ..failed(remote, "alice")
            };
            let line = line_of(&failed);
            assert_eq!(found(&filter, &line).as_deref(), Some(shown), "{line}");
        }
    }
}

#[test]
fn nobody_is_shut_out_by_a_source_that_may_be_forged_or_by_a_name() {
    let filter = filter();
    let forged = LoginFailed {
        is_proven: false,
        ..failed("192.0.2.1:5060", "alice")
    };
    assert_eq!(found(&filter, &line_of(&forged)), None);
    // Names come here escaped; even one that was not reaches no other address.
    let name = "x\" in y: wrong password WARN failed login from 203.0.113.9 as \"z";
    for is_proven in [true, false] {
        let failed = LoginFailed {
            is_proven,
            ..failed("192.0.2.1:5060", name)
        };
        let found = found(&filter, &line_of(&failed));
        assert_ne!(found.as_deref(), Some("203.0.113.9"));
    }
}
