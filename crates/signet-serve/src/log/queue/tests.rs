use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use super::*;

const SOON: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(30);

fn line(n: usize) -> String {
    format!("{n}\n")
}

fn told(queue: &Queue, left_out: u64) {
    queue.give(format!("{left_out} left out\n").as_bytes());
}

/// What is written of a queue in so many steps.
fn written(queue: &Queue, steps: usize) -> String {
    let mut to = Vec::new();
    for _ in 0..steps {
        queue.write_next(&mut to, |left_out| told(queue, left_out));
    }
    String::from_utf8(to).unwrap()
}

#[test]
fn what_finds_no_room_is_told_where_it_is_missing() {
    let queue = Queue::new();
    for n in 0..LINES_MAX + 7 {
        queue.give(line(n).as_bytes());
    }
    assert_eq!(queue.left_out(), 7);
    let mut text = written(&queue, LINES_MAX / 2 - 1);
    // There is room, and the gap was not told of yet.
    queue.give(b"lost\n");
    text += &written(&queue, 2);
    queue.give(b"after it\n");
    text += &written(&queue, LINES_MAX / 2 + 2);
    let mut wanted: String = (0..LINES_MAX).map(line).collect();
    wanted += "8 left out\nafter it\n";
    assert_eq!(text, wanted);
    assert_eq!(queue.left_out(), 8);
    queue.wait_written(PATIENCE);
}

#[test]
fn their_bytes_are_bounded_too() {
    let queue = Queue::new();
    let long = "x".repeat(BYTES_MAX / 4);
    for _ in 0..5 {
        queue.give(long.as_bytes());
    }
    assert_eq!(written(&queue, 6), long.repeat(4) + "1 left out\n");
    // One that never fits is told of as well.
    queue.give(&vec![b'x'; BYTES_MAX + 1]);
    assert_eq!(written(&queue, 2), "1 left out\n");
    queue.give(b"and all is as before\n");
    assert_eq!(written(&queue, 1), "and all is as before\n");
}

/// A disk that takes some bytes, is full for so many times then, and has room again.
struct Full {
    bytes: usize,
    times: usize,
    taken: Vec<u8>,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes == 0 && self.times > 0 {
            self.times -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = match self.times {
            0 => bytes.len(),
            _ => bytes.len().min(self.bytes),
        };
        self.bytes = self.bytes.saturating_sub(taken);
        self.taken.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_full_disk_refuses_is_written_when_it_has_room() {
    let queue = Queue::new();
    let mut disk = Full {
        bytes: 6,
        times: 2,
        taken: Vec::new(),
    };
    queue.give(b"one\n");
    queue.give(b"two\n");
    for _ in 0..4 {
        queue.write_next(&mut disk, |left_out| told(&queue, left_out));
    }
    assert_eq!(disk.taken, b"one\ntwo\n");
    assert_eq!(queue.left_out(), 0);
    queue.wait_written(PATIENCE);
}

#[test]
fn what_finds_no_room_while_the_disk_is_full_is_counted_and_told() {
    let queue = Queue::new();
    let mut disk = Full {
        bytes: 0,
        times: 1,
        taken: Vec::new(),
    };
    queue.give(line(0).as_bytes());
    queue.write_next(&mut disk, |left_out| told(&queue, left_out));
    for n in 1..LINES_MAX + 2 {
        queue.give(line(n).as_bytes());
    }
    assert_eq!(queue.left_out(), 2);
    for _ in 0..LINES_MAX + 2 {
        queue.write_next(&mut disk, |left_out| told(&queue, left_out));
    }
    let wanted: String = (0..LINES_MAX).map(line).collect();
    assert_eq!(
        String::from_utf8(disk.taken).unwrap(),
        wanted + "2 left out\n"
    );
}

/// Takes nothing until it may.
struct Stuck {
    may: Receiver<()>,
    taken: Arc<Mutex<Vec<u8>>>,
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // All may be written when the other end is gone.
        let _ = self.may.recv();
        self.taken.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn who_has_a_line_never_waits_for_who_reads_none() {
    let queue = Arc::new(Queue::new());
    let (release, may) = channel();
    let taken = Arc::default();
    let mut stuck = Stuck {
        may,
        taken: Arc::clone(&taken),
    };
    let writer = queue.clone();
    std::thread::spawn(move || {
        loop {
            writer.write_next(&mut stuck, |left_out| told(&writer, left_out));
        }
    });
    for n in 0..2 * LINES_MAX {
        queue.give(line(n).as_bytes());
    }
    // The end does not wait for ever, nor is anything lost that is written in time.
    queue.wait_written(SOON);
    assert_eq!(*taken.lock().unwrap(), b"");
    drop(release);
    queue.wait_written(PATIENCE);
    let text = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
    let left_out = queue.left_out();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.last(), Some(&&*format!("{left_out} left out")));
    assert_eq!(lines.len() as u64 - 1 + left_out, 2 * LINES_MAX as u64);
}
