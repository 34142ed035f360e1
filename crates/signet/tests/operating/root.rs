//! Root gives commands on the data of the user that the server runs as.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::command::{fail, succeed, text};
use crate::support::{signet, skip};

/// The server's user: one without a name.
const SERVER: u32 = 47_110;
/// Another, who has no rights to the server's data.
const ANOTHER: u32 = 47_111;

/// A folder of root's with a configuration and a data folder of the server's user. It is not below
/// the target directory, which that user may not be able to pass.
struct Machine {
    folder: PathBuf,
}

impl Machine {
    /// `None` for who is not root.
    fn new(name: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            skip("only root can go on as another user");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("signet-{name}-{}", std::process::id()));
        let machine = Self { folder };
        fs::create_dir_all(machine.at("data")).unwrap();
        machine.mode("data", 0o700);
        machine.give("data");
        Some(machine)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Makes it the server's user's.
    fn give(&self, name: &str) {
        chown(self.at(name), Some(SERVER), Some(SERVER)).unwrap();
    }

    fn secret(&self, name: &str, content: &str) {
        fs::write(self.at(name), content).unwrap();
        self.mode(name, 0o600);
    }

    /// What the program tells another user, to whom it must say no.
    fn tell_another(&self, arguments: &[&str]) -> String {
        let program = self.at("signet");
        if !program.exists() {
            let linked = fs::hard_link(signet(), &program);
            linked
                .or_else(|_| fs::copy(signet(), &program).map(drop))
                .unwrap();
        }
        let output = Command::new(&program)
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .uid(ANOTHER)
            .gid(ANOTHER)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code();
        assert_eq!(code, Some(1), "signet {arguments:?}: {error}");
        error
    }

    fn config(&self, more: &str) -> String {
        let file = self.at("signet.toml");
        let whole = format!("version = 1\ndata = \"data\"\ndomains = [\"example.com\"]\n{more}");
        fs::write(&file, whole).unwrap();
        text(&file).to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_check_by_root_finds_what_the_servers_user_cannot_read() {
    let Some(machine) = Machine::new("root-check") else {
        return;
    };
    let secret = "0123456789abcdef".repeat(4);
    for (name, more) in [
        (
            "ticket.secret",
            "[tls]\nticket_keys = \"file\"\nticket_secret_file = \"ticket.secret\"\n",
        ),
        (
            "db.password",
            "[users]\nstores = [\"mysql://signet@127.0.0.1/sip\"]\npassword_file = \"db.password\"\n",
        ),
        (
            "provider.password",
            "[[gateway_group]]\nname = \"p\"\ngateways = [{ uri = \"sip:192.0.2.9\" }]\n\
             [[trunk]]\ngroup = \"p\"\nuser = \"u\"\nrealm = \"r\"\npassword_file = \"provider.password\"\n",
        ),
        (
            "hook.token",
            "[hook]\nurl = \"http://127.0.0.1:8090/\"\ntoken_file = \"hook.token\"\n",
        ),
    ] {
        machine.secret(name, &secret);
        let config = machine.config(more);
        let error = fail(&["check", &config], "");
        let remedy = format!("type: chown {SERVER} {}", text(&machine.at(name)));
        assert!(
            error.contains("Permission denied") && error.contains(&remedy),
            "{name}: {error}"
        );
        machine.give(name);
        succeed(&["check", &config], "");
    }
    // The configuration itself is read by the server as well.
    let config = machine.config("");
    machine.mode("signet.toml", 0o600);
    let error = fail(&["check", &config], "");
    assert!(error.contains("Permission denied"), "{error}");
    machine.give("signet.toml");
    succeed(&["check", &config], "");
}

#[test]
fn a_database_that_nodes_share_must_be_in_a_folder_of_the_servers_user() {
    let Some(machine) = Machine::new("root-shared") else {
        return;
    };
    fs::create_dir(machine.at("shared")).unwrap();
    let config = machine.config("[tls]\nticket_store = \"shared/tickets.db\"\n");
    let error = fail(&["check", &config], "");
    for told in [
        format!("the server runs as {SERVER}, who cannot write to"),
        "ReadWritePaths=".to_owned(),
    ] {
        assert!(error.contains(&told), "{error}");
    }
    machine.give("shared");
    succeed(&["check", &config], "");
}

#[test]
fn call_records_and_traces_must_be_in_a_folder_of_the_servers_user() {
    let Some(machine) = Machine::new("root-places") else {
        return;
    };
    fs::create_dir(machine.at("shared")).unwrap();
    for more in [
        "[records]\npath = \"shared/calls.jsonl\"\n",
        "[log]\ntrace_pcap = \"shared/trace.pcapng\"\n",
    ] {
        let config = machine.config(more);
        chown(machine.at("shared"), Some(0), Some(0)).unwrap();
        let told = format!("the server runs as {SERVER}, who cannot write to");
        let error = fail(&["check", "--start", &config], "");
        assert!(error.contains(&told), "{error}");
        machine.give("shared");
        succeed(&["check", "--start", &config], "");
        let there = fs::read_dir(machine.at("shared")).unwrap();
        assert_eq!(there.count(), 0, "a check makes nothing");
    }
}

#[test]
fn who_has_no_rights_to_the_data_is_told_so() {
    let Some(machine) = Machine::new("root-rights") else {
        return;
    };
    let config = machine.config("");
    let add = ["user", "add", "alice", "--password-stdin", "--config"];
    succeed(&[&add[..], &[config.as_str()]].concat(), "secret\n");
    for command in [
        &["user", "list"][..],
        &["bindings"],
        &["bindings", "remove", "alice"],
        &["alias", "list"],
        &["domain", "list"],
        &["calls"],
        &["trace", "--seconds", "1"],
        &["price", "live", "--core-hour-eur", "0.05"],
        &["tls", "rotate-secret"],
    ] {
        let error = machine.tell_another(&[command, &["--data", "data"]].concat());
        let remedy = "give the command as the user that the server runs as, or as root";
        assert!(
            error.contains("Permission denied") && error.contains(remedy),
            "{command:?}: {error}"
        );
        for wrong in ["there is no server's data", "did not answer", "--data DIR"] {
            assert!(!error.contains(wrong), "{command:?}: {error}");
        }
    }
    // Where there is none it is said as ever.
    let error = machine.tell_another(&["user", "list", "--data", "none"]);
    assert!(
        error.contains("there is no server's data in none"),
        "{error}"
    );
}

#[test]
fn a_place_where_the_servers_user_may_not_write_is_told_by_its_name() {
    let Some(machine) = Machine::new("root-out") else {
        return;
    };
    let config = machine.config("");
    let add = ["user", "add", "alice", "--password-stdin", "--config"];
    succeed(&[&add[..], &[config.as_str()]].concat(), "secret\n");
    fs::create_dir(machine.at("out")).unwrap();
    let at = ["--config", config.as_str()];
    let (stem, list) = (machine.at("out/xx"), machine.at("out/e.csv"));
    let commands = [
        (
            ["ca", "issue", "x.example", "--out", text(&stem)].to_vec(),
            text(&stem),
        ),
        (["user", "export", text(&list)].to_vec(), text(&list)),
    ];
    for (command, place) in &commands {
        let error = fail(&[&command[..], &at].concat(), "");
        for told in [
            format!("cannot write {place}: Permission denied\n"),
            format!("goes on as the user {SERVER}: name a place where that user may write"),
        ] {
            assert!(error.contains(&told), "{told}: {error}");
        }
    }
    machine.give("out");
    for (command, _) in &commands {
        succeed(&[&command[..], &at].concat(), "");
    }
    assert!(list.exists() && machine.at("out/xx.pem").exists());
}

#[test]
fn a_list_of_users_may_be_roots_alone() {
    let Some(machine) = Machine::new("root-import") else {
        return;
    };
    machine.secret("users.csv", "user,password\nalice,alice-secret\n");
    let config = machine.config("");
    let list = machine.at("users.csv");
    let told = succeed(&["user", "import", text(&list), "--config", &config], "");
    assert!(told.contains("1 user added, 0 changed"), "{told}");
    let error = fail(&["user", "import", "/nonexistent", "--config", &config], "");
    assert!(error.contains("signet user import - < FILE"), "{error}");
}

#[test]
fn root_rotates_a_secret_in_the_database_of_an_older_server() {
    let Some(machine) = Machine::new("root-rotate") else {
        return;
    };
    let data = machine.at("data");
    succeed(&["user", "add", "alice", "--data", text(&data)], "");
    let database = rusqlite::Connection::open(data.join("signet.db")).unwrap();
    let before = "DROP TABLE aliases; DROP TABLE people; PRAGMA user_version = 3";
    database.execute_batch(before).unwrap();
    drop(database);
    let told = succeed(&["tls", "rotate-secret", "--data", text(&data)], "");
    assert!(told.starts_with("secret "), "{told}");
    for entry in fs::read_dir(&data).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().uid(), SERVER, "{entry:?}");
    }
}
