//! What the token of a dialog with a provider says of it: which trunk it goes by, and how its
//! requests are counted (`docs/decisions/0211-cseq-of-an-authenticated-leg.md`).

use super::payload::take;

/// The marks of a dialog that goes by a trunk, as the requests of one side meet them. Where a
/// provider's call is sent on to a provider there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Of the trunk that the requests go to.
    pub(crate) to: Option<Mark>,
    /// Of the trunk that they come from.
    pub(crate) from: Option<Mark>,
}

/// What is to be known of a dialog's trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Which trunk, by [`super::Tokens::trunk`].
    pub(crate) trunk: u32,
    /// Whether this server counts the requests to the provider.
    pub(crate) counts: bool,
    /// Whether the caller does not say who he is.
    pub(crate) is_anonymous: bool,
    /// Whether its From and To stay as they are: the provider began the dialog, or a caller from
    /// elsewhere whose call is sent on.
    pub(crate) is_inbound: bool,
    /// The CSeq number of the INVITE that made the dialog, as the provider got it; 0 where
    /// that was the provider's.
    pub(crate) invite: u32,
}

const FROM_PROVIDER: u8 = 1;
const COUNTS: u8 = 1 << 1;
const IS_ANONYMOUS: u8 = 1 << 2;
const IS_INBOUND: u8 = 1 << 3;
/// Another mark follows.
const ANOTHER: u8 = 1 << 4;
const FLAGS: u8 = FROM_PROVIDER | COUNTS | IS_ANONYMOUS | IS_INBOUND | ANOTHER;

impl Marks {
    /// Flags, trunk, number; twice at most.
    pub(super) const LEN_MAX: usize = 2 * Mark::LEN;

    /// Those, if there are any.
    pub(crate) fn of(to: Option<Mark>, from: Option<Mark>) -> Option<Self> {
        (to.is_some() || from.is_some()).then_some(Self { to, from })
    }

    /// The same for the other side's requests.
    pub(crate) const fn turned(self) -> Self {
        Self {
            to: self.from,
            from: self.to,
        }
    }

    /// The same with the marks changed.
    pub(crate) fn map(self, change: impl Fn(Mark) -> Mark) -> Self {
        Self {
            to: self.to.map(&change),
            from: self.from.map(&change),
        }
    }

    pub(super) fn write(self, mut put: impl FnMut(&[u8])) {
        if let Some(to) = self.to {
            put(&to.to_bytes(if self.from.is_some() { ANOTHER } else { 0 }));
        }
        if let Some(from) = self.from {
            put(&from.to_bytes(FROM_PROVIDER));
        }
    }

    /// Reads what [`Marks::write`] wrote: nothing else has a reading.
    pub(super) fn read(rest: &mut &[u8]) -> Option<Self> {
        let (flags, mark) = Mark::of_bytes(take(rest)?)?;
        match flags & (FROM_PROVIDER | ANOTHER) {
            0 => Self::of(Some(mark), None),
            FROM_PROVIDER => Self::of(None, Some(mark)),
            ANOTHER => match Mark::of_bytes(take(rest)?)? {
                (flags, from) if flags & (FROM_PROVIDER | ANOTHER) == FROM_PROVIDER => {
                    Self::of(Some(mark), Some(from))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl Mark {
    /// Flags, trunk, number.
    const LEN: usize = 1 + 4 + 4;

    fn to_bytes(self, more: u8) -> [u8; Self::LEN] {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let flags = more
            | flag(self.counts, COUNTS)
            | flag(self.is_anonymous, IS_ANONYMOUS)
            | flag(self.is_inbound, IS_INBOUND);
        let [a, b, c, d] = self.trunk.to_be_bytes();
        let [e, f, g, h] = self.invite.to_be_bytes();
        [flags, a, b, c, d, e, f, g, h]
    }

    const fn of_bytes(bytes: [u8; Self::LEN]) -> Option<(u8, Self)> {
        let [flags, a, b, c, d, e, f, g, h] = bytes;
        if flags & !FLAGS != 0 {
            return None;
        }
        let mark = Self {
            trunk: u32::from_be_bytes([a, b, c, d]),
            counts: flags & COUNTS != 0,
            is_anonymous: flags & IS_ANONYMOUS != 0,
            is_inbound: flags & IS_INBOUND != 0,
            invite: u32::from_be_bytes([e, f, g, h]),
        };
        Some((flags, mark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(marks: Marks) -> Vec<u8> {
        let mut bytes = Vec::new();
        marks.write(|part| bytes.extend_from_slice(part));
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Marks> {
        let rest = &mut &*bytes;
        let marks = Marks::read(rest)?;
        rest.is_empty().then_some(marks)
    }

    #[test]
    fn marks_survive_their_coding_and_nothing_else_reads() {
        let mark = Mark {
            trunk: 0xdead_beef,
            counts: true,
            is_anonymous: false,
            is_inbound: false,
            invite: 5,
        };
        let other = Mark {
            counts: false,
            is_anonymous: true,
            is_inbound: true,
            invite: u32::MAX,
            ..mark
        };
        let all = [
            (Some(mark), None),
            (None, Some(mark)),
            (Some(mark), Some(other)),
            (Some(other), Some(mark)),
        ];
        for (to, from) in all {
            let marks = Marks::of(to, from).unwrap();
            let bytes = written(marks);
            assert!(bytes.len() <= Marks::LEN_MAX);
            assert_eq!(read(&bytes), Some(marks));
            assert_eq!(read(&written(marks.turned())), Some(marks.turned()));
            assert_eq!(marks.turned().turned(), marks);
            let mut strange = bytes.clone();
            strange[0] |= 1 << 7;
            assert_eq!(read(&strange), None);
            // Half of two, or a mark too many.
            let half = bytes.get(..bytes.len() - Mark::LEN).unwrap();
            assert_eq!(read(half), None);
            assert_eq!(read(&[bytes.clone(), bytes].concat()), None);
        }
        assert_eq!(Marks::of(None, None), None);
        // Two of one side.
        let mut twice = written(Marks::of(Some(mark), Some(other)).unwrap());
        twice[Mark::LEN] &= !FROM_PROVIDER;
        assert_eq!(read(&twice), None);
    }
}
