//! What callers write, on its way through the hook: into its questions, and as its answers.

use std::io::Write;
use std::net::TcpStream;

use serde_json::Value;

use super::led::{NO_HOUSE, marked};
use crate::house::{HOOKED, HOOKS_HEADER};
use crate::scenario::{Scale, Scenario, Tally};
use crate::target::Setup;
use crate::wire::{Draft, MARK, Text, word};
use crate::world::{World, fresh_source};

fn open(setup: &mut Setup) {
    setup.own_configuration = true;
    setup.keys.push_str("inbound = \"anyone\"\n");
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "hook.questions",
        tries: "A user and strangers write quotes, JSON, line ends, escapes, long texts and answers of a hook into names, URIs, Call-IDs, headers and bodies, and the hook's header themselves.",
        through: "a question that is no JSON, names another user or source, or comes twice; a call that arrives with another word in the hook's header than the hook's.",
        setup: open,
        not_kamailio: NO_HOUSE,
        run: questions,
    },
    Scenario {
        name: "hook.barred",
        tries: "A user calls numbers that the hook bars, in every writing, while answers of a hook are sent to the server's ports; strangers call what the hook leads outside.",
        through: "a call that reaches the provider or the gateway.",
        setup: open,
        not_kamailio: NO_HOUSE,
        run: barred,
    },
];

/// Texts that are something else to whoever does not quote them.
fn texts() -> Vec<String> {
    let answer = r#"{"version":1,"answers":[{"id":1,"action":"route","to":"outside"}]}"#;
    let mut all: Vec<String> = [
        r#"a"b"#,
        r#"\"#,
        r#"\u0022"#,
        r#"","user":"alice@example.test","x":""#,
        r#""}]}"#,
        "%22%2C%22user%22%3A%22alice%40example.test%22%2C%22x%22%3A%22",
        "%0d%0aX-Account:%20alice",
        "%00",
        "a%0a",
        "\t",
        "\u{7f}",
        "\u{e9}\u{2028}\u{1F600}",
        "HTTP/1.1",
        "HTTP/1.1 200 OK",
        "</script>",
        "'; drop table--",
        answer,
    ]
    .map(str::to_owned)
    .to_vec();
    all.push("\"".repeat(1_000));
    all.push("%".repeat(700));
    all.push("x".repeat(6_000));
    all
}

/// Requests that have such a text in one place or another.
fn drafts(world: &World, aor: &str, contact: &str) -> Vec<Draft> {
    let domain = &world.domain;
    let to = world.bob_aor();
    let new = |method: &str| Draft::new(method, aor, &to).contact(contact);
    let mut all = Vec::new();
    for text in texts() {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut by_uri = new("INVITE");
        by_uri.to = format!("sip:{text}@{domain}");
        let mut by_name = new("INVITE");
        // Out of the brackets that a draft has, and in again.
        by_name.to = format!("{to}>;x=\"{quoted}\";y=<");
        let mut by_from = new("INVITE");
        by_from.from = format!("{aor}?x={text}");
        let mut by_parameter = new("MESSAGE");
        by_parameter.from = format!("{aor};x={text}");
        let mut by_id = new("INVITE");
        by_id.call_id = format!("{}{text}", word("h"));
        let mut by_folding = new("INVITE").with(HOOKS_HEADER, "alice\r\n alice@example.test|x");
        by_folding = by_folding.with("x-account\t", "alice@example.test|x");
        let requests = [
            new("INVITE").uri(&format!("sip:bob;x={text}@{domain}")),
            new("INVITE").uri(&format!("{to};x={text}")),
            new("INVITE").uri(&format!("{to}?X-Account={text}")),
            new("INVITE").uri(&format!("sip:bob:{text}@{domain}")),
            by_uri,
            by_name,
            by_from,
            by_parameter,
            by_id,
            by_folding,
            new("MESSAGE").with(HOOKS_HEADER, &text),
            new("MESSAGE").with("X-ACCOUNT", &format!("alice@example.test|{text}")),
            new("INVITE").with(
                "Route",
                &format!("<sip:{};lr;x={text}>", world.server.place()),
            ),
            new("INVITE").with(
                "Route",
                &format!("<sip:{text}@{};lr>", world.server.place()),
            ),
            new("INVITE").with("Subject", &text),
        ];
        all.extend(requests);
        let mut body = new("MESSAGE").with("Content-Type", "application/json");
        body.body = text.into_bytes();
        all.push(body);
    }
    all.push(new("MESSAGE").body_bytes(59_000));
    all.push(new("INVITE").body_bytes(1));
    all
}

fn questions(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let world = &*world;
    let prefix = word("asked");
    let mut sent: Vec<(String, String, Option<String>)> = Vec::new();
    let user = format!("{}@{}", world.mallory_account().user, world.domain);
    let patience = std::time::Duration::from_millis(400);
    let drafts_of_mallory = drafts(world, &world.mallory_aor(), &world.mallory.contact());
    for (n, draft) in drafts_of_mallory.into_iter().enumerate() {
        let draft = draft.mark(&format!("{prefix}.user.{n}"));
        sent.push((
            draft.call_id.clone(),
            world.mallory.local.ip().to_string(),
            Some(user.clone()),
        ));
        if let Some(first) = world.mallory.ask_for(patience, world.to(), &draft)
            && let Some(next) = crate::phone::authorize(&draft, &first, world.mallory_account())
        {
            let _ = world.mallory.ask_for(patience, world.to(), &next);
        }
        tally.try_many(1);
    }
    let mut source = fresh_source()?;
    for (n, draft) in drafts(world, "sip:x@x.invalid", &world.foreign.contact())
        .into_iter()
        .enumerate()
    {
        if n % 8 == 0 {
            source = fresh_source()?;
            world.settle_briefly();
        }
        let draft = draft.mark(&format!("{prefix}.stranger.{n}"));
        let local = source.local_addr().map_err(|e| e.to_string())?;
        sent.push((draft.call_id.clone(), local.ip().to_string(), None));
        let _ = source.send_to(&draft.render(local, "UDP"), world.to());
        tally.try_many(1);
    }
    world.settle();
    let (number, faults) = world.house.hook.seen();
    if number < 100 {
        return Err(format!("the hook was asked {number} questions"));
    }
    for fault in faults {
        tally.break_in(1, || fault);
    }
    for (call_id, source, user) in &sent {
        let asked = world.house.hook.asked_of(call_id);
        tally.break_in(u64::from(asked.len() > 1), || {
            format!("asked twice of {call_id}")
        });
        for question in asked {
            let wrong = wrongly_asked(&question, source, user.as_deref());
            tally.break_in(u64::from(wrong.is_some()), || wrong.unwrap_or_default());
        }
    }
    let mut arrived = 0;
    for phone in [
        &world.alice,
        &world.bob,
        &world.ceo,
        &world.gateway,
        &world.house.provider,
    ] {
        for request in marked(phone, &prefix) {
            arrived += 1;
            let wrong = wrong_word(&request, &user);
            tally.break_in(u64::from(wrong.is_some()), || wrong.unwrap_or_default());
        }
    }
    if arrived == 0 {
        return Err("nothing arrived, so nothing is shown".to_owned());
    }
    Ok(tally)
}

/// What is wrong with a question, for who sent the request.
fn wrongly_asked(question: &Value, source: &str, user: Option<&str>) -> Option<String> {
    const FIELDS: [&str; 14] = [
        "id",
        "kind",
        "method",
        "from",
        "to",
        "request_uri",
        "number",
        "route",
        "user",
        "class",
        "source",
        "source_port",
        "transport",
        "call_id",
    ];
    let object = question.as_object()?;
    let other = object.keys().find(|key| !FIELDS.contains(&key.as_str()));
    let class = if user.is_some() { "user" } else { "inbound" };
    let is_right = question["user"].as_str() == user
        && question["source"] == source
        && question["class"] == class
        && other.is_none();
    // What callers choose is printable ASCII, whatever it was.
    let is_printable = object
        .values()
        .filter_map(Value::as_str)
        .all(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    (!is_right || !is_printable).then(|| format!("asked of {source}: {question}"))
}

/// What is wrong with the hook's header in a request that arrived.
fn wrong_word(request: &Text, user: &str) -> Option<String> {
    let mark = request.header(MARK).unwrap_or("");
    let begins = if mark.contains(".user.") {
        format!("{user}|sip:")
    } else {
        "|sip:x@".to_owned()
    };
    // Names with white space behind them are the same to many a reader.
    let named = |(name, _): &&(String, String)| name.trim().eq_ignore_ascii_case(HOOKS_HEADER);
    let lines: Vec<&str> = request
        .headers
        .iter()
        .filter(named)
        .map(|(_, v)| v.as_str())
        .collect();
    let is_right = matches!(lines.as_slice(), [line] if line.starts_with(&begins));
    (!is_right).then(|| format!("{} has {lines:?} ({mark})", request.start))
}

fn barred(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let world = &*world;
    let prefix = word("barred");
    // Whoever may is led outside by the hook: else nothing is shown.
    let mark = word("led");
    for uri in [HOOKED, "led"] {
        let uri = format!("sip:{uri}@{}", world.domain);
        let call = Draft::new("MESSAGE", &world.mallory_aor(), &uri).mark(&mark);
        let _ = world
            .mallory
            .ask_as(world.to(), &call, world.mallory_account())?;
    }
    if world.gateway.marked(&mark) != 2 {
        return Err("the hook leads nobody".to_owned());
    }
    for name in ["+49900123", "0900123", "led", HOOKED] {
        let is_stranger = name == "led" || name == HOOKED;
        for (n, uri) in super::led::writings(world, name).into_iter().enumerate() {
            for method in ["INVITE", "MESSAGE"] {
                let kind = if is_stranger { "stranger" } else { "user" };
                let mark = format!("{prefix}.{kind}.{n}");
                if is_stranger {
                    let draft = Draft::new(method, "sip:x@x.invalid", &uri).mark(&mark);
                    crate::world::send_fresh(world.to(), &draft.contact(&world.foreign.contact()))?;
                } else {
                    let draft = Draft::new(method, &world.mallory_aor(), &uri).mark(&mark);
                    as_if_answered(world, &draft.contact(&world.mallory.contact()))?;
                }
                tally.try_many(1);
            }
        }
        world.settle_briefly();
    }
    world.settle();
    for (who, phone) in [
        ("the gateway", &world.gateway),
        ("the provider", &world.house.provider),
    ] {
        for request in marked(phone, &prefix) {
            let mark = request.header(MARK).unwrap_or("").to_owned();
            tally.break_in(1, || {
                format!("{who} was reached: {} ({mark})", request.start)
            });
        }
    }
    Ok(tally)
}

/// Calls, and sends what looks like the hook's answers to the server's own ports meanwhile.
fn as_if_answered(world: &World, draft: &Draft) -> Result<(), String> {
    let first = world.mallory.ask(world.to(), draft)?;
    let Some(next) = crate::phone::authorize(draft, &first, world.mallory_account()) else {
        return Ok(());
    };
    world.mallory.send(world.to(), &next);
    let answers: Vec<String> = (0..64)
        .map(|id| format!("{{\"id\":{id},\"action\":\"continue\"}}"))
        .collect();
    let body = format!("{{\"version\":1,\"answers\":[{}]}}", answers.join(","));
    let bytes = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    world.mallory.send_bytes(world.to(), bytes.as_bytes());
    if let Some(tcp) = world.server.tcp
        && let Ok(mut stream) = TcpStream::connect(tcp)
    {
        let _ = stream.write_all(bytes.as_bytes());
    }
    let patience = std::time::Duration::from_millis(1_500);
    let _ = world
        .mallory
        .response(patience, &next, |status| status >= 200);
    Ok(())
}
