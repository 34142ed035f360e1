//! AH (RFC 4302): the ICV over everything that stays as it is on the way.

use std::ops::Range;

use subtle::ConstantTimeEq;

use crate::algorithm::Auth;
use crate::error::{OpenError, SealError, SetupError};
use crate::framing::{Begun, Number};
use crate::ip::{self, Head};
use crate::keys::Keys;
use crate::mutable::Zeroed;
use crate::primitive::{Mac, Provider, TAG_BYTES, length};

/// Octets before the ICV.
const HEADER_BYTES: usize = 12;

/// The keyed authentication of one association.
pub(crate) struct Engine {
    icv_bytes: usize,
    spi: u32,
    mac: Box<dyn Mac>,
}

impl Engine {
    pub(crate) fn new(
        auth: Auth,
        spi: u32,
        keys: &Keys,
        provider: Provider,
    ) -> Result<Self, SetupError> {
        length("a transform without encryption", 0, keys.cipher())?;
        Ok(Self {
            icv_bytes: auth.icv_bytes(),
            spi,
            mac: provider.mac(auth, keys.auth())?,
        })
    }

    /// Writes header and payload behind what `out` holds, and the ICV over all of it.
    pub(crate) fn seal(
        &mut self,
        begun: &Begun<'_>,
        number: Number,
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let ah_at = out.len();
        let ah_bytes = self.bytes(begun.is_v6);
        let total_bytes = ah_at + ah_bytes + begun.payload.len();
        out.reserve(total_bytes - ah_at);
        // RFC 4302 2.2: "in 32-bit words (4-byte units), minus "2"."
        out.extend_from_slice(&[begun.next, (ah_bytes / 4 - 2) as u8, 0, 0]);
        out.extend_from_slice(&self.spi.to_be_bytes());
        out.extend_from_slice(&number.low().to_be_bytes());
        out.resize(ah_at + ah_bytes, 0);
        out.extend_from_slice(begun.payload);
        ip::finish(out, begun.is_v6, total_bytes).ok_or(SealError::TooLong)?;
        let mut icv = [0; TAG_BYTES];
        let icv = icv.get_mut(..self.icv_bytes).ok_or(SealError::Refused)?;
        self.compute(out, ah_at, begun.is_v6, number, icv)
            .map_err(|error| match error {
                OpenError::Packet(error) => SealError::Packet(error),
                _ => SealError::Refused,
            })?;
        let icv_at = ah_at + HEADER_BYTES;
        let place = out.get_mut(icv_at..icv_at + icv.len());
        place.ok_or(SealError::Refused)?.copy_from_slice(icv);
        Ok(())
    }

    /// Checks a packet; where its payload lies, and what it is. `packet` is as long as it says
    /// itself.
    pub(crate) fn open(
        &mut self,
        packet: &mut [u8],
        head: &Head,
        number: Number,
    ) -> Result<(Range<usize>, u8), OpenError> {
        const SHORT: OpenError = OpenError::Length;
        let [next, words] = *packet
            .get(head.bytes..)
            .and_then(|ah| ah.first_chunk::<2>())
            .ok_or(SHORT)?;
        let ah_bytes = (usize::from(words) + 2) * 4;
        let least = HEADER_BYTES + self.icv_bytes;
        // Some pad IPv4's to 8 octets too; RFC 4302 2.6 has the padding covered as it is.
        if !(least..least + 8).contains(&ah_bytes)
            || (head.is_v6 && !ah_bytes.is_multiple_of(8))
            || head.bytes + ah_bytes > packet.len()
        {
            return Err(SHORT);
        }
        let icv_at = head.bytes + HEADER_BYTES;
        let place = packet
            .get_mut(icv_at..icv_at + self.icv_bytes)
            .ok_or(SHORT)?;
        let (mut given, mut wanted) = ([0; TAG_BYTES], [0; TAG_BYTES]);
        let given = given.get_mut(..self.icv_bytes).ok_or(SHORT)?;
        let wanted = wanted.get_mut(..self.icv_bytes).ok_or(SHORT)?;
        given.copy_from_slice(place);
        // RFC 4302 3.3.3.1: the ICV field counts as zero.
        place.fill(0);
        self.compute(packet, head.bytes, head.is_v6, number, wanted)?;
        if !bool::from((*wanted).ct_eq(given)) {
            return Err(OpenError::Icv);
        }
        Ok((head.bytes + ah_bytes..packet.len(), next))
    }

    /// Octets of the header with its ICV: a multiple of 8 for IPv6, of 4 for IPv4 (RFC 4302 2.6).
    fn bytes(&self, is_v6: bool) -> usize {
        (HEADER_BYTES + self.icv_bytes).next_multiple_of(if is_v6 { 8 } else { 4 })
    }

    fn compute(
        &mut self,
        packet: &[u8],
        ah_at: usize,
        is_v6: bool,
        number: Number,
        icv: &mut [u8],
    ) -> Result<(), OpenError> {
        let (head, rest) = packet.split_at_checked(ah_at).ok_or(OpenError::Length)?;
        let head = Zeroed::of(head, is_v6)?;
        let computed = match number.high() {
            Some(high) => {
                let high = high.to_be_bytes();
                self.mac.compute(&[head.as_slice(), rest, &high], icv)
            }
            None => self.mac.compute(&[head.as_slice(), rest], icv),
        };
        computed.map_err(|_| OpenError::Icv)
    }
}
