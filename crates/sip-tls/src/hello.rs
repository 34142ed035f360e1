//! A ClientHello read for what it will cost, before anything is computed for
//! it (RFC 5246 7.4.1.2, RFC 8446 4.1.2).

use rustls::SignatureScheme;

/// What a ClientHello offers to resume, and which signature it asks for. Empty
/// where it says nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello<'a> {
    /// The session id; in TLS 1.3 it means nothing.
    pub(crate) session_id: &'a [u8],
    /// The ticket of TLS 1.2 (RFC 5077 3.2).
    pub(crate) ticket: &'a [u8],
    /// The identities of the pre-shared keys, one after the other, each with
    /// its length before it and its age behind it (RFC 8446 4.2.11).
    psks: &'a [u8],
    /// The host's name (RFC 6066 3).
    pub(crate) server_name: &'a [u8],
    /// The signatures that it verifies, two bytes each (RFC 8446 4.2.3).
    schemes: &'a [u8],
}

/// What the beginning of a connection is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read<'a> {
    /// More bytes are needed to tell.
    More,
    /// A whole ClientHello in one record.
    Hello(Hello<'a>),
    /// Something else, or a ClientHello in pieces: the library will tell.
    Other,
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const SESSION_TICKET: u16 = 35;
const PRE_SHARED_KEY: u16 = 41;
/// RFC 8446 5.1: "The length MUST NOT exceed 2^14 bytes."
const RECORD_MAX: usize = 1 << 14;

/// Reads the first record of a connection.
pub(crate) fn read(input: &[u8]) -> Read<'_> {
    match input {
        [] => return Read::More,
        [HANDSHAKE, ..] => {}
        _ => return Read::Other,
    }
    let Some((header, rest)) = input.split_first_chunk::<5>() else {
        return Read::More;
    };
    let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if header[1] != 3 || !(4..=RECORD_MAX).contains(&len) {
        return Read::Other;
    }
    let Some(record) = rest.get(..len) else {
        return Read::More;
    };
    hello(record).map_or(Read::Other, Read::Hello)
}

/// Reads a handshake message that fills its record.
fn hello(record: &[u8]) -> Option<Hello<'_>> {
    let mut at = Cursor(record);
    if at.number(1)? != usize::from(CLIENT_HELLO) {
        return None;
    }
    let mut at = Cursor(at.vector(3)?);
    // Version and random.
    at.take(2 + 32)?;
    let mut hello = Hello {
        session_id: at.vector(1)?,
        ..Hello::default()
    };
    // Cipher suites and compression methods.
    at.vector(2)?;
    at.vector(1)?;
    if at.0.is_empty() {
        return Some(hello);
    }
    let mut extensions = Cursor(at.vector(2)?);
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let data = extensions.vector(2)?;
        match u16::try_from(kind) {
            Ok(SERVER_NAME) => hello.server_name = host_name(data).unwrap_or_default(),
            Ok(SIGNATURE_ALGORITHMS) => hello.schemes = Cursor(data).vector(2)?,
            Ok(SESSION_TICKET) => hello.ticket = data,
            Ok(PRE_SHARED_KEY) => hello.psks = Cursor(data).vector(2)?,
            _ => {}
        }
    }
    Some(hello)
}

/// The first name of a list, if it is that of a host.
fn host_name(data: &[u8]) -> Option<&[u8]> {
    let mut names = Cursor(Cursor(data).vector(2)?);
    let kind = names.number(1)?;
    let name = names.vector(2)?;
    (kind == 0).then_some(name)
}

impl<'a> Hello<'a> {
    /// The signatures that the client verifies.
    pub(crate) fn schemes(&self) -> impl Iterator<Item = SignatureScheme> + use<'a> {
        let (pairs, _) = self.schemes.as_chunks();
        pairs
            .iter()
            .map(|scheme| SignatureScheme::from(u16::from_be_bytes(*scheme)))
    }

    /// The identities of the pre-shared keys.
    pub(crate) fn psks(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut at = Cursor(self.psks);
        std::iter::from_fn(move || {
            let identity = at.vector(2)?;
            // The ticket's age.
            at.take(4)?;
            Some(identity)
        })
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let bytes = self.take(bytes)?;
        Some(
            bytes
                .iter()
                .fold(0, |number, byte| (number << 8) | usize::from(*byte)),
        )
    }

    /// Bytes with their length before them.
    fn vector(&mut self, len_bytes: usize) -> Option<&'a [u8]> {
        let len = self.number(len_bytes)?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello in a record.
    fn record(session_id: &[u8], extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(u8::try_from(session_id.len()).unwrap());
        body.extend(session_id);
        body.extend([0, 2, 0x13, 1, 1, 0]);
        let mut list = Vec::new();
        for (kind, data) in extensions {
            list.extend(kind.to_be_bytes());
            list.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            list.extend(data);
        }
        body.extend(u16::try_from(list.len()).unwrap().to_be_bytes());
        body.extend(list);
        let mut out = vec![22, 3, 1];
        out.extend(u16::try_from(body.len() + 4).unwrap().to_be_bytes());
        out.push(1);
        out.extend(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
        out.extend(body);
        out
    }

    fn psk(identities: &[&[u8]]) -> Vec<u8> {
        let mut list = Vec::new();
        for identity in identities {
            list.extend(u16::try_from(identity.len()).unwrap().to_be_bytes());
            list.extend(*identity);
            list.extend([0; 4]);
        }
        let mut out = u16::try_from(list.len()).unwrap().to_be_bytes().to_vec();
        out.extend(list);
        // Binders, which are not looked at.
        out.extend([0, 2, 1, 9]);
        out
    }

    #[test]
    fn what_is_offered_is_found() {
        let bytes = record(
            b"id",
            &[
                (0, b"\0\x07\0\0\x04name".to_vec()),
                (13, vec![0, 4, 4, 3, 8, 7]),
                (35, b"ticket".to_vec()),
                (41, psk(&[b"one", b"two"])),
            ],
        );
        let Read::Hello(hello) = read(&bytes) else {
            panic!("no hello");
        };
        assert_eq!(
            (hello.session_id, hello.ticket),
            (&b"id"[..], &b"ticket"[..])
        );
        assert!(hello.psks().eq([&b"one"[..], b"two"]));
        assert_eq!(hello.server_name, b"name");
        let schemes = [
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ED25519,
        ];
        assert!(hello.schemes().eq(schemes));
        let nothing = record(b"", &[]);
        assert_eq!(read(&nothing), Read::Hello(Hello::default()));
    }

    #[test]
    fn a_part_asks_for_more_and_nothing_panics() {
        let bytes = record(b"id", &[(41, psk(&[b"one"]))]);
        for len in 0..bytes.len() {
            assert_eq!(read(&bytes[..len]), Read::More, "{len}");
        }
        let mut lots = 1u64;
        for _ in 0..20_000 {
            let mut spoiled = bytes.clone();
            for _ in 0..2 {
                lots = lots.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = (lots >> 33) as usize % spoiled.len();
                spoiled[place] = (lots >> 20) as u8;
            }
            if let Read::Hello(hello) = read(&spoiled) {
                hello.psks().for_each(drop);
            }
        }
    }

    #[test]
    fn what_is_no_hello_is_not_waited_for() {
        assert_eq!(read(b"REGISTER sip:"), Read::Other);
        assert_eq!(read(&[22, 3, 1, 0xff, 0xff]), Read::Other);
        assert_eq!(read(&[22, 9, 1, 0, 5]), Read::Other);
        // A hello in two records.
        let mut bytes = record(b"id", &[]);
        let cut = bytes.len() - 10;
        bytes.truncate(cut);
        bytes[3..5].copy_from_slice(&u16::try_from(cut - 5).unwrap().to_be_bytes());
        assert_eq!(read(&bytes), Read::Other);
    }
}
