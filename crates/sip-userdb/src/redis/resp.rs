//! RESP2, the protocol of Redis and Valkey: commands out, replies in.

use zeroize::Zeroizing;

use crate::fault::saying;

/// How deep arrays may be nested: what is asked here is answered at depth two.
const DEPTH_MAX: usize = 4;

/// The longest line: numbers and errors.
const LINE_MAX: usize = 4096;

/// A reply. Strings may hold secrets: they are wiped and not printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// `+OK` and the like.
    Simple(String),
    /// What the server says is wrong, fit to be shown.
    Error(String),
    /// A number.
    Integer(i64),
    /// A string of any bytes; `None` where there is none.
    Bulk(Option<Zeroizing<Vec<u8>>>),
    /// Replies in a row; `None` where a transaction was not carried out.
    Array(Option<Vec<Reply>>),
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Integer(number) => write!(f, ":{number}"),
            Self::Bulk(None) => f.write_str("$-1"),
            Self::Bulk(Some(bytes)) => write!(f, "${} ***", bytes.len()),
            Self::Array(None) => f.write_str("*-1"),
            Self::Array(Some(items)) => f.debug_list().entries(items).finish(),
        }
    }
}

/// Appends a command.
pub(super) fn write(command: &[&[u8]], out: &mut Vec<u8>) {
    header(b'*', command.len(), out);
    for argument in command {
        header(b'$', argument.len(), out);
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

fn header(kind: u8, count: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(count.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Reads the first reply of `input` and how long it is; `None` where it is not whole. An
/// error says why it can never be one.
pub(super) fn read(input: &[u8]) -> Result<Option<(Reply, usize)>, String> {
    let mut reader = Reader { input, at: 0 };
    Ok(reader.reply(0)?.map(|reply| (reply, reader.at)))
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn reply(&mut self, depth: usize) -> Result<Option<Reply>, String> {
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        let (kind, text) = line
            .split_first()
            .ok_or_else(|| "an empty line in the place of a reply".to_owned())?;
        let reply = match kind {
            b'+' => Reply::Simple(String::from_utf8_lossy(text).into_owned()),
            b'-' => Reply::Error(saying(text)),
            b':' => Reply::Integer(number(text)?),
            b'$' => match length(text)? {
                None => Reply::Bulk(None),
                Some(len) => match self.bulk(len)? {
                    Some(bytes) => Reply::Bulk(Some(Zeroizing::new(bytes.to_vec()))),
                    None => return Ok(None),
                },
            },
            b'*' => match length(text)? {
                None => Reply::Array(None),
                Some(_) if depth >= DEPTH_MAX => {
                    return Err("arrays that are nested too deep".to_owned());
                }
                Some(len) => match self.array(len, depth)? {
                    Some(items) => Reply::Array(Some(items)),
                    None => return Ok(None),
                },
            },
            _ => return Err("a reply that is not RESP2".to_owned()),
        };
        Ok(Some(reply))
    }

    fn array(&mut self, len: usize, depth: usize) -> Result<Option<Vec<Reply>>, String> {
        // As long as what has come can hold, and not as long as it says.
        let mut items = Vec::with_capacity(len.min(self.input.len() / 4));
        for _ in 0..len {
            match self.reply(depth + 1)? {
                Some(item) => items.push(item),
                None => return Ok(None),
            }
        }
        Ok(Some(items))
    }

    fn bulk(&mut self, len: usize) -> Result<Option<&'a [u8]>, String> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        let Some((bytes, rest)) = rest.split_at_checked(len) else {
            return Ok(None);
        };
        match rest {
            [b'\r', b'\n', ..] => {
                self.at += len + 2;
                Ok(Some(bytes))
            }
            [] | [b'\r'] => Ok(None),
            _ => Err("a string longer than it says".to_owned()),
        }
    }

    fn line(&mut self) -> Result<Option<&'a [u8]>, String> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        match rest.windows(2).take(LINE_MAX).position(|w| w == b"\r\n") {
            Some(len) => {
                self.at += len + 2;
                Ok(rest.get(..len))
            }
            None if rest.len() > LINE_MAX => Err("a line without an end".to_owned()),
            None => Ok(None),
        }
    }
}

fn number(text: &[u8]) -> Result<i64, String> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| "a number that cannot be read".to_owned())
}

/// A length; -1 says that there is nothing.
fn length(text: &[u8]) -> Result<Option<usize>, String> {
    match number(text)? {
        -1 => Ok(None),
        number => usize::try_from(number)
            .map(Some)
            .map_err(|_| "a length below zero".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(Some(Zeroizing::new(text.as_bytes().to_vec())))
    }

    #[test]
    fn commands_carry_any_bytes() {
        let mut out = Vec::new();
        write(&[b"MGET", b"a\r\n$", b""], &mut out);
        assert_eq!(out, b"*3\r\n$4\r\nMGET\r\n$4\r\na\r\n$\r\n$0\r\n\r\n");
    }

    #[test]
    fn replies_are_read_whole_or_not_at_all() {
        let input = b"*5\r\n$3\r\na\r\n\r\n$-1\r\n:-7\r\n+OK\r\n-ERR no\r\n*-1\r\n";
        let whole = Reply::Array(Some(vec![
            bulk("a\r\n"),
            Reply::Bulk(None),
            Reply::Integer(-7),
            Reply::Simple("OK".to_owned()),
            Reply::Error("ERR no".to_owned()),
        ]));
        let first = input.len() - b"*-1\r\n".len();
        assert_eq!(read(input), Ok(Some((whole, first))));
        assert_eq!(read(&input[first..]), Ok(Some((Reply::Array(None), 5))));
        for len in 0..first {
            assert_eq!(read(&input[..len]), Ok(None), "{len} bytes");
        }
    }

    #[test]
    fn what_the_server_says_is_wrong_is_one_line_of_the_log() {
        let input = [
            b"-ERR a\nforged line\x1b[2J".as_slice(),
            &[b'x'; 1_000],
            b"\r\n",
        ]
        .concat();
        let Ok(Some((Reply::Error(why), len))) = read(&input) else {
            panic!("no error");
        };
        assert!(why.starts_with("ERR a forged line [2Jxxx"), "{why}");
        assert_eq!((why.chars().count(), len), (200, input.len()));
    }

    #[test]
    fn garbage_is_told_from_what_is_not_whole() {
        for garbage in [
            &b"HTTP/1.1 200 OK\r\n"[..],
            b"\r\n",
            b":1x\r\n",
            b"$-2\r\n",
            b"*-9\r\n",
            b"$99999999999999999999\r\n",
            b"$1\r\nab\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
            &[b'+'; LINE_MAX + 2],
        ] {
            assert!(read(garbage).is_err(), "{}", garbage.escape_ascii());
        }
        // A length that nobody has memory for is believed when it has come.
        assert_eq!(read(b"*1000000000\r\n$1000000000\r\nab"), Ok(None));
    }
}
