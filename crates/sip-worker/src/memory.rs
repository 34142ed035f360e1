//! What a worker's messages hold, and when memory is given back.

use crate::{Environment, Handover, Sockets, Worker};

/// How often memory is looked through for what nobody needs any more.
const TRIM_MS: u64 = 3_000;
/// How often that is done after the last that happened: what a flood has left
/// is halved each time, so after these there is nothing left of it.
const TRIMS: u8 = 32;
/// How many bytes of messages a worker takes until it looks again how much there is
/// for all: a turn may bring a hundred times as much.
const BLIND_BYTES: usize = 256 << 10;
/// What buffers that live for a turn may keep for the next.
const TURN_BYTES: usize = 256 << 10;

/// What is counted beside the shard and the sockets.
#[derive(Default)]
pub(super) struct Memory {
    /// As [`Worker::posted_bytes`] has it.
    pub(super) posted: i64,
    /// Bytes of messages that were taken since it was told what is held.
    taken: usize,
    /// What waits in the sockets, as it was when the last turn ended.
    in_sockets: usize,
    trimmed_ms: u64,
    trims_left: u8,
}

impl Memory {
    /// When memory is to be looked through next; `None` once nothing is left.
    pub(super) fn trim_due_ms(&self) -> Option<u64> {
        (self.trims_left > 0).then_some(self.trimmed_ms + TRIM_MS)
    }
}

impl<E: Environment> Worker<E> {
    /// Tells what this worker's messages hold, hears what those of all do, and
    /// gives back what is not needed any more.
    pub(super) fn count_memory(&mut self, sockets: &mut E::Sockets) {
        if self.is_dirty {
            self.memory.trims_left = TRIMS;
        }
        let now_ms = self.now.mono_ms;
        let is_due = |due_ms| now_ms >= due_ms;
        if self.memory.trim_due_ms().is_some_and(is_due) {
            self.memory.trimmed_ms = now_ms;
            self.memory.trims_left -= 1;
            self.trim(sockets);
        }
        self.memory.in_sockets = sockets.held_bytes();
        self.tell_memory();
    }

    /// Counts a message that is taken, and looks at the memory where many large ones come
    /// in one turn.
    pub(super) fn take_bytes(&mut self, bytes: usize) {
        self.memory.taken += bytes;
        if self.memory.taken > BLIND_BYTES {
            self.tell_memory();
        }
    }

    fn tell_memory(&mut self) {
        self.memory.taken = 0;
        let held = self.parts.shard.held_bytes()
            + self.buffers.held_bytes()
            + self.parts.media.held_bytes()
            + self.memory.in_sockets
            + self.outputs.outbox.bytes.capacity();
        let held = i64::try_from(held).unwrap_or(i64::MAX);
        let share = &mut self.parts.memory;
        share.tell(held.saturating_add(self.memory.posted));
        let pressure = share.budget().pressure();
        self.parts.shard.set_memory_pressure(pressure);
    }

    fn trim(&mut self, sockets: &mut E::Sockets) {
        self.parts.shard.trim();
        self.buffers.trim();
        sockets.trim();
        let outbox = &mut self.outputs.outbox;
        outbox.bytes.shrink_to(TURN_BYTES);
        outbox
            .sends
            .shrink_to(TURN_BYTES / size_of::<sip_msg::QueuedMessage>());
        self.mail.shrink_to(TURN_BYTES / size_of::<Handover>());
        for batch in &mut self.batches {
            batch.shrink_to(TURN_BYTES / size_of::<Handover>());
        }
    }
}
