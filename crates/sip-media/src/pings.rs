//! Pings: who is silent is found out before a call is, and who returns is used again.

use std::sync::Arc;

use crate::client::Asked;
use crate::{Client, ClientNumber};

/// How often an engine that has failed is pinged.
const OUT_INTERVAL_MS: u64 = 1_000;

impl ClientNumber {
    /// Whether the engine of that number is this client's to ping.
    fn pings(self, nth: usize) -> bool {
        let clients = self.clients.max(1);
        nth % clients == self.index % clients
    }
}

impl Client {
    /// Whether any engine is this client's to ping.
    pub(crate) fn pings_any(&self) -> bool {
        (0..self.engines.len()).any(|nth| self.place.pings(nth))
    }

    /// Pings those of this client's engines whose turn it is; when to look again.
    pub(crate) fn ping(&mut self, now_ms: u64) -> u64 {
        let interval_ms = self.config.ping_interval_ms.max(OUT_INTERVAL_MS);
        let place = self.place;
        let mut due = Vec::new();
        for (nth, known) in self.engines.iter_mut().enumerate() {
            if !place.pings(nth) {
                continue;
            }
            let wait_ms = if known.engine.is_out() {
                OUT_INTERVAL_MS
            } else {
                interval_ms
            };
            let before_ms = known.pinged_ms;
            if before_ms.is_none_or(|before_ms| now_ms >= before_ms + wait_ms) {
                known.pinged_ms = Some(now_ms);
                due.push(Arc::clone(&known.engine));
            }
        }
        for engine in due {
            self.send(now_ms, Asked::Ping, engine);
        }
        now_ms + OUT_INTERVAL_MS
    }
}
