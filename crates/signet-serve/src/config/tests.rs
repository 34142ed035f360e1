use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::Value;

use super::*;

mod keys;

fn etc() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc")
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::from_text(Path::new("test.toml"), text)
}

fn error_of(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

/// The complete example with its examples switched on: `#key = …` and
/// `#[table]` become live, prose (`# word`) stays.
fn switched_on(text: &str) -> String {
    text.lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c == '[' || c.is_ascii_lowercase()) => rest,
            _ => line,
        })
        .fold(String::new(), |text, line| text + line + "\n")
}

#[test]
fn every_example_parses() {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(etc()).unwrap() {
        let path = entry.unwrap().path();
        // What a plan is made for is no configuration: signet-plan reads it.
        let is_demand = path.file_name().is_some_and(|name| name == "plan.toml");
        if path.extension().is_some_and(|ending| ending == "toml") && !is_demand {
            Config::from_file(&path).unwrap_or_else(|error| panic!("{error}"));
            names.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    for name in [
        "signet.toml",
        "trunk.toml",
        "provider.toml",
        "stateless.toml",
        "redirect.toml",
    ] {
        assert!(names.contains(name), "etc/{name} is missing");
    }
}

#[test]
fn a_mistake_in_a_line_of_any_length_is_refused() {
    let fill = "x".repeat(88_000);
    for (text, place) in [
        (format!("version = 1\ndata = @x # {fill}\n"), ":2:8: "),
        (
            format!("version = 1\ndomains = [\"{fill}\", @x]\n"),
            ":2:88016: ",
        ),
        (format!("version = 1\ndata = \"{fill}\" @x\n"), ":2:88011: "),
        (
            format!("version = 1\nroute = [{{ prefix = \"{fill}\", group = \"g\" }}]\n"),
            ":2:",
        ),
        // What is found by comparing the parts, and not by the reader.
        (
            format!("version = 1\nroute = [{{ prefix = \"1\", group = \"{fill}\" }}]\n"),
            ":2:",
        ),
    ] {
        let error = error_of(&text);
        assert!(error.contains(place), "{error}");
        assert!(error.chars().count() < 5_000, "{error}");
    }
}

#[test]
fn the_complete_example_holds_the_defaults() {
    let text = std::fs::read_to_string(etc().join("signet.toml")).unwrap();
    let mut given = parse(&text).unwrap();
    assert_eq!(given.listen.len(), 3);
    for listen in &given.listen {
        assert_eq!(listen.security, ListenSecurity::default());
    }
    for key in [
        "versions = ",
        "#suites = ",
        "#groups = ",
        "#min_confidentiality = ",
        "#min_authentication = ",
        "#max_cost_us = ",
        "client_roots = ",
        "crls = ",
    ] {
        assert!(text.lines().any(|line| line.starts_with(key)), "{key}");
    }
    given.listen.clear();
    given.version = None;
    assert_eq!(format!("{given:#?}"), format!("{:#?}", Config::default()));
}

#[test]
fn the_complete_example_shows_every_key() {
    let text = switched_on(&std::fs::read_to_string(etc().join("signet.toml")).unwrap());
    parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let root: Value = toml::from_str(&text).unwrap();
    let mut missing = Vec::new();
    let mut probed = 0;
    probe(&root, &root, &mut Vec::new(), &mut missing, &mut probed);
    assert!(missing.is_empty(), "not in etc/signet.toml: {missing:?}");
    assert!(probed >= 18, "only {probed} tables were probed");
}

/// Puts an unknown key into each table in turn: the error lists the keys that
/// the table may have, and the table must have them all (where a table of
/// tables has several, all of them together).
fn probe(
    root: &Value,
    at: &Value,
    path: &mut Vec<String>,
    missing: &mut Vec<String>,
    probed: &mut usize,
) {
    match at {
        Value::Table(table) => {
            *probed += 1;
            let mut spoilt = root.clone();
            let place = path.iter().fold(&mut spoilt, |value, step| match value {
                Value::Array(array) => &mut array[step.parse::<usize>().unwrap()],
                other => other.get_mut(step).unwrap(),
            });
            place
                .as_table_mut()
                .unwrap()
                .insert("no_such_key".to_owned(), Value::Boolean(true));
            let error = toml::from_str::<Config>(&toml::to_string(&spoilt).unwrap()).unwrap_err();
            let keys: Vec<&str> = error.message().split('`').skip(3).step_by(2).collect();
            assert!(
                error.message().starts_with("unknown field `no_such_key`"),
                "{path:?} takes unknown keys: {error}"
            );
            let siblings: Vec<&Value> = match path.split_last() {
                Some((last, front)) if last.parse::<usize>().is_ok() => {
                    let array = front.iter().fold(root, |value, step| match value {
                        Value::Array(array) => &array[step.parse::<usize>().unwrap()],
                        other => other.get(step).unwrap(),
                    });
                    array.as_array().unwrap().iter().collect()
                }
                _ => vec![at],
            };
            for key in keys {
                if !siblings.iter().any(|table| table.get(key).is_some()) {
                    missing.push(format!("{}.{key}", path.join(".")));
                }
            }
            for (key, value) in table {
                path.push(key.clone());
                probe(root, value, path, missing, probed);
                path.pop();
            }
        }
        Value::Array(array) => {
            for (nth, value) in array.iter().enumerate() {
                path.push(nth.to_string());
                probe(root, value, path, missing, probed);
                path.pop();
            }
        }
        _ => {}
    }
}

#[test]
fn a_misspelt_key_is_pointed_at_with_a_suggestion() {
    let error = error_of("version = 1\n\n[[lisen]]\non = \"udp:127.0.0.1:5060\"\n");
    assert_eq!(
        error,
        "test.toml:3:3: unknown key `lisen`\n3 | [[lisen]]\n  |   ^^^^^\n  did you mean `listen`?"
    );
}

#[test]
fn a_bad_value_is_pointed_at_with_the_remedy() {
    let error = error_of("version = 1\n[[listen]]\non = \"udp:5060\"\n");
    assert!(
        error.starts_with("test.toml:3:6: `udp:5060` is no place to listen at"),
        "{error}"
    );
    assert!(
        error.contains("\n  write TRANSPORT:ADDRESS:PORT"),
        "{error}"
    );

    let error = error_of("version = 1\n[registrar]\ncontacts_max = 0\n");
    assert!(
        error.starts_with("test.toml:3:16: 0 is out of range"),
        "{error}"
    );
    assert!(
        error.contains("\n  write a number from 1 to 1000"),
        "{error}"
    );

    let error = error_of("version = 1\nmode = \"statefull\"\n");
    assert!(
        error.starts_with("test.toml:2:8: unknown value `statefull`"),
        "{error}"
    );
    assert!(error.contains("did you mean `stateful`?"), "{error}");
}

#[test]
fn text_that_is_no_toml_is_pointed_at() {
    let error = error_of("version = 1\ndomains = [\"a\"\n\nmode = 1\n");
    assert!(error.starts_with("test.toml:"), "{error}");
    assert!(parse("version = 1\nversion = 1\n").is_err());
}

#[test]
fn a_file_gives_its_version() {
    assert!(error_of("").contains("begin the file with `version = 1`"));
    assert!(error_of("version = 2\n").starts_with("test.toml:1:11: this version"));
}

#[test]
fn parts_that_do_not_fit_are_all_listed() {
    let error = error_of(
        "version = 1\ndomains = [\"example.com\"]\n\
         [[listen]]\non = \"udp:127.0.0.1:5060\"\nsecurity = { key = \"k.pem\" }\n\
         [[listen]]\non = \"udp:127.0.0.1:5060\"\n\
         [[listen]]\non = \"tls:127.0.0.1:5061\"\nsecurity = { key = \"k.pem\" }\n\
         [[gateway_group]]\nname = \"g\"\nsecurity = { tls = true }\ngateways = [{ uri = \"sip:h;transport=udp\" }]\n\
         [[route]]\nprefix = \"0\"\ngroup = \"h\"\n\
         [[route]]\nprefix = \"0\"\ngroup = \"g\"\n\
         [[route]]\ndomain = \"example.com\"\ngroup = \"g\"\n\
         [[route]]\ngroup = \"g\"\n\
         [registrar]\nexpires_default_s = 30\n",
    );
    for expected in [
        "test.toml:5:12: udp has no certificate",
        "test.toml:7:6: `udp:127.0.0.1:5060` is taken",
        "test.toml:10:12: a certificate needs its key",
        "the group wants TLS",
        "there is no group `h`",
        "a route for the prefix 0 stands above",
        "`example.com` is one of our own domains",
        "a route is for a domain or for a prefix",
        "30 is not from expires_min_s to expires_max_s",
    ] {
        assert!(error.contains(expected), "{expected:?} is not in:\n{error}");
    }
}

#[test]
fn paths_are_taken_from_the_files_folder() {
    let temp = crate::testing::TempDir::new("config-paths");
    let file = temp.path().join("a.toml");
    std::fs::write(
        &file,
        "version = 1\ndata = \"d\"\n[tls]\ntrust = [\"/abs.pem\", \"rel.pem\"]\n",
    )
    .unwrap();
    let config = Config::from_file(&file).unwrap();
    assert_eq!(config.data, temp.path().join("d"));
    assert_eq!(
        config.tls.trust,
        [PathBuf::from("/abs.pem"), temp.path().join("rel.pem")]
    );
    let error = Config::from_file(&temp.path().join("none.toml")).unwrap_err();
    assert!(error.to_string().contains("none.toml"), "{error}");
}

#[test]
fn the_secret_of_session_tickets_has_one_source() {
    for (text, expected) in [
        (
            "ticket_secret_file = \"a\"\n",
            "test.toml:3:22: the secret of session tickets comes from the store",
        ),
        (
            "ticket_keys = \"file\"\nticket_store = \"a\"\n",
            "test.toml:4:16: the secret of session tickets comes from a file",
        ),
        ("ticket_keys = \"redis\"\n", "write one of: store, file"),
        ("ticket_poll_s = 0\n", "write a number from 1 to 3600"),
        (
            "ticket_secret_rotation_s = 3600\nticket_rotation_s = 21601\n",
            "test.toml:4:21: tickets would be good for longer",
        ),
    ] {
        let error = error_of(&format!("version = 1\n[tls]\n{text}"));
        assert!(error.contains(expected), "{expected:?} is not in:\n{error}");
    }
    parse("version = 1\n[tls]\nticket_secret_rotation_s = 3600\nticket_rotation_s = 21600\n")
        .unwrap();
    let both = "ticket_secret_file = \"a\"\nticket_keys = \"file\"\nticket_store = \"\"\n";
    let config = parse(&format!("version = 1\n[tls]\n{both}")).unwrap();
    assert_eq!(config.tls.ticket_secret_file, Some(PathBuf::from("a")));
    assert_eq!(config.tls.ticket_store, None);
}

#[test]
fn who_comes_last_in_the_queue_for_handshakes_has_his_turn_in_time() {
    for (text, expected) in [
        (
            "full_per_s_max = 50\n",
            ["test.toml:3:18: 2048 handshakes", "full_waiting_max = 499"],
        ),
        (
            "full_per_s_max = 50\nfull_waiting_max = 500\n",
            ["test.toml:4:20: 500 handshakes", "write 499 or less"],
        ),
        (
            "full_per_s_max = 1\nhandshake_timeout_ms = 1000\n",
            [
                "test.toml:3:18: 2048 handshakes",
                "a longer handshake_timeout_ms",
            ],
        ),
    ] {
        let error = error_of(&format!("version = 1\n[tls]\n{text}"));
        for expected in expected {
            assert!(error.contains(expected), "{expected:?} is not in:\n{error}");
        }
    }
    for text in [
        "full_per_s_max = 50\nfull_waiting_max = 499\n",
        "full_waiting_max = 500\n",
    ] {
        parse(&format!("version = 1\n[tls]\n{text}")).unwrap();
    }
}

#[test]
fn no_text_makes_the_reader_panic() {
    let text = std::fs::read_to_string(etc().join("trunk.toml")).unwrap();
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        if let Err(error) = parse(&text[..end]) {
            assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn what_a_tls_listener_cannot_do_is_pointed_at() {
    let listener = "version = 1\n[[listen]]\non = \"tls:127.0.0.1:0\"\n[listen.security]\n";
    for (text, expected) in [
        (
            "suites = [\"RC4-MD5\"]\n",
            "test.toml:5:10: there is no cipher suite 'RC4-MD5'",
        ),
        ("groups = [\"P-521\"]\n", "give one of X25519, P-256"),
        ("versions = [\"1.1\"]\n", "give 1.2 or 1.3"),
        ("versions = []\n", "test.toml:5:12: no TLS version is left"),
        ("suites = []\n", "test.toml:5:10: no cipher suite is left"),
        (
            "groups = []\n",
            "test.toml:5:10: no key-exchange group is left",
        ),
        (
            "versions = [\"1.3\"]\nsuites = [\"ECDHE-RSA-AES128-GCM-SHA256\"]\n",
            "test.toml:5:12: no cipher suite fits TLS 1.3",
        ),
        (
            "client_roots = [\"ca.pem\"]\n",
            "test.toml:5:16: clients are not asked",
        ),
        (
            "client_certificates = \"maybe\"\n",
            "write one of: off, optional, required",
        ),
        (
            "clients = [{ network = \"192.0.2.0/24\", certificates = \"off\" }]\ncrls = [\"a\"]\n",
            "test.toml:6:8: clients are not asked",
        ),
        (
            "clients = [{ network = \"trunk\", certificates = \"required\" }]\n",
            "`trunk` is no network",
        ),
        (
            "clients = [{ network = \"192.0.2.1\" }]\n",
            "`certificates` is missing",
        ),
        (
            "client_certificates = \"required\"\nrevocation = \"strict\"\n",
            "test.toml:6:14: without a revocation list",
        ),
        ("certificates = [{ cert = \"c\" }]\n", "`key` is missing"),
    ] {
        let error = error_of(&format!("{listener}{text}"));
        assert!(error.contains(expected), "{expected:?} is not in:\n{error}");
    }
    let both = "certificate = \"a\"\nkey = \"b\"\ncertificates = [{ cert = \"c\", key = \"d\" }]\n";
    let config = parse(&format!("{listener}{both}")).unwrap();
    let pairs: Vec<_> = config.listen[0].security.pairs().collect();
    assert_eq!(pairs.len(), 2);
    assert_eq!(pairs[1].0, ".certificates.0");
}

/// A listener, with these lines in its table and in its security's.
fn legacy_listener(table: &str, security: &str) -> String {
    format!(
        "version = 1\n[[listen]]\non = \"tls:127.0.0.1:5061\"\n{table}\n[listen.security]\n{security}\n"
    )
}

const LEGACY_WAYS: [(&str, &str); 3] = [
    ("engine", "engine = \"legacy\""),
    ("suites", "suites = [\"TLS_RSA_WITH_3DES_EDE_CBC_SHA\"]"),
    ("suites", "suites = [\"AES128-SHA\"]"),
];

#[test]
fn weak_suites_are_refused_on_any_listener_but_one_named_legacy() {
    for (key, line) in LEGACY_WAYS {
        for name in ["", "name = \"phones\""] {
            let error = error_of(&legacy_listener(name, line));
            // Its line in the file, what it is worth, and what to write.
            assert!(error.contains("test.toml:6:"), "{error}");
            assert!(error.contains(&format!("6 | {key} = ")), "{error}");
            assert!(error.contains("Sweet32"), "{error}");
            assert!(error.contains("name = \"legacy\""), "{error}");
        }
    }
}

#[cfg(not(feature = "legacy-tls"))]
#[test]
fn a_build_without_the_legacy_engine_names_the_feature() {
    for (_, line) in LEGACY_WAYS {
        let error = error_of(&legacy_listener("name = \"legacy\"", line));
        assert!(error.contains("feature `legacy-tls`"), "{error}");
        assert!(error.contains("--features legacy-tls"), "{error}");
        assert!(!error.contains("Sweet32"), "{error}");
    }
}

#[test]
fn stores_of_users() {
    let users = "version = 1\n[users]\n";
    for (text, says) in [
        (
            "stores = [\"mysql://signet:secret@db/signet\"]",
            "password in it",
        ),
        (
            "stores = [\"oracle://db/signet\"]",
            "no kind of store called oracle",
        ),
        ("stores = [\"sqlite:\", \"redis://db\"]", "cannot stand in"),
        ("layout = \"query\"", "has no statement"),
    ] {
        let error = error_of(&format!("{users}{text}\n"));
        assert!(error.contains(says), "{error}");
    }
    let config = parse(&format!("{users}stores = [\"sqlite:\"]\n")).unwrap();
    assert_eq!(config.users.remote().count(), 0);
    let config = parse(&format!(
        "{users}stores = [\"redis://db\", \"redis://db2\"]\n"
    ))
    .unwrap();
    assert_eq!(config.users.remote().count(), 2);
}
