//! The standard output, which may be full, or have nobody who reads it.

use std::io::{self, Write};

/// Writes to the standard output, and sees to it that it got there. A reader who has gone, as
/// `head` does, needs no more of it.
///
/// # Errors
/// Why it could not be written, in a line.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), String> {
    print_to(&mut io::stdout().lock(), text.as_ref())
}

fn print_to(out: &mut impl Write, text: &[u8]) -> Result<(), String> {
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to the standard output: {error}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes what is written, and fails where it should get somewhere.
    struct Fails(io::ErrorKind);

    impl Write for Fails {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn what_was_only_buffered_is_not_written_and_a_reader_who_has_gone_is_no_error() {
        let error = print_to(&mut Fails(io::ErrorKind::StorageFull), b"x").unwrap_err();
        assert!(
            error.starts_with("cannot write to the standard output: "),
            "{error}"
        );
        assert_eq!(
            print_to(&mut Fails(io::ErrorKind::BrokenPipe), b"x"),
            Ok(())
        );
        let mut taken = Vec::new();
        assert_eq!(print_to(&mut taken, b"all"), Ok(()));
        assert_eq!(taken, b"all");
    }
}
