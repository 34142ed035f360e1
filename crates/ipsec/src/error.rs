//! What can be wrong, and whose fault it is.

use std::fmt;

use crate::ip::PacketError;
use crate::primitive::Unavailable;

/// An association that cannot be: the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// RFC 4303 2.1 keeps 0 to 255.
    ReservedSpi(u32),
    /// A key of the wrong length: of what, how long it is to be, and is.
    KeyLength {
        /// The algorithm.
        of: &'static str,
        /// Octets that it takes.
        wanted: usize,
        /// Octets that were given.
        given: usize,
    },
    /// The provider has no such algorithm.
    Unavailable(Unavailable),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedSpi(spi) => {
                write!(f, "SPI {spi} is reserved: take one from 256 on")
            }
            Self::KeyLength { of, wanted, given } => {
                write!(f, "{of} takes a key of {wanted} octets, not of {given}")
            }
            Self::Unavailable(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for SetupError {}

impl From<Unavailable> for SetupError {
    fn from(why: Unavailable) -> Self {
        Self::Unavailable(why)
    }
}

/// A packet that cannot be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// It is no packet, or one that this association cannot carry.
    Packet(PacketError),
    /// RFC 4303 2.6: in ESP without a tunnel its receiver takes it for a dummy, and throws it away.
    CarriesNothing,
    /// It would be longer than an IP packet may be.
    TooLong,
    /// RFC 4303 3.3.3: the sequence numbers are used up, the association is to be replaced.
    Exhausted,
    /// The IV that was given has another length than the cipher's.
    IvLength,
    /// The provider's code refused.
    Refused,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packet(error) => error.fmt(f),
            Self::CarriesNothing => f.write_str(
                "the packet carries nothing, and its receiver would throw it away: use a tunnel",
            ),
            Self::TooLong => f.write_str("the protected packet would exceed 65535 octets"),
            Self::Exhausted => f.write_str("the sequence numbers of the association are used up"),
            Self::IvLength => f.write_str("the IV has another length than the cipher's"),
            Self::Refused => f.write_str("the provider of the algorithm refused"),
        }
    }
}

impl std::error::Error for SealError {}

impl From<PacketError> for SealError {
    fn from(error: PacketError) -> Self {
        Self::Packet(error)
    }
}

/// A packet that is not opened: the peer's or the network's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// It is no packet, or has no such header.
    Packet(PacketError),
    /// It belongs to another association.
    WrongSpi(u32),
    /// It is shorter than its transform says, or its lengths contradict each other.
    Length,
    /// It was received before.
    Replayed,
    /// It is left of the window.
    TooOld,
    /// It is not what the sender sent.
    Icv,
    /// What was decrypted does not end as RFC 4303 2.4 says.
    Padding,
    /// RFC 4303 2.6: a dummy packet, to be thrown away.
    Dummy,
    /// What was in the tunnel is no IP packet.
    Inner,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packet(error) => error.fmt(f),
            Self::WrongSpi(spi) => write!(f, "SPI {spi:#x} is another association's"),
            Self::Length => f.write_str("the packet's lengths are wrong"),
            Self::Replayed => f.write_str("the packet was received before"),
            Self::TooOld => f.write_str("the packet is left of the replay window"),
            Self::Icv => f.write_str("the packet's ICV is wrong"),
            Self::Padding => f.write_str("the packet's padding is wrong"),
            Self::Dummy => f.write_str("the packet is a dummy"),
            Self::Inner => f.write_str("what was in the tunnel is no IP packet"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<PacketError> for OpenError {
    fn from(error: PacketError) -> Self {
        Self::Packet(error)
    }
}
