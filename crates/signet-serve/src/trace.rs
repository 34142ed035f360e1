//! Whole messages for the operator's eyes, with secrets masked.
//!
//! A worker copies the bytes and goes on; a thread of its own masks and
//! prints them. When it cannot keep up, messages are left out and their
//! number is printed: no worker waits for a terminal.

mod mask;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sip_msg::Transport;
use sip_worker::Direction;

pub use mask::masked;

/// Messages that wait to be printed; past it they are left out.
const WAITING_MAX: usize = 1_024;

struct Seen {
    direction: Direction,
    transport: Transport,
    remote: SocketAddr,
    bytes: Vec<u8>,
}

/// A worker's end. Cheap to clone.
#[derive(Clone)]
pub struct Tracer {
    on: Arc<AtomicBool>,
    left_out: Arc<AtomicU64>,
    printer: SyncSender<Seen>,
}

impl Tracer {
    /// Starts the printing thread, which ends with the last tracer.
    pub fn start(on: bool) -> io::Result<Self> {
        let (printer, seen) = sync_channel(WAITING_MAX);
        let left_out = Arc::new(AtomicU64::new(0));
        let tracer = Self {
            on: Arc::new(AtomicBool::new(on)),
            left_out: left_out.clone(),
            printer,
        };
        std::thread::Builder::new()
            .name("trace-sip".to_owned())
            .spawn(move || print_all(&seen, &left_out))?;
        Ok(tracer)
    }

    /// Switches it on or off.
    pub fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }
}

impl sip_worker::Trace for Tracer {
    fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    fn message(
        &self,
        direction: Direction,
        transport: Transport,
        remote: SocketAddr,
        bytes: &[u8],
    ) {
        let seen = Seen {
            direction,
            transport,
            remote,
            bytes: bytes.to_vec(),
        };
        if self.printer.try_send(seen).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn print_all(seen: &Receiver<Seen>, left_out: &AtomicU64) {
    for Seen {
        direction,
        transport,
        remote,
        bytes,
    } in seen
    {
        let arrow = if direction == Direction::In {
            "<-"
        } else {
            "->"
        };
        let text = masked(&bytes);
        let mut err = io::stderr().lock();
        let left_out = left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let _ = writeln!(
                err,
                "-- {left_out} messages left out: this terminal is too slow"
            );
        }
        let _ = writeln!(
            err,
            "{arrow} {}:{remote} ({} bytes)",
            transport.uri_name(),
            bytes.len()
        );
        for line in text.lines() {
            let _ = writeln!(err, "   {line}");
        }
    }
}
