//! Packets of the protocol and what they are made of.
//!
//! The protocol is that of MySQL 4.1 and later and of MariaDB ("Client/Server Protocol" in
//! the manuals of both). It is written here because pipelining needs the packets
//! themselves, and the part that is needed is small.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest packet that is taken from a server. What is asked for here is much shorter.
const PACKET_MAX: usize = 1 << 20;

/// The longest payload of one packet: longer ones are continued in the next.
const PAYLOAD_MAX: usize = 0xff_ffff;

const HEADER: usize = 4;

/// A server said what the protocol does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbled;

impl From<Garbled> for io::Error {
    fn from(_: Garbled) -> Self {
        Self::new(
            io::ErrorKind::InvalidData,
            "the store does not speak the MySQL protocol, or not as it should",
        )
    }
}

/// What has come and is not read yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// Where the first packet that was not taken yet begins.
    start: usize,
}

impl Inbox {
    /// Whether there is nothing beyond what was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Takes the next packet: its number and its payload.
    pub(crate) async fn packet<'a>(
        &'a mut self,
        from: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<(u8, &'a [u8])> {
        loop {
            if let Some((number, payload)) = self.find()? {
                self.start = payload.end;
                return Ok((number, self.bytes.get(payload).unwrap_or_default()));
            }
            self.bytes.drain(..self.start);
            self.start = 0;
            if from.read_buf(&mut self.bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Where the next packet's payload stands, once all of it has come.
    fn find(&self) -> Result<Option<(u8, std::ops::Range<usize>)>, Garbled> {
        let unread = self.bytes.get(self.start..).unwrap_or_default();
        let Some((&[a, b, c, number], rest)) = unread.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if length > PACKET_MAX {
            return Err(Garbled);
        }
        let begin = self.start + HEADER;
        Ok((rest.len() >= length).then_some((number, begin..begin + length)))
    }
}

/// Appends a packet.
pub(crate) fn frame(number: u8, payload: &[u8], out: &mut Vec<u8>) {
    let mut number = number;
    let mut rest = payload;
    loop {
        let (part, left) = rest.split_at(rest.len().min(PAYLOAD_MAX));
        let [a, b, c, _] = (part.len() as u32).to_le_bytes();
        out.extend_from_slice(&[a, b, c, number]);
        out.extend_from_slice(part);
        if part.len() < PAYLOAD_MAX {
            return;
        }
        rest = left;
        number = number.wrapping_add(1);
    }
}

/// Sends one packet.
pub(crate) async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    number: u8,
    payload: &[u8],
) -> io::Result<()> {
    let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(payload.len() + HEADER));
    frame(number, payload, &mut bytes);
    to.write_all(&bytes).await?;
    to.flush().await
}

/// Reads a payload from front to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// Whether all was read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Garbled> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(Garbled)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Garbled> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Garbled> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Garbled> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Garbled> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Garbled)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// What stands before the next NUL, or all the rest.
    pub(crate) fn until_nul(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| byte == 0);
        let (bytes, rest) = match end {
            Some(end) => (
                self.0.get(..end).unwrap_or_default(),
                self.0.get(end + 1..).unwrap_or_default(),
            ),
            None => (self.0, [].as_slice()),
        };
        self.0 = rest;
        bytes
    }

    /// A number in one to nine bytes.
    pub(crate) fn number(&mut self) -> Result<u64, Garbled> {
        Ok(match self.u8()? {
            short @ 0..=0xfa => short.into(),
            0xfc => self.u16()?.into(),
            0xfd => {
                let [a, b, c] = self.array()?;
                u32::from_le_bytes([a, b, c, 0]).into()
            }
            0xfe => u64::from_le_bytes(self.array()?),
            0xfb | 0xff => return Err(Garbled),
        })
    }

    /// Bytes with their number before them.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Garbled> {
        let length = self.number()?;
        self.bytes(usize::try_from(length).map_err(|_| Garbled)?)
    }
}

/// Appends bytes with their number before them.
pub(crate) fn put_string(bytes: &[u8], out: &mut Vec<u8>) {
    let length = bytes.len() as u64;
    let digits = length.to_le_bytes();
    match length {
        0..=0xfa => out.push(length as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend(digits.iter().take(2));
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend(digits.iter().take(3));
        }
        _ => {
            out.push(0xfe);
            out.extend(digits);
        }
    }
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn strings_of_all_lengths_come_back() {
        for length in [0, 1, 250, 251, 252, 65_535, 65_536, 70_000, 1 << 24] {
            let bytes = vec![7; length];
            let mut written = Vec::new();
            put_string(&bytes, &mut written);
            let mut reader = Reader(&written);
            assert_eq!(reader.string().unwrap().len(), length);
            assert!(reader.is_at_end());
            // Cut anywhere, it is garbled and nothing else.
            for cut in [0, 1, length / 2] {
                if cut < written.len() {
                    assert_eq!(Reader(&written[..cut]).string(), Err(Garbled), "{length}");
                }
            }
        }
        assert_eq!(Reader(&[0xfe; 9]).string(), Err(Garbled));
    }

    #[test]
    fn packets_come_in_any_pieces() {
        let mut bytes = Vec::new();
        frame(0, b"one", &mut bytes);
        frame(1, b"", &mut bytes);
        frame(2, b"three", &mut bytes);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        for size in 1..=bytes.len() {
            runtime.block_on(async {
                let (mut near, mut far) = tokio::io::duplex(size);
                let sent = bytes.clone();
                let sending = async move {
                    far.write_all(&sent).await.unwrap();
                };
                let taking = async {
                    let mut inbox = Inbox::default();
                    for (number, payload) in [(0, b"one".as_slice()), (1, b""), (2, b"three")] {
                        assert_eq!(inbox.packet(&mut near).await.unwrap(), (number, payload));
                    }
                    let end = inbox.packet(&mut near).await.unwrap_err();
                    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
                };
                tokio::join!(sending, taking);
            });
        }
    }

    #[test]
    fn a_packet_beyond_the_bound_is_refused_before_it_comes() {
        let inbox = Inbox {
            bytes: vec![0xff, 0xff, 0xff, 0],
            start: 0,
        };
        assert_eq!(inbox.find(), Err(Garbled));
    }
}
