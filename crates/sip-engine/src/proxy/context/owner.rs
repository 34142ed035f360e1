//! What a transaction belongs to, coded in the number that it and its timers have.

use crate::effect::ParkId;

/// Names a context, and perhaps one of its branches, in a transaction's
/// `context` and in a timer: kind, slot, generation and branch in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

const KIND_CONTEXT: u64 = 1 << 62;
const KIND_PARKED: u64 = 2 << 62;
const KIND_PROBE: u64 = 3 << 62;
const KIND_MASK: u64 = 3 << 62;
/// Beside [`KIND_PROBE`], whose number has 32 bits.
const IS_KEEPALIVE: u64 = 1 << 61;
/// Of the same kind as a probe, but for this.
const IS_REGISTER: u64 = 1 << 32;
pub(super) const SLOT_BITS: u32 = 24;
const GENERATION_BITS: u32 = 22;
const BRANCH_BITS: u32 = 16;
pub(super) const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// To what a transaction belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A response context, and the branch where the transaction is a client's.
    Context(Key, u16),
    /// A request that waits for an answer.
    Parked(ParkId),
    /// A probe of a next hop, by its number.
    Probe(u32),
    /// A question to a phone whether it is there, by its number.
    KeepAlive(u32),
    /// A REGISTER to a provider, by its number.
    Register(u32),
    /// Nobody.
    Nobody,
}

impl Owner {
    pub(crate) fn encode(self) -> u64 {
        match self {
            Self::Context(key, branch) => {
                KIND_CONTEXT
                    | u64::from(key.slot) << (GENERATION_BITS + BRANCH_BITS)
                    | u64::from(key.generation & GENERATION_MASK) << BRANCH_BITS
                    | u64::from(branch)
            }
            Self::Parked(park) => KIND_PARKED | (park.0 & !KIND_MASK),
            Self::Probe(number) => KIND_PROBE | u64::from(number),
            Self::KeepAlive(number) => KIND_PROBE | IS_KEEPALIVE | u64::from(number),
            Self::Register(number) => KIND_PROBE | IS_REGISTER | u64::from(number),
            Self::Nobody => 0,
        }
    }

    pub(crate) fn decode(value: u64) -> Self {
        match value & KIND_MASK {
            KIND_CONTEXT => {
                let slot = (value >> (GENERATION_BITS + BRANCH_BITS)) & ((1 << SLOT_BITS) - 1);
                let generation = (value >> BRANCH_BITS) & u64::from(GENERATION_MASK);
                let branch = value & ((1 << BRANCH_BITS) - 1);
                Self::Context(
                    Key {
                        slot: slot as u32,
                        generation: generation as u32,
                    },
                    branch as u16,
                )
            }
            KIND_PARKED => Self::Parked(ParkId(value & !KIND_MASK)),
            KIND_PROBE if value & IS_KEEPALIVE != 0 => Self::KeepAlive(value as u32),
            KIND_PROBE if value & IS_REGISTER != 0 => Self::Register(value as u32),
            KIND_PROBE => Self::Probe(value as u32),
            _ => Self::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_survive_their_coding() {
        for owner in [
            Owner::Nobody,
            Owner::Parked(ParkId(0)),
            Owner::Parked(ParkId((1 << 62) - 1)),
            Owner::Probe(0),
            Owner::Probe(u32::MAX),
            Owner::KeepAlive(0),
            Owner::KeepAlive(u32::MAX),
            Owner::Register(0),
            Owner::Register(u32::MAX),
            Owner::Context(
                Key {
                    slot: (1 << SLOT_BITS) - 1,
                    generation: GENERATION_MASK,
                },
                u16::MAX,
            ),
            Owner::Context(
                Key {
                    slot: 0,
                    generation: 0,
                },
                0,
            ),
        ] {
            assert_eq!(Owner::decode(owner.encode()), owner);
        }
    }
}
