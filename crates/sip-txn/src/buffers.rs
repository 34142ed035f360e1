//! Copies of messages in buffers that are used again.

/// Spare buffers by size. A transaction keeps its last message for up to
/// 32 seconds, so a buffer is chosen by the message's length: one that once
/// held a large message must not hold a small one for so long.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    spare: [Vec<Vec<u8>>; CLASSES],
}

/// The capacity of the first class. The others are 384, 512, 768, 1024 and so
/// on: powers of two and the middles between them.
const SMALLEST_BYTES: usize = 256;
/// Up to 8 KiB; larger buffers are not kept.
const CLASSES: usize = 11;
/// The most spare bytes that are kept in each class.
const SPARE_BYTES_MAX: usize = 16 << 20;

impl Buffers {
    /// Puts a copy of `message` into `buffer`, in a buffer of a fitting size.
    pub(crate) fn store(&mut self, buffer: &mut Vec<u8>, message: &[u8]) {
        let class = class_for(message.len());
        if class_for(buffer.capacity()) != class || buffer.capacity() < message.len() {
            self.recycle(buffer);
            *buffer = match self.spare.get_mut(class).and_then(Vec::pop) {
                Some(spare) => spare,
                None => Vec::with_capacity(capacity_of(class).max(message.len())),
            };
        }
        buffer.clear();
        buffer.extend_from_slice(message);
    }

    /// Takes the memory of `buffer` back and leaves it empty.
    pub(crate) fn recycle(&mut self, buffer: &mut Vec<u8>) {
        let mut buffer = std::mem::take(buffer);
        let class = class_for(buffer.capacity());
        if capacity_of(class) != buffer.capacity() {
            return;
        }
        if let Some(spare) = self.spare.get_mut(class)
            && spare.len() < SPARE_BYTES_MAX / capacity_of(class)
        {
            buffer.clear();
            spare.push(buffer);
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
        let spare = buffers.spare[8][0].as_ptr();
        buffers.store(&mut again, &[3; 4_096]);
        assert_eq!(again.as_ptr(), spare, "the large buffer is used again");
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
        assert!(buffers.spare.iter().all(Vec::is_empty));
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
