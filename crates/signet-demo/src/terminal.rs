//! What people see while it works.

use std::io::{IsTerminal, Write};
use std::time::Duration;

/// The standard output, a terminal or not.
pub(crate) struct Terminal {
    is_terminal: bool,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        Self {
            is_terminal: std::io::stdout().is_terminal(),
        }
    }

    /// How often progress is worth showing.
    pub(crate) fn interval(&self) -> Duration {
        if self.is_terminal {
            Duration::from_millis(200)
        } else {
            Duration::from_secs(2)
        }
    }

    /// A line.
    pub(crate) fn say(&mut self, line: &str) {
        self.write(&format!("{line}\n"));
    }

    /// A line that the next one replaces, where there is a terminal.
    pub(crate) fn progress(&mut self, line: &str) {
        if self.is_terminal {
            self.write(&format!("\r\x1b[K{line}"));
        } else {
            self.say(line);
        }
    }

    /// The last of these.
    pub(crate) fn end_progress(&mut self, line: &str) {
        self.progress(line);
        if self.is_terminal {
            self.write("\n");
        }
    }

    fn write(&mut self, text: &str) {
        // Nobody may be listening any more; the work goes on.
        let mut out = std::io::stdout();
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    }
}
