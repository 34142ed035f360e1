//! Which of other people's SIPp scenarios SIPp takes, and which we take: read only, in
//! a folder that stays outside of the repository.
//!
//! In the folder are folders named `OWNER+NAME@COMMIT`, each with files of that
//! repository under their own paths. Both programs get the same options: an injection
//! file with thirty fields and an index under each name that the scenario wants, each
//! keyword that SIPp does not know as a `-key`, other instances where there are commands
//! to them. SIPp is given a local address that no machine has, so that it stops when it
//! has read the scenario; ours has `-check`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

/// An address of RFC 5737, on which nobody listens.
const NOWHERE: &str = "203.0.113.1";
/// What SIPp says when it gets that far.
const READ: &str = "Unable to bind main socket";
/// How long a program may read.
const DEADLINE: Duration = Duration::from_secs(20);
/// How often SIPp may ask for one more option.
const TRIES: usize = 40;
/// Where the list goes.
const LIST: &str = "conformance/sipp/scenarios.csv";

/// A scenario and what became of it.
struct Verdict {
    repository: String,
    commit: String,
    path: String,
    sha256: String,
    /// `media`, `commands`, both or nothing.
    kind: String,
    sipp: String,
    ours: String,
    reason: String,
}

/// Writes the list anew from a folder, and prints what it comes to.
pub(crate) fn report(root: &Path, folder: &Path, ours: &Path) -> Result<bool, String> {
    // The programs run elsewhere.
    let whole =
        |path: &Path| fs::canonicalize(path).map_err(|e| format!("{}: {e}", path.display()));
    let (folder, ours) = (&*whole(folder)?, &*whole(ours)?);
    let mut files = Vec::new();
    find(folder, &mut files)?;
    files.sort();
    let work = std::env::temp_dir().join(format!("signet-scenarios-{}", std::process::id()));
    fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    let mut seen = BTreeSet::new();
    let mut verdicts = Vec::new();
    for file in &files {
        let bytes = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let sha256: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if text.contains("<scenario") && seen.insert(sha256.clone()) {
            verdicts.push(judge(folder, file, &text, sha256, &work, ours)?);
        }
    }
    let _ = fs::remove_dir_all(&work);
    if verdicts.is_empty() {
        return Err(format!("{}: no scenario was found", folder.display()));
    }
    let list = root.join(LIST);
    fs::write(&list, csv(&verdicts)).map_err(|e| format!("{}: {e}", list.display()))?;
    std::io::Write::write_all(&mut std::io::stdout().lock(), summary(&verdicts).as_bytes())
        .map_err(|e| e.to_string())?;
    Ok(true)
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let told = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "xml") {
            files.push(path);
        }
    }
    Ok(())
}

fn judge(
    folder: &Path,
    file: &Path,
    text: &str,
    sha256: String,
    work: &Path,
    ours: &Path,
) -> Result<Verdict, String> {
    let (repository, commit, path) = name(folder, file)?;
    let has_commands = text.contains("<sendCmd") || text.contains("<recvCmd");
    let has_media = ["play_pcap", "play_dtmf", "rtp_stream", "rtp_echo"]
        .iter()
        .any(|word| text.contains(word));
    let kinds = [(has_media, "media"), (has_commands, "commands")];
    let kind: Vec<&str> = kinds.iter().filter(|k| k.0).map(|k| k.1).collect();
    let mut options = Options::new(text, has_commands, work)?;
    let sipp = sipp(file, &mut options)?;
    let mut command = Command::new(ours);
    command.args(["-check", "-no_media", "-sf"]).arg(file);
    let (code, said) = run(options.give(&mut command), file)?;
    let verdict = |takes: bool| if takes { "takes" } else { "refuses" }.to_owned();
    let reason = if code == Some(0) {
        sipp.clone().err().map(|why| format!("sipp: {why}"))
    } else {
        Some(short(&said))
    };
    Ok(Verdict {
        repository,
        commit,
        path,
        sha256,
        kind: kind.join(" and "),
        sipp: verdict(sipp.is_ok()),
        ours: verdict(code == Some(0)),
        reason: reason.unwrap_or_default(),
    })
}

/// Repository, commit and path, from where a file lies.
fn name(folder: &Path, file: &Path) -> Result<(String, String, String), String> {
    let wrong = || {
        format!(
            "{}: files are expected in OWNER+NAME@COMMIT/",
            file.display()
        )
    };
    let path = file.strip_prefix(folder).map_err(|_| wrong())?;
    let path = path.to_string_lossy();
    let (first, path) = path.split_once('/').ok_or_else(wrong)?;
    let (repository, commit) = first.split_once('@').ok_or_else(wrong)?;
    Ok((
        repository.replacen('+', "/", 1),
        commit.to_owned(),
        path.to_owned(),
    ))
}

/// Options that both programs get.
struct Options {
    work: PathBuf,
    words: Vec<String>,
}

impl Options {
    fn new(text: &str, has_commands: bool, work: &Path) -> Result<Self, String> {
        let mut options = Self {
            work: work.to_owned(),
            words: Vec::new(),
        };
        options.inject("fields.csv")?;
        if has_commands {
            options.instances(text)?;
        }
        Ok(options)
    }

    /// An injection file under a name, with an index.
    fn inject(&mut self, name: &str) -> Result<(), String> {
        let path = self.work.join(name);
        let told = |e: std::io::Error| format!("{}: {e}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(told)?;
        }
        let line: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        fs::write(&path, format!("SEQUENTIAL\n{}\n", line.join(";"))).map_err(told)?;
        for word in ["-inf", name, "-infindex", name, "0"] {
            self.words.push(word.to_owned());
        }
        Ok(())
    }

    /// The other instances: by name where the scenario has names.
    fn instances(&mut self, text: &str) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for word in ["dest=\"", "src=\""] {
            for rest in text.split(word).skip(1) {
                names.extend(rest.split('"').next().map(str::to_owned));
            }
        }
        let tells = text.find("<sendCmd").unwrap_or(usize::MAX);
        let is_told = text.find("<recvCmd").unwrap_or(usize::MAX);
        if names.is_empty() {
            self.words.push("-3pcc".to_owned());
            self.words.push("127.0.0.1:9".to_owned());
            return Ok(());
        }
        let mut lines = "own;127.0.0.1:9\n".to_owned();
        for name in names {
            let _ = writeln!(lines, "{name};127.0.0.1:9");
        }
        let file = self.work.join("peers.csv");
        fs::write(&file, lines).map_err(|e| format!("{}: {e}", file.display()))?;
        let role = if tells < is_told { "-master" } else { "-slave" };
        for word in [role, "own", "-slave_cfg", "peers.csv"] {
            self.words.push(word.to_owned());
        }
        Ok(())
    }

    fn give<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.args(&self.words).current_dir(&self.work)
    }
}

/// Whether SIPp reads a scenario; what it misses is added to the options.
fn sipp(file: &Path, options: &mut Options) -> Result<Result<(), String>, String> {
    for _ in 0..TRIES {
        let mut command = Command::new("sipp");
        command.args(["-nostdin", "-i", NOWHERE, "-sf"]).arg(file);
        options.give(&mut command).arg("127.0.0.1:9");
        let (_, said) = run(&mut command, file)?;
        if said.contains(READ) {
            return Ok(Ok(()));
        }
        if let Some(key) = between(&said, "Unsupported keyword '", "'") {
            for word in ["-key", key, "1"] {
                options.words.push(word.to_owned());
            }
        } else if let Some(name) = between(&said, "Invalid injection file: ", "\n")
            .filter(|name| !name.starts_with('/') && !name.contains("..") && !name.is_empty())
        {
            options.inject(name.trim())?;
        } else {
            return Ok(Err(short(&said)));
        }
    }
    Ok(Err("it asks for one more option again and again".to_owned()))
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let rest = text.split_once(start)?.1;
    Some(rest.split(end).next().unwrap_or(rest))
}

/// Runs a program to its end; gives its code and what it said on stderr.
fn run(command: &mut Command, file: &Path) -> Result<(Option<i32>, String), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{program}: {e}"))?;
    let mut stderr = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(stderr) = &mut stderr {
            let _ = std::io::Read::read_to_end(stderr, &mut said);
        }
        String::from_utf8_lossy(&said).into_owned()
    });
    let until = Instant::now() + DEADLINE;
    let code = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.code(),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    let said = reader.join().unwrap_or_default();
    if code.is_none() && said.is_empty() {
        return Ok((
            None,
            format!("{program} did not end with {}", file.display()),
        ));
    }
    Ok((code, said))
}

/// The last line that says why, without times, places and quotations: those are
/// other people's words.
fn short(said: &str) -> String {
    let line = said
        .lines()
        .rev()
        .find(|line| {
            let line = line.trim();
            let says_nothing = ["Assertion", "There were more errors", "Resolving"];
            !line.is_empty()
                && !line.starts_with("warning:")
                && !says_nothing.iter().any(|words| line.contains(words))
        })
        .unwrap_or("nothing was said");
    let line = line.rsplit_once('\t').map_or(line, |(_, text)| text);
    // A time stamp, or file, line and column.
    let words = match line.split_once(": ") {
        Some((place, text)) if place.chars().any(|c| c.is_ascii_digit()) => text,
        _ => line,
    };
    let words: Vec<&str> = words
        .split_whitespace()
        .map(|word| if word.contains('/') { "FILE" } else { word })
        .collect();
    let mut out = String::new();
    let mut quote = None;
    for c in words.join(" ").chars() {
        // An apostrophe inside a word is none.
        let is_inside = out.ends_with(char::is_alphabetic);
        match quote {
            Some(end) if c == end => {
                quote = None;
                out.push(c);
            }
            Some(_) => {}
            None => {
                quote = match c {
                    '"' => Some('"'),
                    '\'' if !is_inside => Some('\''),
                    _ => None,
                };
                out.push(c);
            }
        }
    }
    out.chars().take(120).collect::<String>().trim().to_owned()
}

fn csv(verdicts: &[Verdict]) -> String {
    let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out = "repository,commit,path,sha256,kind,sipp,signet,reason\n".to_owned();
    for v in verdicts {
        let fields = [
            &v.repository,
            &v.commit,
            &v.path,
            &v.sha256,
            &v.kind,
            &v.sipp,
            &v.ours,
            &v.reason,
        ];
        let fields: Vec<String> = fields
            .iter()
            .map(|field| {
                if field.contains([',', '"', '\n']) {
                    quote(field)
                } else {
                    (*field).clone()
                }
            })
            .collect();
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out
}

/// What the verdicts come to.
fn summary(verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    let repositories: BTreeSet<&str> = verdicts.iter().map(|v| v.repository.as_str()).collect();
    let _ = writeln!(
        out,
        "{} scenarios of {} repositories",
        verdicts.len(),
        repositories.len()
    );
    let mut line = |name: &str, is: &dyn Fn(&Verdict) -> bool| {
        let read: Vec<&Verdict> = verdicts
            .iter()
            .filter(|v| v.sipp == "takes" && is(v))
            .collect();
        let taken = read.iter().filter(|v| v.ours == "takes").count();
        let share = 100.0 * taken as f64 / read.len().max(1) as f64;
        let _ = writeln!(
            out,
            "{name}: SIPp takes {}, of these we take {taken} ({share:.1}%)",
            read.len()
        );
    };
    line("all", &|_| true);
    line("without media", &|v| !v.kind.contains("media"));
    line("with commands", &|v| v.kind.contains("commands"));
    line("with media (-no_media)", &|v| v.kind.contains("media"));
    for repository in repositories {
        line(repository, &|v| v.repository == repository);
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for v in verdicts {
        if v.sipp == "takes" && v.ours == "refuses" {
            *reasons.entry(v.reason.as_str()).or_default() += 1;
        }
    }
    for (reason, count) in reasons {
        let _ = writeln!(out, "{count} refused: {reason}");
    }
    let more = verdicts
        .iter()
        .filter(|v| v.sipp == "refuses" && v.ours == "takes")
        .count();
    let _ = writeln!(out, "{more} that SIPp refuses are taken");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short_and_quote_nobody() {
        for (said, reason) in [
            (
                "a.xml:3:7: the keyword [x] is \"secret\" so\n",
                "the keyword [x] is \"\" so",
            ),
            (
                "Resolving\n2026-01-01\t10:00:00.1\t123.4: Unsupported thing 'secret' here\n",
                "Unsupported thing '' here",
            ),
            ("Can't read it /home/x/y.pcap\n", "Can't read it FILE"),
            ("warning: a.xml:1:1: text\n", "nothing was said"),
        ] {
            assert_eq!(short(said), reason);
        }
    }

    #[test]
    fn a_file_is_named_by_its_repository() {
        let folder = Path::new("/f");
        let named = name(folder, Path::new("/f/o+n@c0/a/b.xml")).unwrap();
        let expected = ("o/n".to_owned(), "c0".to_owned(), "a/b.xml".to_owned());
        assert_eq!(named, expected);
        assert!(name(folder, Path::new("/f/b.xml")).is_err());
    }
}
