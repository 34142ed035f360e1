use super::*;

/// A server that holds every rate up to `peak`.
fn run(mut search: Rfc7502, peak: f64) -> (Rfc7502Peak, Vec<f64>) {
    let mut rates = Vec::new();
    for _ in 0..10_000 {
        match search.next() {
            Step::Try {
                rate_per_s,
                attempts,
            } => {
                rates.push(rate_per_s);
                search.give(Outcome {
                    attempts,
                    failures: u64::from(rate_per_s > peak),
                    ..Outcome::default()
                });
            }
            Step::Rest { .. } => panic!("the RFC's search does not rest"),
            Step::Done(found) => return (found, rates),
        }
    }
    panic!("no end");
}

#[test]
fn it_walks_as_the_pseudocode_does() {
    let (found, rates) = run(Rfc7502::new(Rfc7502Config::default()), 130.0);
    // Up by floor(1.1 r) until 133 fails, then down by floor(0.9 r) and up again.
    assert_eq!(
        rates[..8],
        [100.0, 110.0, 121.0, 133.0, 119.0, 130.0, 143.0, 128.0]
    );
    assert_eq!(found.rate_per_s, 130.0);
    assert_eq!(found.ending, Ending::Found);
    // Ten rates held without being a new best.
    let settled = found.tries.iter().filter(|t| t.held).count();
    assert_eq!(settled, 10 + 4, "100, 110, 121 and 130 were new bests");
}

#[test]
fn it_stands_still_below_ten_and_is_bounded() {
    let (found, rates) = run(
        Rfc7502::new(Rfc7502Config {
            initial_per_s: 9.0,
            ..Rfc7502Config::default()
        }),
        1_000.0,
    );
    assert!(rates.iter().all(|&rate| rate == 9.0), "floor(9.9) is 9");
    assert_eq!(found.rate_per_s, 9.0);
    let endless = Rfc7502Config {
        tries_max: 20,
        ..Rfc7502Config::default()
    };
    let (found, rates) = run(Rfc7502::new(endless), 1e9);
    assert_eq!(rates.len(), 20);
    assert_eq!(found.ending, Ending::TooManyTries);
}

#[test]
fn a_seed_saves_tries() {
    let peak = Peak {
        peak_cps: 5_000.0,
        low: 4_900.0,
        high: 5_100.0,
        repeats: vec![5_000.0],
        ending: Ending::Found,
        tries: Vec::new(),
    };
    let (seeded, few) = run(Rfc7502::seeded(Rfc7502Config::default(), &peak), 5_000.0);
    let (plain, many) = run(Rfc7502::new(Rfc7502Config::default()), 5_000.0);
    assert!(few.len() < many.len(), "{} and {}", few.len(), many.len());
    for found in [seeded, plain] {
        assert!((4_500.0..=5_000.0).contains(&found.rate_per_s), "{found:?}");
    }
}

#[test]
fn a_server_that_answers_nothing_ends_it() {
    let (found, _) = run(Rfc7502::new(Rfc7502Config::default()), 0.0);
    assert_eq!((found.rate_per_s, found.ending), (0.0, Ending::NothingHeld));
}

#[test]
fn fewer_attempts_than_asked_for_do_not_count_as_held() {
    let mut search = Rfc7502::new(Rfc7502Config::default());
    search.give(Outcome {
        attempts: 10,
        ..Outcome::default()
    });
    assert!(!search.tries[0].held);
}

/// The report says that sessions are established within a time: one that is not has failed.
#[test]
fn a_rate_at_which_sessions_come_too_late_is_not_held() {
    for (slow, is_held) in [(0, true), (1, false)] {
        let mut search = Rfc7502::new(Rfc7502Config::default());
        search.give(Outcome {
            attempts: 50_000,
            slow,
            ..Outcome::default()
        });
        assert_eq!(search.tries[0].held, is_held);
    }
}

#[test]
fn doubts_and_interruptions_end_it() {
    for (outcome, ending) in [
        (
            Outcome {
                doubtful: true,
                attempts: 50_000,
                ..Outcome::default()
            },
            Ending::GeneratorLimit,
        ),
        (
            Outcome {
                interrupted: true,
                attempts: 50_000,
                ..Outcome::default()
            },
            Ending::Interrupted,
        ),
    ] {
        let mut search = Rfc7502::new(Rfc7502Config::default());
        search.give(outcome);
        assert!(matches!(search.next(), Step::Done(found) if found.ending == ending));
    }
}

#[test]
fn the_form_names_everything_the_rfc_asks_for() {
    let form = Rfc7502Report {
        device: "signet 0.1.0".to_owned(),
        transport_caller: "TLS".to_owned(),
        transport_called: "UDP".to_owned(),
        initial_per_s: 100.0,
        attempts: 50_000,
        establishment_threshold_ms: 1_000.0,
        tls_suite: "TLS 1.3, TLS_AES_128_GCM_SHA256".to_owned(),
        session_rate_per_s: Some(1_234.0),
        ..Rfc7502Report::default()
    }
    .to_string();
    for line in [
        "  SIP transport, caller to device            TLS",
        "  Total sessions attempted in a try          50000",
        "  IPsec profile                              none",
        "  Session establishment rate                 1234 per second",
        "  Registration rate                          not measured",
    ] {
        assert!(form.lines().any(|l| l == line), "{line:?} in\n{form}");
    }
}
