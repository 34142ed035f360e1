//! Which messages of a connection are not written yet, and which were written
//! so lately that their answer may still be to come.

use std::collections::VecDeque;

/// Room for cookies that a connection keeps when none is remembered.
const KEPT: usize = 16;
/// Written messages that one connection remembers.
const WRITTEN_MAX: usize = 65_536;

/// The messages with a cookie, in the order in which they were queued.
#[derive(Debug, Default)]
pub(super) struct Cookies {
    messages: VecDeque<Message>,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    /// How many bytes had ever been queued when it was.
    end: u64,
    cookie: u64,
    queued_ms: u64,
}

impl Cookies {
    /// A message was queued. Forgets those up to `written` that are older than
    /// `remember_ms`; gives how many younger ones found no room.
    pub(super) fn push(
        &mut self,
        (end, cookie): (u64, u64),
        written: u64,
        now_ms: u64,
        remember_ms: u64,
    ) -> u64 {
        let mut forgotten = 0;
        while let Some(first) = self.messages.front()
            && first.end <= written
        {
            let is_over = first.queued_ms.saturating_add(remember_ms) <= now_ms;
            if !is_over && self.messages.len() < WRITTEN_MAX {
                break;
            }
            forgotten += u64::from(!is_over);
            self.messages.pop_front();
        }
        self.messages.push_back(Message {
            end,
            cookie,
            queued_ms: now_ms,
        });
        forgotten
    }

    /// All is written, and nothing is to be remembered.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.messages.shrink_to(KEPT);
    }

    /// The cookies of messages past `written`, and, with true, of those that
    /// were written and are remembered.
    pub(super) fn drain(
        &mut self,
        written: u64,
        now_ms: u64,
        remember_ms: u64,
    ) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.messages.drain(..).filter_map(move |message| {
            let was_written = message.end <= written;
            let is_over = message.queued_ms.saturating_add(remember_ms) <= now_ms;
            (!was_written || !is_over).then_some((message.cookie, was_written))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(cookies: &mut Cookies, written: u64, now_ms: u64) -> Vec<(u64, bool)> {
        cookies.drain(written, now_ms, 100).collect()
    }

    #[test]
    fn what_is_not_written_is_told_and_what_was_for_a_while() {
        let mut cookies = Cookies::default();
        for n in 1..=4 {
            assert_eq!(cookies.push((n * 10, n), 0, n * 10, 100), 0);
        }
        // The first is written and long ago, the next two are written.
        assert_eq!(
            drained(&mut cookies, 30, 110),
            [(2, true), (3, true), (4, false)]
        );
        assert_eq!(drained(&mut cookies, 30, 110), []);
    }

    #[test]
    fn the_memory_of_the_written_is_bounded_and_that_of_the_others_is_whole() {
        let mut cookies = Cookies::default();
        for n in 1..=WRITTEN_MAX as u64 {
            assert_eq!(cookies.push((n, n), n - 1, 0, 100), 0);
        }
        assert_eq!(cookies.push((u64::MAX, 7), WRITTEN_MAX as u64, 0, 100), 1);
        assert_eq!(cookies.messages.len(), WRITTEN_MAX);
        // Nothing is forgotten that was not written.
        assert_eq!(cookies.push((u64::MAX, 8), 0, 0, 100), 0);
        assert_eq!(cookies.messages.len(), WRITTEN_MAX + 1);
        // After their time all go at once.
        assert_eq!(cookies.push((u64::MAX, 9), WRITTEN_MAX as u64, 100, 100), 0);
        assert_eq!(cookies.messages.len(), 3);
    }
}
