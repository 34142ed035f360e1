//! Where a password comes from: the terminal without echo, the standard
//! input, or this program. Never the command line, which every user of the
//! machine can read.

use std::io::{self, BufRead, IsTerminal, Write};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use super::say;
use crate::config::Domain;
use crate::{Error, random_bytes};

/// Where a password comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordFrom {
    /// Asked for twice at the terminal; made where there is no terminal or
    /// nothing is typed.
    Terminal,
    /// The first line of the standard input.
    Stdin,
    /// Made, and shown once.
    Generated,
}

/// A password, and whether it is to be shown because nobody knows it yet.
pub(super) struct Password {
    pub(super) text: Zeroizing<String>,
    is_new: bool,
}

/// Easily told apart and typed: no 0, O, 1, l, I.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 100 bits.
const LENGTH: usize = 20;

impl PasswordFrom {
    pub(super) fn get(self, user: &str) -> Result<Password, Error> {
        match self {
            Self::Generated => generate(),
            Self::Stdin => given(read_line()?),
            Self::Terminal if io::stdin().is_terminal() => ask(user),
            Self::Terminal => generate(),
        }
    }
}

impl Password {
    /// Tells that it was set, and what it is where nobody knows it yet; `done` is what the user
    /// was.
    pub(super) fn tell(&self, user: &str, realm: &Domain, done: &str) -> Result<(), Error> {
        if !self.is_new {
            return say(&format!("{user}@{realm} has the password that you gave\n"));
        }
        let text = Zeroizing::new(format!(
            "{user}@{realm} has the password {}\n  It is not kept and not shown again.\n",
            *self.text
        ));
        let mut out = io::stdout().lock();
        // A reader who has gone has not read it either.
        let told = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        told.map_err(|error| {
            Error::new(
                format!(
                    "{user}@{realm} {done}, and the password is lost: cannot write to the standard output: {error}"
                ),
                format!("to have another made: signet user passwd {user}@{realm} --generate"),
            )
        })
    }
}

fn generate() -> Result<Password, Error> {
    let mut bytes = Zeroizing::new([0; LENGTH]);
    random_bytes(&mut *bytes)?;
    let letters = bytes.iter().map(|byte| {
        char::from(
            LETTERS
                .get(usize::from(*byte % 32))
                .copied()
                .unwrap_or(b'x'),
        )
    });
    Ok(Password {
        text: Zeroizing::new(letters.collect()),
        is_new: true,
    })
}

fn given(text: Zeroizing<String>) -> Result<Password, Error> {
    if text.is_empty() {
        return Err(Error::new(
            "the password is empty",
            "write it in the first line of the standard input, or use --generate",
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::new(
            "the password has control characters in it",
            "use letters, digits and signs",
        ));
    }
    Ok(Password {
        text,
        is_new: false,
    })
}

fn ask(user: &str) -> Result<Password, Error> {
    let first = prompt(&format!(
        "Password for {user} (nothing, to have one made): "
    ))?;
    if first.is_empty() {
        return generate();
    }
    let second = prompt("Once more: ")?;
    if *first != *second {
        return Err(Error::new(
            "the two passwords differ",
            "type the command again",
        ));
    }
    given(first)
}

fn prompt(text: &str) -> Result<Zeroizing<String>, Error> {
    let mut err = io::stderr();
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
    let line = {
        let _silent = Silent::new()?;
        read_line()
    };
    let _ = err.write_all(b"\n");
    line
}

fn read_line() -> Result<Zeroizing<String>, Error> {
    let mut line = Zeroizing::new(String::new());
    io::stdin().lock().read_line(&mut line).map_err(|error| {
        Error::new(
            format!("cannot read the password: {error}"),
            "write it as one line of UTF-8",
        )
    })?;
    let length = line.trim_end_matches(['\n', '\r']).len();
    line.truncate(length);
    Ok(line)
}

/// The terminal without echo, until this is dropped.
struct Silent {
    before: Termios,
}

impl Silent {
    fn new() -> Result<Self, Error> {
        let failed = |error: nix::Error| {
            Error::new(
                format!("cannot switch the terminal's echo off: {error}"),
                "use --password-stdin",
            )
        };
        let before = tcgetattr(io::stdin()).map_err(failed)?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &silent).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_password_is_long_and_new_each_time() {
        let (a, b) = (generate().unwrap(), generate().unwrap());
        assert_eq!(a.text.len(), LENGTH);
        assert_ne!(*a.text, *b.text);
        assert!(a.is_new);
        assert!(a.text.bytes().all(|byte| LETTERS.contains(&byte)));
    }

    #[test]
    fn an_empty_password_is_refused() {
        assert!(given(Zeroizing::new(String::new())).is_err());
        assert!(given(Zeroizing::new("a\u{7}b".to_owned())).is_err());
        assert!(!given(Zeroizing::new("grün".to_owned())).unwrap().is_new);
    }
}
