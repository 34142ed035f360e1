//! How a run ends: what is waited for, and what is hung up.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{calls_to, drive, is, never, of_users, response, udp};
use measure::Schedule;
use signet_load::app::{Circumstances, result_of};
use signet_load::{Leaked, Ran};
use sip_msg::Transport;

const CALLS: u64 = 25;

/// One INVITE that nobody answers is waited for. What the generator took while it sent, and what
/// it reached, is not divided by that.
#[test]
fn waiting_for_the_last_one_makes_nobody_idle() {
    const SENT: u64 = 100;
    let mut silent = None;
    let peer = udp(
        move |request, number| {
            let call_id = request.lines().find(|line| line.starts_with("Call-ID:"));
            let call_id = call_id.unwrap().to_owned();
            if number == 0 {
                silent = Some(call_id.clone());
            }
            if silent.as_ref() == Some(&call_id) || is(request, "ACK") {
                return Vec::new();
            }
            vec![(Duration::ZERO, response(request, "200 OK"))]
        },
        never,
    );
    let mut settings = calls_to(peer.addr, Transport::Udp, u64::MAX);
    settings.schedule = Some(Schedule::parse("100/s for 1s").unwrap());
    settings.timers.t1_ms = 100;
    settings.answer_timeout = Duration::from_secs(60);
    let described = settings.clone();
    let ran = drive(settings);
    assert_eq!((ran.started, ran.failed), (SENT, 1), "{:?}", ran.causes);
    assert!(ran.sending_ns >= 1_000_000_000 && ran.sending_ns * 2 < ran.duration_ns);
    let thread = ran.threads[0].clone();
    let mut result = result_of(ran, &described, Circumstances::default());
    result.conclude(&[]);
    let share = thread.sending_cpu_ns as f64 / thread.sending_ns as f64;
    let over_all = thread.cpu_ns as f64 / result.duration_ns as f64;
    let (_, told) = result.health.busiest_thread().unwrap();
    assert!(
        told == share && told > over_all,
        "{told} {share} {over_all}"
    );
    let over_all = (SENT - 1) as f64 * 1e9 / result.duration_ns as f64;
    assert!(result.rate_per_s() > 2.0 * over_all);
}

/// Hung up means that the other side knows of it: a BYE that is lost is sent again, and one that
/// is challenged is answered with credentials.
#[test]
fn what_is_hung_up_at_the_end_is_over() {
    for is_challenged in [false, true] {
        let byes: Arc<Mutex<HashMap<String, Vec<bool>>>> = Arc::default();
        let seen = Arc::clone(&byes);
        let peer = udp(
            move |request, _| {
                if is(request, "ACK") {
                    return Vec::new();
                }
                let mut answer = response(request, "200 OK");
                if is(request, "BYE") {
                    let call_id = request.lines().find(|line| line.starts_with("Call-ID:"));
                    let mut seen = seen.lock().unwrap();
                    let of_call = seen.entry(call_id.unwrap().to_owned()).or_default();
                    of_call.push(request.contains("\r\nProxy-Authorization: "));
                    match (of_call.len(), is_challenged) {
                        (1, false) => return Vec::new(),
                        (1, true) => {
                            let text = response(request, "407 Proxy Authentication Required");
                            let challenge = "Proxy-Authenticate: Digest realm=\"example.org\", \
                                             nonce=\"abc\", qop=\"auth\", algorithm=SHA-256\r\nContact:";
                            answer = String::from_utf8(text)
                                .unwrap()
                                .replace("Contact:", challenge)
                                .into_bytes();
                        }
                        _ => {}
                    }
                }
                vec![(Duration::ZERO, answer)]
            },
            never,
        );
        let mut settings = of_users(peer.addr, CALLS);
        settings.register_first = false;
        settings.credentials_first = false;
        settings.hold = "600s".parse().unwrap();
        settings.drain_timeout = Some(Duration::from_millis(200));
        let ran = drive(settings);
        check_unfinished(&ran);
        assert_eq!(ran.leaked, Leaked::default());
        let byes = byes.lock().unwrap();
        assert_eq!(byes.len() as u64, ran.figures.invites_ok);
        for of_call in byes.values() {
            let ends_well = of_call.last() == Some(&is_challenged);
            assert!(of_call.len() > 1 && !of_call[0] && ends_well, "{byes:?}");
        }
    }
}

/// All calls failed because they were not over in time, whatever became of them then.
fn check_unfinished(ran: &Ran) {
    let ranked = ran.causes.ranked();
    assert_eq!(ranked, [("unfinished".to_owned(), CALLS)]);
    assert_eq!((ran.started, ran.ended), (CALLS, CALLS));
}
