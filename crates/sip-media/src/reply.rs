//! What an engine says.

use crate::bencode::read;

/// The longest reason that is passed on.
const REASON_MAX: usize = 120;

/// What an engine says to a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply<'t> {
    /// It is done; with the session description as it is now.
    Done(Option<&'t [u8]>),
    /// It is there.
    Pong,
    /// It has as many calls as it may have, or no port left.
    Full,
    /// It does not know the call.
    Unknown,
    /// It is not done: why, in its words.
    No(Box<str>),
}

/// Cuts a datagram into its cookie and what is behind it.
pub(crate) fn split(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = datagram.iter().position(|byte| *byte == b' ')?;
    Some((datagram.get(..at)?, datagram.get(at + 1..)?))
}

/// Reads what is behind the cookie; `None` where it is no reply.
pub(crate) fn parse(text: &[u8]) -> Option<Reply<'_>> {
    let value = read(text).ok()?;
    let reply = value.dictionary()?;
    Some(match reply.bytes("result")? {
        b"ok" => Reply::Done(reply.bytes("sdp")),
        b"pong" => Reply::Pong,
        b"load limit" => Reply::Full,
        b"error" => match reply.bytes("error-reason").unwrap_or_default() {
            // Said in words alone, and no fault of whoever calls.
            b"Ran out of ports" => Reply::Full,
            reason if is_unknown(reason) => Reply::Unknown,
            reason => Reply::No(words(reason)),
        },
        _ => return None,
    })
}

/// Whether an engine says by its reason that it has no such call: it began anew since.
fn is_unknown(reason: &[u8]) -> bool {
    const WORDS: &[u8] = b"Unknown call-id";
    let front = reason.get(..WORDS.len());
    front.is_some_and(|front| front.eq_ignore_ascii_case(WORDS))
}

/// Words for a log: printable ASCII, and not too many.
fn words(reason: &[u8]) -> Box<str> {
    let bytes = reason.iter().take(REASON_MAX);
    let shown = bytes.map(|byte| match byte {
        0x20..=0x7e => char::from(*byte),
        _ => '?',
    });
    shown.collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_apart() {
        for (text, reply) in [
            ("d6:result4:ponge", Some(Reply::Pong)),
            ("d6:result2:oke", Some(Reply::Done(None))),
            (
                "d3:sdp3:v=07:warning1:x6:result2:oke",
                Some(Reply::Done(Some(b"v=0"))),
            ),
            ("d6:result10:load limit7:message4:fulle", Some(Reply::Full)),
            (
                "d6:result5:error12:error-reason5:no \r\ne",
                Some(Reply::No("no ??".into())),
            ),
            ("d6:result5:errore", Some(Reply::No("".into()))),
            (
                "d6:result5:error12:error-reason16:Ran out of portse",
                Some(Reply::Full),
            ),
            (
                "d6:result5:error12:error-reason15:Unknown call-ide",
                Some(Reply::Unknown),
            ),
            (
                "d6:result5:error12:error-reason19:unknown Call-ID (x)e",
                Some(Reply::Unknown),
            ),
            (
                "d6:result5:error12:error-reason7:Unknowne",
                Some(Reply::No("Unknown".into())),
            ),
            ("d6:result3:yese", None),
            ("d6:resulti1ee", None),
            ("de", None),
            ("le", None),
            ("d6:result2:oke ", None),
            ("", None),
        ] {
            assert_eq!(parse(text.as_bytes()), reply, "{text}");
        }
        let long = format!("d6:result5:error12:error-reason1000:{}e", "x".repeat(1_000));
        let Some(Reply::No(words)) = parse(long.as_bytes()) else {
            panic!("an error");
        };
        assert_eq!(words.len(), REASON_MAX);
    }

    #[test]
    fn a_cookie_ends_with_the_first_space() {
        assert_eq!(split(b"ab cd ef"), Some((&b"ab"[..], &b"cd ef"[..])));
        assert_eq!(split(b" cd"), Some((&b""[..], &b"cd"[..])));
        assert_eq!(split(b"ab"), None);
        assert_eq!(split(b""), None);
    }
}
