//! Names of transactions, and the cookies that carry them through the
//! transport and the timer wheel.

use crate::machine::Timer;
use slots::Name;

/// A server transaction. Once the transaction is over the name is stale, and
/// a stale name is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub(crate) Name);

/// A client transaction. Once the transaction is over the name is stale, and
/// a stale name is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(pub(crate) Name);

/// Slots are named in 24 bits of a cookie.
pub(crate) const SLOT_MAX: usize = 1 << 24;

/// Which side, for cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client(ClientId),
    Server(ServerId),
}

const SIDE_SHIFT: u32 = 56;
const TIMER_SHIFT: u32 = 58;
const CLIENT: u64 = 1;
const SERVER: u64 = 2;

impl Side {
    /// Never 0; the top bit is clear.
    pub(crate) fn cookie(self) -> u64 {
        let (side, name) = match self {
            Self::Client(id) => (CLIENT, id.0),
            Self::Server(id) => (SERVER, id.0),
        };
        side << SIDE_SHIFT | u64::from(name.slot & 0xff_ffff) << 32 | u64::from(name.generation)
    }

    /// A cookie that names one of the transaction's timers as well.
    pub(crate) fn timer_cookie(self, timer: Timer) -> u64 {
        self.cookie() | (timer as u64) << TIMER_SHIFT
    }

    pub(crate) fn from_cookie(cookie: u64) -> Option<Self> {
        let name = Name {
            slot: (cookie >> 32) as u32 & 0xff_ffff,
            generation: cookie as u32,
        };
        match cookie >> SIDE_SHIFT & 3 {
            CLIENT => Some(Self::Client(ClientId(name))),
            SERVER => Some(Self::Server(ServerId(name))),
            _ => None,
        }
    }
}

/// The timer that a timer cookie names.
pub(crate) fn cookie_timer(cookie: u64) -> Option<Timer> {
    Timer::from_number((cookie >> TIMER_SHIFT) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_keeps_side_name_and_timer() {
        let name = Name {
            slot: 0xab_cdef,
            generation: u32::MAX,
        };
        for side in [Side::Client(ClientId(name)), Side::Server(ServerId(name))] {
            assert_eq!(Side::from_cookie(side.cookie()), Some(side));
            for timer in Timer::ALL {
                let cookie = side.timer_cookie(timer);
                assert_eq!(cookie >> 63, 0);
                assert_eq!(Side::from_cookie(cookie), Some(side));
                assert_eq!(cookie_timer(cookie), Some(timer));
            }
        }
        assert_eq!(Side::from_cookie(0), None);
        assert_eq!(Side::from_cookie(3 << SIDE_SHIFT), None);
    }
}
