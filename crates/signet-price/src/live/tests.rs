use super::*;

/// A page of a server that began at a time, with so many calls and registrations, and with CPU
/// time of the kernel, of authentication and of nobody.
fn figures(began: u64, calls: u64, registrations: u64, kernel_s: f64, auth_s: f64) -> Figures {
    Figures::new(format!(
        "signet_build_info{{version=\"1.2.3\"}} 1\nsignet_start_time_seconds {began}\n\
         signet_calls_total {calls}\nsignet_registers_ok_total {registrations}\n\
         {CPU}{{component=\"kernel\"}} {kernel_s}\n{CPU}{{component=\"authentication\"}} {auth_s}\n\
         {CPU}{{component=\"other\"}} 7\n"
    ))
}

fn window(seconds: f64) -> Window {
    Window {
        from: "there".to_owned(),
        seconds,
        core_hour_eur: 0.036,
        ..Window::default()
    }
}

fn is_near(one: Option<f64>, other: f64) {
    let one = one.unwrap();
    assert!(
        (one - other).abs() < 1e-9 * other.abs().max(1.0),
        "{one} is not {other}"
    );
}

#[test]
fn calls_alone_have_a_price_each() {
    let (before, after) = (figures(1, 100, 5, 1.0, 2.0), figures(1, 2_100, 5, 1.3, 2.1));
    let record = reckon(&before, &after, window(10.0)).unwrap();
    assert_eq!((record.calls, record.registrations), (2_000, 0));
    assert_eq!((&*record.server, record.components.len()), ("1.2.3", 3));
    let kernel = &record.components[0];
    assert_eq!(kernel.name, "kernel");
    is_near(Some(kernel.cpu_s), 0.3);
    is_near(Some(kernel.share), 0.75);
    is_near(kernel.us_per_call, 150.0);
    // 150 s of a core for a million calls, at a cent for a thousand of them.
    is_near(kernel.eur_per_million_calls, 0.0015);
    is_near(record.total.us_per_call, 200.0);
    is_near(record.total.eur_per_million_calls, 0.002);
    assert_eq!(record.components[2].cpu_s, 0.0);
    assert!(record.total.us_per_registration.is_none() && record.notes.is_empty());
    let text = told(&record);
    for line in [
        "there, signet 1.2.3, 10.0 s: 2,000 calls, 0 registrations, 0.0400 cores busy",
        "us/call",
        "EUR/million calls",
        "a core costs 0.036 EUR an hour",
    ] {
        assert!(text.contains(line), "{line:?} is not in:\n{text}");
    }
}

#[test]
fn registrations_alone_have_a_price_each_and_both_are_not_told_apart() {
    let before = figures(1, 100, 5, 1.0, 2.0);
    let after = figures(1, 100, 1_005, 1.0, 2.02);
    let record = reckon(&before, &after, window(10.0)).unwrap();
    is_near(record.total.us_per_registration, 20.0);
    is_near(record.total.eur_per_million_registrations, 0.0002);
    assert!(record.total.us_per_call.is_none());
    assert!(record.notes[0].contains("no calls"), "{:?}", record.notes);
    assert!(told(&record).contains("us/registration"));

    let after = figures(1, 2_100, 1_005, 1.0, 2.02);
    let record = reckon(&before, &after, window(10.0)).unwrap();
    is_near(record.total.us_per_call, 10.0);
    assert!(record.total.us_per_registration.is_none());
    assert!(record.notes[0].contains("there came 0.50 registrations"));
}

#[test]
fn a_window_without_calls_and_a_short_one_say_so() {
    let before = figures(1, 100, 5, 1.0, 2.0);
    let record = reckon(&before, &before, window(1.0)).unwrap();
    assert!(record.total.us_per_call.is_none() && record.total.eur_per_million_calls.is_none());
    assert_eq!(record.notes.len(), 2);
    let text = told(&record);
    for part in [
        "no calls and no registrations",
        "half a second",
        "--seconds",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains("EUR"), "{text}");
    assert!(
        page(&record)
            .unwrap()
            .contains("no calls and no registrations")
    );
}

#[test]
fn a_server_that_was_started_anew_or_does_not_account_is_an_error() {
    let before = figures(1, 100, 5, 1.0, 2.0);
    for after in [figures(2, 200, 5, 1.5, 2.5), figures(1, 0, 0, 0.5, 2.0)] {
        let error = reckon(&before, &after, window(10.0))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("started anew") && error.contains("run it again"),
            "{error}"
        );
    }
    let silent = Figures::new("signet_calls_total 5\n".to_owned());
    let error = reckon(&silent, &silent, window(10.0))
        .unwrap_err()
        .to_string();
    assert!(error.contains("the same version"), "{error}");
}

#[test]
fn the_page_has_every_component_and_needs_nothing() {
    let (before, after) = (figures(1, 100, 5, 1.0, 2.0), figures(1, 2_100, 5, 1.3, 2.1));
    let record = reckon(&before, &after, window(10.0)).unwrap();
    let page = page(&record).unwrap();
    for told in ["kernel", "authentication", "total", "for each call", "<svg"] {
        assert!(page.contains(told), "{told}");
    }
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "src=", "<script"] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<LiveRecord>(&json).unwrap(), record);
}
