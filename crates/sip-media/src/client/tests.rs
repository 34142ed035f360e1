use super::fit::DATAGRAM_BYTES_MAX;
use super::pending::COOKIE_LEN;
use super::*;
use crate::bencode::read;

fn at(nth: u16) -> SocketAddr {
    ([127, 0, 0, 1], 2_000 + nth).into()
}

fn config(engines: u16) -> Config {
    Config {
        engines: (0..engines).map(at).collect(),
        ..Config::default()
    }
}

fn client(config: Config) -> Client {
    let shared = Arc::new(SharedEngines::default());
    let mut client = Client::new(0, [7; 16], ClientNumber::default(), shared, config);
    // The first pings are answered.
    client.handle_timers(10);
    for sent in sent(&mut client) {
        answer(&mut client, 10, &sent, "d6:result4:ponge");
    }
    client
}

fn sent(client: &mut Client) -> Vec<Transmit> {
    std::iter::from_fn(|| client.poll_transmit()).collect()
}

fn answer(client: &mut Client, now_ms: u64, sent: &Transmit, text: &str) {
    let (cookie, _) = sent.bytes.split_at(COOKIE_LEN + 1);
    let reply = [cookie, text.as_bytes()].concat();
    client.receive(now_ms, sent.to, &reply);
}

fn command(sent: &Transmit) -> String {
    let (_, text) = split(&sent.bytes).unwrap();
    let value = read(text).unwrap();
    let command = value.dictionary().and_then(|of| of.bytes("command"));
    String::from_utf8(command.unwrap().to_vec()).unwrap()
}

fn ask(command: Command, call: &str) -> Box<Ask> {
    let mut ask = Ask::new(command, call.as_bytes(), b"tag");
    ask.sdp = b"v=0\r\n".as_slice().into();
    Box::new(ask)
}

/// Its session description is longer than it says.
const SPOILT: &str = "d6:result2:ok3:sdp5:v=0\r\nx\ne";

fn done() -> String {
    let sdp = "v=0\r\nx";
    format!("d6:result2:ok3:sdp{}:{sdp}e", sdp.len())
}

fn only(mut of: Vec<Transmit>) -> Transmit {
    assert_eq!(of.len(), 1, "{of:?}");
    of.remove(0)
}

/// Lets time pass; what is sent meanwhile, with the time.
fn wait(client: &mut Client, from_ms: u64, to_ms: u64) -> Vec<(u64, Transmit)> {
    let mut all = Vec::new();
    let mut now_ms = from_ms;
    while let Some(due_ms) = client.next_deadline_ms().filter(|due_ms| *due_ms <= to_ms) {
        now_ms = due_ms.max(now_ms + 1);
        client.handle_timers(now_ms);
        all.extend(sent(client).into_iter().map(|sent| (now_ms, sent)));
    }
    all
}

fn is_ping(sent: &Transmit) -> bool {
    command(sent) == "ping"
}

#[test]
fn a_command_is_repeated_until_it_is_answered() {
    let mut client = client(config(1));
    client.ask(10, Some(1), ask(Command::Offer, "a"));
    let first = only(sent(&mut client));
    let again = wait_pinged(&mut client, 20, 400);
    let times: Vec<u64> = again.iter().map(|(at_ms, _)| *at_ms).collect();
    assert_eq!(times, [110, 310]);
    // Each time it is the same datagram: the engine knows it by its cookie.
    assert!(again.iter().all(|(_, sent)| *sent == first));
    answer(&mut client, 410, &first, &done());
    let answered = client.poll_answer().unwrap();
    assert_eq!(answered.waiter, 1);
    let given = answered.result.unwrap();
    assert_eq!(given.engine, EngineId::of(at(0)));
    assert_eq!(given.sdp.as_deref(), Some(b"v=0\r\nx".as_slice()));
    assert_eq!(client.in_flight(), 0);
    assert_eq!(client.held_bytes(), 0);
    // Twice, and late: nobody waits.
    answer(&mut client, 420, &first, &done());
    assert!(client.poll_answer().is_none());
    assert_eq!(client.counters().replies_late, 1);
    assert_eq!(client.counters().repeated, 2);
}

#[test]
fn an_offer_goes_on_to_another_engine_and_the_silent_one_is_left() {
    let mut client = client(config(2));
    client.ask(10, Some(1), ask(Command::Offer, "a"));
    let first = only(sent(&mut client));
    let later = wait(&mut client, 10, 1_010);
    let next = later
        .iter()
        .find(|(_, of)| of.to != first.to && !is_ping(of));
    let (at_ms, next) = next.unwrap();
    assert_eq!(*at_ms, 1_010);
    assert_ne!(next.bytes[..COOKIE_LEN], first.bytes[..COOKIE_LEN]);
    let change = client.poll_change().unwrap();
    assert_eq!((change.address, change.why), (first.to, Some(Why::Silent)));
    assert!(client.poll_answer().is_none(), "it is not over");
    let next = Transmit {
        to: next.to,
        bytes: next.bytes.clone(),
    };
    answer(&mut client, 1_020, &next, &done());
    let given = client.poll_answer().unwrap().result.unwrap();
    assert_eq!(given.engine, EngineId::of(next.to));
    // What the first one says after all is nobody's.
    answer(&mut client, 1_030, &first, &done());
    assert!(client.poll_answer().is_none());
    // Whoever begins now does not wait for it.
    for call in 0..20 {
        client.ask(1_040, Some(2), ask(Command::Offer, &call.to_string()));
        assert_eq!(only(sent(&mut client)).to, next.to);
    }
    assert_eq!(client.counters().failovers, 1);
}

#[test]
fn nobody_waits_where_all_engines_are_silent() {
    let mut client = client(config(2));
    client.ask(10, Some(1), ask(Command::Offer, "a"));
    sent(&mut client);
    wait(&mut client, 10, 2_100);
    let answered = client.poll_answer().unwrap();
    assert_eq!(answered.result, Err(Failure::Gone));
    assert_eq!(client.in_flight_commands(), 0);
    // It is known by now.
    client.ask(2_110, Some(2), ask(Command::Offer, "b"));
    assert!(sent(&mut client).iter().all(is_ping));
    assert_eq!(client.poll_answer().unwrap().result, Err(Failure::Gone));
    client.ask(2_110, Some(3), ask(Command::Choose, "b"));
    assert_eq!(client.poll_answer().unwrap().result, Err(Failure::Gone));
    // A ping brings one back.
    let pings = wait(&mut client, 2_110, 3_200);
    let (at_ms, ping) = pings.iter().rev().find(|(_, of)| is_ping(of)).unwrap();
    answer(&mut client, *at_ms, ping, "d6:result4:ponge");
    let returned = std::iter::from_fn(|| client.poll_change()).last().unwrap();
    assert_eq!((returned.address, returned.why), (ping.to, None));
    client.ask(3_210, Some(4), ask(Command::Offer, "c"));
    let offers = sent(&mut client);
    assert_eq!(offers.iter().find(|of| !is_ping(of)).unwrap().to, ping.to);
}

#[test]
fn a_call_has_its_engine_and_no_other() {
    let mut client = client(config(3));
    for nth in 0..3 {
        let mut answer_of = ask(Command::Answer, "a");
        answer_of.engine = Some(EngineId::of(at(nth)));
        client.ask(10, Some(1), answer_of);
        assert_eq!(only(sent(&mut client)).to, at(nth));
    }
    // One that was never, or is not any more.
    let mut stray = ask(Command::Answer, "a");
    stray.engine = Some(EngineId::of(at(9)));
    client.ask(10, Some(2), stray);
    assert_eq!(sent(&mut client), []);
    let answered = client.poll_answer().unwrap();
    assert_eq!((answered.waiter, answered.result), (2, Err(Failure::Gone)));
    // A re-INVITE does not wander to an engine that does not know the call.
    let mut offer = ask(Command::Offer, "a");
    offer.engine = Some(EngineId::of(at(1)));
    client.ask(20, Some(3), offer);
    sent(&mut client);
    let later = wait(&mut client, 20, 1_100);
    let offers = later.iter().filter(|(_, of)| command(of) == "offer");
    assert!(offers.clone().count() > 1);
    assert!(offers.clone().all(|(_, of)| of.to == at(1)));
    let mut answers = std::iter::from_fn(|| client.poll_answer());
    let answered = answers.find(|answered| answered.waiter == 3).unwrap();
    assert_eq!(answered.result, Err(Failure::Gone));
}

#[test]
fn branches_of_a_call_meet_and_calls_are_spread() {
    let mut one = client(config(4));
    let mut other = client(Config {
        engines: (0..4).rev().map(at).collect(),
        ..Config::default()
    });
    let mut counts = [0; 4];
    for call in 0..400 {
        let name = format!("call-{call}");
        one.ask(10, None, ask(Command::Offer, &name));
        one.ask(10, None, ask(Command::Offer, &name));
        other.ask(10, None, ask(Command::Offer, &name));
        let (own, others) = (sent(&mut one), only(sent(&mut other)));
        assert_eq!((own[0].to, own[1].to), (others.to, others.to));
        // What stands behind the Call-ID leads nowhere else.
        let mut numbered = ask(Command::Offer, &format!("{name};{call}"));
        numbered.chosen_by = name.len();
        one.ask(10, None, numbered);
        assert_eq!(only(sent(&mut one)).to, others.to);
        counts[usize::from(others.to.port() - 2_000)] += 1;
    }
    assert!(
        counts.iter().all(|count| (60..140).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn what_an_engine_refuses_another_may_take_and_nobody_is_left_for_it() {
    let mut client = client(config(2));
    for (first, then) in [
        (
            "d6:result5:error12:error-reason2:noe",
            Failure::Refused("no".into()),
        ),
        ("d6:result10:load limite", Failure::Busy),
        (
            "d6:result2:oke",
            Failure::Refused(
                "its reply has no session description, or a longer one than is taken".into(),
            ),
        ),
        (
            "d6:result2:ok3:sdp4:<xmle",
            Failure::Refused(
                "its reply has no session description, or a longer one than is taken".into(),
            ),
        ),
        (
            "d6:result4:ponge",
            Failure::Refused("it answered another question".into()),
        ),
    ] {
        client.ask(10, Some(1), ask(Command::Offer, "a"));
        let offer = only(sent(&mut client));
        answer(&mut client, 11, &offer, first);
        assert!(client.poll_answer().is_none(), "{first}");
        let next = only(sent(&mut client));
        assert_ne!(next.to, offer.to);
        answer(&mut client, 12, &next, first);
        assert_eq!(client.poll_answer().unwrap().result, Err(then), "{first}");
        assert!(client.poll_change().is_none(), "{first}");
    }
    // An answer belongs to one.
    let mut own = ask(Command::Answer, "a");
    own.engine = Some(EngineId::of(at(0)));
    client.ask(20, Some(1), own);
    let asked = only(sent(&mut client));
    answer(&mut client, 21, &asked, "d6:result5:errore");
    let result = client.poll_answer().unwrap().result;
    assert_eq!(result, Err(Failure::Refused("".into())));
    assert_eq!(sent(&mut client), []);
}

#[test]
fn an_engine_that_began_anew_does_not_refuse_what_it_is_asked() {
    for command in [Command::Offer, Command::Answer, Command::Delete] {
        let mut client = client(config(2));
        let mut own = ask(command, "a");
        own.engine = Some(EngineId::of(at(0)));
        client.ask(10, Some(1), own);
        let asked = only(sent(&mut client));
        let text = "d6:result5:error12:error-reason15:Unknown call-ide";
        answer(&mut client, 11, &asked, text);
        let result = client.poll_answer().unwrap().result;
        assert_eq!(result, Err(Failure::Unknown), "{command:?}");
        assert_eq!(sent(&mut client), []);
        assert!(client.poll_change().is_none(), "it is there");
    }
}

#[test]
fn what_is_under_way_about_a_branch_ends_with_it() {
    let mut client = client(config(1));
    for (waiter, call) in [(1, "a;1"), (2, "a;2")] {
        client.ask(10, Some(waiter), ask(Command::Answer, call));
    }
    sent(&mut client);
    let delete = |branch: &str, to_tag: &str| {
        let mut delete = Ask::new(Command::Delete, b"a;1", b"tag");
        delete.branch = branch.as_bytes().into();
        delete.to_tag = to_tag.as_bytes().into();
        Box::new(delete)
    };
    // One dialog of those that somebody else's fork has made leaves the others.
    client.ask(20, None, delete("", "to"));
    assert!(client.poll_answer().is_none());
    client.ask(30, None, delete("b", ""));
    let over = client.poll_answer().unwrap();
    assert_eq!((over.waiter, over.result), (1, Err(Failure::Gone)));
    assert!(client.poll_answer().is_none());
    let again = wait(&mut client, 30, 500).into_iter();
    let again: Vec<_> = again.filter(|(_, of)| command(of) == "answer").collect();
    assert!(!again.is_empty());
    for (_, of) in again {
        let text = String::from_utf8_lossy(&of.bytes);
        assert!(text.contains("3:a;2"), "{text}");
    }
}

#[test]
fn an_offer_within_a_dialog_is_not_repeated_after_its_end() {
    let between = |command: Command, from: &str, to: &str| {
        let mut ask = ask(command, "a;1");
        ask.from_tag = from.as_bytes().into();
        ask.to_tag = to.as_bytes().into();
        ask.engine = Some(EngineId::of(at(0)));
        ask
    };
    let mut client = client(config(1));
    for (waiter, to) in [(1, "b"), (2, "c")] {
        client.ask(10, Some(waiter), between(Command::Offer, "a", to));
    }
    sent(&mut client);
    // Either side may hang up.
    client.ask(20, None, between(Command::Delete, "b", "a"));
    assert_eq!(command(&only(sent(&mut client))), "delete");
    let over = client.poll_answer().unwrap();
    assert_eq!((over.waiter, over.result), (1, Err(Failure::Gone)));
    assert!(client.poll_answer().is_none());
    let again = wait(&mut client, 20, 500).into_iter();
    let again: Vec<_> = again.filter(|(_, of)| command(of) == "offer").collect();
    assert!(!again.is_empty());
    for (_, of) in again {
        let text = String::from_utf8_lossy(&of.bytes);
        assert!(text.contains("6:to-tag1:c"), "{text}");
    }
}

#[test]
fn what_an_engine_has_begun_for_an_offer_that_came_to_nothing_is_let_go() {
    let branch = |branch: &str| {
        let mut offer = ask(Command::Offer, "a");
        offer.branch = branch.as_bytes().into();
        offer
    };
    // Refused; or not answered by one who answers others.
    for is_refused in [true, false] {
        let mut client = client(config(1));
        client.ask(10, Some(1), branch("b"));
        let offer = only(sent(&mut client));
        let after = match is_refused {
            true => {
                answer(&mut client, 20, &offer, "d6:result5:errore");
                sent(&mut client)
            }
            false => {
                let all = wait_pinged(&mut client, 20, 1_020);
                all.into_iter().map(|(_, of)| of).collect()
            }
        };
        let delete = after.iter().find(|of| command(of) == "delete").unwrap();
        let text = String::from_utf8_lossy(&delete.bytes);
        assert!(text.contains("10:via-branch1:b"), "{text}");
        assert_eq!(delete.to, offer.to);
        assert!(client.poll_answer().unwrap().result.is_err());
        assert!(client.poll_change().is_none());
    }
    // It goes on elsewhere meanwhile.
    let mut two = client(config(2));
    two.ask(10, Some(1), branch("b"));
    let offer = only(sent(&mut two));
    answer(&mut two, 20, &offer, "d6:result5:errore");
    let after: Vec<_> = sent(&mut two)
        .iter()
        .map(|of| (command(of), of.to == offer.to))
        .collect();
    let wanted = [("delete".to_owned(), true), ("offer".to_owned(), false)];
    assert_eq!(after, wanted);
    // What is full has begun nothing, one that is gone does not hear it, and what is asked within
    // a call is no beginning.
    for what in ["full", "gone", "within"] {
        let mut client = client(config(1));
        let mut offer = branch("b");
        if what == "within" {
            offer.engine = Some(EngineId::of(at(0)));
        }
        client.ask(10, Some(1), offer);
        let offer = only(sent(&mut client));
        match what {
            "full" => answer(&mut client, 20, &offer, "d6:result10:load limite"),
            "gone" => client.unreachable(20, offer.to),
            _ => answer(&mut client, 20, &offer, "d6:result5:errore"),
        }
        assert_eq!(sent(&mut client), [], "{what}");
    }
}

#[test]
fn a_session_description_is_no_longer_than_is_taken() {
    let bounded = Config {
        sdp_bytes_max: 100,
        ..config(1)
    };
    let mut client = client(bounded);
    for (length, is_taken) in [(2, true), (100, true), (101, false), (60_000, false)] {
        client.ask(10, Some(1), ask(Command::Offer, "a"));
        let offer = only(sent(&mut client));
        let sdp = format!("v={}", "x".repeat(length - 2));
        answer(
            &mut client,
            11,
            &offer,
            &format!("d6:result2:ok3:sdp{length}:{sdp}e"),
        );
        let result = client.poll_answer().unwrap().result;
        assert_eq!(result.is_ok(), is_taken, "{length}");
    }
}

#[test]
fn who_does_not_know_the_cookie_or_is_elsewhere_says_nothing() {
    let mut client = client(config(2));
    client.ask(10, Some(1), ask(Command::Offer, "a"));
    let offer = only(sent(&mut client));
    let other = at(u16::from(offer.to == at(0)));
    let text = done();
    for (from, reply) in [
        // The right cookie, from another engine or from anywhere.
        (other, [&offer.bytes[..17], text.as_bytes()].concat()),
        (
            "192.0.2.1:2223".parse().unwrap(),
            [&offer.bytes[..17], text.as_bytes()].concat(),
        ),
        // No cookie of ours.
        (offer.to, format!("0123456789abcdef {text}").into_bytes()),
        (offer.to, format!("1 {text}").into_bytes()),
        (offer.to, text.clone().into_bytes()),
        (offer.to, b"".to_vec()),
        (offer.to, offer.bytes[..16].to_vec()),
        // In capitals it is another cookie.
        (
            offer.to,
            String::from_utf8_lossy(&offer.bytes[..17])
                .replace(' ', "X ")
                .into_bytes(),
        ),
    ] {
        client.receive(11, from, &reply);
        assert!(client.poll_answer().is_none(), "{reply:?} of {from}");
    }
    let counters = *client.counters();
    assert_eq!((counters.replies_late, counters.replies_bad), (1, 7));
    answer(&mut client, 12, &offer, &done());
    assert!(client.poll_answer().is_some());
}

#[test]
fn what_cannot_be_read_ends_a_command_and_is_nothing_held_against_an_engine() {
    let many = format!("d6:result2:ok1:xl{}ee", "i1e".repeat(5_000));
    for reply in [
        "",
        "d6:result3:yese",
        "d6:result2:ok",
        "d3:sdp70000:v=0",
        &"l".repeat(60_000),
        &many,
    ] {
        let mut client = client(config(1));
        for (waiter, command) in [(1, Command::Offer), (2, Command::Delete)] {
            client.ask(10, Some(waiter), ask(command, "a"));
            let sent = only(sent(&mut client));
            answer(&mut client, 11, &sent, reply);
            let answered = client.poll_answer().unwrap();
            assert_eq!(answered.waiter, waiter);
            assert!(matches!(answered.result, Err(Failure::Refused(_))));
        }
        assert_eq!(client.in_flight_commands(), 0);
        assert_eq!(client.counters().replies_bad, 2);
        assert!(client.poll_change().is_none());
    }
}

/// Lets time pass; all that is pinged answers, and nothing else is answered.
fn wait_pinged(client: &mut Client, from_ms: u64, to_ms: u64) -> Vec<(u64, Transmit)> {
    let mut all = Vec::new();
    for now_ms in (from_ms..to_ms).step_by(10) {
        client.handle_timers(now_ms);
        for sent in sent(client) {
            match is_ping(&sent) {
                true => answer(client, now_ms, &sent, "d6:result4:ponge"),
                false => all.push((now_ms, sent)),
            }
        }
    }
    all
}

#[test]
fn an_engine_that_answers_others_is_not_left_for_what_it_does_not_answer() {
    // Who sends what no engine answers waits in vain, and nobody else does.
    for (command, tries) in [
        (Command::Offer, 2),
        (Command::Answer, 1),
        (Command::Delete, 1),
    ] {
        let mut client = client(config(2));
        client.ask(10, Some(1), ask(command, "a"));
        let sent = wait_pinged(&mut client, 20, 3_000);
        let mut asked: Vec<_> = sent.iter().map(|(_, of)| of.to).collect();
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len(), tries, "{command:?}");
        assert_eq!(client.poll_answer().unwrap().result, Err(Failure::Gone));
        assert_eq!(client.counters().timed_out, tries as u64);
        assert!(client.poll_change().is_none(), "{command:?}");
    }
    // One that is silent to all is left as soon as the first has waited long enough.
    let mut client = client(config(1));
    client.ask(10, Some(1), ask(Command::Offer, "a"));
    sent(&mut client);
    wait(&mut client, 10, 1_009);
    assert!(client.poll_change().is_none());
    wait(&mut client, 1_009, 1_010);
    assert_eq!(client.poll_change().unwrap().why, Some(Why::Silent));
}

#[test]
fn many_that_wait_ping_an_engine_once() {
    let mut client = client(config(1));
    for waiter in 0..100 {
        client.ask(10, Some(waiter), ask(Command::Offer, &waiter.to_string()));
    }
    sent(&mut client);
    let later = wait(&mut client, 10, 150);
    let pings: Vec<_> = later.iter().filter(|(_, of)| is_ping(of)).collect();
    assert_eq!(pings.len(), 1, "{pings:?}");
}

#[test]
fn what_is_too_long_or_has_too_many_streams_reaches_no_engine() {
    let streams = |count: usize, port: &str| {
        let line = format!("m=audio {port} RTP/AVP 0\r\n");
        format!("v=0\r\n{}", line.repeat(count))
    };
    let long = |length: usize| format!("v={}", "x".repeat(length - 2));
    for (sdp, is_fit) in [
        (streams(1, "4000"), true),
        (streams(16, "4000"), true),
        (streams(17, "4000"), false),
        (streams(17, "0"), false),
        (streams(700, "4000"), false),
        (streams(1, "4000/16"), true),
        (streams(1, "4000/17"), false),
        (streams(9, "4000/2"), false),
        (streams(16, "4000/x"), true),
        (streams(1, "4000/99999999999999999999999999"), false),
        (streams(2, "4000/18446744073709551615"), false),
        (streams(17, "4000").replace("\r\n", "\n"), false),
        ("m=".to_owned(), true),
        ("m=\n".repeat(17), false),
        (String::new(), true),
        (long(16_384), true),
        (long(16_385), false),
        (long(60_000), false),
    ] {
        let mut client = client(config(2));
        let mut offer = ask(Command::Offer, "a");
        offer.describe(sdp.as_bytes(), false);
        client.ask(10, Some(1), offer);
        assert_eq!(sent(&mut client).len(), usize::from(is_fit), "{sdp}");
        assert_eq!(client.counters().unfit, u64::from(!is_fit));
        let answered = client.poll_answer();
        assert_eq!(answered.is_none(), is_fit);
        if let Some(answered) = answered {
            assert!(matches!(answered.result, Err(Failure::Refused(_))));
        }
    }
    // What takes longer descriptions has a bound too: that of a datagram.
    let mut client = client(Config {
        sdp_bytes_max: 60_000,
        ..config(1)
    });
    for (call, is_fit) in [("c".to_owned(), true), ("c".repeat(5_500), false)] {
        let mut offer = ask(Command::Offer, &call);
        offer.describe(long(60_000).as_bytes(), false);
        client.ask(10, Some(1), offer);
        let sent = sent(&mut client);
        assert_eq!(sent.len(), usize::from(is_fit));
        assert!(sent.iter().all(|of| of.bytes.len() <= DATAGRAM_BYTES_MAX));
    }
}

#[test]
fn a_closed_port_is_known_at_once() {
    let mut client = client(config(2));
    client.ask(10, Some(1), ask(Command::Offer, "a"));
    let offer = only(sent(&mut client));
    client.unreachable(12, offer.to);
    let next = only(sent(&mut client));
    assert_ne!(next.to, offer.to);
    let change = client.poll_change().unwrap();
    assert_eq!(change.why, Some(Why::Unreachable));
    // What comes back with nothing under way says nothing.
    client.unreachable(13, "192.0.2.1:9".parse().unwrap());
    assert!(client.poll_change().is_none());
}

#[test]
fn commands_under_way_are_bounded() {
    let mut client = client(Config {
        commands_max: 3,
        ..config(2)
    });
    for waiter in 0..3 {
        client.ask(10, Some(waiter), ask(Command::Offer, "a"));
    }
    client.ask(10, Some(9), ask(Command::Offer, "a"));
    let answered = client.poll_answer().unwrap();
    assert_eq!((answered.waiter, answered.result), (9, Err(Failure::Busy)));
    assert_eq!(sent(&mut client).len(), 3);
    // Nobody waits for a delete: it takes no place, and the engine hears of it all the same.
    client.ask(10, None, {
        let mut delete = ask(Command::Delete, "b");
        delete.engine = Some(EngineId::of(at(0)));
        delete
    });
    assert_eq!(command(&only(sent(&mut client))), "delete");
    assert_eq!((client.in_flight(), client.counters().full), (3, 2));
    let later = wait(&mut client, 10, 500);
    assert!(later.iter().all(|(_, of)| command(of) != "delete"));
}

#[test]
fn what_an_engine_has_begun_is_let_go_though_all_places_are_taken() {
    let mut client = client(config(1));
    let mut offer = ask(Command::Offer, "a");
    offer.branch = b"b".as_slice().into();
    client.ask(10, Some(1), offer);
    let offer = only(sent(&mut client));
    let none = Config {
        commands_max: 0,
        ..config(1)
    };
    client.reload(20, none);
    answer(&mut client, 20, &offer, "d6:result5:errore");
    assert_eq!(command(&only(sent(&mut client))), "delete");
    assert_eq!((client.in_flight(), client.counters().full), (0, 1));
    assert!(client.poll_answer().unwrap().result.is_err());
}

#[test]
fn a_reload_ends_what_is_at_engines_that_are_gone() {
    let mut client = client(config(2));
    client.ask(10, Some(1), ask(Command::Offer, "a"));
    let offer = only(sent(&mut client));
    let kept = at(u16::from(offer.to == at(0)));
    let change = Config {
        engines: vec![kept],
        ..Config::default()
    };
    client.reload(11, change);
    let next = sent(&mut client).into_iter().find(|of| !is_ping(of));
    assert_eq!(next.unwrap().to, kept, "it goes on to the one that is left");
    client.reload(12, Config::default());
    assert_eq!(client.poll_answer().unwrap().result, Err(Failure::Gone));
    assert_eq!((client.in_flight_commands(), client.held_bytes()), (0, 0));
    assert!(client.next_deadline_ms().is_none(), "nobody is pinged");
}

#[test]
fn engines_are_pinged_by_one_client_each() {
    let shared = Arc::new(SharedEngines::default());
    let place = |index| ClientNumber { index, clients: 2 };
    let client = |index: u8| {
        let key = [index; 16];
        Client::new(0, key, place(index.into()), Arc::clone(&shared), config(3))
    };
    let mut clients = [client(0), client(1)];
    let mut pings = [0_u32; 3];
    for client in &mut clients {
        client.handle_timers(10);
        for ping in sent(client) {
            assert!(is_ping(&ping));
            pings[usize::from(ping.to.port() - 2_000)] += 1;
            answer(client, 10, &ping, "d6:result4:ponge");
        }
    }
    assert_eq!(pings, [1; 3]);
    // What one finds out the other goes by.
    let [one, other] = &mut clients;
    one.ask(20, Some(1), ask(Command::Offer, "a"));
    let offer = only(sent(one));
    one.unreachable(21, offer.to);
    for call in 0..20 {
        other.ask(22, Some(1), ask(Command::Offer, &call.to_string()));
        assert_ne!(only(sent(other)).to, offer.to);
    }
    let shown = shared.shown(&[offer.to], 1_021)[0];
    assert_eq!(
        (shown.why, shown.out_ms),
        (Some(Why::Unreachable), Some(1_000))
    );
}

#[test]
fn whatever_comes_in_nothing_is_answered_twice_and_nothing_stays() {
    let mut dice = fastrand::Rng::with_seed(11);
    for _ in 0..50 {
        let mut client = client(config(3));
        let (mut now_ms, mut open, mut answered) = (10, 0_u64, 0_u64);
        let mut seen: Vec<Transmit> = Vec::new();
        for _ in 0..400 {
            now_ms += dice.u64(0..60);
            client.handle_timers(now_ms);
            match dice.u8(0..8) {
                0 | 1 => {
                    let mut ask = ask(Command::Offer, &dice.u8(..).to_string());
                    if dice.bool() {
                        ask.engine = Some(EngineId::of(at(dice.u16(0..4))));
                    }
                    client.ask(now_ms, Some(open), ask);
                    open += 1;
                }
                2 => client.unreachable(now_ms, at(dice.u16(0..3))),
                3 => {
                    let mut rubbish = vec![0; dice.usize(0..40)];
                    dice.fill(&mut rubbish);
                    client.receive(now_ms, at(0), &rubbish);
                }
                4 if dice.u8(0..10) == 0 => client.reload(now_ms, config(dice.u16(1..4))),
                _ if !seen.is_empty() => {
                    let nth = dice.usize(..seen.len());
                    let text = match dice.u8(0..4) {
                        0 => SPOILT.to_owned(),
                        1 => "d6:result5:errore".to_owned(),
                        _ => done(),
                    };
                    let of = &seen[nth];
                    let of = Transmit {
                        to: of.to,
                        bytes: of.bytes.clone(),
                    };
                    answer(&mut client, now_ms, &of, &text);
                }
                _ => {}
            }
            seen.extend(sent(&mut client));
            while client.poll_answer().is_some() {
                answered += 1;
            }
        }
        wait(&mut client, now_ms, now_ms + 5_000);
        while client.poll_answer().is_some() {
            answered += 1;
        }
        assert_eq!(open, answered, "each has one answer");
        assert_eq!(client.in_flight_commands(), 0);
        assert!(client.of_calls.is_empty());
    }
}

impl Client {
    /// Commands under way, pings aside.
    fn in_flight_commands(&self) -> usize {
        let all = self.pending.values();
        all.filter(|of| matches!(of.asked, Asked::Command(..)))
            .count()
    }
}

#[test]
fn commands_that_nobody_waits_for_take_no_place_at_an_engine_that_is_not_there() {
    let mut client = client(config(2));
    let gone = silent_engine(&mut client);
    let before = client.in_flight();
    let delete = |client: &mut Client| {
        let mut delete = ask(Command::Delete, "a");
        delete.engine = Some(EngineId::of(gone));
        client.ask(2_000, None, delete);
        assert_eq!(only(sent(client)).to, gone);
    };
    // While there is room it is repeated like any other.
    delete(&mut client);
    assert_eq!(client.in_flight(), before + 1);
    let config = Config {
        commands_max: 2 * (before + 1),
        ..config(2)
    };
    client.reload(2_000, config);
    let before = client.in_flight();
    for _ in 0..3 {
        delete(&mut client);
    }
    assert_eq!(client.in_flight(), before);
}

/// An engine that does not answer any more, as the client knows.
fn silent_engine(client: &mut Client) -> SocketAddr {
    client.ask(10, Some(1), ask(Command::Offer, "a"));
    let first = only(sent(client));
    let later = wait(client, 10, 1_010);
    let next = later
        .into_iter()
        .find(|(_, of)| of.to != first.to && !is_ping(of));
    answer(client, 1_020, &next.unwrap().1, &done());
    assert_eq!(client.poll_change().unwrap().why, Some(Why::Silent));
    assert!(client.poll_answer().is_some());
    sent(client);
    first.to
}

#[test]
fn a_short_patience_has_its_repetitions_too() {
    let mut client = client(Config {
        timeout_ms: 60,
        ..config(1)
    });
    client.ask(10, Some(1), ask(Command::Offer, "a"));
    let first = only(sent(&mut client));
    let later = wait(&mut client, 10, 60);
    let again: Vec<u64> = later
        .iter()
        .filter(|(_, of)| *of == first)
        .map(|(at_ms, _)| *at_ms)
        .collect();
    // By the ticks of the clock; at 70 it is over.
    assert_eq!(again, [30, 60]);
    // And a ping, so that what nobody would answer is not held against the engine.
    assert!(later.iter().any(|(_, of)| is_ping(of)));
}
