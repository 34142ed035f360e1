//! README and OPERATING word for word: each line of a block is typed, or has a reason here why
//! it is not; each configuration is checked.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "documents/lines.rs"]
mod lines;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use lines::{BLOCKS, Block, Do};
use support::command::text;
use support::{Running, TestDir, have, in_namespace, signet};

const PATIENCE: Duration = Duration::from_secs(60);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of each fenced block of a document.
fn blocks(document: &str) -> Vec<Vec<String>> {
    let whole = fs::read_to_string(repository().join(document)).unwrap();
    let (mut found, mut open) = (Vec::new(), None);
    for line in whole.lines() {
        if line.starts_with("```") {
            match open.take() {
                Some(block) => found.push(block),
                None => open = Some(Vec::new()),
            }
        } else if let Some(block) = &mut open {
            block.push(line.to_owned());
        }
    }
    assert!(open.is_none(), "{document}: a block has no end");
    found
}

/// What of a block is typed, and what is a configuration: all from the first table on.
fn parts(block: &[String]) -> (Vec<&str>, String) {
    let table = block.iter().position(|line| line.starts_with('['));
    let (typed, configured) = block.split_at(table.unwrap_or(block.len()));
    let typed = typed.iter().map(|line| line.as_str());
    let typed = typed.filter(|line| !line.is_empty()).collect();
    (typed, configured.join("\n"))
}

#[test]
fn every_line_of_a_block_is_typed_or_has_a_reason_why_not() {
    let mut expected = Vec::new();
    for document in ["README.md", "docs/OPERATING.md"] {
        for block in blocks(document) {
            let (typed, configured) = parts(&block);
            let lines = typed.into_iter().map(str::to_owned).collect::<Vec<_>>();
            expected.push((document, lines, !configured.is_empty()));
        }
    }
    assert!(expected.len() > 30, "only {} blocks", expected.len());
    for (nth, (document, lines, is_configured)) in expected.iter().enumerate() {
        let known = BLOCKS.get(nth);
        let known = known.unwrap_or_else(|| panic!("{document}: {lines:?} is in no list"));
        let listed: Vec<&str> = known.lines.iter().map(|(line, _)| *line).collect();
        assert_eq!((known.document, &listed[..]), (*document, &strs(lines)[..]));
        assert_eq!(known.configuration.is_some(), *is_configured, "{lines:?}");
    }
    assert_eq!(BLOCKS.len(), expected.len(), "a block is listed and gone");
}

fn strs(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

/// Where the lines are typed: a folder with the program on the path.
struct Desk<'a> {
    folder: &'a Path,
    /// The server that runs, and in which place.
    server: Option<(&'static str, Running)>,
}

impl Desk<'_> {
    /// The folder of a place, with what a user would have there.
    fn place(&self, name: &str) -> PathBuf {
        let place = self.folder.join(name);
        if place.exists() {
            return place;
        }
        for folder in ["target/release", "bin", "etc/tls"] {
            fs::create_dir_all(place.join(folder)).unwrap();
        }
        for link in ["target/release/signet", "bin/signet"] {
            symlink(signet(), place.join(link)).unwrap();
        }
        let example = "etc/signet.toml";
        fs::copy(repository().join(example), place.join(example)).unwrap();
        fs::write(place.join("file"), "bob-secret\n").unwrap();
        fs::write(place.join("users.csv"), "user,password\ndave,dave-secret\n").unwrap();
        place
    }

    /// A line as it is typed there: /etc/signet and /var/lib are in the place's folder, which
    /// is the test's own, so nobody has to be another user.
    fn here(place: &Path, line: &str) -> String {
        let etc = place.join("etc");
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        line.replace("-o signet -g signet ", "")
            .replace("/etc/signet", text(&etc))
            .replace("/var/lib", text(place))
    }

    fn shell(place: &Path, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .args(["-c", &Self::here(place, line)])
            .current_dir(place)
            .env("PATH", format!("{}:{path}", text(&place.join("bin"))))
            .stdin(Stdio::null());
        command
    }

    fn serve(&mut self, place: &'static str, line: &str, says: &[&str]) {
        self.server = None;
        let folder = self.place(place);
        let log = folder.join("serve.log");
        let arguments = Self::here(&folder, &format!("cd {} && exec {line}", text(&folder)));
        let arguments = format!("PATH={}:$PATH; {arguments}", text(&folder.join("bin")));
        self.server = Some((place, Running::start("bash", &["-c", &arguments], &log)));
        let until = Instant::now() + PATIENCE;
        loop {
            let told = fs::read_to_string(&log).unwrap();
            if told.contains("Ctrl-C ends the server") {
                for says in says {
                    assert!(told.contains(says), "{line} does not say {says:?}:\n{told}");
                }
                return;
            }
            assert!(Instant::now() < until, "{line} does not serve:\n{told}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn line(&mut self, block: &Block, line: &str, what: &Do) {
        let place = self.place(block.place);
        match what {
            Do::Skip(why) => assert!(why.len() > 10, "{line}: a reason"),
            Do::Serve(says) => self.serve(block.place, line, says),
            Do::Run(says) => run(&place, line, says),
            Do::Beside(says) => {
                if self
                    .server
                    .as_ref()
                    .is_none_or(|(at, _)| *at != block.place)
                {
                    self.serve(block.place, "signet serve", &[]);
                }
                run(&place, line, says);
            }
            Do::UntilInterrupted(says) => {
                let log = place.join("until.log");
                let words = Self::here(&place, line);
                let words = words.split('#').next().unwrap();
                let words: Vec<&str> = words.split_whitespace().skip(1).collect();
                let words: Vec<String> = words
                    .iter()
                    .map(|word| match word.ends_with(".pcapng") {
                        true => text(&place.join(word)).to_owned(),
                        false => (*word).to_owned(),
                    })
                    .collect();
                let data = place.join("signet-data");
                let mut all = words.iter().map(String::as_str).collect::<Vec<_>>();
                all.extend(["--data", text(&data)]);
                let mut running = Running::start(signet(), &all, &log);
                let until = Instant::now() + PATIENCE;
                let told = || fs::read_to_string(&log).unwrap();
                while !says.iter().all(|says| told().contains(says)) {
                    assert!(Instant::now() < until, "{line}: {}", told());
                    std::thread::sleep(Duration::from_millis(20));
                }
                running.signal("-INT");
                assert!(running.wait(PATIENCE).is_some(), "{line} ends");
            }
        }
    }
}

fn told(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Types a line, which must succeed and say so.
fn run(place: &Path, line: &str, says: &[&str]) {
    let output = Desk::shell(place, line).output().unwrap();
    let told = told(&output);
    assert!(output.status.success(), "{line}:\n{told}");
    for says in says {
        assert!(told.contains(says), "{line} does not say {says:?}:\n{told}");
    }
}

#[test]
fn what_the_documents_say_is_typed_and_does_what_they_say() {
    if !have("curl") || !have("openssl") {
        return;
    }
    in_namespace(
        "what_the_documents_say_is_typed_and_does_what_they_say",
        || {
            let folder = TestDir::new("documents");
            let mut desk = Desk {
                folder: folder.path(),
                server: None,
            };
            for block in BLOCKS {
                for (line, what) in block.lines {
                    desk.line(block, line, what);
                }
            }
            for (path, mode) in lines::MADE {
                let made = folder.path().join(path);
                let about = fs::metadata(&made).unwrap_or_else(|error| panic!("{path}: {error}"));
                assert_eq!(about.permissions().mode() & 0o777, *mode, "{path}");
            }
        },
    );
}

#[test]
fn every_configuration_of_the_documents_is_good() {
    let folder = TestDir::new("documents-toml");
    let desk = Desk {
        folder: folder.path(),
        server: None,
    };
    let place = desk.place("toml");
    let pairs: BTreeMap<&str, &str> = lines::PAIRS.iter().copied().collect();
    for (pair, arguments) in pairs {
        run(
            &place,
            &format!("signet ca issue {arguments} --out {pair}"),
            &[],
        );
    }
    let shared = place.join("signet-shared");
    fs::create_dir_all(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
    let tls = place.join("etc/tls");
    fs::copy(place.join("ecdsa.pem"), tls.join("chain.pem")).unwrap();
    fs::copy(place.join("ecdsa.key"), tls.join("key.pem")).unwrap();
    for authority in ["phones-ca.pem", "provider-ca.pem"] {
        fs::copy(place.join("signet-data/ca.pem"), place.join(authority)).unwrap();
    }
    for (name, secret) in [
        ("db.password", "x\n"),
        ("provider.password", "x\n"),
        (
            "etc/ticket.secret",
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
        ),
    ] {
        let path = place.join(name);
        fs::write(&path, secret).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let all: Vec<_> = ["README.md", "docs/OPERATING.md"]
        .iter()
        .flat_map(|document| blocks(document))
        .collect();
    let mut checked = 0;
    for (block, known) in all.iter().zip(BLOCKS) {
        let (_, configured) = parts(block);
        let Some(leave_out) = known.configuration else {
            continue;
        };
        if leave_out.starts_with("not here: ") {
            continue;
        }
        let lines = configured.lines();
        let lines = lines.filter(|line| leave_out.is_empty() || !line.starts_with(leave_out));
        let whole = format!(
            "version = 1\ndata = \"data\"\ndomains = [\"example.com\"]\n{}\n",
            lines.collect::<Vec<_>>().join("\n")
        );
        fs::write(place.join("block.toml"), Desk::here(&place, &whole)).unwrap();
        run(&place, "signet check block.toml", &["block.toml: good"]);
        checked += 1;
    }
    assert!(checked >= 7, "only {checked}");
}
