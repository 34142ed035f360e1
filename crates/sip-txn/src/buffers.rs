//! Copies of messages in buffers that are used again.

use invariant::broken;
use slots::Spares;

/// Spare buffers by size. A transaction keeps its last message for up to
/// 32 seconds, so a buffer is chosen by the message's length: one that once
/// held a large message must not hold a small one for so long.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    spare: [Spares<Vec<u8>>; CLASSES],
    /// What is spare, and what transactions hold.
    spare_bytes: usize,
    kept_bytes: usize,
}

/// The capacity of the first class. The others are 384, 512, 768, 1024 and so
/// on: powers of two and the middles between them.
const SMALLEST_BYTES: usize = 256;
/// Up to 8 KiB; larger buffers are not kept.
const CLASSES: usize = 11;
/// The most spare bytes of all classes together.
const SPARE_BYTES_MAX: usize = 32 << 20;

impl Buffers {
    /// Puts a copy of `message` into `buffer`, in a buffer of a fitting size.
    pub(crate) fn store(&mut self, buffer: &mut Vec<u8>, message: &[u8]) {
        let class = class_for(message.len());
        if class_for(buffer.capacity()) != class || buffer.capacity() < message.len() {
            self.recycle(buffer);
            *buffer = match self.spare.get_mut(class).and_then(Spares::pop) {
                Some(spare) => {
                    self.spare_bytes -= spare.capacity();
                    spare
                }
                None => Vec::with_capacity(capacity_of(class).max(message.len())),
            };
            self.kept_bytes += buffer.capacity();
        }
        if buffer.capacity() < message.len() {
            broken!("a buffer that is kept holds its message, or it is counted wrongly");
        }
        buffer.clear();
        buffer.extend_from_slice(message);
    }

    /// Takes the memory of `buffer` back and leaves it empty.
    pub(crate) fn recycle(&mut self, buffer: &mut Vec<u8>) {
        let mut buffer = std::mem::take(buffer);
        let capacity = buffer.capacity();
        self.kept_bytes -= capacity;
        let class = class_for(capacity);
        if capacity_of(class) != capacity || self.spare_bytes + capacity > SPARE_BYTES_MAX {
            return;
        }
        if let Some(spare) = self.spare.get_mut(class) {
            buffer.clear();
            self.spare_bytes += capacity;
            spare.push(buffer);
        }
    }

    /// What is spare, and what transactions hold.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.spare_bytes + self.kept_bytes
    }

    /// Gives back spare buffers that nobody has needed since the last call.
    pub(crate) fn trim(&mut self) {
        let Self {
            spare, spare_bytes, ..
        } = self;
        for class in spare {
            class.trim(|buffer| *spare_bytes -= buffer.capacity());
        }
    }
}

/// The smallest class whose buffers hold that many bytes; [`CLASSES`] for none.
fn class_for(bytes: usize) -> usize {
    if bytes <= SMALLEST_BYTES {
        return 0;
    }
    // The highest bit says between which powers of two, the next one in which
    // half; a message of just a class's capacity is in that class.
    let last = bytes - 1;
    let power = last.ilog2();
    let upper_half = last >> (power - 1) & 1;
    let class = 2 * (power - SMALLEST_BYTES.ilog2()) as usize + 1 + upper_half;
    class.min(CLASSES)
}

const fn capacity_of(class: usize) -> usize {
    if class >= CLASSES {
        return 0;
    }
    let power = SMALLEST_BYTES << (class / 2);
    if class.is_multiple_of(2) {
        power
    } else {
        power + power / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_message_never_sits_in_a_large_buffer() {
        let mut buffers = Buffers::default();
        let mut buffer = Vec::new();
        buffers.store(&mut buffer, &[1; 3_100]);
        assert_eq!(buffer.capacity(), 4_096);
        buffers.store(&mut buffer, &[2; 100]);
        assert_eq!((buffer.capacity(), &buffer[..]), (256, &[2; 100][..]));
        let mut again = Vec::new();
        assert_eq!((buffers.spare[8].len(), buffers.spare_bytes), (1, 4_096));
        buffers.store(&mut again, &[3; 4_096]);
        assert_eq!(
            (buffers.spare[8].len(), buffers.held_bytes()),
            (0, 4_096 + 256),
            "the large buffer is used again"
        );
    }

    #[test]
    fn what_is_kept_and_what_is_spare_is_counted_and_goes_when_it_is_not_needed() {
        let mut buffers = Buffers::default();
        let mut kept = vec![Vec::new(); 1_000];
        for (n, buffer) in kept.iter_mut().enumerate() {
            buffers.store(buffer, &vec![0; n * 10]);
        }
        let sum: usize = kept.iter().map(Vec::capacity).sum();
        assert_eq!(buffers.held_bytes(), sum);
        for buffer in &mut kept {
            buffers.recycle(buffer);
        }
        assert!(buffers.held_bytes() <= SPARE_BYTES_MAX);
        for _ in 0..20 {
            buffers.trim();
        }
        assert_eq!(buffers.held_bytes(), 0);
    }

    #[test]
    fn huge_buffers_are_not_kept() {
        let mut buffers = Buffers::default();
        let mut buffer = Vec::new();
        buffers.store(&mut buffer, &[1; 60_000]);
        assert_eq!(buffer.len(), 60_000);
        buffers.store(&mut buffer, &[1; 50_000]);
        assert_eq!(buffer.len(), 50_000);
        buffers.recycle(&mut buffer);
        assert_eq!(buffer.capacity(), 0);
        assert!(buffers.spare.iter().all(Spares::is_empty));
        assert_eq!(buffers.held_bytes(), 0);
    }

    #[test]
    fn classes() {
        for (bytes, class) in [
            (0, 0),
            (256, 0),
            (257, 1),
            (384, 1),
            (385, 2),
            (512, 2),
            (8_192, 10),
            (8_193, 11),
            (usize::MAX, 11),
        ] {
            assert_eq!(class_for(bytes), class, "{bytes}");
        }
        for bytes in 0..10_000 {
            let smallest = (0..CLASSES).find(|class| bytes <= capacity_of(*class));
            assert_eq!(class_for(bytes), smallest.unwrap_or(CLASSES), "{bytes}");
        }
    }
}
