//! How useful a connection is: what the choice goes by when one must give its
//! place to another.

use super::Class;

/// What is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usefulness {
    /// When it last carried a message; where it never did, when it last got on towards one.
    pub(crate) carried_ms: u64,
    /// When anything last came on it, be it a keep-alive.
    pub(crate) heard_ms: u64,
    /// Whether it ever carried a message.
    pub(crate) has_carried: bool,
    /// Whether it has carried one since it was last put in order, or was heard where that counts.
    pub(crate) has_moved: bool,
    /// Requests either way that have no final response yet. No more than a
    /// guess: answers may come by another way.
    pub(crate) unanswered: u32,
    /// Until when a registered contact relies on it; 0 for none.
    pub(crate) bound_until_ms: u64,
}

impl Usefulness {
    /// What it is good for, where a call has it to itself or not.
    pub(crate) const fn class(&self, is_of_call: bool) -> Class {
        let is_bound = is_of_call || self.bound_until_ms > 0;
        match (is_bound, self.unanswered > 0) {
            (false, false) if !self.has_carried => Class::Unused,
            (false, false) => Class::Idle,
            (false, true) => Class::Busy,
            (true, false) => Class::Bound,
            (true, true) => Class::BoundBusy,
        }
    }

    /// A contact that has expired relies on it no more.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        if self.bound_until_ms <= now_ms {
            self.bound_until_ms = 0;
        }
    }

    /// Something came. One that is relied on is kept in order of that: a keep-alive shows that
    /// it is alive.
    pub(crate) const fn heard(&mut self, now_ms: u64) {
        self.heard_ms = now_ms;
        self.has_moved |= self.bound_until_ms > 0 && self.unanswered == 0;
    }

    /// When it last carried a message or something came.
    pub(crate) fn lived_ms(&self) -> u64 {
        self.carried_ms.max(self.heard_ms)
    }

    /// A message was carried, either way.
    pub(crate) fn carried(&mut self, message: &[u8], now_ms: u64) {
        self.carried_ms = now_ms;
        self.has_carried = true;
        self.has_moved = true;
        match message.strip_prefix(b"SIP/2.0 ") {
            Some([b'1', ..]) => {}
            Some(_) => self.unanswered = self.unanswered.saturating_sub(1),
            None if message.starts_with(b"ACK ") => {}
            None => self.unanswered = self.unanswered.saturating_add(1),
        }
    }

    /// What came cannot be framed, and may still be answered: that answer is not one
    /// to what came before.
    pub(crate) fn carried_garbage(&mut self) {
        if self.unanswered > 0 {
            self.unanswered = self.unanswered.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_leaves_nothing_unanswered() {
        let mut use_of = Usefulness::default();
        for (message, unanswered) in [
            ("INVITE sip:b@x SIP/2.0\r\n", 1),
            ("SIP/2.0 100 Trying\r\n", 1),
            ("SIP/2.0 180 Ringing\r\n", 1),
            ("CANCEL sip:b@x SIP/2.0\r\n", 2),
            ("SIP/2.0 200 OK\r\n", 1),
            ("SIP/2.0 487 Request Terminated\r\n", 0),
            ("ACK sip:b@x SIP/2.0\r\n", 0),
            ("SIP/2.0 200 OK\r\n", 0),
        ] {
            use_of.carried(message.as_bytes(), 5);
            assert_eq!(use_of.unanswered, unanswered, "{message}");
        }
        assert!(use_of.has_carried && use_of.has_moved);
    }
}
