//! Calls that break: what an attacker need not even try.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::digest::Account;
use crate::phone::{Manner, PATIENCE, Phone, authorize};
use crate::scenario::{Scale, Scenario, Tally};
use crate::stream::Stream;
use crate::target::Setup;
use crate::wire::{Draft, MARK, Text, tag_of, uri_of, word};
use crate::world::{World, send_fresh};

const OWN: fn(&mut Setup) = |setup| setup.own_configuration = true;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "call.hairpin",
        tries: "Two users on one connection call each other.",
        through: "an INVITE, ACK or BYE that does not arrive.",
        setup: OWN,
        not_kamailio: None,
        run: hairpin,
    },
    Scenario {
        name: "call.many-addresses",
        tries: "A server on all addresses hears of 4,200 sources at one of them; a phone uses another.",
        through: "a packet to that phone from another address than it uses.",
        setup: |setup| {
            setup.own_configuration = true;
            setup.listen = [0, 0, 0, 0];
        },
        not_kamailio: Some("it listens on addresses, not on all of them at once"),
        run: many_addresses,
    },
    Scenario {
        name: "call.outbound-proxy",
        tries: "A phone with the server as outbound proxy in its Route calls a number and a routed domain.",
        through: "a call that does not reach the gateway.",
        setup: OWN,
        not_kamailio: Some("its configuration routes no domain"),
        run: outbound_proxy,
    },
    Scenario {
        name: "call.new-connection",
        tries: "A phone's connection ends during a call, it registers again over another, and the other side hangs up.",
        through: "a BYE that does not arrive.",
        setup: OWN,
        not_kamailio: None,
        run: new_connection,
    },
    Scenario {
        name: "call.eleventh-contact",
        tries: "A phone registers from an eleventh address while ten old ones have not expired.",
        through: "a registration that is refused, or a contact that is not called.",
        setup: |_| {},
        not_kamailio: None,
        run: eleventh,
    },
    Scenario {
        name: "call.cancel",
        tries: "A forked call is answered at one phone; a MESSAGE is cancelled and answered then.",
        through: "a CANCEL without the reason that the call was taken elsewhere; a MESSAGE whose answer is lost.",
        setup: OWN,
        not_kamailio: None,
        run: cancels,
    },
    Scenario {
        name: "call.status",
        tries: "Calls to a name that does not exist and to a gateway that is down.",
        through: "a 500, or no answer.",
        setup: |setup| {
            setup.own_configuration = true;
            // The discard port: nobody is there.
            "sip:127.0.3.9:9".clone_into(&mut setup.gateway);
        },
        not_kamailio: Some("its resolver is the machine's"),
        run: statuses,
    },
];

/// Two users who are not registered yet.
fn two(world: &World) -> Result<(Account, Account), String> {
    let mut callers = world.callers().into_iter();
    match (callers.next(), callers.next()) {
        (Some(one), Some(two)) => Ok((one, two)),
        _ => Err("two further users are needed".to_owned()),
    }
}

/// Registers over a connection; the contact's URI.
fn register_over(
    stream: &mut Stream,
    world: &World,
    account: &Account,
    instance: &str,
) -> Result<String, String> {
    let aor = world.aor(account);
    let uri = format!("sip:{}@{};transport=tcp", account.user, stream.local);
    let draft = Draft::new("REGISTER", &aor, &aor)
        .uri(&format!("sip:{}", world.domain))
        .contact(&format!("<{uri}>;+sip.instance=\"<urn:uuid:{instance}>\""));
    let silent = || format!("no answer to {}'s REGISTER", account.user);
    let first = stream.ask(PATIENCE, &draft).ok_or_else(silent)?;
    let next = authorize(&draft, &first, account).ok_or("a REGISTER is not challenged")?;
    let answer = stream.ask(PATIENCE, &next).ok_or_else(silent)?;
    match answer.status() {
        Some(200) => Ok(uri),
        _ => Err(format!(
            "{} cannot register: {}",
            account.user, answer.start
        )),
    }
}

/// Reads until something wanted comes; requests are answered with 200.
fn until(
    stream: &mut Stream,
    limit: Duration,
    contact: &str,
    wanted: impl Fn(&Text) -> bool,
) -> Option<Text> {
    let end = Instant::now() + limit;
    loop {
        let left = end.checked_duration_since(Instant::now())?;
        let text = stream.next(left)?;
        if text.status().is_none() && text.method() != "ACK" {
            let answer = text.answer("200 OK", Some("callee"), Some(&format!("<{contact}>")));
            stream.send_bytes(&answer);
        }
        if wanted(&text) {
            return Some(text);
        }
    }
}

/// ACK or BYE of a call that was answered so.
fn within(invite: &Draft, answer: &Text, method: &str) -> Draft {
    let mut draft = invite.again();
    method.clone_into(&mut draft.method);
    draft.headers.clear();
    draft.contact = None;
    draft.uri = answer
        .header("Contact")
        .map_or(String::new(), |c| uri_of(c).to_owned());
    draft.to_tag = answer.header("To").and_then(tag_of);
    draft.routes = answer.addresses("Record-Route");
    draft.routes.reverse();
    if method == "ACK" {
        draft.cseq = invite.cseq;
    }
    draft
}

fn hairpin(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let tcp = world.server.tcp.ok_or("it has no TCP address")?;
    let mut pbx = Stream::tcp_from([127, 0, 2, 7], tcp)?;
    let (one, two) = two(world)?;
    let from = register_over(
        &mut pbx,
        world,
        &one,
        "00000000-0000-4000-8000-000000000001",
    )?;
    let contact = register_over(
        &mut pbx,
        world,
        &two,
        "00000000-0000-4000-8000-000000000002",
    )?;
    let invite =
        Draft::new("INVITE", &world.aor(&one), &world.aor(&two)).contact(&format!("<{from}>"));
    let first = pbx.ask(PATIENCE, &invite).ok_or("no answer to an INVITE")?;
    if first.status() == Some(407) {
        pbx.send(&invite.hop_by_hop("ACK", first.header("To")));
    }
    let invite = authorize(&invite, &first, &one).ok_or("a call is not challenged")?;
    pbx.send(&invite);
    let limit = Duration::from_secs(4);
    let answered = |t: &Text| t.answers(&invite) && t.status() == Some(200);
    let Some(answer) = until(&mut pbx, limit, &contact, answered) else {
        tally.judge(true, || "the call was not answered".to_owned());
        return Ok(tally);
    };
    pbx.send(&within(&invite, &answer, "ACK"));
    let came = |method: &'static str| move |t: &Text| t.status().is_none() && t.method() == method;
    let ack = until(&mut pbx, limit, &contact, came("ACK"));
    tally.judge(ack.is_none(), || "the ACK did not arrive".to_owned());
    let bye = within(&invite, &answer, "BYE");
    pbx.send(&bye);
    let arrived = until(&mut pbx, limit, &contact, came("BYE"));
    tally.judge(arrived.is_none(), || "the BYE did not arrive".to_owned());
    Ok(tally)
}

fn many_addresses(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let (one, _) = two(world)?;
    let other = SocketAddr::from(([127, 0, 0, 77], world.to().port()));
    let phone = Phone::at([127, 0, 2, 9])?;
    phone.register(other, &world.domain, &one)?;
    let options = |local: SocketAddr| {
        Draft::new(
            "OPTIONS",
            &format!("sip:x@{local}"),
            &format!("sip:{}", world.to()),
        )
    };
    for n in 0..4_200 {
        let local = SocketAddr::from(([127, 0, 0, 1], 5060));
        send_fresh(world.to(), &options(local))?;
        if n % 200 == 0 {
            world.settle_briefly();
        }
    }
    let answer = phone.ask(other, &options(phone.local))?;
    let from = answer.from.map(|from| from.ip());
    tally.judge(from != Some(other.ip()), || {
        format!("the answer came from {from:?}")
    });
    let mark = word("addr");
    let draft = Draft::new("MESSAGE", &world.alice_aor(), &world.aor(&one)).mark(&mark);
    let _ = world
        .alice
        .ask_as(world.to(), &draft, world.alice_account())?;
    let found = phone.wait_for(PATIENCE, |r| r.header(MARK) == Some(&mark));
    let from = found.and_then(|r| r.from).map(|from| from.ip());
    tally.judge(from != Some(other.ip()), || {
        format!("the request came from {from:?}")
    });
    Ok(tally)
}

fn outbound_proxy(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let place = world.server.place();
    for to in ["sip:555@partner.test".to_owned(), world.number()] {
        for route in [
            format!("<sip:{place};lr>"),
            format!("<sip:{};lr>", world.domain),
        ] {
            let mark = word("proxy");
            let draft = world
                .alice
                .invite(&world.alice_aor(), &to)
                .mark(&mark)
                .route(&route);
            let (_, answer) = world
                .alice
                .ask_as(world.to(), &draft, world.alice_account())?;
            world.settle_briefly();
            let lost = world.gateway.marked(&mark) == 0;
            tally.judge(lost, || format!("{to} by {route}: {}", answer.start));
        }
    }
    Ok(tally)
}

fn new_connection(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let tcp = world.server.tcp.ok_or("it has no TCP address")?;
    let (one, _) = two(world)?;
    let instance = "00000000-0000-4000-8000-000000000003";
    let mut old = Stream::tcp_from([127, 0, 2, 7], tcp)?;
    let contact = register_over(&mut old, world, &one, instance)?;
    let invite = world.alice.invite(&world.alice_aor(), &world.aor(&one));
    let first = world.alice.ask(world.to(), &invite)?;
    let invite =
        authorize(&invite, &first, world.alice_account()).ok_or("a call is not challenged")?;
    world.alice.send(world.to(), &invite);
    let came = |method: &'static str| move |t: &Text| t.status().is_none() && t.method() == method;
    until(&mut old, PATIENCE, &contact, came("INVITE")).ok_or("the call did not arrive")?;
    let answer = world
        .alice
        .response(PATIENCE, &invite, |status| status == 200)
        .ok_or("the call was not answered")?;
    world
        .alice
        .send(world.to(), &within(&invite, &answer, "ACK"));
    drop(old);
    std::thread::sleep(Duration::from_millis(200));
    let mut new = Stream::tcp_from([127, 0, 2, 7], tcp)?;
    let contact = register_over(&mut new, world, &one, instance)?;
    let bye = within(&invite, &answer, "BYE");
    world.alice.send(world.to(), &bye);
    let arrived = until(&mut new, Duration::from_secs(4), &contact, came("BYE"));
    tally.judge(arrived.is_none(), || "the BYE did not arrive".to_owned());
    let status = world
        .alice
        .response(PATIENCE, &bye, |status| status >= 200)
        .and_then(|answer| answer.status());
    tally.judge(status != Some(200), || format!("the BYE got {status:?}"));
    Ok(tally)
}

fn eleventh(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let aor = world.mallory_aor();
    for n in 0..11 {
        let draft = Draft::new("REGISTER", &aor, &aor)
            .uri(&format!("sip:{}", world.domain))
            .contact(&format!("<sip:old{n}@{}>", world.mallory.local));
        let (_, answer) = world
            .mallory
            .ask_as(world.to(), &draft, world.mallory_account())?;
        tally.judge(answer.status() != Some(200), || {
            format!("contact {}: {}", n + 1, answer.start)
        });
    }
    let call = Draft::new("MESSAGE", &world.alice_aor(), &aor);
    let _ = world
        .alice
        .ask_as(world.to(), &call, world.alice_account())?;
    world.settle();
    let called = world.mallory.seen(|r| r.start.contains("sip:old10@"));
    tally.judge(called.is_empty(), || {
        "the newest contact was not called".to_owned()
    });
    Ok(tally)
}

fn cancels(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let (one, _) = two(world)?;
    let (rings, takes) = (Phone::at([127, 0, 2, 8])?, Phone::at([127, 0, 2, 9])?);
    rings.manner(Manner::Rings);
    takes.manner(Manner::Silent);
    rings.register(world.to(), &world.domain, &one)?;
    takes.register(world.to(), &world.domain, &one)?;
    let invite = world.alice.invite(&world.alice_aor(), &world.aor(&one));
    let first = world.alice.ask(world.to(), &invite)?;
    let invite =
        authorize(&invite, &first, world.alice_account()).ok_or("a call is not challenged")?;
    world.alice.send(world.to(), &invite);
    let is_invite = |r: &Text| r.method() == "INVITE";
    rings
        .wait_for(PATIENCE, is_invite)
        .ok_or("one phone was not called")?;
    let taken = takes
        .wait_for(PATIENCE, is_invite)
        .ok_or("one phone was not called")?;
    // Once the first has rung, so that its CANCEL may be sent.
    let ringing = world
        .alice
        .response(PATIENCE, &invite, |status| status == 180);
    ringing.ok_or("no phone rings")?;
    answer_late(&takes, &taken);
    let cancel = rings.wait_for(PATIENCE, |r| r.method() == "CANCEL");
    let reason = cancel
        .as_ref()
        .and_then(|c| c.header("Reason"))
        .unwrap_or("");
    let known = reason.replace(' ', "").contains("cause=200");
    tally.judge(!known, || match &cancel {
        Some(_) => format!("a CANCEL came with the reason '{reason}'"),
        None => "no CANCEL came".to_owned(),
    });
    // A MESSAGE that is cancelled is answered all the same (RFC 3261 9.1).
    world.ceo.manner(Manner::Silent);
    let mark = word("late");
    let draft = Draft::new("MESSAGE", &world.alice_aor(), &world.ceo_aor()).mark(&mark);
    let first = world.alice.ask(world.to(), &draft)?;
    let draft =
        authorize(&draft, &first, world.alice_account()).ok_or("a MESSAGE is not challenged")?;
    world.alice.send(world.to(), &draft);
    let held = world
        .ceo
        .wait_for(PATIENCE, |r| r.header(MARK) == Some(&mark))
        .ok_or("a MESSAGE did not arrive")?;
    world
        .alice
        .send(world.to(), &draft.hop_by_hop("CANCEL", None));
    world.settle();
    answer_late(&world.ceo, &held);
    let got = world
        .alice
        .response(Duration::from_secs(3), &draft, |s| s >= 200);
    let got = got.and_then(|answer| answer.status());
    tally.judge(got != Some(200), || {
        format!("a MESSAGE that was cancelled and answered got {got:?}")
    });
    Ok(tally)
}

fn answer_late(phone: &Phone, request: &Text) {
    if let Some(from) = request.from {
        let answer = request.answer("200 OK", Some("late"), Some(&phone.contact()));
        phone.send_bytes(from, &answer);
    }
}

fn statuses(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for (what, to) in [
        (
            "a name that does not exist",
            "sip:x@nobody.invalid".to_owned(),
        ),
        ("a gateway that is down", world.number()),
    ] {
        let draft = world.alice.invite(&world.alice_aor(), &to);
        let first = world.alice.ask(world.to(), &draft)?;
        let next =
            authorize(&draft, &first, world.alice_account()).ok_or("a call is not challenged")?;
        // What is silent takes 64 times T1 to be given up.
        let answer = world
            .alice
            .ask_for(Duration::from_secs(10), world.to(), &next);
        let status = answer.and_then(|a| a.status());
        tally.judge(matches!(status, None | Some(500)), || {
            format!("{what}: {status:?}")
        });
    }
    Ok(tally)
}
