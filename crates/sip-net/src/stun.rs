//! STUN on a SIP port (RFC 5626 4.4.2, RFC 8489): phones ask for the address that their
//! datagrams come from, and by that keep their way through a translation open.
//!
//! A Binding request is answered, and nothing else is. The answer goes to where the request
//! came from, has at most [`ANSWER_MAX`] bytes, and there are no more than
//! [`ANSWERS_PER_S`] of them, and of these no more than [`ANSWERS_PER_SOURCE`] to one source:
//! whoever forges a source gains a few bytes and no flood, and who asks too much takes no
//! answer from others.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The longest answer, in bytes: a head, and an IPv6 address or an error with the
/// attributes that it is about.
pub(crate) const ANSWER_MAX: usize = 44;
/// Answers of one socket in a second; past it requests stay without.
const ANSWERS_PER_S: u32 = 10_000;
/// Of these, answers to one source: thousands of phones behind one address, each of which
/// asks every 25 s.
const ANSWERS_PER_SOURCE: u16 = 256;
/// Counts of sources. Two that meet in one share its answers; nobody can choose with whom.
const COUNTS: usize = 1_024;

const HEAD: usize = 20;
const MAGIC_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const BINDING_REQUEST: [u8; 2] = [0x00, 0x01];
const BINDING_SUCCESS: [u8; 2] = [0x01, 0x01];
const BINDING_ERROR: [u8; 2] = [0x01, 0x11];
const XOR_MAPPED_ADDRESS: [u8; 2] = [0x00, 0x20];
const ERROR_CODE: [u8; 2] = [0x00, 0x09];
const UNKNOWN_ATTRIBUTES: [u8; 2] = [0x00, 0x0a];
/// Unknown attributes that an error names; further ones are left out.
const UNKNOWN_MAX: usize = 4;

/// Whether a datagram is of STUN and not of SIP: a SIP message begins with a letter, whose
/// first two bits are never zero.
// RFC 8489 5: "The most significant 2 bits of every STUN message MUST be zeroes." and "The
// Magic Cookie field MUST contain the fixed value 0x2112A442 in network byte order."
pub(crate) fn is_stun(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0xc0 == 0)
        && datagram.len() >= HEAD
        && datagram.get(4..8) == Some(&MAGIC_COOKIE[..])
}

/// Answers requests, no more of them than there may be.
pub(crate) struct Answers {
    since: Instant,
    given: u32,
    /// How many each source was given, by a hash of it.
    given_to: Box<[u16; COUNTS]>,
    hashes: RandomState,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            given: 0,
            given_to: Box::new([0; COUNTS]),
            hashes: RandomState::new(),
        }
    }

    /// The answer to a datagram of STUN; `None` where there is none, or none any more.
    pub(crate) fn answer(&mut self, datagram: &[u8], remote: SocketAddr) -> Option<Answer> {
        let answer = answer(datagram, remote)?;
        let now = Instant::now();
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            self.since = now;
            self.given = 0;
            self.given_to.fill(0);
        }
        if self.given >= ANSWERS_PER_S {
            return None;
        }
        let at = self.hashes.hash_one(source_of(remote)) as usize % COUNTS;
        let given_to = self.given_to.get_mut(at)?;
        if *given_to >= ANSWERS_PER_SOURCE {
            return None;
        }
        *given_to += 1;
        self.given += 1;
        Some(answer)
    }
}

/// Who asks: an address, or an IPv6 network of 64 bits.
fn source_of(remote: SocketAddr) -> u128 {
    match remote.ip().to_canonical() {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits() >> 64 << 64,
    }
}

/// An answer's bytes.
#[derive(Debug)]
pub(crate) struct Answer {
    bytes: [u8; ANSWER_MAX],
    len: usize,
}

impl Answer {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn new(kind: [u8; 2], transaction: &[u8]) -> Self {
        let mut answer = Self {
            bytes: [0; ANSWER_MAX],
            len: 0,
        };
        answer.put(&kind);
        answer.put(&[0, 0]);
        answer.put(&MAGIC_COOKIE);
        answer.put(transaction);
        answer
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// Puts an attribute, whose value is filled up to four bytes (RFC 8489 14).
    fn attribute(&mut self, kind: [u8; 2], value: &[u8]) {
        self.put(&kind);
        self.put(&(value.len() as u16).to_be_bytes());
        self.put(value);
        while !self.len.is_multiple_of(4) {
            self.put(&[0]);
        }
    }

    fn finish(mut self) -> Self {
        let len = (self.len.saturating_sub(HEAD) as u16).to_be_bytes();
        if let Some(place) = self.bytes.get_mut(2..4) {
            place.copy_from_slice(&len);
        }
        self
    }
}

fn answer(datagram: &[u8], remote: SocketAddr) -> Option<Answer> {
    let (head, attributes) = datagram.split_at_checked(HEAD)?;
    let (kind, len) = (head.get(..2)?, head.get(2..4)?);
    let transaction = head.get(8..)?;
    if kind != BINDING_REQUEST || number(len)? != attributes.len() {
        return None;
    }
    let (unknown, count) = unknown_attributes(attributes)?;
    if count > 0 {
        // RFC 8489 6.3.1: "If the request contains one or more unknown
        // comprehension-required attributes, the server replies with an error response with
        // an error code of 420 (Unknown Attribute) and includes an UNKNOWN-ATTRIBUTES
        // attribute in the response that lists the unknown comprehension-required
        // attributes."
        let mut answer = Answer::new(BINDING_ERROR, transaction);
        answer.attribute(ERROR_CODE, &[0, 0, 4, 20]);
        answer.attribute(UNKNOWN_ATTRIBUTES, unknown.get(..2 * count)?);
        return Some(answer.finish());
    }
    let mut answer = Answer::new(BINDING_SUCCESS, transaction);
    answer.mapped(remote, transaction);
    Some(answer.finish())
}

impl Answer {
    /// XOR-MAPPED-ADDRESS (RFC 8489 14.2): the address, hidden from translations that write
    /// another for it wherever they see it.
    fn mapped(&mut self, remote: SocketAddr, transaction: &[u8]) {
        let [high, low] = remote.port().to_be_bytes();
        let [first, second, ..] = MAGIC_COOKIE;
        let mut value = [0; 20];
        let mask = MAGIC_COOKIE.iter().chain(transaction);
        let mut fill = |family: u8, octets: &[u8]| {
            let masked = octets
                .iter()
                .zip(mask.clone())
                .map(|(octet, by)| octet ^ by);
            let bytes = [0, family, high ^ first, low ^ second].into_iter();
            for (to, from) in value.iter_mut().zip(bytes.chain(masked)) {
                *to = from;
            }
            4 + octets.len()
        };
        let len = match remote.ip().to_canonical() {
            IpAddr::V4(ip) => fill(1, &ip.octets()),
            IpAddr::V6(ip) => fill(2, &ip.octets()),
        };
        self.attribute(XOR_MAPPED_ADDRESS, value.get(..len).unwrap_or_default());
    }
}

/// The kinds of the attributes that must be understood and are not, two bytes each, and how
/// many there are; `None` where the attributes cannot be read.
fn unknown_attributes(mut rest: &[u8]) -> Option<([u8; 2 * UNKNOWN_MAX], usize)> {
    // What would prove its sender is of no use here: his address is no secret from him.
    const PASSED_OVER: [u16; 8] = [
        0x0006, 0x0008, 0x0014, 0x0015, 0x001c, 0x001d, 0x001e, 0x0020,
    ];
    let (mut kinds, mut count) = ([0; 2 * UNKNOWN_MAX], 0);
    while !rest.is_empty() {
        let kind = rest.get(..2)?;
        let len = number(rest.get(2..4)?)?.next_multiple_of(4);
        rest = rest.get(4 + len..)?;
        let is_required = kind.first().is_some_and(|first| *first < 0x80);
        let is_known = PASSED_OVER.iter().any(|known| known.to_be_bytes() == kind);
        if is_required
            && !is_known
            && let Some(place) = kinds.get_mut(2 * count..2 * count + 2)
        {
            place.copy_from_slice(kind);
            count += 1;
        }
    }
    Some((kinds, count))
}

fn number(bytes: &[u8]) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(bytes.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5769 2.2 and 2.3: the transaction, and the address that comes back.
    const TRANSACTION: [u8; 12] = [
        0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae,
    ];

    fn request(attributes: &[u8]) -> Vec<u8> {
        let len = (attributes.len() as u16).to_be_bytes();
        [
            &BINDING_REQUEST[..],
            &len,
            &MAGIC_COOKIE,
            &TRANSACTION,
            attributes,
        ]
        .concat()
    }

    fn answered(request: &[u8], remote: &str) -> Vec<u8> {
        assert!(is_stun(request));
        let answer = answer(request, remote.parse().unwrap());
        answer.unwrap().bytes().to_vec()
    }

    #[test]
    fn the_address_comes_back_as_in_the_vectors_of_rfc_5769() {
        let answer = answered(&request(&[]), "192.0.2.1:32853");
        let expected = [
            0x00, 0x20, 0x00, 0x08, 0x00, 0x01, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43,
        ];
        assert_eq!(answer[..2], BINDING_SUCCESS);
        assert_eq!(answer[2..4], [0, 12]);
        assert_eq!(answer[8..20], TRANSACTION);
        assert_eq!(answer[20..], expected);
        let remote = "[2001:db8:1234:5678:11:2233:4455:6677]:32853";
        let answer = answered(&request(&[]), remote);
        let expected = [
            0x00, 0x20, 0x00, 0x14, 0x00, 0x02, 0xa1, 0x47, 0x01, 0x13, 0xa9, 0xfa, 0xa5, 0xd3,
            0xf1, 0x79, 0xbc, 0x25, 0xf4, 0xb5, 0xbe, 0xd2, 0xb9, 0xd9,
        ];
        assert_eq!(answer[20..], expected);
        assert_eq!(answer.len(), ANSWER_MAX);
        // Software names itself in what need not be understood, and is told the same.
        let named = request(&[0x80, 0x22, 0, 3, b'a', b'b', b'c', 0]);
        assert_eq!(answered(&named, remote), answer);
    }

    #[test]
    fn what_must_be_understood_and_is_not_is_named() {
        let asked = request(&[0x00, 0x03, 0, 4, 0, 0, 0, 6]);
        let answer = answered(&asked, "192.0.2.1:5060");
        assert_eq!(answer[..2], BINDING_ERROR);
        assert_eq!(answer[20..28], [0x00, 0x09, 0, 4, 0, 0, 4, 20]);
        assert_eq!(answer[28..], [0x00, 0x0a, 0, 2, 0x00, 0x03, 0, 0]);
        // However many there are, the answer is no longer than it may be.
        let many: Vec<u8> = (0..200_u8).flat_map(|kind| [0x10, kind, 0, 0]).collect();
        let answer = answered(&request(&many), "192.0.2.1:5060");
        assert_eq!((answer.len(), &answer[29..32]), (40, &[0x0a, 0, 8][..]));
    }

    #[test]
    fn nothing_else_is_answered() {
        let remote = "192.0.2.1:5060".parse().unwrap();
        let good = request(&[]);
        let with = |at: usize, byte: u8| {
            let mut changed = good.clone();
            changed[at] = byte;
            changed
        };
        // Indications, answers, other methods, lengths that are not true.
        for other in [
            with(0, 0x01),
            with(1, 0x11),
            with(1, 0x03),
            with(3, 4),
            request(&[0x80]),
            request(&[0x80, 0x22, 0, 9, 0, 0, 0, 0]),
        ] {
            assert!(answer(&other, remote).is_none(), "{other:?}");
        }
        for sip in [
            &b"OPTIONS sip:a SIP/2.0\r\n"[..],
            b"\r\n\r\n",
            b"",
            &good[..19],
            &with(0, 0x40),
            &with(4, 0),
        ] {
            assert!(!is_stun(sip), "{sip:?}");
        }
    }

    #[test]
    fn there_are_no_more_answers_than_there_may_be() {
        let mut answers = Answers::new();
        // A window that lasts longer than this test does.
        answers.since += Duration::from_secs(3_600);
        let asked = request(&[]);
        let from = |n: u32| SocketAddr::from((n.to_be_bytes(), 5060));
        let given = (0..2 * ANSWERS_PER_S).filter(|n| answers.answer(&asked, from(*n)).is_some());
        assert_eq!(given.count(), ANSWERS_PER_S as usize);
        answers.since = Instant::now() - Duration::from_secs(2);
        assert!(answers.answer(&asked, from(1)).is_some());
    }

    #[test]
    fn who_asks_too_much_takes_no_answer_from_others() {
        for (greedy, same) in [
            ("192.0.2.1", "::ffff:192.0.2.1"),
            ("2001:db8::1", "2001:db8::2:3:4:5"),
        ] {
            let at = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
            let mut answers = Answers::new();
            answers.since += Duration::from_secs(3_600);
            let asked = request(&[]);
            let given =
                (1..60_000).filter(|port| answers.answer(&asked, at(greedy, *port)).is_some());
            assert_eq!(given.count(), usize::from(ANSWERS_PER_SOURCE));
            assert!(answers.answer(&asked, at(same, 5060)).is_none());
            // Some other may share his count, and not all.
            let others = (0..64_u8).filter(|n| {
                let other = at(&format!("198.51.100.{n}"), 5060);
                answers.answer(&asked, other).is_some()
            });
            assert!(others.count() > 32);
        }
    }
}
