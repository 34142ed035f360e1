//! The thread and its client, against programs that answer as none should.

#[path = "../../../sip-userdb/tests/stores/script.rs"]
#[allow(dead_code, unreachable_pub)]
mod script;

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use sip_hook::{Action, Kind};

use super::*;
use crate::testing::{TempDir, logged};
use script::{Peer, serve};

/// How long anything may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a question waits where its answer is to come.
const LONG_MS: u64 = 50_000;

struct Bed {
    asker: Asker,
    answers: Receiver<(Tag, Outcome)>,
}

impl Bed {
    /// Asks the program of that port; a request may take so long.
    fn new(port: u16, timeout_ms: u64) -> Self {
        Self::with(options(port, timeout_ms), |_| {})
    }

    fn with(options: Options, change: impl FnOnce(&mut QueueConfig)) -> Self {
        let mut queue = QueueConfig {
            questions_max: 10_000,
            batch_max: 8,
            in_flight_max: 1,
            timeout_us: options.connect_timeout_ms * 1_000,
            ..QueueConfig::default()
        };
        change(&mut queue);
        let cache = CacheConfig {
            fields: vec![Field::User],
            entries_max: 10,
        };
        let (sender, answers) = channel();
        let deliver = move |all: &mut Vec<(Tag, Outcome)>| {
            // A test that has seen enough has gone.
            all.drain(..).for_each(|answer| _ = sender.send(answer));
        };
        let (asker, _) = Asker::start(options, queue, cache, deliver).unwrap();
        Self { asker, answers }
    }

    fn ask(&self, park: u64, left_ms: u64) -> Option<Outcome> {
        let tag = Tag {
            worker: 0,
            park: ParkId(park),
        };
        let question = Question {
            kind: Kind::Call,
            from: "sip:alice@example.com".into(),
            to: "sip:bob@example.com".into(),
            request_uri: "sip:bob@example.com".into(),
            number: "".into(),
            route: "".into(),
            user: format!("user{park}@example.com").into(),
            class: "user",
            source: "192.0.2.1".parse().unwrap(),
            source_port: 5060,
            transport: "tls",
            call_id: format!("call-{park}").into(),
        };
        self.asker.ask(tag, Box::new(question), left_ms)
    }

    /// The next answer.
    fn answer(&self) -> (u64, Outcome) {
        let (tag, outcome) = self.answers.recv_timeout(PATIENCE).unwrap();
        (tag.park.0, outcome)
    }

    fn asked(&self, park: u64) -> Outcome {
        assert_eq!(self.ask(park, LONG_MS), None);
        let (whose, outcome) = self.answer();
        assert_eq!(whose, park);
        outcome
    }
}

fn options(port: u16, timeout_ms: u64) -> Options {
    let config = config::Hook {
        url: Some(config::HookUrl(format!("http://127.0.0.1:{port}/hook?v=1"))),
        timeout_ms,
        connections_max: 1,
        ..config::Hook::default()
    };
    super::options(&config).unwrap().unwrap()
}

/// The numbers of the questions in a body.
fn ids(body: &[u8]) -> Vec<Value> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let questions = body["questions"].as_array().unwrap();
    questions.iter().map(|of| of["id"].clone()).collect()
}

fn good(body: &[u8]) -> String {
    let each = ids(body).into_iter();
    let each: Vec<Value> = each
        .map(|id| json!({"id": id, "action": "continue"}))
        .collect();
    response(
        "200 OK",
        &json!({"version": 1, "answers": each}).to_string(),
    )
}

fn response(status: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
    )
}

fn is_continue(outcome: &Outcome) -> bool {
    outcome
        .as_ref()
        .is_ok_and(|answer| *answer.action() == Action::Continue)
}

#[test]
fn a_hook_that_fails_and_answers_in_turn_is_not_told_of_each_time() {
    let text = logged(|| {
        let mut complaints = Complaints::about("http://127.0.0.1:1/secret?key=secret");
        for _ in 0..100 {
            complaints.fails(&BatchFailure::TimedOut);
            complaints.answers();
        }
    });
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        matches!(lines[..], [fails, answers]
            if fails.contains("fails") && answers.contains("answers again")),
        "{text}"
    );
    assert!(text.contains("http://127.0.0.1:1"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn a_request_is_what_the_documents_say() {
    let folder = TempDir::new("hook-token");
    let token = folder.path().join("token");
    std::fs::write(&token, "a token\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let port = serve(|mut peer: Peer, connection| {
        assert_eq!(connection, 0, "one connection is enough");
        while let Some((head, body)) = peer.http() {
            assert!(head.starts_with("POST /hook?v=1 HTTP/1.1\n"), "{head}");
            let head = head.to_ascii_lowercase();
            assert!(head.contains("\nauthorization: bearer a token\n"), "{head}");
            assert!(
                head.contains("\ncontent-type: application/json\n"),
                "{head}"
            );
            let asked: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(asked["version"], 1);
            assert_eq!(asked["questions"][0]["kind"], "call");
            assert_eq!(asked["questions"][0]["method"], "INVITE");
            assert_eq!(asked["questions"][0]["number"], Value::Null);
            peer.send(good(&body).as_bytes());
        }
    });
    let config = config::Hook {
        url: Some(config::HookUrl(format!("http://127.0.0.1:{port}/hook?v=1"))),
        token_file: Some(token.clone()),
        ..config::Hook::default()
    };
    let bed = Bed::with(super::options(&config).unwrap().unwrap(), |_| {});
    for park in 0..3 {
        assert!(is_continue(&bed.asked(park)));
    }
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = check(&config).unwrap_err().to_string();
    assert!(error.contains("can be read by others"), "{error}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let checked = |url: &str| {
        let config = config::Hook {
            url: Some(config::HookUrl(url.to_owned())),
            ..config::Hook::default()
        };
        check(&config).map_err(|error| error.to_string())
    };
    assert_eq!(checked("http://127.0.0.1:1/"), Ok(()));
    assert_eq!(checked("http://localhost/?socket=/run/hook.sock"), Ok(()));
    let plain = checked("http://hook.example.org/").unwrap_err();
    assert!(plain.contains("write https://"), "{plain}");
    assert_eq!(check(&config::Hook::default()).map_err(|_| ()), Ok(()));
}

#[test]
fn answers_in_pieces_are_put_together() {
    let port = serve(|mut peer: Peer, _| {
        while let Some((_, body)) = peer.http() {
            for byte in good(&body).bytes() {
                peer.send(&[byte]);
            }
        }
    });
    let bed = Bed::new(port, LONG_MS);
    for park in 0..3 {
        assert!(is_continue(&bed.asked(park)));
    }
}

#[test]
fn an_answer_that_comes_twice_is_not_taken_for_another() {
    let port = serve(|mut peer: Peer, _| {
        while let Some((_, body)) = peer.http() {
            peer.send(good(&body).repeat(2).as_bytes());
        }
    });
    let bed = Bed::new(port, LONG_MS);
    for park in 0..20 {
        match bed.asked(park) {
            // An answer is found by its number: that of another is nobody's.
            Ok(answer) => assert_eq!(*answer.action(), Action::Continue),
            Err(Failure::Bad(_) | Failure::Refused(_) | Failure::Unreachable) => {}
            Err(failure) => panic!("{failure:?}"),
        }
    }
}

#[test]
fn garbage_and_ends_fail_one_call_and_the_next_is_served() {
    let huge = format!("{{\"answers\":[{}]}}", " ".repeat(100_000));
    let deep = "[".repeat(20_000);
    let bad = [
        "+PONG\r\n".repeat(20),
        "HTTP/1.1 200 OK\r\nX: ".to_owned() + &"x".repeat(100_000),
        response("200 OK", "{").replace("application/json", "text/html"),
        response("204 No Content", ""),
        response("301 Moved Permanently", "{\"answers\":[]}").replace(
            "Content-Type",
            "Location: http://127.0.0.1:1/\r\nContent-Type",
        ),
        response("401 Unauthorized", "{\"answers\":[]}"),
        response("500 Internal Server Error", "{\"answers\":[]}"),
        response("200 OK", "{\"answers\""),
        response("200 OK", "{\"version\":2,\"answers\":[]}"),
        response("200 OK", "\u{0}"),
        response("200 OK", &deep),
        response("200 OK", &huge),
        response("200 OK", "{\"answers\":[]}"),
        response("200 OK", "{\"answers\":[{\"id\":0,\"action\":\"no\"}]}"),
        response("200 OK", "{\"answers\":[{\"id\":0,\"action\":\"continue\",\"headers\":{\"A-B\":\"1\\r\\nC: 2\"}}]}"),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
            .to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n".to_owned() + &huge,
    ];
    for answer in bad {
        let sent = answer.clone();
        let spoilt = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&spoilt);
        let port = serve(move |mut peer: Peer, _| {
            while let Some((_, body)) = peer.http() {
                // However often the first question is asked.
                if ids(&body) == [json!(0)] {
                    count.fetch_add(1, Ordering::Relaxed);
                    peer.send(sent.as_bytes());
                    return;
                }
                peer.send(good(&body).as_bytes());
            }
        });
        let bed = Bed::new(port, LONG_MS);
        let shown: String = answer.chars().take(60).collect();
        let failure = bed.asked(0).unwrap_err();
        assert!(
            matches!(
                failure,
                Failure::Bad(_) | Failure::Refused(_) | Failure::Unreachable
            ),
            "{shown}: {failure:?}"
        );
        assert!(spoilt.load(Ordering::Relaxed) <= 4, "{shown}");
        assert!(is_continue(&bed.asked(1)), "{shown}");
    }
}

#[test]
fn one_that_closes_midway_costs_nobody_his_answer() {
    let port = serve(|mut peer: Peer, connection| {
        if let Some((_, body)) = peer.http() {
            let answer = good(&body);
            match connection {
                0 => peer.send(&answer.as_bytes()[..answer.len() / 2]),
                _ => peer.send(answer.as_bytes()),
            }
        }
    });
    let bed = Bed::new(port, LONG_MS);
    for park in 0..10 {
        assert!(is_continue(&bed.asked(park)));
    }
}

#[test]
fn one_that_says_nothing_is_given_up_and_one_that_is_late_is_not_believed() {
    let port = serve(|mut peer: Peer, connection| {
        while let Some((_, body)) = peer.http() {
            match connection {
                0 => return peer.stay_silent(),
                1 => {
                    std::thread::sleep(Duration::from_millis(600));
                    peer.send(good(&body).as_bytes());
                }
                _ => peer.send(good(&body).as_bytes()),
            }
        }
    });
    let bed = Bed::new(port, 300);
    for park in 0..2 {
        assert_eq!(bed.ask(park, 200), None);
        assert_eq!(bed.answer(), (park, Err(Failure::TimedOut)));
    }
    // What the others said is nobody's: each has a connection of its own.
    let served = (2..100).find(|park| {
        let outcome = bed.asked(*park);
        let is_served = is_continue(&outcome);
        let is_patient = matches!(outcome, Err(Failure::TimedOut | Failure::Away));
        assert!(is_served || is_patient, "{outcome:?}");
        is_served
    });
    assert!(served.is_some());
}

#[test]
fn questions_share_requests_while_the_program_is_busy_and_one_bad_one_fails_alone() {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sizes);
    let (is_first, are_taken) = (AtomicBool::new(true), Arc::new(AtomicBool::new(false)));
    let is_over = Arc::clone(&are_taken);
    let port = serve(move |mut peer: Peer, _| {
        while let Some((_, body)) = peer.http() {
            let ids = ids(&body);
            lock(&seen).push(ids.len());
            if is_first.swap(false, Ordering::Relaxed) {
                // The others come meanwhile.
                while !is_over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            // This one it cannot bear.
            let answer = match ids.contains(&json!(5)) {
                true => response("500 Internal Server Error", ""),
                false => good(&body),
            };
            peer.send(answer.as_bytes());
        }
    });
    let bed = Bed::new(port, LONG_MS);
    for park in 0..17 {
        assert_eq!(bed.ask(park, LONG_MS), None);
    }
    let until = Instant::now() + PATIENCE;
    while bed.asker.shown.figures().questions < 17 {
        assert!(Instant::now() < until, "they are not taken");
        std::thread::sleep(Duration::from_millis(5));
    }
    are_taken.store(true, Ordering::Relaxed);
    let mut failed = Vec::new();
    for _ in 0..17 {
        let (park, outcome) = bed.answer();
        match outcome {
            Err(Failure::Refused(why)) => failed.push((park, why.contains("500"))),
            outcome => assert!(is_continue(&outcome), "{park}: {outcome:?}"),
        }
    }
    assert_eq!(failed, [(5, true)]);
    let sizes = lock(&sizes).clone();
    assert!(sizes.contains(&8), "{sizes:?}");
}

#[test]
fn a_program_that_is_not_there_is_left_alone_and_found_when_it_comes() {
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let bed = Bed::new(port, LONG_MS);
    let mut park = 0;
    loop {
        park += 1;
        match bed.asked(park).unwrap_err() {
            Failure::Unreachable => {}
            Failure::Away => break,
            failure => panic!("{failure:?}"),
        }
    }
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                use std::io::{BufRead, BufReader, Read, Write};
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                loop {
                    let (mut line, mut len) = (String::new(), 0);
                    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                        let lower = line.to_ascii_lowercase();
                        if let Some(value) = lower.strip_prefix("content-length:") {
                            len = value.trim().parse().unwrap();
                        }
                        line.clear();
                    }
                    let mut body = vec![0; len];
                    if len == 0 || reader.read_exact(&mut body).is_err() {
                        return;
                    }
                    let _ = stream.write_all(good(&body).as_bytes());
                }
            });
        }
    });
    let until = Instant::now() + PATIENCE;
    loop {
        park += 1;
        match bed.asked(park) {
            Ok(answer) => break assert_eq!(*answer.action(), Action::Continue),
            Err(Failure::Away) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(failure) => panic!("{failure:?}"),
        }
    }
}

#[test]
fn ten_thousand_questions_are_no_more_than_there_is_room_for() {
    let port = serve(|mut peer: Peer, _| peer.stay_silent());
    let bed = Bed::with(options(port, 500), |queue| queue.questions_max = 100);
    let mut refused = 0;
    for park in 0..10_000 {
        match bed.ask(park, 400) {
            None => {}
            Some(outcome) => {
                assert_eq!(outcome, Err(Failure::Full));
                refused += 1;
            }
        }
    }
    // Each that was taken is told something, once.
    for _ in refused..10_000 {
        let (_, outcome) = bed.answer();
        assert!(
            matches!(
                outcome,
                Err(Failure::TimedOut | Failure::Full | Failure::Away)
            ),
            "{outcome:?}"
        );
    }
    assert!(bed.answers.recv_timeout(Duration::from_millis(50)).is_err());
}

#[test]
fn an_answer_is_given_again_as_long_as_it_says_and_until_it_is_forgotten() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let port = serve(move |mut peer: Peer, _| {
        while let Some((_, body)) = peer.http() {
            count.fetch_add(1, Ordering::Relaxed);
            let id = &ids(&body)[0];
            let answer = json!({"id": id, "action": "reject", "status": 486, "cache_s": 3_600});
            let body = json!({"version": 1, "answers": [answer]}).to_string();
            peer.send(response("200 OK", &body).as_bytes());
        }
    });
    let bed = Bed::new(port, LONG_MS);
    let first = bed.asked(1).unwrap();
    assert_eq!(bed.ask(1, LONG_MS), Some(Ok(first)));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    bed.asker.shown.cache().clear();
    bed.asked(1).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}
