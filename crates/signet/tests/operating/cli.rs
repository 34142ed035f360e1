//! The command line, by the real program: users, certificates, the check of a
//! configuration.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::support::TestDir;
use crate::support::command::{fail, succeed, text};

#[test]
fn users_are_added_listed_changed_and_removed() {
    let folder = TestDir::new("cli-users");
    let data = folder.path().join("data");
    let at = ["--data", text(&data), "--domain", "example.com"];
    let user =
        |arguments: &[&str], input: &str| succeed(&[&["user"], arguments, &at].concat(), input);

    assert!(user(&["add", "alice", "--password-stdin"], "secret\n").contains("alice@example.com"));
    let made = user(&["add", "bob"], "");
    let password = made
        .split("has the password ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    assert_eq!(password.len(), 20, "{made}");
    assert_eq!(user(&["list"], ""), "alice@example.com\nbob@example.com\n");

    let again = fail(
        &[&["user", "add", "alice", "--password-stdin"], &at[..]].concat(),
        "x\n",
    );
    assert!(
        again.contains("there is a user alice@example.com already"),
        "{again}"
    );
    assert!(
        again.contains("signet user passwd alice@example.com"),
        "{again}"
    );
    let nobody = fail(
        &[&["user", "passwd", "carol", "--password-stdin"], &at[..]].concat(),
        "x\n",
    );
    assert!(
        nobody.contains("there is no user carol@example.com"),
        "{nobody}"
    );
    let empty = fail(
        &[&["user", "add", "carol", "--password-stdin"], &at[..]].concat(),
        "\n",
    );
    assert!(empty.contains("the password is empty"), "{empty}");

    let before = user(&["export"], "");
    user(&["passwd", "alice", "--password-stdin"], "other\n");
    assert_ne!(user(&["export"], ""), before);
    user(&["remove", "alice"], "");
    assert_eq!(user(&["list"], ""), "bob@example.com\n");

    // No password is in any file, and no file with a secret is for others.
    let database = data.join("signet.db");
    assert_eq!(database.metadata().unwrap().mode() & 0o077, 0);
    assert_eq!(data.metadata().unwrap().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&data).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(
            !bytes
                .windows(password.len())
                .any(|part| part == password.as_bytes())
        );
    }
}

#[test]
fn users_go_from_one_server_to_another_as_csv() {
    let folder = TestDir::new("cli-csv");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let list = folder.path().join("users.csv");
    fs::write(
        &list,
        "user,realm,password\nalice,example.com,secret\nbob,example.net,\"se,cret\"\n",
    )
    .unwrap();
    let told = succeed(&["user", "import", text(&list), "--data", text(&from)], "");
    assert!(told.contains("2 users added"), "{told}");

    let exported = folder.path().join("exported.csv");
    succeed(
        &["user", "export", text(&exported), "--data", text(&from)],
        "",
    );
    assert_eq!(exported.metadata().unwrap().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&exported).unwrap().contains("secret"));
    succeed(
        &["user", "import", text(&exported), "--data", text(&to)],
        "",
    );
    let all = |data: &Path| succeed(&["user", "export", "--data", text(data)], "");
    assert_eq!(all(&to), all(&from));

    // What is there and no ordinary file may be somebody's who waits for it, or a device.
    let (link, pipe) = (folder.path().join("link.csv"), folder.path().join("pipe"));
    std::os::unix::fs::symlink(folder.path().join("there.csv"), &link).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for place in [link.as_path(), &pipe, folder.path()] {
        let error = fail(&["user", "export", text(place), "--data", text(&from)], "");
        assert!(error.contains("is no ordinary file"), "{error}");
    }
    assert!(link.is_symlink() && !folder.path().join("there.csv").exists());
    assert!(!pipe.metadata().unwrap().is_file());

    // One bad line, and nothing is imported.
    fs::write(
        &list,
        "user,realm,password\ncarol,example.com,secret\nbad:name,example.com,x\n",
    )
    .unwrap();
    let error = fail(&["user", "import", text(&list), "--data", text(&to)], "");
    assert!(error.contains("line 3"), "{error}");
    assert_eq!(all(&to), all(&from));
}

#[test]
fn a_list_is_not_blamed_for_a_database_that_does_not_take_it() {
    let folder = TestDir::new("cli-locked");
    let data = folder.path().join("data");
    let list = folder.path().join("users.csv");
    fs::write(&list, "user,realm,password\nbob,example.com,secret\n").unwrap();
    let at = ["--data", text(&data)];
    let import = [&["user", "import", text(&list)], &at[..]].concat();
    succeed(&[&["user", "add", "alice"], &at[..]].concat(), "");
    let other = rusqlite::Connection::open(data.join("signet.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = fail(&import, "");
    for told in [
        "after 0 of 1 users: database is locked; another process holds it locked",
        "then type the command again",
    ] {
        assert!(error.contains(told), "{error}");
    }
    assert!(!error.contains("mend the list"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(succeed(&import, "").contains("1 user added"));
}

#[test]
fn whoever_a_list_has_brought_is_changed_and_removed_by_his_name() {
    let folder = TestDir::new("cli-names");
    let data = folder.path().join("data");
    let list = folder.path().join("users.csv");
    let names = ["alice", "a b", "müller", "x@other.example"];
    let lines = names.map(|name| format!("{name},example.com,secret\n"));
    fs::write(&list, format!("user,realm,password\n{}", lines.concat())).unwrap();
    let at = ["--data", text(&data), "--domain", "example.com"];
    let user =
        |arguments: &[&str], input: &str| succeed(&[&["user"], arguments, &at].concat(), input);
    user(&["import", text(&list)], "");
    let exported = || user(&["export"], "");
    let before = exported();
    // Another name of alice: she has one password under both.
    let twice = "alice@example.com@example.com";
    let told = user(&["passwd", twice, "--password-stdin"], "other\n");
    assert!(told.starts_with("alice@example.com has"), "{told}");
    assert_eq!(exported().lines().count(), before.lines().count());
    for name in names {
        let whole = format!("{name}@example.com");
        let before = exported();
        user(&["passwd", whole.as_str(), "--password-stdin"], "a third\n");
        assert_ne!(exported(), before, "{name}");
        user(&["remove", whole.as_str()], "");
        let error = fail(&[&["user", "remove", whole.as_str()], &at[..]].concat(), "");
        assert!(error.contains("there is no user"), "{error}");
    }
    assert_eq!(user(&["list"], ""), "");
}

#[test]
fn a_bad_configuration_is_explained() {
    let folder = TestDir::new("cli-check");
    let file = folder.path().join("signet.toml");
    fs::write(
        &file,
        "version = 1\n[[listen]]\non = \"udp:127.0.0.1:5060\"\nadvertize = \"x\"\n",
    )
    .unwrap();
    let error = fail(&["check", text(&file)], "");
    assert!(
        error.contains(&format!("{}:4:1: unknown key `advertize`", file.display())),
        "{error}"
    );
    assert!(error.contains("did you mean `advertise`?"), "{error}");
    // What is no good to check is no good to serve.
    let error = fail(&["serve", "--config", text(&file)], "");
    assert!(error.contains("unknown key `advertize`"), "{error}");

    // What it names is read too.
    let tls = "version = 1\n[[listen]]\non = \"tls:127.0.0.1:5061\"\n\
               security = { certificate = \"none.pem\", key = \"none.key\" }\n";
    fs::write(&file, tls).unwrap();
    let error = fail(&["check", text(&file)], "");
    assert!(
        error.contains("signet.toml:4:28: cannot read") && error.contains("none.pem"),
        "{error}"
    );

    fs::write(&file, "version = 1\n").unwrap();
    assert!(succeed(&["check", text(&file)], "").contains("good"));
    assert!(fail(&["check", "no/such/file.toml"], "").contains("no/such/file.toml"));
}

#[test]
fn who_only_looks_makes_no_folder() {
    let folder = TestDir::new("cli-mistaken");
    let data = folder.path().join("mistaken");
    for command in [
        &["user", "list"][..],
        &["user", "export"],
        &["user", "remove", "alice"],
        &["user", "passwd", "alice", "--generate"],
        &["domain", "list"],
        &["domain", "remove", "example.com"],
        &["bindings"],
    ] {
        let error = fail(&[command, &["--data", text(&data)]].concat(), "");
        assert!(error.contains("there is no server's data in"), "{error}");
        assert!(error.contains("mistaken"), "{error}");
        assert!(!data.exists(), "{command:?} made {}", data.display());
    }
    succeed(&["user", "add", "alice", "--data", text(&data)], "");
    assert!(succeed(&["user", "list", "--data", text(&data)], "").contains("alice"));
}

#[test]
fn an_authority_issues_certificates() {
    let folder = TestDir::new("cli-ca");
    let data = folder.path().join("data");
    let told = succeed(&["ca", "init", "--data", text(&data)], "");
    assert!(told.contains("ca.pem"), "{told}");
    let again = fail(&["ca", "init", "--data", text(&data)], "");
    assert!(again.contains("there is an authority already"), "{again}");
    let stem = folder.path().join("gateway");
    succeed(
        &[
            "ca",
            "issue",
            "gw.example.com",
            "192.0.2.1",
            "--out",
            text(&stem),
            "--data",
            text(&data),
        ],
        "",
    );
    let key = stem.with_extension("key");
    assert_eq!(key.metadata().unwrap().mode() & 0o777, 0o600);
    assert!(
        fs::read_to_string(stem.with_extension("pem"))
            .unwrap()
            .starts_with("-----BEGIN CERTIFICATE-----")
    );
}
