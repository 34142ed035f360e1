use super::*;

const GAP: Gap = Gap {
    killed_s: 10.0,
    back_s: 14.0,
};

fn call(ended_s: f64, ended: Ended) -> Call {
    Call {
        sent_s: ended_s - 0.03,
        ended_s,
        ended,
    }
}

#[test]
fn it_has_recovered_when_all_that_follow_are_served() {
    use Ended::{Later, Served, Silent};
    let calls = [
        call(9.9, Served),
        call(10.1, Later),
        call(13.9, Served),
        call(14.1, Later),
        call(14.2, Served),
        call(14.3, Later),
        call(14.4, Served),
        call(14.5, Served),
        call(20.1, Later),
    ];
    let recovered = |calls: &[Call]| recovered_s(&GAP, 20.0, calls);
    let found = recovered(&calls).unwrap();
    assert!((found - 0.4).abs() < 1e-9, "{found}");
    assert_eq!(recovered(&calls[..4]), None, "none is served since");
    let last = [calls[6], call(19.0, Silent)];
    assert_eq!(recovered(&last), None, "the last is not served");
    assert_eq!(recovered(&[]), None);
}

#[test]
fn each_kill_has_the_calls_up_to_the_next() {
    let second = Gap {
        killed_s: 20.0,
        back_s: 24.0,
    };
    let calls = [
        call(12.0, Ended::Later),
        call(13.0, Ended::Later),
        call(14.5, Ended::Served),
        call(21.0, Ended::Later),
        call(24.25, Ended::Served),
    ];
    let rows = times(&[GAP, second], &calls, 30.0);
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].told_later, rows[1].told_later), (2, 1));
    assert_eq!(rows[0].recovered_s, Some(0.5));
    assert_eq!(rows[1].recovered_s, Some(0.25));
    assert_eq!(rows[0].away_s, 4.0);
}

fn load(who: &str, served: u64, causes: &[(&str, u64)]) -> CallersRow {
    CallersRow {
        who: who.to_owned(),
        rate_per_s: 1.0,
        served,
        causes: causes
            .iter()
            .map(|(cause, count)| ((*cause).to_owned(), *count))
            .collect(),
        remarks: Vec::new(),
    }
}

fn outage(recovered_s: Option<f64>) -> Outage {
    let row = |recovered_s| OutageRow {
        killed_s: 10.0,
        away_s: 4.0,
        told_later: 9,
        recovered_s,
    };
    Outage {
        callers: vec![
            load(REMEMBERED, 1_998, &[("status 503", 1), ("timeout", 1)]),
            load(OTHERS, 100, &[("status 503", 70)]),
            load(GUESSES, 0, &[("status 407", 50), ("status 503", 20)]),
        ],
        times: vec![row(Some(0.3)), row(recovered_s), row(Some(0.2))],
        figures: BTreeMap::new(),
    }
}

#[test]
fn what_is_as_it_should_be_meets_all_aims() {
    let calls = [call(11.0, Ended::Later), call(15.0, Ended::Served)];
    let expected = Verdict {
        remembered_failed_percent: 0.1,
        slowest_s: 0.4,
        ..Verdict::default()
    };
    assert_eq!(Verdict::of(&outage(Some(0.4)), &calls), expected);
    assert_eq!(Verdict::of(&outage(None), &calls).slowest_s, f64::INFINITY);
}

#[test]
fn callers_of_whom_no_call_ended_show_nothing() {
    assert!(!load(REMEMBERED, 1, &[]).is_empty());
    assert!(!load(GUESSES, 0, &[("status 407", 1)]).is_empty());
    // All aims would be met by them.
    assert!(load(GUESSES, 0, &[]).is_empty());
    assert!(load(OTHERS, 0, &[("status 503", 0)]).is_empty());
    assert!(of_probe(&[]).is_empty());
}

#[test]
fn each_fault_is_counted_where_it_belongs() {
    let mut found = outage(None);
    found.callers[0].causes = load("", 0, &[("status 403", 2)]).causes;
    found.callers[1].causes = load(
        "",
        0,
        &[("status 407", 3), ("status 503", 70), ("status 500", 5)],
    )
    .causes;
    found.callers[2].served = 7;
    let calls = [
        call(1.0, Ended::Bare),
        call(2.0, Ended::Silent),
        call(3.0, Ended::Refused),
        call(4.0, Ended::Unproved),
        call(5.0, Ended::Other),
    ];
    let verdict = Verdict::of(&found, &calls);
    assert_eq!(verdict.let_in, 7 + 1);
    assert_eq!(verdict.kept_out, 2 + 3 + 1);
    assert_eq!(verdict.others_otherwise, 5 + 3);
    assert_eq!(of_probe(&calls).causes.values().sum::<u64>(), 5);
}

#[test]
fn guesses_are_at_users_and_at_nobody_and_never_right() {
    let all: Vec<(String, String)> = guesses().collect();
    let ghosts = all.iter().filter(|(user, _)| user.starts_with("ghost"));
    assert_eq!(ghosts.count(), GUESSED / 2);
    assert!(all.iter().all(|(user, password)| {
        let number = user.trim_start_matches(|c: char| c.is_ascii_lowercase());
        number
            .parse::<usize>()
            .is_ok_and(|n| (1..=USERS).contains(&n))
            && *password != format!("pw{number}")
    }));
}

#[test]
fn the_cache_holds_those_who_are_to_be_remembered_and_not_all() {
    for plan in [Plan::WHOLE, Plan::QUICK] {
        let for_users = ROOM - ROOM / 4;
        let meanwhile = plan.remembered() + plan.others_per_s * EVERY_S;
        // Stripes are not equally full.
        assert!(meanwhile * 5 / 4 < for_users, "{plan:?}");
        assert!(for_users < USERS - plan.remembered(), "{plan:?}");
        assert!(plan.warm_s as usize > 2 * EVERY_S, "{plan:?}");
        assert!(plan.away_s < plan.period_s - STAY_S as u64);
    }
    // Each calls in the time in which he is looked up anew.
    const { assert!(EVERY_S * 5 <= crate::auth::server::LIFETIME_S) };
}

#[test]
fn a_port_that_says_nothing_is_no_database() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let greeter = std::thread::spawn(move || {
        use std::io::Write as _;
        // The first is closed without a word.
        drop(listener.accept().unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"J").unwrap();
    });
    assert!(!greets(address));
    assert!(greets(address));
    greeter.join().unwrap();
}
