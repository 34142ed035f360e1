use super::*;
use crate::{Flow, Mix};

fn options(delay_max_ns: u64) -> PeakSettings {
    PeakSettings {
        search: SearchConfig {
            delay_max_ns,
            ..SearchConfig::default()
        },
        delay_percent: 99.0,
        rfc7502: Some(50_000),
        fleet: None,
    }
}

fn found(ending: Ending, rate_per_s: f64) -> Rfc7502Peak {
    Rfc7502Peak {
        rate_per_s,
        ending,
        tries: Vec::new(),
    }
}

#[test]
fn why_a_search_ended_is_told_in_words() {
    assert_eq!(ended(Ending::Interrupted), "interrupted");
    assert_eq!(ended(Ending::GeneratorLimit), "the generator's limit");
}

/// A form is read without the run: what is wrong with its rate stands in it.
#[test]
fn a_rate_that_is_not_the_devices_is_told_as_such_in_the_form() {
    let settings = Settings::new(Mix::only(Flow::Call));
    for ending in [
        Ending::GeneratorLimit,
        Ending::NothingHeld,
        Ending::NotReached,
        Ending::TooManyTries,
    ] {
        let held = if ending == Ending::NothingHeld {
            0.0
        } else {
            900.0
        };
        let found = found(ending, held);
        let doubt = doubt_of_rfc7502(&found).unwrap();
        assert!(!doubt.sentence.is_empty(), "{ending:?}");
        let form = report(&settings, &options(u64::MAX), &found, "");
        assert_eq!(form.remarks, [doubt.sentence], "{ending:?}");
        assert_eq!(form.session_rate_per_s, (held > 0.0).then_some(held));
    }
    let form = report(
        &settings,
        &options(u64::MAX),
        &found(Ending::Found, 900.0),
        "",
    );
    assert!(form.remarks.is_empty());
    assert!(doubt_of_rfc7502(&found(Ending::Found, 900.0)).is_none());
    assert!(doubt_of_rfc7502(&found(Ending::Interrupted, 900.0)).is_none());
    let form = report(
        &settings,
        &options(u64::MAX),
        &found(Ending::Interrupted, 0.0),
        "",
    );
    assert_eq!((form.remarks.len(), form.session_rate_per_s), (1, None));
}

#[test]
fn the_form_has_the_time_that_the_search_applied() {
    let settings = Settings::new(Mix::only(Flow::Call));
    for (delay_max_ns, ms) in [(200_000_000, 200.0), (u64::MAX, 32_000.0)] {
        let options = options(delay_max_ns);
        let form = report(&settings, &options, &found(Ending::Found, 1.0), "");
        assert_eq!(form.establishment_threshold_ms, ms);
        let within_ns = established_within_ns(&settings, &options);
        assert_eq!(within_ns as f64 / 1e6, ms);
    }
}
