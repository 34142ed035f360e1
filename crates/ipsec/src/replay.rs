//! The window against replay (RFC 4303 3.4.3 and Appendix A).

use crate::error::OpenError;

/// Packets that the window knows. RFC 4303 3.4.3: "a window size of 64 is preferred and SHOULD
/// be employed as the default."
pub const WINDOW: u64 = 64;

/// The sequence numbers that were received.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// The highest number that was validated; 0 before the first.
    highest: u64,
    /// Whether each number from the highest down was received; bit 0 is the highest.
    seen: u64,
    is_extended: bool,
}

impl ReplayWindow {
    /// Nothing was received. `is_extended` says that numbers have 64 bits of which a packet
    /// carries the lower half.
    pub fn new(is_extended: bool) -> Self {
        Self {
            highest: 0,
            seen: 0,
            is_extended,
        }
    }

    /// As if everything up to `highest` had been received.
    pub fn after(highest: u64, is_extended: bool) -> Self {
        Self {
            highest,
            seen: u64::MAX,
            is_extended,
        }
    }

    /// The highest number that was validated.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The whole number of a packet from its lower half.
    ///
    /// # Errors
    /// [`OpenError::TooOld`] where it would lie before the first.
    pub fn whole(&self, low: u32) -> Result<u64, OpenError> {
        if !self.is_extended {
            return Ok(u64::from(low));
        }
        // RFC 4303 A2.2: which half a number belongs to, from where the window lies.
        let (high_t, low_t) = (self.highest >> 32, self.highest as u32);
        let bottom = low_t.wrapping_sub(WINDOW as u32 - 1);
        let high = if u64::from(low_t) >= WINDOW - 1 {
            // Case A: the window lies within one half.
            if low >= bottom {
                Some(high_t)
            } else {
                high_t.checked_add(1)
            }
        } else if low >= bottom {
            // Case B: it lies over the edge of two.
            high_t.checked_sub(1)
        } else {
            Some(high_t)
        };
        let high = high.filter(|high| *high <= u64::from(u32::MAX));
        Ok((high.ok_or(OpenError::TooOld)? << 32) | u64::from(low))
    }

    /// Whether a number may come.
    ///
    /// # Errors
    /// [`OpenError::Replayed`] or [`OpenError::TooOld`].
    pub fn check(&self, number: u64) -> Result<(), OpenError> {
        if number == 0 {
            // RFC 4303 3.3.3: "the first packet sent using a given SA will contain a sequence
            // number of 1."
            return Err(OpenError::TooOld);
        }
        let Some(back) = self.highest.checked_sub(number) else {
            return Ok(());
        };
        if back >= WINDOW {
            Err(OpenError::TooOld)
        } else if (self.seen >> back) & 1 == 1 {
            Err(OpenError::Replayed)
        } else {
            Ok(())
        }
    }

    /// Takes a number in. RFC 4303 3.4.3: "The receive window is updated only if the integrity
    /// verification succeeds."
    pub fn accept(&mut self, number: u64) {
        if let Some(ahead) = number.checked_sub(self.highest).filter(|ahead| *ahead > 0) {
            let shift = u32::try_from(ahead).unwrap_or(u32::MAX);
            self.seen = self.seen.checked_shl(shift).unwrap_or(0) | 1;
            self.highest = number;
        } else if let Some(back) = self
            .highest
            .checked_sub(number)
            .filter(|back| *back < WINDOW)
        {
            self.seen |= 1 << back;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(window: &mut ReplayWindow, low: u32) -> Result<u64, OpenError> {
        let number = window.whole(low)?;
        window.check(number)?;
        window.accept(number);
        Ok(number)
    }

    #[test]
    fn the_edges_of_the_window() {
        let mut window = ReplayWindow::new(false);
        assert_eq!(take(&mut window, 0), Err(OpenError::TooOld));
        assert_eq!(take(&mut window, 1), Ok(1));
        assert_eq!(take(&mut window, 1), Err(OpenError::Replayed));
        assert_eq!(take(&mut window, 100), Ok(100));
        // The left edge is 100 - 64 + 1.
        assert_eq!(take(&mut window, 36), Err(OpenError::TooOld));
        assert_eq!(take(&mut window, 37), Ok(37));
        assert_eq!(take(&mut window, 37), Err(OpenError::Replayed));
        assert_eq!(take(&mut window, 99), Ok(99));
        assert_eq!(take(&mut window, 100), Err(OpenError::Replayed));
        // A leap by the window's length and more forgets all of it.
        assert_eq!(take(&mut window, 164), Ok(164));
        assert_eq!(take(&mut window, 101), Ok(101));
        assert_eq!(take(&mut window, u32::MAX), Ok(u64::from(u32::MAX)));
        assert_eq!(take(&mut window, 164), Err(OpenError::TooOld));
    }

    #[test]
    fn a_number_that_was_only_checked_is_not_taken() {
        let window = ReplayWindow::new(false);
        assert_eq!(window.check(9), Ok(()));
        assert_eq!(window.check(9), Ok(()));
    }

    /// RFC 4303 A2.2, each of its four lines.
    #[test]
    fn the_upper_half_is_deduced() {
        let at = |highest| ReplayWindow::after(highest, true);
        let edge = 1u64 << 32;
        // Case A: Tl >= W - 1.
        assert_eq!(at(edge + 63).whole(0), Ok(edge));
        assert_eq!(at(edge + 100).whole(37), Ok(edge + 37));
        assert_eq!(at(edge + 100).whole(36), Ok(2 * edge + 36));
        assert_eq!(at(edge + 100).whole(u32::MAX), Ok(2 * edge - 1));
        // Case B: Tl < W - 1.
        assert_eq!(at(edge + 10).whole(u32::MAX - 52), Ok(edge - 53));
        assert_eq!(at(edge + 10).whole(u32::MAX - 53), Ok(2 * edge - 54));
        assert_eq!(at(edge + 10).whole(9), Ok(edge + 9));
        // There is nothing before the first half, and nothing behind the last.
        assert_eq!(at(10).whole(u32::MAX), Err(OpenError::TooOld));
        assert_eq!(at(u64::MAX).whole(3), Err(OpenError::TooOld));
    }

    #[test]
    fn extended_numbers_go_over_the_edge() {
        let mut window = ReplayWindow::after((1 << 32) - 3, true);
        for (low, number) in [
            (u32::MAX - 1, (1 << 32) - 2),
            (u32::MAX, (1 << 32) - 1),
            (0, 1 << 32),
        ] {
            assert_eq!(take(&mut window, low), Ok(number));
            assert_eq!(take(&mut window, low), Err(OpenError::Replayed));
        }
    }
}
