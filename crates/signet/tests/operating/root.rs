//! Root gives commands on the data of the user that the server runs as.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use crate::support::command::{fail, succeed, text};
use crate::support::skip;

/// The server's user: one without a name.
const SERVER: u32 = 47_110;

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
        for check in [&["check"][..], &["check", "--start"]] {
            let error = fail(&[check, &[config.as_str()]].concat(), "");
            assert!(error.contains(&told), "{error}");
        }
        machine.give("shared");
        succeed(&["check", &config], "");
        let there = fs::read_dir(machine.at("shared")).unwrap();
        assert_eq!(there.count(), 0, "a check makes nothing");
    }
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
    assert!(told.contains("1 users added"), "{told}");
    let error = fail(&["user", "import", "/nonexistent", "--config", &config], "");
    assert!(error.contains("signet user import - < FILE"), "{error}");
}
