//! Each key does what `etc/signet.toml` says of it: the bounds and the `restart` in the
//! note behind its value are those of the program.

use super::*;

/// A line with a key, and what its note says.
struct Key {
    line: usize,
    /// With the tables that it is in.
    name: String,
    value: String,
    bounds: Option<(i64, i64)>,
    needs_restart: bool,
}

/// The complete example with its examples switched on, so that each key can be changed
/// alone: lists for "strict" revocation, a next hop over TCP, a gateway that leaves to its
/// group what it may, suites for each version, a second group.
fn example() -> String {
    let text = std::fs::read_to_string(etc().join("signet.toml")).unwrap();
    switched_on(&text)
        .replace("crls = []", "crls = [\"crl.pem\"]")
        .replace("transport=udp", "transport=tcp")
        .replace(", connections = 1, connection = \"shared\" }", " }")
        .replace(
            "suites = [\"TLS_AES_128_GCM_SHA256\"]",
            "suites = [\"TLS_AES_128_GCM_SHA256\", \"ECDHE-RSA-AES128-GCM-SHA256\"]",
        )
        + "[[gateway_group]]\nname = \"inside\"\ngateways = [{ uri = \"sip:gw.example.org\" }]\n"
}

fn keys(text: &str) -> Vec<Key> {
    let mut table = String::new();
    let mut keys = Vec::new();
    for (line, written) in text.lines().enumerate() {
        if let Some(header) = written.strip_prefix('[') {
            table = header.trim_matches(['[', ']']).to_owned() + ".";
        } else if let Some((key, rest)) = written.split_once(" = ")
            && !written.starts_with('#')
        {
            let (value, note) = rest.split_once("  # ").unwrap_or((rest, ""));
            let mut key = Key {
                line,
                name: format!("{table}{key}"),
                value: value.to_owned(),
                bounds: None,
                needs_restart: false,
            };
            for part in note.split(", ").filter(|part| !part.is_empty()) {
                if part == "restart" {
                    key.needs_restart = true;
                } else {
                    let (min, max) = part.split_once(" to ").expect(written);
                    key.bounds = Some((min.parse().unwrap(), max.parse().unwrap()));
                }
            }
            keys.push(key);
        }
    }
    keys
}

fn with(text: &str, key: &Key, value: &str) -> String {
    let name = key.name.rsplit('.').next().unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[key.line] = format!("{name} = {value}");
    lines.join("\n")
}

#[test]
fn every_number_has_the_bounds_of_its_note() {
    let text = example();
    let mut numbers = 0;
    for key in keys(&text) {
        let Ok(default) = key.value.parse::<i64>() else {
            assert_eq!(key.bounds, None, "{} is no number", key.name);
            continue;
        };
        if key.name == "version" {
            continue;
        }
        numbers += 1;
        let name = &key.name;
        let (min, max) = key
            .bounds
            .unwrap_or_else(|| panic!("{name}: no bounds are noted"));
        assert!((min..=max).contains(&default), "{name}");
        let remedy = format!("write a number from {min} to {max}");
        for outside in [min - 1, max + 1] {
            let error = error_of(&with(&text, &key, &outside.to_string()));
            assert!(
                error.contains("is out of range"),
                "{name} = {outside}: {error}"
            );
            assert!(error.contains(&remedy), "{name} = {outside}: {error}");
        }
        for inside in [min, max] {
            if let Err(error) = parse(&with(&text, &key, &inside.to_string())) {
                let error = error.to_string();
                assert!(
                    !error.contains("is out of range"),
                    "{name} = {inside}: {error}"
                );
            }
        }
    }
    assert!(numbers > 80, "only {numbers} numbers");
}

/// A key that has a default shows it, or its comment names it; one that has none, or none but an
/// empty one, may show any value.
#[test]
fn every_key_shows_its_default() {
    const NOTHING: [&str; 5] = ["None,", "[],", "\"\",", "0,", "false,"];
    let text = switched_on(&std::fs::read_to_string(etc().join("signet.toml")).unwrap());
    let whole = parse(&text).unwrap();
    let whole_shown = format!("{whole:#?}");
    let (mut faults, mut shown) = (Vec::new(), 0);
    for key in keys(&text) {
        let mut lines: Vec<&str> = text.lines().collect();
        lines[key.line] = "";
        let above = lines[..key.line].iter().rev();
        let mut comment = above.take_while(|line| line.starts_with('#'));
        let is_named = comment.any(|line| line.contains("default"));
        let Ok(without) = parse(&lines.join("\n")) else {
            // It must be written, or another needs it.
            continue;
        };
        if without == whole {
            shown += 1;
            continue;
        }
        // Of what differs the key itself comes first.
        let without_shown = format!("{without:#?}");
        let both = whole_shown.lines().zip(without_shown.lines());
        let mut differing = both.filter(|(with, without)| with != without);
        let (_, default) = differing.next().unwrap();
        let value = default.trim().rsplit(": ").next().unwrap();
        if !NOTHING.contains(&value) && !is_named {
            faults.push(format!("{}: without it {}", key.name, default.trim()));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(shown > 100, "only {shown} show their defaults");
}

/// Values that some key or other takes; the first that a key takes and that changes
/// something is its other value.
const OTHERS: &[&str] = &[
    "true",
    "false",
    "\"stateless\"",
    "\"redirect\"",
    "\"continue\"",
    "\"https://hook.example.org/other\"",
    "[\"call\", \"message\"]",
    "[\"user\"]",
    "[\"X-Other\"]",
    "\"proven\"",
    "\"per-call\"",
    "\"optional\"",
    "\"strict\"",
    "\"refuse\"",
    "\"subscriber\"",
    "\"fixed\"",
    "\"always\"",
    "[\"mysql://signet@db.example.org/signet\"]",
    "\"file\"",
    "\"debug\"",
    "\"csv\"",
    "\"postgresql://signet@db.example.org/other\"",
    "\"json\"",
    "\"none\"",
    "\"40%\"",
    "\"udp:127.0.0.1:7000\"",
    "\"tls:127.0.0.1:7000\"",
    "\"wss:127.0.0.1:7000\"",
    "\"sip:192.0.2.77\"",
    "\"192.0.2.77\"",
    "\"192.0.2.77:9091\"",
    "\"/other\"",
    "\"+44\"",
    "[\"other.example.org\"]",
    "[\"5xx\"]",
    "[\"1.3\"]",
    "[\"1.2\", \"1.3\"]",
    "[\"TLS_AES_256_GCM_SHA384\", \"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\"]",
    "[\"X25519\"]",
    "[\"SHA-256\"]",
    "[\"10.0.0.0/8\"]",
    "[\"192.0.2.77:53\"]",
    "[\"https://other.example.org\"]",
    "[\"<sip:edge.example.org;lr>\"]",
    "{ tls = false }",
    "{ cert = \"other.pem\", key = \"other.key\" }",
    "[{ cert = \"other.pem\", key = \"other.key\" }]",
    "[{ network = \"10.0.0.0/8\", certificates = \"optional\" }]",
    "[{ uri = \"sip:other.example.org\" }]",
    "\"required\"",
    "\"exact\"",
    "[{ network = \"10.0.0.0/8\", nat = \"always\" }]",
    "\"crlf\"",
    "\"MD5\"",
    "\"from\"",
    "\"national\"",
    "\"7\"",
    "[{ number = \"+493099\", user = \"bob\" }]",
    "\"011\"",
    "[\"118\"]",
    "\"Asia/Tokyo\"",
    "\"Su\"",
    "\"0([1-9][0-9]+)\"",
    "\"+49${1}\"",
    "[[\"0891\", \"+49891\"]]",
    "\"crew\"",
    "\"rtpengine\"",
    "\"never\"",
    "\"pass\"",
    "[\"udp:10.0.0.77:2223\"]",
    "[{ network = \"10.0.0.0/8\", media = \"rtpengine\" }]",
    "\"401\"",
    "1000",
];

/// The same configuration but for this key.
fn other(text: &str, running: &Config, key: &Key) -> Option<Config> {
    if key.value == "\"outside\"" {
        // A group and its routes have one name.
        return parse(&text.replace("\"outside\"", "\"other\"")).ok();
    }
    let near = key.value.parse::<i64>().map_or(Vec::new(), |number| {
        vec![(number - 1).to_string(), (number + 1).to_string()]
    });
    let near = near.iter().map(String::as_str);
    near.chain(OTHERS.iter().copied())
        .filter_map(|value| parse(&with(text, key, value)).ok())
        .find(|config| config != running)
}

/// What a reload does otherwise than the key's note says.
fn fault(text: &str, key: &Key) -> Option<String> {
    let running = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let Some(given) = other(text, &running, key) else {
        return Some("no other value is known for it".to_owned());
    };
    let mut kept = given.clone();
    let changed = kept.keep_until_restart(&running);
    if key.needs_restart {
        let is_told = |told: &&str| {
            let rest = key.name.strip_prefix(told);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if changed.len() != 1 || !changed.iter().all(is_told) {
            return Some(format!("a reload tells of {changed:?}"));
        }
        return (kept != running).then(|| "it changes without a restart".to_owned());
    }
    if !changed.is_empty() || kept != given {
        return Some(format!("it is not taken over, and {changed:?} told"));
    }
    // What has another way than the settings of the workers.
    let elsewhere = [
        "domains",
        "drain_timeout_ms",
        "listen.",
        "tls.",
        "log.trace_",
        "trunk.password_file",
        // What is tried when it is read.
        "rewrite.examples",
    ];
    let settings = |config| format!("{:?}", crate::setup::settings(config, &[], &[], &[]));
    let is_elsewhere = elsewhere.iter().any(|way| key.name.starts_with(way));
    (!is_elsewhere && settings(&given) == settings(&running))
        .then(|| "it reaches no worker".to_owned())
}

#[test]
fn a_reload_takes_over_what_is_not_noted_as_restart_and_names_the_rest() {
    let example = example();
    let mut faults = Vec::new();
    let (mut taken_over, mut restarts) = (0, 0);
    for key in keys(&example) {
        let text = match key.name.as_str() {
            // There is one version, and the other engine is in another build.
            "version" | "listen.security.engine" => continue,
            "tls.ticket_secret_file" => {
                example.replace("ticket_keys = \"store\"", "ticket_keys = \"file\"")
            }
            // A connection for each call is not one for several.
            "forward_connection" | "gateway_group.connection" => {
                let counts = |line: &str| line.contains("connections = 1") && !line.contains('{');
                let lines = example.lines();
                let lines = lines.map(|line| if counts(line) { "" } else { line });
                lines.collect::<Vec<_>>().join("\n")
            }
            _ => example.clone(),
        };
        if key.needs_restart {
            restarts += 1;
        } else {
            taken_over += 1;
        }
        faults.extend(fault(&text, &key).map(|fault| format!("{}: {fault}", key.name)));
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(restarts > 50 && taken_over > 70, "{restarts} {taken_over}");
}
