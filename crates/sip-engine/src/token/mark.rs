//! What the token of a dialog with a provider says of it: which trunk it goes by, and how its
//! requests are counted (`docs/decisions/0211-cseq-of-an-authenticated-leg.md`).

/// The mark of a dialog that goes by a trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Which trunk, by [`super::Tokens::trunk`].
    pub(crate) trunk: u32,
    /// Whose requests bear it.
    pub(crate) side: Side,
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

/// Which way requests with a mark go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// They are for the provider.
    ToProvider,
    /// They are the provider's.
    FromProvider,
}

const FROM_PROVIDER: u8 = 1;
const COUNTS: u8 = 1 << 1;
const IS_ANONYMOUS: u8 = 1 << 2;
const IS_INBOUND: u8 = 1 << 3;
const FLAGS: u8 = FROM_PROVIDER | COUNTS | IS_ANONYMOUS | IS_INBOUND;

impl Mark {
    /// Flags, trunk, number.
    pub(super) const LEN: usize = 1 + 4 + 4;

    /// The same for the other side's requests.
    pub(crate) const fn turned(self) -> Self {
        Self {
            side: match self.side {
                Side::ToProvider => Side::FromProvider,
                Side::FromProvider => Side::ToProvider,
            },
            ..self
        }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let flags = flag(self.side == Side::FromProvider, FROM_PROVIDER)
            | flag(self.counts, COUNTS)
            | flag(self.is_anonymous, IS_ANONYMOUS)
            | flag(self.is_inbound, IS_INBOUND);
        let [a, b, c, d] = self.trunk.to_be_bytes();
        let [e, f, g, h] = self.invite.to_be_bytes();
        [flags, a, b, c, d, e, f, g, h]
    }

    pub(super) const fn of_bytes(bytes: [u8; Self::LEN]) -> Option<Self> {
        let [flags, a, b, c, d, e, f, g, h] = bytes;
        if flags & !FLAGS != 0 {
            return None;
        }
        Some(Self {
            trunk: u32::from_be_bytes([a, b, c, d]),
            side: match flags & FROM_PROVIDER {
                0 => Side::ToProvider,
                _ => Side::FromProvider,
            },
            counts: flags & COUNTS != 0,
            is_anonymous: flags & IS_ANONYMOUS != 0,
            is_inbound: flags & IS_INBOUND != 0,
            invite: u32::from_be_bytes([e, f, g, h]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_survive_their_coding_and_nothing_else_reads() {
        let mark = Mark {
            trunk: 0xdead_beef,
            side: Side::ToProvider,
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
            ..mark.turned()
        };
        for mark in [mark, mark.turned(), other] {
            assert_eq!(Mark::of_bytes(mark.to_bytes()), Some(mark));
        }
        assert_eq!(mark.turned().turned(), mark);
        let mut strange = mark.to_bytes();
        strange[0] |= 1 << 7;
        assert_eq!(Mark::of_bytes(strange), None);
    }
}
