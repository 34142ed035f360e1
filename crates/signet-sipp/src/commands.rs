//! Commands that scenarios run (`<exec command=...>`): in processes of their
//! own, a bounded number at a time, and nobody waits for them.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};

/// Commands at a time; past it one waits for a place.
const RUNNING_MAX: usize = 64;
/// Commands that wait; past it one is not run, and counted.
const WAITING_MAX: usize = 1_000;
/// Bytes of a command that are shown where it could not be started.
const SHOWN_MAX: usize = 200;

pub(crate) struct Commands {
    running: Vec<Child>,
    waiting: VecDeque<Vec<u8>>,
    running_max: usize,
    waiting_max: usize,
    not_run: u64,
    /// Why the first of those was not run.
    failure: Option<String>,
}

impl Default for Commands {
    fn default() -> Self {
        Self::with_bounds(RUNNING_MAX, WAITING_MAX)
    }
}

impl Commands {
    fn with_bounds(running_max: usize, waiting_max: usize) -> Self {
        Self {
            running: Vec::new(),
            waiting: VecDeque::new(),
            running_max,
            waiting_max,
            not_run: 0,
            failure: None,
        }
    }

    /// Runs a line in the shell, now or as soon as there is a place; the error says why
    /// it is not run.
    pub(crate) fn run(&mut self, line: Vec<u8>) -> Result<(), String> {
        self.reap();
        if self.running.len() < self.running_max {
            return self.start(&line);
        }
        if self.waiting.len() < self.waiting_max {
            self.waiting.push_back(line);
            return Ok(());
        }
        let why = format!(
            "the command '{}' was not run: {} are running and {} wait",
            String::from_utf8_lossy(&line),
            self.running.len(),
            self.waiting.len()
        );
        Err(self.keep(why))
    }

    /// Forgets those that are done, and starts others in their places.
    pub(crate) fn reap(&mut self) {
        self.running
            .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        while self.running.len() < self.running_max
            && let Some(line) = self.waiting.pop_front()
        {
            // What went wrong is kept, and told at the end.
            let _ = self.start(&line);
        }
    }

    /// Whether some wait for a place.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Starts those that still wait, all at once; says how many were never run, and why.
    pub(crate) fn finish(&mut self) -> Option<String> {
        self.running_max = usize::MAX;
        self.reap();
        let failure = self.failure.take()?;
        Some(match self.not_run {
            1 => failure,
            count => format!("{failure}; {count} commands were not run in all"),
        })
    }

    fn start(&mut self, line: &[u8]) -> Result<(), String> {
        let started = Command::new("/bin/sh")
            .arg("-c")
            .arg(OsStr::from_bytes(line))
            .stdin(Stdio::null())
            .spawn();
        match started {
            Ok(child) => {
                self.running.push(child);
                Ok(())
            }
            Err(error) => {
                // One that is too long to be started is too long to be shown.
                let shown = line.get(..SHOWN_MAX).unwrap_or(line);
                let shown = String::from_utf8_lossy(shown);
                Err(self.keep(format!("the command '{shown}' was not run: {error}")))
            }
        }
    }

    fn keep(&mut self, why: String) -> String {
        self.not_run += 1;
        self.failure.get_or_insert_with(|| why.clone());
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_wait_for_a_place_and_past_that_they_are_counted() {
        let mut commands = Commands::with_bounds(2, 3);
        let line = || b"exec sleep 30".to_vec();
        for _ in 0..5 {
            commands.run(line()).unwrap();
        }
        assert_eq!((commands.running.len(), commands.waiting.len()), (2, 3));
        for _ in 0..2 {
            let why = commands.run(line()).unwrap_err();
            assert_eq!(
                why,
                "the command 'exec sleep 30' was not run: 2 are running and 3 wait"
            );
        }
        let ends = |commands: &mut Commands, count: usize| {
            for child in commands.running.iter_mut().take(count) {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        };
        ends(&mut commands, 1);
        commands.reap();
        assert_eq!((commands.running.len(), commands.waiting.len()), (2, 2));
        let told = commands.finish().unwrap();
        assert!(
            told.ends_with("3 wait; 2 commands were not run in all"),
            "{told}"
        );
        assert_eq!((commands.running.len(), commands.waiting.len()), (4, 0));
        ends(&mut commands, 4);
    }

    #[test]
    fn a_command_that_cannot_be_started_is_told_at_the_end() {
        let mut commands = Commands::default();
        commands.run(b"true".to_vec()).unwrap();
        assert_eq!(commands.finish(), None);
        let why = commands.run(b"a\0b".to_vec()).unwrap_err();
        assert!(why.starts_with("the command 'a\0b' was not run: "), "{why}");
        assert_eq!(commands.finish(), Some(why));
    }
}
