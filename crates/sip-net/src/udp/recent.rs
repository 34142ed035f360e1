//! The datagrams that were sent last, to tell which one an ICMP error is for.

use std::net::SocketAddr;

/// Datagrams remembered: half a second of them at 2,000 a second.
const DATAGRAMS: usize = 1_024;
/// Bytes of each: enough for the branch of its first Via, which nobody guesses.
pub(super) const HEAD: usize = 192;

/// A ring of the last datagrams whose sender wants to know.
#[derive(Default)]
pub(super) struct Recent {
    datagrams: Vec<Datagram>,
    oldest: usize,
}

struct Datagram {
    remote: SocketAddr,
    /// 0 for one that was reported.
    cookie: u64,
    head: [u8; HEAD],
    len: usize,
}

impl Recent {
    /// Remembers a datagram in the place of the oldest.
    pub(super) fn remember(&mut self, remote: SocketAddr, bytes: &[u8], cookie: u64) {
        if cookie == 0 {
            return;
        }
        if self.datagrams.len() < DATAGRAMS {
            self.datagrams.push(Datagram::new(remote, bytes, cookie));
        } else if let Some(oldest) = self.datagrams.get_mut(self.oldest) {
            oldest.fill(remote, bytes, cookie);
            self.oldest = (self.oldest + 1) % DATAGRAMS;
        }
    }

    /// The cookie of a datagram to `remote` that begins as `quoted` does. An
    /// error that quotes less than was remembered proves nothing: it may come
    /// from somebody who only guessed the ports.
    pub(super) fn take(&mut self, remote: SocketAddr, quoted: &[u8]) -> Option<u64> {
        let datagram = self.datagrams.iter_mut().find(|datagram| {
            datagram.cookie != 0
                && datagram.remote == remote
                && datagram
                    .head
                    .get(..datagram.len)
                    .is_some_and(|head| quoted.starts_with(head))
        })?;
        Some(std::mem::take(&mut datagram.cookie))
    }
}

impl Datagram {
    fn new(remote: SocketAddr, bytes: &[u8], cookie: u64) -> Self {
        let mut datagram = Self {
            remote,
            cookie,
            head: [0; HEAD],
            len: 0,
        };
        datagram.fill(remote, bytes, cookie);
        datagram
    }

    fn fill(&mut self, remote: SocketAddr, bytes: &[u8], cookie: u64) {
        (self.remote, self.cookie) = (remote, cookie);
        self.len = bytes.len().min(HEAD);
        let parts = (self.head.get_mut(..self.len), bytes.get(..self.len));
        if let (Some(head), Some(bytes)) = parts {
            head.copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn an_error_is_for_the_datagram_that_it_quotes() {
        let mut recent = Recent::default();
        let long = [7; 500];
        recent.remember(addr(1), b"one", 11);
        recent.remember(addr(2), b"one", 12);
        recent.remember(addr(1), b"two", 13);
        recent.remember(addr(1), &long, 14);
        recent.remember(addr(1), b"nobody asks", 0);
        assert_eq!(recent.take(addr(1), b"two"), Some(13));
        assert_eq!(recent.take(addr(1), b"two"), None, "each is reported once");
        assert_eq!(recent.take(addr(2), b"one and padding"), Some(12));
        assert_eq!(recent.take(addr(3), b"one"), None);
        assert_eq!(recent.take(addr(1), b"nobody asks"), None);
        assert_eq!(recent.take(addr(1), b"on"), None, "too little is quoted");
        assert_eq!(recent.take(addr(1), &long[..HEAD - 1]), None);
        assert_eq!(recent.take(addr(1), &long[..HEAD]), Some(14));
        assert_eq!(recent.take(addr(1), b"one"), Some(11));
    }

    #[test]
    fn only_the_last_are_remembered() {
        let mut recent = Recent::default();
        for n in 0..3 * DATAGRAMS as u64 {
            recent.remember(addr(1), &n.to_be_bytes(), n + 1);
        }
        assert_eq!(recent.datagrams.len(), DATAGRAMS);
        let first = 2 * DATAGRAMS as u64;
        assert_eq!(recent.take(addr(1), &(first - 1).to_be_bytes()), None);
        assert_eq!(recent.take(addr(1), &first.to_be_bytes()), Some(first + 1));
    }
}
