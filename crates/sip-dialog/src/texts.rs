//! The strings of a dialog or of a request, one behind the other in a buffer
//! that is used again.

use crate::slots::Reset;
use invariant::broken;

/// One of the strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The Call-ID.
    CallId,
    /// The local URI, with display name and angle brackets, without tag.
    Local,
    /// The remote URI, likewise.
    Remote,
    /// The remote tag; empty for none.
    RemoteTag,
    /// The remote target: what becomes the Request-URI.
    Target,
    /// The route set, in the order in which it is written to Route.
    Routes,
    /// The header lines with the credentials that the INVITE bore.
    Credentials,
    /// The body's type.
    BodyType,
    /// Further header lines about the body.
    BodyHeaders,
    /// The body.
    Body,
}

const PARTS: usize = 10;

/// All of them.
#[derive(Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    ends: [u32; PARTS],
}

impl Texts {
    pub(crate) fn get(&self, part: Part) -> &[u8] {
        let (start, end) = self.range(part);
        let text = self.bytes.get(start..end);
        text.unwrap_or_else(|| broken!("each text ends within the buffer", b""))
    }

    pub(crate) fn set(&mut self, part: Part, value: &[u8]) {
        let (start, end) = self.range(part);
        self.replace(part, start, end, value);
    }

    /// Takes over everything from another.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends = other.ends;
    }

    fn range(&self, part: Part) -> (usize, usize) {
        let index = part as usize;
        let start = index
            .checked_sub(1)
            .and_then(|i| self.ends.get(i))
            .copied()
            .unwrap_or(0);
        let end = self.ends.get(index).copied().unwrap_or(start);
        (start as usize, end as usize)
    }

    /// Puts `value` in the place of the bytes from `start` to `end`, which
    /// belong to `part`, and moves the rest along.
    fn replace(&mut self, part: Part, start: usize, end: usize, value: &[u8]) {
        let old_len = self.bytes.len();
        let (removed, added) = (end - start, value.len());
        if added > removed {
            self.bytes.resize(old_len + added - removed, 0);
        }
        self.bytes.copy_within(end..old_len, start + added);
        if added < removed {
            self.bytes.truncate(old_len + added - removed);
        }
        let Some(place) = self.bytes.get_mut(start..start + added) else {
            return broken!("each text ends within the buffer");
        };
        place.copy_from_slice(value);
        // No message is near 4 GiB, so neither are its parts.
        let (removed, added) = (removed as u32, added as u32);
        for end in self.ends.iter_mut().skip(part as usize) {
            *end = *end + added - removed;
        }
    }
}

impl Reset for Texts {
    fn reset(&mut self) {
        self.bytes.clear();
        self.ends = [0; PARTS];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_and_shrink_and_leave_the_others() {
        let mut texts = Texts::default();
        texts.set(Part::Remote, b"<sip:bob@example.org>");
        texts.set(Part::CallId, b"1234");
        texts.set(Part::Body, b"v=0");
        texts.set(Part::RemoteTag, b"t1");
        texts.set(Part::Credentials, b"one");
        texts.set(Part::Remote, b"<sip:b@c>");
        texts.set(Part::RemoteTag, b"a-longer-tag");
        assert_eq!(texts.get(Part::CallId), b"1234");
        assert_eq!(texts.get(Part::Local), b"");
        assert_eq!(texts.get(Part::Remote), b"<sip:b@c>");
        assert_eq!(texts.get(Part::RemoteTag), b"a-longer-tag");
        assert_eq!(texts.get(Part::Credentials), b"one");
        assert_eq!(texts.get(Part::Body), b"v=0");
        let mut copy = Texts::default();
        copy.copy_from(&texts);
        assert_eq!(copy.get(Part::RemoteTag), b"a-longer-tag");
        copy.reset();
        assert_eq!(copy.get(Part::Body), b"");
    }
}
