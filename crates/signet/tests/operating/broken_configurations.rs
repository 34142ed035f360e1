//! Configurations that are broken: each is told with the place, the cause and the remedy.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::command::{Serving, fail, run, succeed, text};
use crate::support::openssl::write_pair;
use crate::support::{TestDir, have};
use sip_tls::testing::TestCa;

/// What stands in front of each.
const GOOD: &str = "version = 1\ndata = \"data\"\ndomains = [\"example.com\"]\n";

/// What is wrong, what is written, and the words that tell place, cause and remedy.
type Broken = (&'static str, &'static str, &'static [&'static str]);

const BROKEN: [Broken; 20] = [
    (
        "a misspelt key",
        "[registrar]\nexpires_mni_s = 60\n",
        &[
            ":5:1: unknown key `expires_mni_s`",
            "did you mean `expires_min_s`?",
        ],
    ),
    (
        "a misspelt section",
        "[registar]\nexpires_min_s = 60\n",
        &[":4:2: unknown key `registar`", "did you mean `registrar`?"],
    ),
    (
        "a listener twice",
        "[[listen]]\non = \"udp:127.0.0.1:5060\"\n[[listen]]\non = \"udp:127.0.0.1:5060\"\n",
        &[
            ":7:6: ",
            "is taken by a listener above",
            "write another port",
        ],
    ),
    (
        "figures at the port of a listener",
        "[[listen]]\non = \"tcp:0.0.0.0:5060\"\n[metrics]\nlisten = \"127.0.0.1:5060\"\n",
        &[
            ":7:10: the port of `127.0.0.1:5060` is taken by the listener `tcp:0.0.0.0:5060`",
            "write another port",
        ],
    ),
    (
        "an algorithm",
        "[authentication]\nalgorithms = [\"SHA-257\"]\n",
        &[":5:", "SHA-257", "SHA-256"],
    ),
    (
        "a group that is not there",
        "[[route]]\nprefix = \"+\"\ngroup = \"g\"\n",
        &[
            ":6:9: there is no group `g`",
            "add a [[gateway_group]] with that name",
        ],
    ),
    (
        "a text for a number",
        "[registrar]\ncontacts_max = \"8\"\n",
        &[
            ":5:16: the text \"8\" stands where a whole number belongs",
            "without quotes",
        ],
    ),
    (
        "a text for yes or no",
        "[log]\ntrace_sip = \"yes\"\n",
        &[
            ":5:13: the text \"yes\" stands where a yes or no belongs",
            "write true or false",
        ],
    ),
    (
        "a text for a list",
        "[dns]\nservers = \"192.0.2.53\"\n",
        &[
            ":5:11: the text \"192.0.2.53\" stands where a list belongs",
            "in brackets",
        ],
    ),
    (
        "a server without a port",
        "[dns]\nservers = [\"192.0.2.53\"]\n",
        &[
            ":5:12: this is no address with a port",
            "write ADDRESS:PORT",
        ],
    ),
    (
        "a port alone",
        "[metrics]\nlisten = \"9060\"\n",
        &[
            ":5:10: this is no address with a port",
            "\"127.0.0.1:9060\"",
        ],
    ),
    (
        "a number out of range",
        "[registrar]\ncontacts_max = 0\n",
        &[":5:16: 0 is out of range", "write a number from 1 to 1000"],
    ),
    (
        "a maximum below the default",
        "[registrar]\nexpires_max_s = 1800\n",
        &[
            ":5:17: 1800 is below expires_default_s, which is 3600",
            "write a number from 3600 on",
        ],
    ),
    (
        "a minimum above the default",
        "[registrar]\nexpires_min_s = 900\nexpires_default_s = 600\n",
        &[
            ":6:21: 600 is not from expires_min_s to expires_max_s",
            "write a number from 900 to 86400",
        ],
    ),
    (
        "certificate and key swapped",
        "[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = { certificate = \"good.key\", key = \"good.pem\" }\n",
        &[":6:", "good.key holds the key and", "the other way round"],
    ),
    (
        "a certificate that is missing",
        "[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = { certificate = \"none.pem\", key = \"good.key\" }\n",
        &[
            ":6:28: cannot read",
            "none.pem",
            "look whether the path is right",
        ],
    ),
    (
        "a key that is missing",
        "[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = { certificate = \"good.pem\", key = \"none.key\" }\n",
        &[
            ":6:46: cannot read",
            "none.key",
            "look whether the path is right",
        ],
    ),
    (
        "a folder for a certificate",
        "[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = { certificate = \"folder\", key = \"good.key\" }\n",
        &[":6:28: cannot read", "folder", "name the file in it"],
    ),
    (
        "the key of another certificate",
        "[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = { certificate = \"good.pem\", key = \"other.key\" }\n",
        &[
            ":6:28: ",
            "the key does not belong to the first certificate",
            "its key",
        ],
    ),
    (
        "a certificate that has expired",
        "[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = { certificate = \"old.pem\", key = \"old.key\" }\n",
        &[
            ":6:28: ",
            "it expired on 2002-01-01",
            "name one whose time is now",
        ],
    ),
];

/// Writes a configuration and the files that it may name.
fn write(folder: &Path, text: &str) -> std::path::PathBuf {
    let ca = TestCa::new();
    write_pair(folder, "good", &ca.issue(&["example.com"]));
    write_pair(folder, "other", &ca.issue(&["other.example"]));
    write_pair(
        folder,
        "old",
        &ca.issue_between(&["example.com"], 2001, 2002),
    );
    fs::create_dir_all(folder.join("folder")).unwrap();
    let file = folder.join("signet.toml");
    fs::write(&file, text).unwrap();
    file
}

/// What `signet check` says of a configuration that it refuses.
fn told(folder: &Path, more: &str) -> String {
    let file = write(folder, &format!("{GOOD}{more}"));
    fail(&["check", text(&file)], "")
}

#[test]
fn each_mistake_is_told_with_place_cause_and_remedy() {
    let folder = TestDir::new("broken");
    for (what, more, expected) in BROKEN {
        let error = told(folder.path(), more);
        for words in expected {
            assert!(
                error.contains(words),
                "{what}: {words:?} is not in:\n{error}"
            );
        }
        assert!(error.contains("signet.toml"), "{what}: the file: {error}");
        for jargon in ["KeyMismatch", "i64", "u16", "CertVersion", "--data"] {
            assert!(!error.contains(jargon), "{what}: {error}");
        }
    }
}

#[test]
fn all_mistakes_of_a_file_are_told_at_once() {
    let folder = TestDir::new("broken-all");
    let error = told(
        folder.path(),
        "[registrar]\ncontacts_max = \"8\"\nexpires_mni_s = 5\n[log]\nlevel = \"loud\"\n",
    );
    for place in [":5:16: ", ":6:1: ", ":8:9: "] {
        assert!(error.contains(place), "{place}: {error}");
    }
    let error = told(
        folder.path(),
        "[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = { certificate = \"none.pem\", key = \"good.key\" }\n\
         [[route]]\nprefix = \"+\"\ngroup = \"g\"\n",
    );
    for cause in ["none.pem", "there is no group `g`"] {
        assert!(error.contains(cause), "{cause}: {error}");
    }
}

#[test]
fn a_certificate_that_has_expired_keeps_nothing_from_a_start() {
    let folder = TestDir::new("broken-expired");
    let listen = "[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = { certificate = \"old.pem\", key = \"old.key\" }\n";
    let shared = "[tls]\nticket_store = \"none/tickets.db\"\n";
    let file = write(folder.path(), &format!("{GOOD}{listen}{shared}"));
    let told = succeed(&["check", "--start", text(&file)], "");
    for warning in [
        "warning: listen.0.security.certificate: ",
        "it expired on 2002-01-01",
        "warning: tls.ticket_store: there is no folder",
    ] {
        assert!(told.contains(warning), "{warning}: {told}");
    }
    assert!(told.ends_with("signet.toml: good\n"), "{told}");
    // What keeps a server from its start is told as ever.
    let misfit = listen.replace("old.key", "other.key");
    let file = write(folder.path(), &format!("{GOOD}{misfit}"));
    let error = fail(&["check", "--start", text(&file)], "");
    assert!(error.contains("the key does not belong"), "{error}");
}

#[test]
fn a_place_that_a_start_cannot_write_to_is_told_before_it() {
    let folder = TestDir::new("broken-places");
    fs::write(folder.path().join("plain"), "").unwrap();
    let good = GOOD.replace("\"data\"", "\"made/data\"");
    let listen = "[[listen]]\non = \"udp:127.0.0.1:0\"\n";
    let plain = GOOD.replace("\"data\"", "\"plain\"");
    for (whole, expected) in [
        (
            format!("{good}[records]\npath = \"none/calls.jsonl\"\n{listen}"),
            ":5:8: there is no folder for ",
        ),
        (
            format!("{good}[log]\ntrace_sip = true\ntrace_pcap = \"none/x\"\n{listen}"),
            ":6:14: there is no folder for ",
        ),
        (format!("{plain}{listen}"), "is a file, not a folder"),
    ] {
        let file = write(folder.path(), &whole);
        let error = fail(&["check", "--start", text(&file)], "");
        assert!(error.contains(expected), "{expected}: {error}");
        // It may be for another machine.
        succeed(&["check", text(&file)], "");
        fail(&["serve", "--config", text(&file)], "");
        // What serve made until it failed.
        let _ = fs::remove_dir_all(folder.path().join("made"));
    }
    // The data folder is made by a start, with what is in it; a check makes nothing.
    let in_data = "[records]\npath = \"made/data/calls.jsonl\"\n\
                   [log]\ntrace_pcap = \"made/data/trace.pcapng\"\n";
    let file = write(folder.path(), &format!("{good}{in_data}"));
    succeed(&["check", "--start", text(&file)], "");
    assert!(!folder.path().join("made").exists());
}

#[test]
fn an_upgrade_is_not_held_back_by_an_environment_that_is_the_servers_alone() {
    let folder = TestDir::new("broken-environment");
    let store = "[users]\nstores = [\"ldap://cn=signet,dc=example@127.0.0.1/dc=example\"]\npassword_env = \"SIGNET_NOBODY_HAS_THIS\"\n";
    let file = write(folder.path(), &format!("{GOOD}{store}"));
    let error = fail(&["check", text(&file)], "");
    assert!(error.contains("SIGNET_NOBODY_HAS_THIS"), "{error}");
    let told = succeed(&["check", "--start", text(&file)], "");
    assert!(
        told.contains("warning: there is no variable SIGNET_NOBODY_HAS_THIS"),
        "{told}"
    );
}

#[test]
fn what_the_store_of_users_cannot_do_is_told_before_a_start() {
    let folder = TestDir::new("broken-store");
    let secret = folder.path().join("radius.secret");
    fs::write(&secret, "0123456789abcdef\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let store = "[users]\nstores = [\"radius://127.0.0.1:1\"]\npassword_file = \"radius.secret\"\n";
    for (more, expected) in [
        (
            "[[listen]]\non = \"tls:127.0.0.1:0\"\n[listen.security]\n\
             client_certificates = \"optional\"\nclient_certificates_authenticate = true\n",
            "the store of users does not tell whether a user still exists",
        ),
        (
            "[[listen]]\non = \"udp:127.0.0.1:0\"\n\
             [authentication]\nrequired = false\nalgorithms = [\"SHA-256\"]\n",
            "the store holds digests for MD5 alone",
        ),
    ] {
        let file = write(folder.path(), &format!("{GOOD}{store}{more}"));
        for command in [
            &["serve", "--config"][..],
            &["check"],
            &["check", "--start"],
        ] {
            let error = fail(&[command, &[text(&file)]].concat(), "");
            assert!(error.contains(expected), "{command:?}: {error}");
        }
    }
}

#[test]
fn a_password_that_stands_there_by_mistake_is_not_told() {
    let folder = TestDir::new("broken-secret");
    for more in [
        "[users]\nstores = [\"mysql://u:S3cretPw@db.example.com/kamailio\"]\n",
        "[users]\nstores = \"mysql://u:S3cretPw@db.example.com/kamailio\"\n",
        "[users]\nstores = [mysql://u:S3cretPw@db.example.com/kamailio]\n",
        "[[records.table]]\nurl = \"postgresql://u:S3cretPw@db.example.com/sip\"\n",
        "[hook]\nurl = \"https://u:S3cretPw@hook.example.com/\"\n",
        "[[gateway_group]]\nname = \"p\"\ngateways = [{ uri = \"sip:192.0.2.9\" }]\n\
         [[trunk]]\ngroup = \"p\"\npassword = \"S3cretPw\"\n",
        "[users]\npasword = \"S3cretPw\"\n",
        "[users]\npassword = S3cretPw\n",
        "[hook]\nx_key = \"S3cretPw\"\n",
    ] {
        let error = told(folder.path(), more);
        assert!(
            error.contains("********") && !error.contains("S3cret"),
            "{more}: {error}"
        );
        assert!(error.contains("signet.toml:"), "{more}: {error}");
    }
}

#[test]
fn a_password_that_is_not_there_is_told_with_whose_it_is() {
    let folder = TestDir::new("broken-whose");
    let table = "[[records.table]]\nurl = \"mysql://signet@db.example.com/sip\"\nname = \"calls\"\n\
                 password_file = \"none.password\"\n";
    let error = told(folder.path(), table);
    let whose = "cannot read the password of the call records' table calls from ";
    assert!(error.contains(whose), "{error}");
    let store = "[users]\nstores = [\"mysql://signet@db.example.com/sip\"]\n\
                 password_file = \"none.password\"\n";
    let error = told(folder.path(), store);
    let whose = "cannot read the password of the stores of users from ";
    assert!(error.contains(whose), "{error}");
}

#[test]
fn what_is_no_configuration_at_all_is_told() {
    let folder = TestDir::new("broken-file");
    let error = fail(&["check", text(folder.path())], "");
    assert!(
        error.contains("it is a folder") && error.contains("name the file in it"),
        "{error}"
    );
    let binary = folder.path().join("binary");
    fs::write(&binary, [0x7f, b'E', b'L', b'F', 0xff, 0xfe]).unwrap();
    let error = fail(&["check", text(&binary)], "");
    assert!(
        error.contains("it is no text") && error.contains("TOML"),
        "{error}"
    );
    let none = folder.path().join("none.toml");
    let error = fail(&["check", text(&none)], "");
    assert!(
        error.contains("there is no such file") && error.contains("name a file that is there"),
        "{error}"
    );
    assert!(!error.contains("--config"), "{error}");
    let error = fail(&["serve", "--config", text(&none)], "");
    assert!(error.contains("or start without --config"), "{error}");
    let file = write(folder.path(), "domains = []\n");
    let error = fail(&["check", text(&file)], "");
    assert!(
        error.contains("begin the file with `version = 1`"),
        "{error}"
    );
    let file = write(folder.path(), "version = 7\n");
    let error = fail(&["check", text(&file)], "");
    assert!(
        error.contains(":1:11: this version") && error.contains("write `version = 1`"),
        "{error}"
    );
}

#[test]
fn a_certificate_for_another_domain_is_warned_of() {
    let folder = TestDir::new("broken-domain");
    let listen = |pair: &str| {
        format!(
            "{GOOD}[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = {{ certificate = \"{pair}.pem\", key = \"{pair}.key\" }}\n"
        )
    };
    let file = write(folder.path(), &listen("other"));
    let told = succeed(&["check", text(&file)], "");
    assert!(
        told.contains("warning: listen.0.security: its certificates are for other.example, and none for example.com"),
        "{told}"
    );
    let file = write(folder.path(), &listen("good"));
    assert!(!succeed(&["check", text(&file)], "").contains("its certificates are for"));
    // Phones that are given the data folder's authority would refuse that certificate.
    let data = folder.path().join("data");
    let server = Serving::start(folder.path(), &data, &["--config", text(&file)]);
    server.wait_for_log("Ctrl-C ends the server");
    let told = fs::read_to_string(&server.log).unwrap();
    assert!(
        told.contains(" over TLS") && !told.contains("ca.pem"),
        "{told}"
    );
}

#[test]
fn a_certificate_of_version_1_is_told_of_in_words() {
    if !have("openssl") {
        return;
    }
    let folder = TestDir::new("broken-v1");
    let at = |name: &str| folder.path().join(name);
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
    };
    let (key, request, first) = (at("v1.key"), at("v1.csr"), at("v1.pem"));
    openssl(&[
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=example.com",
        "-keyout",
        text(&key),
        "-out",
        text(&request),
    ]);
    openssl(&[
        "x509",
        "-req",
        "-in",
        text(&request),
        "-signkey",
        text(&key),
        "-days",
        "30",
        "-out",
        text(&first),
    ]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let error = told(
        folder.path(),
        "[[listen]]\non = \"tls:127.0.0.1:0\"\nsecurity = { certificate = \"v1.pem\", key = \"v1.key\" }\n",
    );
    assert!(
        error.contains("X.509 version 1") && error.contains("issue one"),
        "{error}"
    );
    assert!(!error.contains("UnsupportedCertVersion"), "{error}");
}

#[test]
fn what_is_wrong_at_a_start_names_what_may_be_changed() {
    let folder = TestDir::new("broken-start");
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let more = format!("[[listen]]\non = \"udp:127.0.0.1:{port}\"\n");
    let file = write(folder.path(), &format!("{GOOD}{more}"));
    let error = fail(&["serve", "--config", text(&file)], "");
    assert!(error.contains("another program has that port"), "{error}");
    assert!(
        error.contains("on = \"udp:127.0.0.1:") && !error.contains("--listen"),
        "{error}"
    );
    let file = write(folder.path(), "version = 1\ndata = \"signet.toml/data\"\n");
    let error = fail(&["serve", "--config", text(&file)], "");
    assert!(error.contains("signet.toml/data"), "{error}");

    let file = write(
        folder.path(),
        &format!("{GOOD}[[listen]]\non = \"udp:127.0.0.1:0\"\n"),
    );
    let data = folder.path().join("data");
    let server = Serving::start(folder.path(), &data, &["--config", text(&file)]);
    server.wait_for_log("there are no users in");
    server.wait_for_log(&format!("signet user add NAME --config {}", text(&file)));
    // The address for figures is taken as well, as it is where the file names it.
    let figures = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = figures.local_addr().unwrap().to_string();
    let again = ["serve", "--config", text(&file), "--metrics", at.as_str()];
    for arguments in [&again[..3], &again[..]] {
        let second = fail(arguments, "");
        assert!(second.contains("a server runs already"), "{second}");
    }
    drop(server);
    let error = fail(&again, "");
    let port = at.rsplit(':').next().unwrap();
    let shows = format!("ss -ltnp 'sport = :{port}'");
    assert!(error.contains(&shows), "{error}");
    let nobody = run(&["bindings", "nobody", "--data", text(&data)], "");
    let said = String::from_utf8_lossy(&nobody.stdout);
    assert!(said.contains("nobody has no contacts"), "{said}");
}
