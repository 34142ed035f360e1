//! A name for the two parties of a dialog, the same in the requests of both.

use std::hash::Hasher;

use sha2::{Digest, Sha256};

use super::canonical::Feed;
use super::{Party, Sides};

/// Names the parties by their URIs. Nobody finds two others with the same name, and it does not
/// depend on this server's keys: they change while a call lasts.
pub(crate) fn name_parties(sides: &Sides<'_>) -> u64 {
    let (from, to) = (digest(&sides.from), digest(&sides.to));
    let mut both = Gathered(Sha256::new());
    both.write(&from.min(to));
    both.write(&from.max(to));
    both.finish()
}

fn digest(party: &Party<'_>) -> [u8; 32] {
    let mut gathered = Gathered(Sha256::new());
    let mut feed = Feed::new(&mut gathered);
    feed.party(&party.uri);
    feed.finish();
    gathered.0.finalize().into()
}

struct Gathered(Sha256);

impl Hasher for Gathered {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest: [u8; 32] = self.0.clone().finalize().into();
        digest
            .first_chunk()
            .map_or(0, |first| u64::from_be_bytes(*first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parse, request};

    fn name(from: &str, to: &str) -> u64 {
        let message = parse(request("INVITE", "sip:x@y", from, to, "").as_bytes());
        name_parties(&Sides::of(&message).unwrap())
    }

    #[test]
    fn two_parties_have_one_name_whoever_sends_and_no_others_have_it() {
        let (alice, bob) = (
            "<sip:alice@example.org>;tag=a",
            "<sip:bob@example.org>;tag=b",
        );
        let own = name(alice, bob);
        assert_eq!(name(bob, alice), own);
        assert_eq!(name(alice, "\"Bob\" <sip:bob@EXAMPLE.org>"), own);
        for (from, to) in [
            ("<sip:mallory@example.org>;tag=a", bob),
            (alice, "<sip:mallory@example.org>;tag=b"),
            (alice, alice),
            (bob, bob),
            ("<sip:alice@example.com>;tag=a", bob),
        ] {
            assert_ne!(name(from, to), own, "{from} {to}");
        }
    }
}
