//! `signet price crypto` and `report`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use signet_price::crypto::{self, Choice};
use signet_price::{
    Error, Job, Missed, PriceRecord, Task, Timing, merge, page, record, run, sip, tunnel,
};

use super::{said, told};

#[derive(Debug, Args)]
pub(crate) struct CryptoOptions {
    /// Bytes of payload [default: 64,300,700,1400]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    sizes: Vec<u64>,
    /// Packets with these algorithms: aes-128-gcm, aes-128-cbc+hmac-sha1-96, 3des-cbc+none; all if left out
    #[arg(long, value_name = "ALGORITHMS", value_delimiter = ',')]
    only: Vec<String>,
    /// Whose code protects packets: rustcrypto, aws-lc, and openssl in a build that has it; all if left out
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    provider: Vec<String>,
    /// What is priced: packets, handshake, handshake-keys, tls-record, digest, smime
    /// [default: all; with --only or --provider packets]
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    part: Vec<String>,
    /// How often each is timed; the median counts
    #[arg(long, value_name = "N", default_value_t = Timing::default().rounds, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    rounds: u32,
    /// Keep the record in this file, - for the standard output alone
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the page in this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Set the bare primitives beside `openssl speed`, a second for each
    #[arg(long)]
    check_openssl: bool,
    /// Show both ways, both modes and both versions of IP
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// What `signet price crypto --json` wrote, of several runs of one machine the medians; or
    /// what `signet price tunnel --json` wrote
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// Where the page goes [default: crypto.html or tunnel.html]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Keep the medians in this file, - for the standard output alone
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep in it what `signet price choose` reads, and nothing else
    #[arg(long, requires = "json")]
    for_choice: bool,
}

impl CryptoOptions {
    /// The files that it writes.
    pub(super) fn files(&self) -> [Option<&PathBuf>; 2] {
        [self.json.as_ref(), self.html.as_ref()]
    }

    /// Measures; gives what is printed.
    pub(super) fn run(&self) -> Result<String, String> {
        let record = self.measured().map_err(said)?;
        let text = told(
            self.json.as_deref(),
            || crypto::told(&record, self.all),
            || serde_json::to_string_pretty(&record).map_err(said),
        )?;
        if let Some(path) = &self.html {
            draw(&record, path).map_err(said)?;
        }
        Ok(text)
    }

    fn measured(&self) -> Result<PriceRecord, Error> {
        let (jobs, missed) = self.jobs()?;
        // Before anything is measured: it would be lost.
        let openssl = self.check_openssl.then(crypto::openssl).transpose()?;
        let task = Task {
            command: measure::command_line().join(" "),
            jobs,
            missed,
            versions: crypto::versions(),
            timing: Timing {
                rounds: self.rounds,
                ..Timing::default()
            },
        };
        let mut progress = Progress::new();
        let mut record = run(task, &mut |round, rounds| {
            progress.show(&format!("round {round} of {rounds}"));
        })?;
        if let Some(version) = openssl {
            record.checks = crypto::check(&record, &version, &mut |primitive| {
                progress.show(&format!("openssl speed: {primitive}"));
            });
        }
        progress.end();
        Ok(record)
    }
}

impl CryptoOptions {
    /// The work of all parts, and what cannot be done.
    fn jobs(&self) -> Result<(Vec<Job>, Vec<Missed>), Error> {
        const PACKETS: &str = "packets";
        let parts = [&[PACKETS][..], &sip::FAMILIES].concat();
        let is_unknown = |part: &&String| !parts.contains(&part.as_str());
        if let Some(unknown) = self.part.iter().find(is_unknown) {
            return Err(Error::new(
                format!("there is no part {unknown:?} that could be priced"),
                format!("write one of: {}", parts.join(", ")),
            ));
        }
        let choice = Choice::new(&self.sizes, &self.only, &self.provider)?;
        let is_chosen = !self.only.is_empty() || !self.provider.is_empty();
        let families: Vec<&str> = match &self.part[..] {
            [] if is_chosen => Vec::new(),
            [] => sip::FAMILIES.to_vec(),
            named => {
                let names = named.iter().map(String::as_str);
                names.filter(|name| *name != PACKETS).collect()
            }
        };
        let has_packets = self.part.is_empty() || self.part.iter().any(|part| part == PACKETS);
        let (mut jobs, mut missed) = (Vec::new(), Vec::new());
        if has_packets {
            (jobs, missed) = crypto::jobs(&choice)?;
        } else {
            self.refuse_of_packets(&families)?;
        }
        if !families.is_empty() {
            let (more, missed_there) = sip::jobs(choice.sizes_bytes(), &families)?;
            jobs.extend(more);
            missed.extend(missed_there);
        }
        Ok((jobs, missed))
    }

    /// Refuses what is said of packets where only these other families are priced.
    fn refuse_of_packets(&self, families: &[&str]) -> Result<(), Error> {
        let given = [
            (!self.only.is_empty(), "--only"),
            (!self.provider.is_empty(), "--provider"),
            (self.check_openssl, "--check-openssl"),
            (self.all, "--all"),
        ];
        if let Some((_, option)) = given.iter().find(|(is_given, _)| *is_given) {
            return Err(Error::new(
                format!("{option} is about packets, and --part names other parts"),
                "leave it out, or add packets to --part",
            ));
        }
        let is_sized = |name: &&str| sip::SIZED_FAMILIES.contains(name);
        if !self.sizes.is_empty() && !families.iter().any(is_sized) {
            return Err(Error::new(
                "--sizes is about parts that have sizes, and --part names others",
                format!(
                    "leave it out, or add one of these to --part: packets, {}",
                    sip::SIZED_FAMILIES.join(", ")
                ),
            ));
        }
        Ok(())
    }
}

impl ReportOptions {
    /// Draws; gives the name of the page, or the medians where they are to be printed.
    pub(super) fn run(&self) -> Result<String, String> {
        let Drawn {
            page,
            name,
            medians,
        } = self.drawn().map_err(said)?;
        let out = self.out.clone().unwrap_or_else(|| PathBuf::from(name));
        keep(&out, &page).map_err(said)?;
        told(
            self.json.as_deref(),
            || format!("{}\n", out.display()),
            || serde_json::to_string_pretty(&medians).map_err(said),
        )
    }

    fn drawn(&self) -> Result<Drawn, Error> {
        match &self.records[..] {
            [one] if record::format_of(one)? == tunnel::FORMAT => {
                if self.json.is_some() {
                    return Err(Error::new(
                        format!(
                            "{} is a record of tunnels, which has no medians to keep",
                            one.display()
                        ),
                        "leave --json out",
                    ));
                }
                Ok(Drawn {
                    page: tunnel::render(&tunnel::read(one)?)?,
                    name: "tunnel.html",
                    medians: None,
                })
            }
            _ => {
                let medians = self.medians()?;
                Ok(Drawn {
                    page: page::render(&medians)?,
                    name: "crypto.html",
                    medians: Some(medians),
                })
            }
        }
    }

    /// The medians of all runs.
    fn medians(&self) -> Result<PriceRecord, Error> {
        let runs = self.records.iter().map(|path| record::read(path));
        let mut runs = runs.collect::<Result<Vec<_>, _>>()?;
        if self.for_choice {
            for run in &mut runs {
                run.items.retain(|item| protection::is_priced(&item.name));
                run.missed.clear();
            }
        }
        merge(&runs)
    }
}

/// A page, what it is called if nothing else was said, and what it shows where that is kept.
struct Drawn {
    page: String,
    name: &'static str,
    medians: Option<PriceRecord>,
}

fn draw(record: &PriceRecord, path: &Path) -> Result<(), Error> {
    keep(path, &page::render(record)?)
}

/// Writes a page.
pub(super) fn keep(path: &Path, page: &str) -> Result<(), Error> {
    measure::file::write(path, page.as_bytes()).map_err(|error| {
        Error::new(
            format!("cannot write {}: {error}", path.display()),
            "name a file in a folder that this user may write",
        )
    })
}

/// A line on the terminal that is written over; nothing where nobody looks.
pub(crate) struct Progress {
    is_shown: bool,
    width: usize,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            is_shown: std::io::stderr().is_terminal(),
            width: 0,
        }
    }

    pub(crate) fn show(&mut self, line: &str) {
        if self.is_shown {
            self.width = self.width.max(line.len());
            let _ = write!(std::io::stderr(), "\r{line:<width$}", width = self.width);
        }
    }

    pub(crate) fn end(&mut self) {
        self.show("");
        if self.is_shown {
            let _ = write!(std::io::stderr(), "\r");
        }
    }
}
