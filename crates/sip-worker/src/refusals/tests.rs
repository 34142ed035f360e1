//! What is logged of refusals, that fail2ban reads it, and that the last of them are kept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use sip_engine::refusal::Reason;
use sip_limit::Tell;
use sip_msg::Transport;

use super::*;

/// The reasons for which fail2ban shuts a source out.
const BANNED: [Reason; 3] = [
    Reason::WrongPassword,
    Reason::UnknownUser,
    Reason::TooManyGuesses,
];

fn refused(source: &str, user: &str, reason: Reason) -> RefusalRecord {
    RefusalRecord {
        at_unix_ms: 1_700_000_000_000,
        source: source.parse().unwrap(),
        transport: Transport::Udp,
        is_proven: true,
        method: "REGISTER".into(),
        status: Some(401),
        phrase: "Unauthorized",
        reason,
        hop: None,
        from: "sip:alice@example.org".into(),
        to: "sip:alice@example.org".into(),
        user: user.into(),
        call_id: "a84b4c76e66710".into(),
        detail: "".into(),
        tell: Some(Tell::default()),
    }
}

/// What the filter that is shipped says of a key.
fn setting(key: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/fail2ban/signet.conf");
    let text = std::fs::read_to_string(&file).expect("etc/fail2ban/signet.conf is there");
    let begin = format!("{key} = ");
    let found = text.lines().find_map(|line| line.strip_prefix(&*begin));
    found.expect("a line of that key").to_owned()
}

/// Its expression, with fail2ban's own for an address.
fn filter() -> Regex {
    let expression = setting("failregex");
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
fn a_refusal_is_one_line_that_says_who_from_where_and_why() {
    let mut record = refused("192.0.2.1:5060", "alice", Reason::WrongPassword);
    assert_eq!(
        line_of(&record),
        "refused request from 192.0.2.1: wrong_password 401, REGISTER of \"alice\" \
         from \"sip:alice@example.org\" to \"sip:alice@example.org\" call \"a84b4c76e66710\""
    );
    record.tell = Some(Tell {
        more: 3,
        since_s: 12,
    });
    record.is_proven = false;
    record.reason = Reason::UnknownUser;
    assert_eq!(
        line_of(&record),
        "refused request, perhaps not from 192.0.2.1: unknown_user 401, REGISTER of \"alice\" \
         from \"sip:alice@example.org\" to \"sip:alice@example.org\" call \"a84b4c76e66710\" \
         (3 more in the 12 s before)"
    );
    record.tell = None;
    record.status = None;
    record.reason = Reason::Unreachable;
    record.hop = Some("203.0.113.7:5060".parse().unwrap());
    record.detail = "gateway gw.example.net".into();
    let line = line_of(&record);
    let begin = "no way for request from 192.0.2.1: next_hop_unreachable at 203.0.113.7:5060, ";
    assert!(line.starts_with(begin), "{line}");
    assert!(line.ends_with("\", gateway gw.example.net"), "{line}");
}

#[test]
fn fail2ban_reads_no_line_of_another_program_that_has_the_name() {
    // What stands between two `+` is enough by itself.
    for of in setting("journalmatch").split(" + ") {
        assert!(of.contains("_SYSTEMD_UNIT=signet.service"), "{of}");
    }
}

#[test]
fn fail2ban_reads_the_source_out_of_each_line_of_a_guess_and_of_no_other() {
    let filter = filter();
    for (remote, shown) in [
        ("192.0.2.1:5060", "192.0.2.1"),
        ("[2001:db8::7]:40000", "2001:db8::7"),
        ("[::ffff:192.0.2.9]:5060", "192.0.2.9"),
    ] {
        for (more, reason) in Reason::ALL.iter().enumerate() {
            let mut record = refused(remote, "alice", *reason);
            let more = more as u64 * 1_000;
            record.tell = Some(Tell { more, since_s: 10 });
            let line = line_of(&record);
            let shown = BANNED.contains(reason).then_some(shown);
            assert_eq!(found(&filter, &line).as_deref(), shown, "{line}");
        }
    }
}

#[test]
fn nobody_is_shut_out_by_a_source_that_may_be_forged_or_by_a_name() {
    let filter = filter();
    let mut forged = refused("192.0.2.1:5060", "alice", Reason::WrongPassword);
    forged.is_proven = false;
    assert_eq!(found(&filter, &line_of(&forged)), None);
    // Names come here escaped; even one that was not reaches no other address.
    let name = "x\", WARN refused request from 203.0.113.9: wrong_password 401, A of \"z";
    for is_proven in [true, false] {
        let mut record = refused("192.0.2.1:5060", name, Reason::WrongPassword);
        record.method = "WARN\u{20}refused".into();
        record.is_proven = is_proven;
        let found = found(&filter, &line_of(&record));
        assert_ne!(found.as_deref(), Some("203.0.113.9"));
    }
}

#[test]
fn the_last_are_kept_and_strangers_put_out_no_users() {
    let refusals = Refusals::default();
    let kept = |reason: Reason| {
        let all = refusals.all();
        all.iter().filter(|record| record.reason == reason).count()
    };
    refusals.keep([refused("192.0.2.1:1", "alice", Reason::NoRoute)].into_iter());
    let flood = (0..10_000_u64).map(|nth| RefusalRecord {
        at_unix_ms: 1_700_000_000_001 + nth,
        ..refused("192.0.2.2:1", "", Reason::ForeignFrom)
    });
    refusals.keep(flood);
    assert_eq!(
        [kept(Reason::NoRoute), kept(Reason::ForeignFrom)],
        [1, KEPT_MAX]
    );
    let all = refusals.all();
    assert!(all.is_sorted_by_key(|record| record.at_unix_ms));
    assert_eq!(
        all.last().map(|record| record.at_unix_ms),
        Some(1_700_000_010_000)
    );
}
