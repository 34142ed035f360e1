//! The server as a way to places that the sender may not reach.

use crate::phone::{PATIENCE, Phone, authorize};
use crate::scenario::{Scale, Scenario, Tally};
use crate::stream::Stream;
use crate::target::Setup;
use crate::wire::{Draft, MARK, Text, word};
use crate::world::{World, send_fresh};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "relay.strangers",
        tries: "Requests of strangers to foreign hosts, numbers, the gateway and hosts inside, by Request-URI, Route and maddr.",
        through: "a request that arrives.",
        setup: |_| {},
        not_kamailio: None,
        run: strangers,
    },
    Scenario {
        name: "relay.inside",
        tries: "A user's requests to the gateway's own address and to hosts inside: by Request-URI, Route, maddr, Path and registered contacts.",
        through: "a request that arrives there past the routing tables.",
        setup: denied,
        not_kamailio: None,
        run: inside,
    },
    Scenario {
        name: "relay.itself",
        tries: "Contacts and Routes that lead to the server itself, whose address is in a trusted network, called by a user and by a stranger.",
        through: "a call of a stranger, or in another's name, that reaches the gateway.",
        setup: inbound,
        not_kamailio: None,
        run: itself,
    },
    Scenario {
        name: "relay.stateless",
        tries: "Responses with the server's name in the top Via and a victim's in the next, to a stateless forwarder.",
        through: "a packet that reaches the victim.",
        setup: stateless,
        not_kamailio: None,
        run: reflect,
    },
    Scenario {
        name: "relay.sips-in-clear",
        tries: "Registering a sips: contact over UDP and over TCP, and calling it.",
        through: "a call to sips: that arrives in the clear.",
        setup: |_| {},
        not_kamailio: None,
        run: sips,
    },
];

/// The phones' and others' networks are loopback here; one of them is denied.
fn denied(setup: &mut Setup) {
    setup.own_configuration = true;
    let own = "[proxy]\nrelay_denied = [\"127.0.9.0/24\"]\n";
    setup.tables.push_str(own);
}

fn inbound(setup: &mut Setup) {
    setup.own_configuration = true;
    setup.keys.push_str("inbound = \"anyone\"\n");
    setup.kamailio.push("INBOUND");
}

fn stateless(setup: &mut Setup) {
    setup.own_configuration = true;
    // It has neither trunks nor a hook.
    setup.has_house = false;
    setup.keys.push_str("mode = \"stateless\"\n");
}

fn strangers(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mark = word("open");
    let (gateway, inside) = (world.gateway.local, world.inside.local);
    let foreign = world.foreign.local;
    let place = world.server.place();
    let uris = [
        format!("sip:x@{foreign}"),
        format!("sip:x@{gateway}"),
        format!("sip:x@{inside}"),
        world.number(),
        format!("sip:+1900555@{place}"),
        format!("sip:bob@{};maddr={}", world.domain, inside.ip()),
        "sip:+1900555@partner.test".to_owned(),
    ];
    let routes = [
        Vec::new(),
        vec![format!("<sip:{place};lr>"), format!("<sip:{foreign};lr>")],
        vec![format!("<sip:{gateway};lr>")],
        vec![format!("<sip:{place};lr>"), format!("<sip:{inside};lr>")],
    ];
    for _ in 0..scale.of(1, 20) {
        for uri in &uris {
            for routes in &routes {
                for method in ["INVITE", "MESSAGE", "OPTIONS", "ACK", "BYE", "FOO"] {
                    for tag in [None, Some("x")] {
                        let mut draft = Draft::new(method, "sip:x@x.invalid", uri).mark(&mark);
                        draft.routes.clone_from(routes);
                        draft.to_tag = tag.map(str::to_owned);
                        send_fresh(world.to(), &draft)?;
                        tally.try_many(1);
                    }
                }
            }
            world.settle_briefly();
        }
    }
    world.settle();
    for (who, n) in [
        ("the gateway", world.gateway.marked(&mark)),
        ("a host inside", world.inside.marked(&mark)),
        ("a foreign host", world.foreign.marked(&mark)),
        ("a user", world.bob.marked(&mark)),
    ] {
        tally.break_in(n, || format!("{n} reached {who}"));
    }
    Ok(tally)
}

fn inside(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for place in [&world.gateway, &world.inside] {
        past_tables(world, place, &mut tally)?;
    }
    Ok(tally)
}

/// A user's requests to a place that is reached by the routing tables or not at all.
pub(super) fn past_tables(world: &World, there: &Phone, tally: &mut Tally) -> Result<(), String> {
    let mark = word("inside");
    let place = world.server.place();
    let host = there.local;
    let ways: Vec<(&str, String, Vec<String>)> = vec![
        ("Request-URI", format!("sip:+1900555@{host}"), vec![]),
        (
            "mapped IPv6",
            format!("sip:x@[::ffff:{}]:{}", host.ip(), host.port()),
            vec![],
        ),
        (
            "maddr",
            format!("sip:x@x.invalid:{};maddr={}", host.port(), host.ip()),
            vec![],
        ),
        (
            "Route",
            format!("sip:x@{}", world.foreign.local),
            vec![format!("<sip:{host};lr>")],
        ),
        (
            "two Routes",
            "sip:x@x.invalid".to_owned(),
            vec![format!("<sip:{place};lr>"), format!("<sip:{host};lr>")],
        ),
        (
            "Route of a user",
            world.bob_aor(),
            vec![format!("<sip:{host};lr>")],
        ),
    ];
    for (way, uri, routes) in ways {
        let mark = format!("{mark}.{}", word("w"));
        let mut draft = Draft::new("MESSAGE", &world.mallory_aor(), &uri).mark(&mark);
        draft.routes = routes;
        let _ = world
            .mallory
            .ask_as(world.to(), &draft, world.mallory_account());
        world.settle_briefly();
        let n = there.marked(&mark) + world.gateway.marked(&mark) + world.inside.marked(&mark);
        tally.judge(n > 0, || format!("{way} led to {host}"));
    }
    for (way, contact, path) in [
        ("a contact", format!("<sip:x@{host}>"), None),
        (
            "a Path",
            format!("<sip:x@{}>", world.mallory.local),
            Some(format!("<sip:{host};lr>")),
        ),
    ] {
        let mark = format!("{mark}.{}", word("w"));
        call_by_contact(world, &contact, path.as_deref(), &mark)?;
        let n = there.marked(&mark) + world.gateway.marked(&mark) + world.inside.marked(&mark);
        tally.judge(n > 0, || format!("{way} led to {host}"));
    }
    Ok(())
}

/// Calls mallory, who has that contact where it is taken.
fn call_by_contact(
    world: &World,
    contact: &str,
    path: Option<&str>,
    mark: &str,
) -> Result<(), String> {
    let aor = world.mallory_aor();
    let mut draft = Draft::new("REGISTER", &aor, &aor)
        .uri(&format!("sip:{}", world.domain))
        .contact(contact);
    if let Some(path) = path {
        draft = draft.with("Path", path).with("Supported", "path");
    }
    let (_, answer) = world
        .mallory
        .ask_as(world.to(), &draft, world.mallory_account())?;
    if answer.status() == Some(200) {
        let call = Draft::new("MESSAGE", &world.alice_aor(), &aor).mark(mark);
        let _ = world.alice.ask_as(world.to(), &call, world.alice_account());
        world.settle_briefly();
    }
    Ok(())
}

fn itself(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let place = world.server.place();
    let aor = world.mallory_aor();
    for contact in [
        format!("<sip:+1900555@{place}>"),
        format!("<sip:+1900555@{}>", world.domain),
        format!("<sip:+1900555@127.0.0.1:{}>", world.to().port()),
        format!("<sip:+1900555@localhost:{}>", world.to().port()),
        format!(
            "<sip:+1900555@partner.test:{};maddr=127.0.0.1>",
            world.to().port()
        ),
        format!("<sip:+1900555@{place};transport=tcp>"),
    ] {
        let mut draft = Draft::new("REGISTER", &aor, &aor)
            .uri(&format!("sip:{}", world.domain))
            .contact(&contact);
        let (_, answer) = world
            .mallory
            .ask_as(world.to(), &draft, world.mallory_account())?;
        let taken = answer.status() == Some(200);
        let mark = word("self");
        for method in ["INVITE", "MESSAGE"] {
            let call = Draft::new(method, "sip:x@x.invalid", &aor)
                .mark(&mark)
                .contact(&world.foreign.contact());
            let _ = world
                .foreign
                .ask_for(std::time::Duration::from_millis(600), world.to(), &call);
        }
        world.settle_briefly();
        let n = world.gateway.marked(&mark);
        tally.judge(n > 0, || {
            format!("{contact} was called by a stranger and reached the gateway")
        });
        if taken {
            draft = draft.again().with("Expires", "0");
            draft.branch = word("z9hG4bK");
            let _ = world
                .mallory
                .ask_as(world.to(), &draft, world.mallory_account());
        }
    }
    // A user's request that comes back from the trusted address as ceo's.
    for (uri, routes) in [
        (
            format!("sip:+1900555@localhost:{}", world.to().port()),
            vec![],
        ),
        (
            world.number(),
            vec![
                format!("<sip:{place};lr>"),
                format!("<sip:localhost:{};lr>", world.to().port()),
            ],
        ),
    ] {
        let mark = word("self");
        let mut draft = Draft::new("MESSAGE", "sip:x@x.invalid", &uri).mark(&mark);
        draft.routes = routes;
        send_fresh(world.to(), &draft)?;
        world.settle_briefly();
        let n = world.gateway.marked(&mark);
        tally.judge(n > 0, || {
            format!("a stranger's request to {uri} reached the gateway")
        });
    }
    Ok(tally)
}

fn reflect(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    good_one_comes_back(world)?;
    let victim = &world.inside;
    let before = victim.received().0;
    let place = world.server.place();
    for n in 0..scale.of(20, 2_000) {
        let branch =
            ["z9hG4bK", "z9hG4bK-0000000000000000", "x"][usize::try_from(n % 3).unwrap_or(0)];
        let bytes = format!(
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP {place};branch={branch}{n}\r\n\
             Via: SIP/2.0/UDP {};branch=z9hG4bKv{n}\r\nFrom: <sip:a@b.invalid>;tag=1\r\n\
             To: <sip:c@d.invalid>;tag=2\r\nCall-ID: r{n}\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n",
            victim.local
        );
        let socket = crate::world::fresh_source()?;
        let _ = socket.send_to(bytes.as_bytes(), world.to());
        tally.try_many(1);
    }
    world.settle();
    let n = victim.received().0 - before;
    tally.break_in(n, || format!("{n} responses reached the victim"));
    good_one_comes_back(world)?;
    Ok(tally)
}

/// That a request is forwarded, and that the response to it comes back: a forwarder of no
/// responses would reflect none.
fn good_one_comes_back(world: &World) -> Result<(), String> {
    let mark = word("forwarded");
    let draft = Draft::new("MESSAGE", &world.alice_aor(), &world.bob_aor()).mark(&mark);
    let (_, answer) = world
        .alice
        .ask_as(world.to(), &draft, world.alice_account())?;
    if answer.status() != Some(200) || world.bob.marked(&mark) == 0 {
        return Err(format!("a MESSAGE to bob got {}", answer.start));
    }
    Ok(())
}

fn sips(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let aor = format!("sips:{}@{}", world.mallory_account().user, world.domain);
    let contact = format!("<sips:phone@{}>", world.mallory.local);
    for to in [aor.clone(), world.mallory_aor()] {
        let draft = Draft::new("REGISTER", &to, &to)
            .uri(&format!("sip:{}", world.domain))
            .contact(&contact);
        let (_, answer) = world
            .mallory
            .ask_as(world.to(), &draft, world.mallory_account())?;
        let taken = answer.status() == Some(200);
        let mark = word("sips");
        let arrived = taken && {
            let call = Draft::new("MESSAGE", &world.alice_aor(), &world.mallory_aor()).mark(&mark);
            let _ = world.alice.ask_as(world.to(), &call, world.alice_account());
            world.settle_briefly();
            let clear = |r: &Text| r.header(MARK) == Some(&mark);
            world.mallory.seen(clear).len() + tls_call(world, &aor, &mark) > 0
        };
        tally.judge(arrived, || "a sips: contact was called over UDP".to_owned());
        tally.judge(taken, || {
            "a sips: contact was registered over UDP".to_owned()
        });
    }
    Ok(tally)
}

/// A call to sips: over TLS; how many arrived at the phone in the clear.
fn tls_call(world: &World, to: &str, mark: &str) -> usize {
    let Some(Ok(mut stream)) = world.server.tls.map(|at| Stream::tls(at, &world.domain)) else {
        return 0;
    };
    let from = world.alice_aor().replacen("sip:", "sips:", 1);
    let draft = Draft::new("MESSAGE", &from, to).mark(mark);
    if let Some(first) = stream.ask(PATIENCE, &draft)
        && let Some(next) = authorize(&draft, &first, world.alice_account())
    {
        let _ = stream.ask(std::time::Duration::from_secs(2), &next);
    }
    world.settle_briefly();
    world.mallory.seen(|r| r.header(MARK) == Some(mark)).len()
}
