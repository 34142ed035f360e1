//! What a packet has before AH or ESP is written into it.

/// The number of a packet, as an association counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(crate) whole: u64,
    pub(crate) is_extended: bool,
}

impl Number {
    pub(crate) fn low(self) -> u32 {
        self.whole as u32
    }

    /// What is authenticated and not sent.
    pub(crate) fn high(self) -> Option<u32> {
        self.is_extended.then_some((self.whole >> 32) as u32)
    }

    /// RFC 4106 5: SPI and sequence number, whole where it is extended.
    pub(crate) fn aad(self, spi: u32) -> ([u8; 12], usize) {
        let mut aad = [0; 12];
        let (front, back) = aad.split_at_mut(4);
        front.copy_from_slice(&spi.to_be_bytes());
        if self.is_extended {
            back.copy_from_slice(&self.whole.to_be_bytes());
            return (aad, 12);
        }
        let (back, _) = back.split_at_mut(4);
        back.copy_from_slice(&self.low().to_be_bytes());
        (aad, 8)
    }
}

/// A packet of which the header is written and the payload is not.
pub(crate) struct Begun<'a> {
    /// Of the header in front.
    pub(crate) is_v6: bool,
    /// What the payload is.
    pub(crate) next: u8,
    pub(crate) payload: &'a [u8],
}
