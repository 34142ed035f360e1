//! `signet load` in a process of its own: started on a core, waited for, and its result read.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use measure::RunResult;

use crate::process::Process;
use crate::system::tail;

/// Where `signet load` runs: program, core and folder.
#[derive(Clone, Copy, Debug)]
pub struct Desk<'a> {
    /// The program.
    pub signet: &'a Path,
    /// Its core.
    pub core: &'a str,
    /// The folder for result and log.
    pub folder: &'a Path,
}

/// A run of the generator.
#[derive(Debug)]
pub struct Generator {
    /// Its process.
    pub process: Process,
    begun: Instant,
    json: PathBuf,
    log: PathBuf,
}

impl Desk<'_> {
    /// Starts `signet load` with these arguments; result and log are called `name`. It does not
    /// first measure what it reaches without a server.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start(&self, name: &str, words: &[String]) -> Result<Generator, String> {
        self.start_by(name, words, Process::start)
    }

    /// The same with a lower claim on the core than its neighbours there.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_nice(&self, name: &str, words: &[String]) -> Result<Generator, String> {
        self.start_by(name, words, Process::start_nice)
    }

    fn start_by(
        &self,
        name: &str,
        words: &[String],
        start: fn(&str, &str, &[String], &Path) -> Result<Process, String>,
    ) -> Result<Generator, String> {
        let json = self.folder.join(format!("{name}.json"));
        let log = self.folder.join(format!("{name}.log"));
        let _ = std::fs::remove_file(&json);
        let mut all = vec!["load".to_owned()];
        all.extend_from_slice(words);
        all.extend(["--no-check-self", "--quiet", "--json"].map(str::to_owned));
        all.push(json.display().to_string());
        let process = start(self.core, &self.signet.display().to_string(), &all, &log)?;
        Ok(Generator {
            process,
            begun: Instant::now(),
            json,
            log,
        })
    }
}

impl Generator {
    /// When it was started.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// The file that its result goes to.
    pub fn json(&self) -> &Path {
        &self.json
    }

    /// # Errors
    /// That it has ended, with the end of its log.
    pub fn must_run(&mut self) -> Result<(), String> {
        if self.process.is_running() {
            return Ok(());
        }
        Err(self.said("the load ended early"))
    }

    /// Sleeps until so many seconds after its start.
    ///
    /// # Errors
    /// As [`Generator::must_run`].
    pub fn wait_until(&mut self, seconds: u64) -> Result<(), String> {
        let until = self.begun + Duration::from_secs(seconds);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        self.must_run()
    }

    /// Waits for its end, at most so long.
    ///
    /// # Errors
    /// That it did not come, with the end of its log.
    pub fn wait(&mut self, limit: Duration) -> Result<(), String> {
        match self.process.wait(limit) {
            Some(_) => Ok(()),
            None => Err(self.said("the load did not end")),
        }
    }

    /// What it told; it has ended.
    ///
    /// # Errors
    /// That it told nothing, with the end of its log.
    pub fn result(&self) -> Result<RunResult, String> {
        RunResult::read(&self.json)
            .map_err(|error| self.said(&format!("the load told nothing ({error})")))
    }

    /// Waits for its end, at most so long, and reads what it told.
    ///
    /// # Errors
    /// As [`Generator::wait`] and [`Generator::result`].
    pub fn end(mut self, limit: Duration) -> Result<RunResult, String> {
        self.wait(limit)?;
        self.result()
    }

    /// Asks it to begin nothing more, then as [`Generator::end`].
    ///
    /// # Errors
    /// As [`Generator::end`].
    pub fn stop(mut self, limit: Duration) -> Result<RunResult, String> {
        self.process.interrupt();
        self.end(limit)
    }

    /// What is wrong with it, and the end of its log.
    pub fn said(&self, what: &str) -> String {
        format!("{what}: {}", tail(&self.log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_ends_early_or_tells_nothing_says_what_it_said() {
        let folder = std::env::temp_dir().join(format!("signet-desk-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let desk = Desk {
            signet: Path::new("echo"),
            core: "0",
            folder: &folder,
        };
        let mut load = desk.start("calls", &["call".to_owned()]).unwrap();
        load.wait(Duration::from_secs(20)).unwrap();
        let error = load.must_run().unwrap_err();
        assert!(
            error.starts_with("the load ended early: load call --no-check-self --quiet --json"),
            "{error}"
        );
        assert!(load.json().ends_with("calls.json"));
        let error = load.end(Duration::from_secs(20)).unwrap_err();
        assert!(error.contains("told nothing"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
