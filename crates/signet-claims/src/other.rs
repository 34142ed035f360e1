//! Another stack's parser, as a process with a pipe.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Reading;

/// The variable of the environment that names the program with the other parser.
pub const OTHER_PARSER: &str = "SIGNET_OTHER_PARSER";

/// What another parser says of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It reads this.
    Read(Reading),
    /// It does not take it.
    Refused,
    /// It did not survive it.
    Ended,
}

/// Another stack's parser: a program that is given messages and says what it
/// reads in them.
///
/// On the pipe a message, and an answer, has its length before it, four bytes,
/// most significant first. An empty answer is a refusal; another one is
/// [`Reading::written`].
#[derive(Debug)]
pub struct Other {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

/// Whether the environment names another parser.
pub fn is_other_here() -> bool {
    std::env::var_os(OTHER_PARSER).is_some()
}

impl Other {
    /// Starts the program that the environment names; nothing where it names none.
    ///
    /// # Panics
    /// Where the program cannot be started.
    pub fn start() -> Option<Self> {
        let program = std::env::var_os(OTHER_PARSER)?;
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{OTHER_PARSER} names {program:?}: {error}"));
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        Some(Self {
            child,
            input,
            output,
        })
    }

    /// What it says of a message. After [`Answer::Ended`] it is gone.
    pub fn read(&mut self, message: &[u8]) -> Answer {
        self.ask(message).unwrap_or(Answer::Ended)
    }

    fn ask(&mut self, message: &[u8]) -> std::io::Result<Answer> {
        let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
        self.input
            .write_all(&[&len.to_be_bytes()[..], message].concat())?;
        self.input.flush()?;
        let mut len = [0; 4];
        self.output.read_exact(&mut len)?;
        let mut text = vec![0; u32::from_be_bytes(len) as usize];
        self.output.read_exact(&mut text)?;
        if text.is_empty() {
            return Ok(Answer::Refused);
        }
        let text = String::from_utf8(text).expect("the other parser writes text");
        let reading = Reading::written(&text);
        Ok(Answer::Read(reading.expect("names and hexadecimal digits")))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
