use sip_msg::{ConnId, Flow, ListenerId, Target, Transport};

use super::*;
use crate::{Behaviors, CompileOptions, Program, Settings};

mod actions;
mod behind;
mod lingering;
mod losses;
mod over;
mod times;
mod unexpected;

const MS: u64 = 1_000_000;

/// A scenario that is played without sockets: what is sent is looked at, what
/// is received is given.
struct Stage {
    calls: Calls,
    out: Outputs,
    now_ns: u64,
}

impl Stage {
    fn new(steps: &str, settings: Settings) -> Self {
        Self::with_files(steps, settings, Vec::new())
    }

    fn with_files(steps: &str, settings: Settings, files: Vec<InjectionFile>) -> Self {
        let file = format!("<scenario name=\"t\">{steps}</scenario>");
        let options = CompileOptions {
            files: &files,
            ..CompileOptions::default()
        };
        let program = Program::compile("t", file.as_bytes(), options).unwrap();
        Self {
            calls: Calls::new(program, settings, files, &[]),
            out: Outputs::default(),
            now_ns: 0,
        }
    }

    fn start(&mut self) {
        self.start_on(ConnId::NONE).unwrap();
    }

    fn start_on(&mut self, conn: ConnId) -> Result<u64, NoCall> {
        let target = Target {
            conn,
            ..Target::back(&flow())
        };
        let path = CallPath {
            target,
            local: None,
            since_ns: self.now_ns,
        };
        self.calls.start(self.now_ns, path, &mut self.out)
    }

    /// What was sent since the last time.
    fn sent(&mut self) -> Vec<String> {
        let outbox = &self.out.outbox;
        let sent = outbox
            .sends
            .iter()
            .map(|send| String::from_utf8_lossy(&outbox.bytes[send.start..send.end]).into_owned())
            .collect();
        self.out.outbox.clear();
        sent
    }

    /// The start lines of what was sent since the last time.
    fn lines(&mut self) -> Vec<String> {
        let sent = self.sent();
        sent.iter()
            .map(|message| message.lines().next().unwrap_or_default().to_owned())
            .collect()
    }

    fn receive(&mut self, message: &str) {
        let message = message.replace('\n', "\r\n");
        self.calls
            .receive(self.now_ns, &flow(), message.as_bytes(), &mut self.out);
    }

    /// Lets the time pass, timer by timer.
    fn wait(&mut self, ms: u64) {
        let end_ns = self.now_ns + ms * MS;
        while let Some(due_ms) = self.calls.next_deadline_ms()
            && due_ms * MS <= end_ns
        {
            self.now_ns = self.now_ns.max(due_ms * MS);
            self.calls.advance(self.now_ns, &mut self.out);
        }
        self.now_ns = end_ns;
        self.calls.advance(self.now_ns, &mut self.out);
    }

    fn count(&self, counter: Counter) -> u64 {
        self.calls.stats().get(counter)
    }

    fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.out.events)
    }
}

fn flow() -> Flow {
    Flow {
        transport: Transport::Udp,
        listener: ListenerId(0),
        local: "127.0.0.1:5060".parse().unwrap(),
        remote: "127.0.0.1:5070".parse().unwrap(),
        conn: ConnId::NONE,
    }
}

fn send(method: &str, attributes: &str) -> String {
    format!(
        "<send {attributes}><![CDATA[\n{method} sip:b SIP/2.0\nVia: SIP/2.0/UDP h;branch=[branch]\n\
         To: <sip:b>[peer_tag_param]\nCall-ID: [call_id]\nCSeq: [cseq] {method}\n]]></send>"
    )
}

fn answer(status: u16, call: u64, cseq: u32, method: &str) -> String {
    format!(
        "SIP/2.0 {status} X\nVia: SIP/2.0/UDP h;branch=z9hG4bK-0-{call}-0\nTo: <sip:b>;tag=t\n\
         Call-ID: {call}-0@127.0.0.1\nCSeq: {cseq} {method}\n\n"
    )
}

fn request(method: &str, id: &str, cseq: u32) -> String {
    format!(
        "{method} sip:a SIP/2.0\nVia: SIP/2.0/UDP h;branch=z9hG4bK{method}\nFrom: <sip:x>;tag=f\n\
         To: <sip:a>\nCall-ID: {id}\nCSeq: {cseq} {method}\n\n"
    )
}

/// When messages are sent again, in milliseconds after the first.
fn resend_times(stage: &mut Stage, until_ms: u64) -> Vec<u64> {
    let mut times = Vec::new();
    for ms in 1..=until_ms {
        stage.wait(1);
        times.extend(stage.lines().iter().map(|_| ms));
    }
    times
}

#[test]
fn an_invite_is_sent_again_with_doubled_gaps_and_given_up() {
    let steps = send("INVITE", "retrans=\"500\"") + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    assert_eq!(stage.lines(), ["INVITE sip:b SIP/2.0"]);
    let times = resend_times(&mut stage, 40_000);
    assert_eq!(times, [500, 1_500, 3_500, 7_500, 15_500]);
    assert_eq!(stage.count(Counter::MaxUdpRetransmissions), 1);
    assert_eq!((stage.count(Counter::Failed), stage.calls.len()), (1, 0));
}

#[test]
fn other_requests_are_sent_again_no_rarer_than_t2() {
    let steps = send("BYE", "retrans=\"500\"") + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.sent();
    let times = resend_times(&mut stage, 40_000);
    assert_eq!(
        times,
        [
            500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500
        ]
    );
}

#[test]
fn nothing_is_sent_again_over_tcp_or_with_nr() {
    let steps = send("INVITE", "retrans=\"500\"") + "<recv response=\"200\"/>";
    for settings in [
        Settings {
            transport: Transport::Tcp,
            ..Settings::default()
        },
        Settings {
            retransmits: false,
            ..Settings::default()
        },
    ] {
        let mut stage = Stage::new(&steps, settings);
        stage.start();
        stage.sent();
        assert_eq!(resend_times(&mut stage, 20_000), []);
        assert_eq!(stage.calls.len(), 1);
    }
}

#[test]
fn what_was_just_answered_is_answered_again_and_only_that() {
    let ok =
        "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_Call-ID:]\n[last_CSeq:]\n]]></send>";
    let steps = format!("<recv request=\"MESSAGE\"/>{ok}<recv request=\"BYE\"/>{ok}");
    let mut stage = Stage::new(&steps, Settings::default());
    stage.receive(&request("MESSAGE", "c", 1));
    let first = stage.sent();
    stage.receive(&request("MESSAGE", "c", 1));
    assert_eq!(stage.sent(), first);
    assert_eq!(stage.count(Counter::Retransmissions), 1);
    // One byte more is another message.
    stage.receive(&request("MESSAGE", "c", 1).replace("tag=f", "tag=ff"));
    assert_eq!(stage.count(Counter::UnexpectedMessage), 1);
}

#[test]
fn messages_of_ended_calls_begin_no_calls() {
    let mut stage = Stage::new("<recv request=\"MESSAGE\"/>", Settings::default());
    stage.receive(&request("MESSAGE", "c", 1));
    assert_eq!(stage.count(Counter::Successful), 1);
    stage.receive(&request("MESSAGE", "c", 1));
    assert_eq!(stage.count(Counter::DeadCallMessages), 1);
    assert_eq!(stage.count(Counter::IncomingCalls), 1);
    // Each late one lets the time begin anew.
    stage.wait(20_000);
    stage.receive(&request("MESSAGE", "c", 1));
    stage.wait(20_000);
    stage.receive(&request("MESSAGE", "c", 1));
    assert_eq!(stage.count(Counter::DeadCallMessages), 3);
    stage.wait(33_001);
    stage.receive(&request("MESSAGE", "c", 1));
    assert_eq!(stage.count(Counter::IncomingCalls), 2);
}

#[test]
fn only_calls_that_were_ended_by_a_word_are_remembered() {
    let bye_off = Behaviors {
        bye: false,
        ..Behaviors::default()
    };
    let all = Behaviors::default();
    let stops = "<recv request=\"INVITE\"><action><exec int_cmd=\"stop_call\"/></action></recv>";
    let two = "<recv request=\"INVITE\"/><recv request=\"ACK\"/>";
    for (steps, behaviors, last, is_remembered) in [
        ("<recv request=\"INVITE\"/>", all, None, true),
        ("<recv request=\"INVITE\"/>", bye_off, None, true),
        (two, all, Some("MESSAGE"), true),
        (two, bye_off, Some("MESSAGE"), false),
        (two, all, Some("BYE"), false),
        (two, all, Some("CANCEL"), false),
        (stops, all, None, false),
    ] {
        let settings = Settings {
            behaviors,
            ..Settings::default()
        };
        let mut stage = Stage::new(steps, settings);
        stage.receive(&request("INVITE", "c", 1));
        if let Some(method) = last {
            stage.receive(&request(method, "c", 1));
        }
        assert!(stage.calls.is_empty(), "{steps} {last:?}");
        stage.receive(&request("INVITE", "c", 2));
        let counts = (
            stage.count(Counter::DeadCallMessages),
            stage.count(Counter::IncomingCalls),
        );
        let expected = if is_remembered { (1, 1) } else { (0, 2) };
        assert_eq!(counts, expected, "{steps} {behaviors:?} {last:?}");
    }
}

#[test]
fn a_message_behind_a_nop_waits_for_the_first_that_is_waited_for() {
    for pauses_deaf in [false, true] {
        let steps = "<nop/><pause milliseconds=\"50\"/><recv request=\"MESSAGE\"/>\
                     <recv request=\"BYE\"/>";
        let settings = Settings {
            pauses_deaf,
            ..Settings::default()
        };
        let mut stage = Stage::new(steps, settings);
        stage.receive(&request("MESSAGE", "c", 1));
        assert_eq!(stage.calls.stats().steps[2].done, 0);
        stage.wait(50);
        assert_eq!(stage.calls.stats().steps[2].done, 1);
        // It is taken once, and one that came again is known.
        stage.receive(&request("MESSAGE", "c", 1));
        assert_eq!(stage.calls.stats().steps[2].retransmitted, 1);
        stage.receive(&request("BYE", "c", 2));
        assert_eq!(stage.count(Counter::Successful), 1);
        // Nothing is left of it for the next call in its place.
        stage.receive(&request("MESSAGE", "d", 1));
        stage.wait(50);
        stage.receive(&request("BYE", "d", 2));
        assert_eq!(stage.count(Counter::Successful), 2);
    }
    // A call that ends before that has no use for it, nor has the next one.
    let steps = "<nop/><pause milliseconds=\"5\"/><recv request=\"MESSAGE\"/>\
                 <send><![CDATA[\nSIP/2.0 200 OK\n[last_Call-ID:]\n]]></send>";
    let mut stage = Stage::new(steps, Settings::default());
    stage.receive(&request("MESSAGE", "c", 1));
    stage.receive(&request("BYE", "c", 2));
    assert_eq!(stage.count(Counter::UnexpectedMessage), 1);
    stage.sent();
    stage.receive(&request("MESSAGE", "d", 1));
    stage.wait(5);
    assert!(stage.sent()[0].contains("Call-ID: d\r\n"));
    assert_eq!(stage.count(Counter::Successful), 1);
}

#[test]
fn messages_of_no_call_are_counted_by_a_client() {
    let steps = send("INVITE", "") + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.receive(&request("OPTIONS", "other", 1));
    stage.receive("rubbish\n\n");
    stage.receive("SIP/2.0 200 OK\n\n");
    assert_eq!(stage.count(Counter::OutOfCallMessages), 3);
    assert!(stage.sent().is_empty());
    let settings = Settings {
        answers: true,
        ..Settings::default()
    };
    let mut stage = Stage::new(&steps, settings);
    stage.receive(&request("OPTIONS", "other", 1));
    assert_eq!(stage.lines(), ["SIP/2.0 200 OK"]);
    assert_eq!(stage.count(Counter::AutoAnswered), 1);
    // As SIPp: that is no call's, so nobody pings it.
    stage.receive(&request("PING", "other", 1));
    assert!(stage.sent().is_empty());
    assert_eq!(stage.count(Counter::OutOfCallMessages), 1);
}

#[test]
fn a_call_goes_its_way_and_its_times_are_taken() {
    let steps = send("INVITE", "retrans=\"500\"")
        + "<recv response=\"100\" optional=\"true\"/><recv response=\"200\" rtd=\"true\"/>"
        + &send("ACK", "")
        + "<pause milliseconds=\"100\"/>"
        + &send("BYE", "retrans=\"500\"")
        + "<recv response=\"200\"/><ResponseTimeRepartition value=\"10, 20\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.wait(15);
    stage.receive(&answer(200, 1, 1, "INVITE"));
    let sent = stage.sent();
    assert!(sent[1].starts_with("ACK "), "{sent:?}");
    assert!(sent[1].contains("To: <sip:b>;tag=t\r\n"), "{sent:?}");
    assert!(sent[1].contains("branch=z9hG4bK-0-1-3\r\n"), "{sent:?}");
    stage.wait(100);
    assert_eq!(stage.lines(), ["BYE sip:b SIP/2.0"]);
    stage.receive(&answer(200, 1, 2, "BYE"));
    let stats = stage.calls.stats();
    assert_eq!(stats.get(Counter::Successful), 1);
    assert_eq!(stats.response_times[0].count, 1);
    assert_eq!(stats.response_times[0].mean_ms(), 15.0);
    assert_eq!(stats.response_classes[0].counts, [0, 1, 0]);
    assert_eq!(stats.call_lengths.mean_ms(), 115.0);
    let ends = stage.events();
    assert!(
        matches!(
            ends[..],
            [Event::Ended {
                number: 1,
                is_success: true,
                ..
            }]
        ),
        "{ends:?}"
    );
}

#[test]
fn the_time_of_opening_a_connection_counts() {
    let steps = send("INVITE", "") + "<recv response=\"200\" rtd=\"true\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.now_ns = 30 * MS;
    let path = CallPath {
        target: Target::back(&flow()),
        local: Some("127.0.0.1:777".parse().unwrap()),
        since_ns: 10 * MS,
    };
    stage
        .calls
        .start(stage.now_ns, path, &mut stage.out)
        .unwrap();
    stage.receive(&answer(200, 1, 1, "INVITE"));
    assert_eq!(stage.calls.stats().response_times[0].mean_ms(), 20.0);
}

#[test]
fn timers_of_ended_calls_are_gone() {
    let steps = send("MESSAGE", "retrans=\"500\"") + "<recv response=\"200\" timeout=\"9000\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    for call in 1..=3 {
        stage.start();
        stage.receive(&answer(200, call, 1, "MESSAGE"));
    }
    assert_eq!(stage.count(Counter::Successful), 3);
    assert_eq!(stage.calls.next_deadline_ms(), None);
    stage.sent();
    stage.wait(20_000);
    assert!(stage.sent().is_empty());
}

#[test]
fn a_closed_connection_takes_its_calls_along_and_no_others() {
    let steps = send("MESSAGE", "") + "<recv response=\"200\"/>";
    let settings = Settings {
        transport: Transport::Tcp,
        ..Settings::default()
    };
    let mut stage = Stage::new(&steps, settings);
    for conn in [1, 2, 1, 1, 2] {
        stage.start_on(ConnId(conn)).unwrap();
    }
    // One of the first in the list ends, so that places move.
    stage.receive(&answer(200, 1, 1, "MESSAGE"));
    let now_ns = stage.now_ns;
    let Stage { calls, out, .. } = &mut stage;
    calls.path_closed(now_ns, ConnId(1), SendFailure::Closed, out);
    assert_eq!(stage.count(Counter::TcpClosed), 2);
    assert_eq!(
        (stage.count(Counter::Successful), stage.calls.len()),
        (1, 2)
    );
    let Stage { calls, out, .. } = &mut stage;
    calls.path_closed(now_ns, ConnId(1), SendFailure::Closed, out);
    calls.path_closed(now_ns, ConnId(2), SendFailure::Connect, out);
    assert_eq!(stage.count(Counter::TcpConnect), 2);
    assert!(stage.calls.is_empty());
}

#[test]
fn a_failed_send_fails_the_call_that_sent_it_and_no_later_one() {
    let steps = send("MESSAGE", "") + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    let cookie = stage.out.outbox.sends[0].cookie;
    assert_ne!(cookie, 0);
    stage.receive(&answer(200, 1, 1, "MESSAGE"));
    stage.start();
    let Stage { calls, out, .. } = &mut stage;
    calls.send_failed(0, cookie, SendFailure::Refused, out);
    assert_eq!(stage.count(Counter::Failed), 0);
    let cookie = stage.out.outbox.sends.last().unwrap().cookie;
    let Stage { calls, out, .. } = &mut stage;
    calls.send_failed(0, cookie, SendFailure::Refused, out);
    assert_eq!(stage.count(Counter::CannotSend), 1);
}

#[test]
fn users_have_one_call_each() {
    let steps =
        "<User variables=\"n\"/><nop><action><add assign_to=\"n\" value=\"1\"/></action></nop>"
            .to_owned()
            + &send("MESSAGE", "").replace("CSeq: ", "X: [userid] [$n]\nCSeq: ")
            + "<recv response=\"200\"/>";
    let settings = Settings {
        users: Some(2),
        ..Settings::default()
    };
    let mut stage = Stage::new(&steps, settings);
    stage.start();
    stage.start();
    assert_eq!(stage.start_on(ConnId::NONE), Err(NoCall::NoUser));
    let has = |sent: &[String], text: &str| sent.iter().any(|message| message.contains(text));
    let sent = stage.sent();
    assert!(has(&sent, "X: 1 1.000000\r\n") && has(&sent, "X: 2 1.000000\r\n"));
    // The first call had the second user.
    stage.receive(&answer(200, 1, 1, "MESSAGE"));
    stage.start();
    assert!(has(&stage.sent(), "X: 2 2.000000\r\n"));
}

#[test]
fn the_last_user_calls_first_and_who_was_longest_without_a_call_is_next() {
    let steps =
        send("MESSAGE", "").replace("CSeq: ", "X: [userid]\nCSeq: ") + "<recv response=\"200\"/>";
    let settings = Settings {
        users: Some(3),
        ..Settings::default()
    };
    let mut stage = Stage::new(&steps, settings);
    let mut users = Vec::new();
    for ended in [None, None, None, Some(2), Some(1), None, None] {
        match ended {
            Some(call) => stage.receive(&answer(200, call, 1, "MESSAGE")),
            None => stage.start(),
        }
        let sent = stage.sent().concat();
        users.extend(
            sent.lines()
                .find_map(|line| Some(line.strip_prefix("X: ")?.to_owned())),
        );
    }
    assert_eq!(users, ["3", "2", "1", "2", "3"]);
}

#[test]
fn calls_have_a_bound() {
    let steps = send("MESSAGE", "") + "<recv response=\"200\"/>";
    let settings = Settings {
        calls_max: 1,
        ..Settings::default()
    };
    let mut stage = Stage::new(&steps, settings);
    stage.start();
    assert_eq!(stage.start_on(ConnId::NONE), Err(NoCall::Full));
}

#[test]
fn a_circle_without_waiting_ends() {
    let steps = send("MESSAGE", "") + "<label id=\"a\"/><nop next=\"a\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    assert_eq!(stage.count(Counter::Rejected), 1);
}

#[test]
fn a_call_that_sends_without_waiting_leaves_turns_to_others() {
    let steps = "<label id=\"a\"/>".to_owned()
        + &send("MESSAGE", "next=\"a\"")
        + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    assert_eq!(stage.sent().len(), 64);
    let mut sent = 64;
    while !stage.calls.is_empty() {
        let now_ns = stage.now_ns;
        stage.calls.advance(now_ns, &mut stage.out);
        let more = stage.sent().len();
        assert!(more <= 64, "{more}");
        sent += more;
        stage.now_ns += MS;
    }
    // It goes in a circle for all that.
    assert!((98_000..=100_000).contains(&sent), "{sent}");
    assert_eq!(stage.count(Counter::Rejected), 1);
}

#[test]
fn what_comes_between_the_turns_of_a_call_finds_it_behind_them() {
    let steps =
        (0..70).map(|_| send("MESSAGE", "")).collect::<String>() + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.receive(&answer(200, 1, 1, "MESSAGE"));
    assert_eq!(stage.sent().len(), 70);
    assert_eq!(stage.count(Counter::Successful), 1);
}

#[test]
fn an_own_seed_makes_the_same_losses() {
    let steps = send("MESSAGE", "lost=\"50\"") + "<recv response=\"200\"/>";
    let lost = |seed: u64| {
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        let mut stage = Stage::new(&steps, settings);
        (0..64)
            .map(|_| {
                stage.start();
                stage.sent().is_empty()
            })
            .collect::<Vec<bool>>()
    };
    assert_eq!(lost(3), lost(3));
    let count = lost(3).iter().filter(|lost| **lost).count();
    assert!((16..48).contains(&count), "{count}");
}

#[test]
fn authentication_without_a_challenge_ends_the_run() {
    let steps = send("REGISTER", "").replace("CSeq:", "[authentication]\nCSeq:")
        + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    assert!(stage.sent().is_empty());
    let events = stage.events();
    assert!(
        matches!(&events[0], Event::Fatal(why) if why.contains("auth=\"true\"")),
        "{events:?}"
    );
}

#[test]
fn only_a_401_or_407_is_kept_as_a_challenge() {
    let register = send("REGISTER", "").replace("CSeq:", "[authentication]\nCSeq:");
    let steps = send("REGISTER", "")
        + "<recv response=\"401\" auth=\"true\"/>"
        + &register
        + "<recv response=\"200\" auth=\"true\"/>"
        + &register
        + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    let challenge = answer(401, 1, 1, "REGISTER").replace(
        "CSeq:",
        "From: <sip:b>;tag=1\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\nCSeq:",
    );
    stage.receive(&challenge);
    stage.receive(&answer(200, 1, 2, "REGISTER"));
    let sent = stage.sent();
    let is_answer = |message: &&String| message.contains("\r\nAuthorization: Digest ");
    assert_eq!(sent.iter().filter(is_answer).count(), 2, "{sent:?}");
}

#[test]
fn sha_256_is_answered() {
    let steps = send("REGISTER", "")
        + "<recv response=\"401\" auth=\"true\"/>"
        + &send("REGISTER", "").replace("CSeq:", "[authentication username=u password=p]\nCSeq:")
        + "<recv response=\"200\"/>";
    let settings = Settings {
        remote: Some("127.0.0.1:5070".parse().unwrap()),
        ..Settings::default()
    };
    let mut stage = Stage::new(&steps, settings);
    stage.start();
    stage.sent();
    stage.receive(
        "SIP/2.0 401 U\nVia: SIP/2.0/UDP h;branch=z9hG4bK-0-1-0\nFrom: <sip:b>;tag=1\nTo: <sip:b>;tag=t\n\
         Call-ID: 1-0@127.0.0.1\nCSeq: 1 REGISTER\n\
         WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\", algorithm=SHA-256\n\
         Content-Length: 0\n\n",
    );
    let sent = stage.sent();
    assert!(sent[0].contains("\r\nAuthorization: Digest "), "{sent:?}");
    assert!(sent[0].contains("algorithm=SHA-256"), "{sent:?}");
    assert!(sent[0].contains("uri=\"sip:127.0.0.1:5070\""), "{sent:?}");
}

#[test]
fn credentials_may_stand_in_a_file() {
    let file = b"SEQUENTIAL\n[authentication username=u password=p]\n";
    let file = InjectionFile::parse("f", file).unwrap();
    let steps = send("REGISTER", "")
        + "<recv response=\"401\" auth=\"true\"/>"
        + &send("REGISTER", "").replace("CSeq:", "[field0]\nCSeq:")
        + "<recv response=\"200\"/>";
    let mut stage = Stage::with_files(&steps, Settings::default(), vec![file]);
    stage.start();
    stage.sent();
    stage.receive(&answer(401, 1, 1, "REGISTER").replace(
        "CSeq:",
        "From: <sip:b>;tag=1\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\nCSeq:",
    ));
    let sent = stage.sent();
    assert!(sent[0].contains("\r\nAuthorization: Digest "), "{sent:?}");
    assert!(sent[0].contains("username=\"u\""), "{sent:?}");
    assert!(!sent[0].contains('['), "{sent:?}");
}

#[test]
fn what_a_peer_wrote_is_no_keyword() {
    let file = InjectionFile::parse("f", b"SEQUENTIAL\nann\n").unwrap();
    let steps = send("INVITE", "")
        + "<recv response=\"200\"/>"
        + &send("ACK", "").replace("CSeq:", "X: [field0] [last_To:]\nCSeq:");
    let mut stage = Stage::with_files(&steps, Settings::default(), vec![file]);
    stage.start();
    stage.sent();
    let tag = "tag=[authentication]";
    stage.receive(&answer(200, 1, 1, "INVITE").replace("tag=t", tag));
    let sent = stage.sent();
    assert!(
        sent[0].contains("To: <sip:b>;tag=[authentication]\r\n"),
        "{sent:?}"
    );
    assert!(
        sent[0].contains("X: ann To: <sip:b>;tag=[authentication]\r\n"),
        "{sent:?}"
    );
    let events = stage.events();
    assert!(
        !events.iter().any(|event| matches!(event, Event::Fatal(_))),
        "{events:?}"
    );
    assert_eq!(stage.count(Counter::Successful), 1);
}

#[test]
fn no_message_makes_it_panic() {
    let steps = send("INVITE", "retrans=\"500\"")
        + "<recv response=\"100\" optional=\"true\"/><recv response=\"200\" rrs=\"true\" auth=\"true\"><action>\
           <ereg regexp=\"[0-9]+\" search_in=\"hdr\" header=\"To\" case_indep=\"true\" assign_to=\"1\"/>\
           <log message=\"[$1] [last_To:] [routes] [last_message]\"/></action></recv>"
        + &send("ACK", "");
    let good = answer(200, 1, 1, "INVITE")
        .replace(
            "\n\n",
            "\nRecord-Route: <sip:a;lr>, \"x,\" <sip:b>\nContact: <sip:c>\n\nbody",
        )
        .replace('\n', "\r\n");
    let bytes = good.as_bytes();
    for cut in 0..bytes.len() {
        for byte in [0, b'\r', b'\n', b':', b'<', b'>', b',', b';', b'"', 0xff] {
            let mut changed = bytes.to_vec();
            changed[cut] = byte;
            for message in [&changed[..], &bytes[..cut]] {
                let mut stage = Stage::new(&steps, Settings::default());
                stage.start();
                let Stage { calls, out, .. } = &mut stage;
                calls.receive(0, &flow(), message, out);
                calls.receive(0, &flow(), message, out);
            }
        }
    }
}

#[test]
fn after_a_provisional_response_what_is_no_invite_goes_on_every_t2() {
    let expects = "<recv response=\"100\" optional=\"true\"/><recv response=\"200\"/>";
    let play = |method: &str| {
        let mut stage = Stage::new(
            &(send(method, "retrans=\"500\"") + expects),
            Settings::default(),
        );
        stage.start();
        stage.sent();
        stage.receive(&answer(100, 1, 1, method));
        resend_times(&mut stage, 9_000)
    };
    assert_eq!(play("BYE"), [4_000, 8_000]);
    assert_eq!(play("INVITE"), []);
}

#[test]
fn what_nobody_answers_jumps_to_its_label_or_fails_at_the_end() {
    for (end, messages, failed) in [("", 1, 1), ("<nop/>", 1, 0)] {
        let steps = send("BYE", "retrans=\"100\" ontimeout=\"late\"")
            + "<recv response=\"200\"/><label id=\"late\"/>"
            + end;
        let settings = Settings {
            retransmissions_max: 2,
            ..Settings::default()
        };
        let mut stage = Stage::new(&steps, settings);
        stage.start();
        assert_eq!(stage.sent().len(), messages);
        stage.wait(2_000);
        assert_eq!(stage.count(Counter::Failed), failed, "{end}");
        assert_eq!(stage.count(Counter::MaxUdpRetransmissions), failed);
        assert_eq!(stage.count(Counter::Successful), 1 - failed);
    }
}

#[test]
fn a_timeout_whose_label_is_the_end_fails_the_call() {
    let steps = send("BYE", "")
        + "<recv response=\"200\" timeout=\"100\" ontimeout=\"end\"/><label id=\"end\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    stage.wait(200);
    assert_eq!(stage.count(Counter::TimeoutOnRecv), 1);
    assert_eq!(stage.count(Counter::Successful), 0);
}

/// The commands to other instances since the last time.
fn commands(stage: &mut Stage) -> Vec<(Option<u16>, String)> {
    let events = stage.events();
    let told = events.into_iter().filter_map(|event| match event {
        Event::ToTwin { peer, text, .. } => {
            Some((peer, String::from_utf8_lossy(&text).into_owned()))
        }
        _ => None,
    });
    told.collect()
}

const COMMAND: &str = "<sendCmd><![CDATA[\n Call-ID: [call_id]\n X: [service]\n ]]></sendCmd>";

fn path(stage: &Stage) -> CallPath {
    CallPath {
        target: Target::back(&flow()),
        local: None,
        since_ns: stage.now_ns,
    }
}

#[test]
fn commands_go_to_the_call_of_their_call_id() {
    let steps = send("INVITE", "")
        + COMMAND
        + "<recvCmd><action><ereg regexp=\"[0-9]+\" search_in=\"hdr\" header=\"Y:\" assign_to=\"y\"/>\
           </action></recvCmd>"
        + &send("BYE", "").replace("CSeq", "Y: [$y]\nCSeq");
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    assert_eq!(stage.sent().len(), 1);
    assert_eq!(
        commands(&mut stage),
        [(
            None,
            "Call-ID: 1-0@127.0.0.1\r\nX: service\r\n\r\n".to_owned()
        )]
    );
    let command = b"Call-ID: 1-0@127.0.0.1\r\nY: 17\r\n\r\n";
    assert!(
        stage
            .calls
            .receive_command(0, b"Call-ID: other\r\n", &mut stage.out)
    );
    assert_eq!(stage.count(Counter::OutOfCallMessages), 1);
    assert!(stage.calls.receive_command(0, command, &mut stage.out));
    assert!(stage.sent()[0].contains("\r\nY: 17\r\n"));
    assert_eq!(stage.count(Counter::Successful), 1);
    // Its late ones begin no calls.
    assert!(stage.calls.receive_command(0, command, &mut stage.out));
    assert_eq!(stage.count(Counter::DeadCallMessages), 1);
}

#[test]
fn a_call_that_another_instance_is_told_of_begins_here() {
    let ok = "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Call-ID:]\n[last_CSeq:]\n]]></send>";
    for (command, begun, came) in [(COMMAND, 1, 0), ("<recvCmd/>", 0, 1), ("", 0, 1)] {
        let steps = format!("<recv request=\"INVITE\"/>{ok}{command}");
        let mut stage = Stage::new(&steps, Settings::default());
        stage.receive(&request("INVITE", "c", 1));
        assert_eq!(stage.sent().len(), 1);
        let counts = (
            stage.count(Counter::OutgoingCalls),
            stage.count(Counter::IncomingCalls),
        );
        assert_eq!(counts, (begun, came), "{command}");
    }
}

#[test]
fn a_call_may_begin_with_a_command() {
    let steps =
        "<recvCmd/>".to_owned() + &send("INVITE", "") + "<recv response=\"200\"/>" + COMMAND;
    let mut stage = Stage::new(&steps, Settings::default());
    let command = b"Call-ID: abc\r\n\r\n";
    assert!(!stage.calls.receive_command(0, command, &mut stage.out));
    let path = path(&stage);
    let started = stage
        .calls
        .start_by_command(0, path, command, &mut stage.out);
    assert_eq!(started, Ok(1));
    assert!(stage.sent()[0].contains("Call-ID: abc\r\n"));
    // A command that its step does not expect rejects the call.
    assert!(stage.calls.receive_command(0, command, &mut stage.out));
    assert_eq!(stage.count(Counter::Rejected), 1);
}

#[test]
fn the_other_instance_is_told_of_an_abort_and_heeds_one() {
    let steps = send("INVITE", "") + COMMAND + "<recv response=\"200\"/><recvCmd/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    commands(&mut stage);
    let unexpected = answer(486, 1, 1, "INVITE");
    stage.receive(&unexpected);
    let told = commands(&mut stage);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].1.contains("internal-cmd: abort_call\r\n"),
        "{told:?}"
    );
    stage.start();
    assert!(stage.calls.receive_command(
        0,
        b"call-id: 2-0@127.0.0.1\r\ninternal-cmd: abort_call\r\n\r\n",
        &mut stage.out
    ));
    assert_eq!((stage.count(Counter::Failed), stage.calls.len()), (2, 0));
}

#[test]
fn a_command_that_cannot_be_given_fails_its_call() {
    let steps = send("INVITE", "") + COMMAND + "<recv response=\"200\"/>";
    let mut stage = Stage::new(&steps, Settings::default());
    stage.start();
    let cookie = stage.events().into_iter().find_map(|event| match event {
        Event::ToTwin { cookie, .. } => Some(cookie),
        _ => None,
    });
    let failure = SendFailure::Command;
    stage
        .calls
        .send_failed(0, cookie.unwrap(), failure, &mut stage.out);
    assert_eq!(stage.count(Counter::CommandNotSent), 1);
}

#[test]
fn answers_go_back_or_where_all_of_them_go() {
    let elsewhere = "127.0.0.7:5099".parse().unwrap();
    let back = (flow().remote, Some(flow().local.ip()));
    for (answers_to, goes) in [(None, back), (Some(elsewhere), (elsewhere, None))] {
        let settings = Settings {
            answers_to,
            answers: true,
            ..Settings::default()
        };
        let ok = "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Call-ID:]\n[last_CSeq:]\n]]></send>";
        let steps = format!("<recv request=\"MESSAGE\"/>{ok}");
        let mut stage = Stage::new(&steps, settings);
        stage.receive(&request("MESSAGE", "c", 1));
        // What belongs to no call is answered there too.
        stage.calls.set_accepting(false);
        stage.receive(&request("OPTIONS", "d", 1));
        let sends = stage.out.outbox.sends.iter();
        let to: Vec<_> = sends.map(|send| (send.to.remote, send.to.local)).collect();
        assert_eq!(to, [goes, goes]);
    }
}

#[test]
fn a_destination_is_an_address() {
    let steps = |host: &str, protocol: &str| {
        format!(
            "<nop><action><setdest host=\"{host}\" port=\"5099\" protocol=\"{protocol}\"/></action></nop>{}",
            send("BYE", "")
        )
    };
    let mut stage = Stage::new(&steps("127.0.0.9", "udp"), Settings::default());
    stage.start();
    let to = &stage.out.outbox.sends[0].to;
    assert_eq!(
        (to.remote, to.local),
        ("127.0.0.9:5099".parse().unwrap(), None)
    );
    let settings = Settings {
        remote: Some("127.0.0.8:5060".parse().unwrap()),
        remote_host: "host.example".to_owned(),
        ..Settings::default()
    };
    // That name was looked up already.
    let mut stage = Stage::new(&steps("[remote_host]", "udp"), settings);
    stage.start();
    let remote = stage.out.outbox.sends[0].to.remote;
    assert_eq!(remote, "127.0.0.8:5099".parse().unwrap());
    // What a call makes up is seen only then.
    for (host, protocol, why) in [
        ("[service]", "UDP", "is no IP address"),
        ("127.0.0.1", "[service]", "is not that of the run"),
    ] {
        let mut stage = Stage::new(&steps(host, protocol), Settings::default());
        stage.start();
        let fatal = stage.events().into_iter().find_map(|event| match event {
            Event::Fatal(why) => Some(why),
            _ => None,
        });
        assert!(fatal.unwrap().contains(why), "{host} {protocol}");
    }
}
