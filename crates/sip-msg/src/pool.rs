//! Messages and buffers that are used again, so that a forwarded message
//! allocates nothing in the steady state.

use crate::Message;

/// A bounded store of spare messages and buffers.
#[derive(Default)]
pub struct Pool {
    // Boxed, so that a message moves between queues by its pointer.
    #[allow(clippy::vec_box)]
    messages: Vec<Box<Message>>,
    buffers: Vec<Vec<u8>>,
}

impl Pool {
    /// The most of either kind that is kept.
    pub const SPARE_MAX: usize = 65_536;

    /// A message to fill.
    pub fn message(&mut self) -> Box<Message> {
        self.messages.pop().unwrap_or_default()
    }

    /// Takes a message back.
    pub fn recycle(&mut self, message: Box<Message>) {
        if self.messages.len() < Self::SPARE_MAX {
            self.messages.push(message);
        }
    }

    /// An empty buffer.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn recycle_buffer(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.buffers.len() < Self::SPARE_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}
