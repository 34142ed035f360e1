//! What is left of a server that has nothing to do any more.

use std::collections::{HashSet, VecDeque};

use sip_engine::records::EndedBy;

use super::process::Seat;
use super::{Server, now};
use crate::distant::Distant;
use crate::hook::Hook;
use crate::media::Engines;
use crate::plan::Plan;

/// What a worker that has nothing under way may hold more than a new one: tables that
/// have grown, and the room for what one turn sends, of which a trim leaves 256 KiB.
const IDLE_BYTES: usize = (128 + 256) << 10;

impl Server {
    /// What is left of a server that has nothing to do any more.
    pub(crate) fn finish(&mut self, now_ms: u64) -> Vec<String> {
        self.count();
        let mut left = Vec::new();
        let Some(process) = &mut self.process else {
            return left;
        };
        for (worker, (seat, mailbox)) in process.seats.iter().zip(&process.mailboxes).enumerate() {
            let shard = seat.worker.shard();
            if shard.in_flight() + shard.unanswered(now(now_ms)) != 0 {
                left.push(format!(
                    "worker {worker} still has {} things under way: {:?}",
                    shard.in_flight(),
                    shard.live_transactions()
                ));
            }
            let mut mail = VecDeque::new();
            mailbox.take(&mut mail);
            // What has just arrived may find the worker asleep for a moment yet.
            let is_about_to_look = seat.look_ms.is_some_and(|look_ms| look_ms >= now_ms);
            if !mail.is_empty() || !(seat.arrivals.is_empty() || is_about_to_look) {
                left.push(format!("worker {worker} was handed what it never took"));
            }
            if seat
                .asked
                .with(|asked| asked.answers.len() + asked.names.len() + asked.told.len())
                != 0
            {
                left.push(format!("worker {worker} never took its answers"));
            }
        }
        for (worker, seat) in process.seats.iter_mut().enumerate() {
            left.extend(
                seat.wrong_records(now_ms)
                    .map(|what| format!("worker {worker}: {what}")),
            );
        }
        let engines = self.engines.as_ref().filter(|_| is_fair(&self.plan));
        let calls = engines.map_or(0, Engines::left);
        if calls != 0 {
            left.push(format!(
                "{calls} calls are over, and media engines have them"
            ));
        }
        let unanswered = process.distant.as_ref().map_or(0, Distant::left);
        if unanswered != 0 {
            left.push(format!("{unanswered} look-ups were never answered"));
        }
        let untold = process.hook.as_ref().map_or(0, Hook::left);
        if untold != 0 {
            left.push(format!(
                "{untold} questions to the hook were never answered"
            ));
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

/// Whether nothing is lost or refused, so that engines hear of each end.
fn is_fair(plan: &Plan) -> bool {
    let (weather, store) = (&plan.weather, &plan.store);
    let media = plan.media.as_ref();
    let in_media = media.map_or(0, |of| of.loss + of.late + of.full + of.deaths);
    let in_weather = weather.loss + weather.breakage + weather.refusal;
    let in_store = store.failure + store.stall + store.full;
    let has_room = plan.handover_max >= 1_024 && plan.memory_bytes >= 1 << 30;
    // What a translation has forgotten is lost.
    let is_seen = plan.nat.is_none();
    is_seen && has_room && in_media + in_weather + in_store + plan.deaths + plan.restarts == 0
}

impl Seat {
    /// What is wrong with the call records of a worker that ends: each call that was forwarded,
    /// or refused behind the gate, has one, and no other has.
    fn wrong_records(&mut self, now_ms: u64) -> Option<String> {
        let counters = self.worker.shard().counters();
        let (begun, made) = (counters.call_records_begun, counters.call_records);
        let open = self.worker.shard().open_call_records() as u64;
        if begun != made + open {
            return Some(format!(
                "{begun} call records begun, {made} made, and {open} calls go on"
            ));
        }
        self.worker.stop(&mut self.sockets, now(now_ms));
        let records = self.records.take();
        let ids: HashSet<u128> = records.iter().map(|record| record.id).collect();
        if ids.len() as u64 != begun || records.len() as u64 != begun {
            return Some(format!(
                "{begun} call records begun, {} told, {} of them once",
                records.len(),
                ids.len()
            ));
        }
        let is_odd = |record: &&sip_engine::CallRecord| {
            let has_end = record.ended.is_some() || record.ended_by == EndedBy::Unseen;
            let has_status = record.status.is_some() || record.why.is_some();
            let is_in_order = record.ended.is_none_or(|ended| {
                let answered = record.answered.unwrap_or(record.started);
                record.started.mono_ms <= answered.mono_ms && answered.mono_ms <= ended.mono_ms
            });
            !has_end || !has_status || !is_in_order
        };
        let odd = records.iter().find(is_odd);
        odd.map(|record| format!("a call record that cannot be: {record:?}"))
    }
}
