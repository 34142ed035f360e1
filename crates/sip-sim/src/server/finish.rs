//! What is left of a server that has nothing to do any more.

use std::collections::VecDeque;

use super::Server;
use crate::distant::Distant;

/// What a worker that has nothing under way may hold more than a new one: tables that
/// have grown, and the room for what one turn sends, of which a trim leaves 256 KiB.
const IDLE_BYTES: usize = (128 + 256) << 10;

impl Server {
    /// What is left of a server that has nothing to do any more.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        self.count();
        let mut left = Vec::new();
        let Some(process) = &self.process else {
            return left;
        };
        for (worker, (seat, mailbox)) in process.seats.iter().zip(&process.mailboxes).enumerate() {
            let shard = seat.worker.shard();
            if shard.in_flight() + shard.unanswered() != 0 {
                left.push(format!(
                    "worker {worker} still has {} things under way: {:?}",
                    shard.in_flight(),
                    shard.live_transactions()
                ));
            }
            let mut mail = VecDeque::new();
            mailbox.take(&mut mail);
            if !mail.is_empty() || !seat.arrivals.is_empty() {
                left.push(format!("worker {worker} was handed what it never took"));
            }
            if seat
                .asked
                .with(|asked| asked.answers.len() + asked.names.len())
                != 0
            {
                left.push(format!("worker {worker} never took its answers"));
            }
        }
        let unanswered = process.distant.as_ref().map_or(0, Distant::left);
        if unanswered != 0 {
            left.push(format!("{unanswered} look-ups were never answered"));
        }
        if process.saves.values().len() != 0 {
            left.push("the store never said whether something is durable".to_owned());
        }
        let posted: i64 = process
            .seats
            .iter()
            .map(|seat| seat.worker.posted_bytes())
            .sum();
        if posted != 0 {
            left.push(format!("{posted} bytes were handed over and not taken"));
        }
        let held = process.budget.bytes_held();
        let allowed = process.fresh_bytes + (process.seats.len() * IDLE_BYTES) as u64;
        if held > allowed {
            left.push(format!("{held} bytes are held where nothing is under way"));
        }
        left
    }
}
