//! Messages and buffers that are used again, so that a forwarded message
//! allocates nothing in the steady state.

use slots::Spares;

use crate::Message;

/// A bounded store of spare messages and buffers. It keeps what the traffic
/// of the last seconds needed: [`Pool::trim`] lets go of the rest.
#[derive(Default)]
pub struct Pool {
    // Boxed, so that a message moves between queues by its pointer.
    messages: Spares<Box<Message>>,
    buffers: Spares<Vec<u8>>,
    bytes: usize,
}

impl Pool {
    /// The most bytes that are kept.
    pub const BYTES_MAX: usize = 32 << 20;
    /// What is larger is not kept: the memory of one huge message would
    /// hold a small one after it for as long as that lives.
    pub const LARGE_BYTES: usize = 8_192;

    /// A message to fill.
    pub fn message(&mut self) -> Box<Message> {
        match self.messages.pop() {
            Some(message) => {
                self.bytes -= message.held_bytes();
                message
            }
            None => Box::default(),
        }
    }

    /// Takes a message back, this pool's or another's.
    pub fn recycle(&mut self, message: Box<Message>) {
        if self.has_room_for(message.held_bytes()) {
            self.messages.push(message);
        }
    }

    /// An empty buffer.
    pub fn buffer(&mut self) -> Vec<u8> {
        match self.buffers.pop() {
            Some(buffer) => {
                self.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::new(),
        }
    }

    /// Takes a buffer back, this pool's or another's.
    pub fn recycle_buffer(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.has_room_for(buffer.capacity()) {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// The memory of what is spare.
    pub const fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Lets go of half of what nobody has needed since the last call: to be
    /// called every few seconds.
    pub fn trim(&mut self) {
        let Self {
            messages,
            buffers,
            bytes,
        } = self;
        messages.trim(|message| *bytes -= message.held_bytes());
        buffers.trim(|buffer| *bytes -= buffer.capacity());
    }

    /// Counts `bytes` as kept, if they may be.
    fn has_room_for(&mut self, bytes: usize) -> bool {
        let has_room = bytes <= Self::LARGE_BYTES && self.bytes + bytes <= Self::BYTES_MAX;
        if has_room {
            self.bytes += bytes;
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn message(body_bytes: usize) -> Box<Message> {
        let text = format!(
            "MESSAGE sip:bob@example.com SIP/2.0\r\nContent-Length: {body_bytes}\r\n\r\n{}",
            "x".repeat(body_bytes)
        );
        let mut message = Box::<Message>::default();
        message.fill(text.as_bytes(), &Limits::default()).unwrap();
        message
    }

    #[test]
    fn large_messages_are_not_kept() {
        let mut pool = Pool::default();
        for _ in 0..100 {
            pool.recycle(message(59_000));
            pool.recycle_buffer(Vec::with_capacity(59_000));
        }
        assert_eq!(pool.held_bytes(), 0);
        pool.recycle(message(100));
        let held = pool.held_bytes();
        assert!((100..Pool::LARGE_BYTES).contains(&held), "{held}");
        assert_eq!(pool.message().held_bytes(), held);
        assert_eq!(pool.held_bytes(), 0);
    }

    #[test]
    fn messages_of_another_pool_are_kept_up_to_a_bound_and_go_when_nobody_needs_them() {
        let mut pool = Pool::default();
        for _ in 0..20_000 {
            pool.recycle(message(4_000));
        }
        assert!(pool.held_bytes() <= Pool::BYTES_MAX);
        for _ in 0..30 {
            pool.trim();
        }
        assert_eq!(pool.held_bytes(), 0);
    }
}
