//! Reads and writes that have a time limit.

use std::io::{ErrorKind, Result};

/// Reads or writes again where a halt of the machine has interrupted it: with a time limit a socket
/// is then interrupted though nobody has sent a signal (signal(7)). The limit begins anew.
pub fn uninterrupted<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_interrupted_tries_again_and_any_other_outcome_is_the_last() {
        for last in [Ok(7), Err(ErrorKind::WouldBlock)] {
            let mut attempts = 0;
            let outcome = uninterrupted(|| {
                attempts += 1;
                match attempts {
                    1 | 2 => Err(ErrorKind::Interrupted.into()),
                    _ => last.map_err(Into::into),
                }
            });
            assert_eq!(outcome.map_err(|error| error.kind()), last);
            assert_eq!(attempts, 3);
        }
    }
}
