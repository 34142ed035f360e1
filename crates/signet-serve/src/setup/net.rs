//! Bounds of sockets and of handshakes.

use sip_net::NetConfig;
use sip_tls::HandshakeConfig;

use super::PlannedListener;
use crate::config::Config;

/// Files that the process has open beside sockets: the database with its log and
/// its index, once for each thread of the store, standard streams, the lock.
const STORE_FILES: u64 = 32;
/// Files of each worker: its poll, its waker, its ways to the store and the
/// resolver, and one connection that is accepted in order to be refused.
const WORKER_FILES: u64 = 8;
/// What is kept for those who ask for figures, for the hook, and for
/// certificates and lists while they are read again.
const RESERVE_FILES: u64 = 128;
/// Sockets of one resolution: it asks for both kinds of addresses at once, and each question has
/// a socket of its own.
const QUESTIONS: u64 = 2;
/// What is kept for them is no more than this part of all files: who has names resolved does so
/// a few at a time.
const QUESTIONS_PART: u64 = 16;

/// How many connections each worker may have: what the limit of open files leaves after
/// listeners, database, connections to stores of users, media engines, the resolver and a
/// reserve. What is past it makes room or is refused, and the database still finds a file to open
/// and a name its server.
pub(crate) fn connections_room(
    config: &Config,
    planned: &[PlannedListener],
    workers: usize,
    open_files: u64,
) -> usize {
    let workers = workers.max(1) as u64;
    let listeners = planned.len() as u64;
    let engines = config.media.engines.len() as u64;
    let of_workers = workers * (WORKER_FILES + listeners + engines);
    let stores = config.users.stores.len() as u64 * config.users.connections_max as u64;
    let questions = QUESTIONS * config.dns.queries_max as u64;
    let resolver = questions.min(open_files / QUESTIONS_PART);
    let others = STORE_FILES + RESERVE_FILES + of_workers + stores + resolver;
    let share = open_files.saturating_sub(others).max(64) / workers;
    usize::try_from(share)
        .unwrap_or(usize::MAX)
        .min(CONNECTIONS_MOST)
}

/// More than one worker can name.
const CONNECTIONS_MOST: usize = 1_000_000;

/// The bounds of one worker's sockets, with room for so many connections.
pub(crate) fn net_config(config: &Config, room: usize) -> NetConfig {
    let given = &config.connections;
    NetConfig {
        limits: (&config.limits).into(),
        connections_max: given.connections_max.map_or(room, |max| max.min(room)),
        // As long as a client transaction waits without a response (timers B and F).
        answer_timeout_ms: config.timers.t1_ms.saturating_mul(64),
        ..given.into()
    }
}

/// The shares of the memory for messages that the streams of one worker may
/// hold: a quarter for what waits to be written, and as much for what is not
/// wholly read.
pub(crate) fn bound_sockets(net: &mut NetConfig, memory_bytes: u64, workers: usize) {
    let share = memory_bytes / 4 / workers.max(1) as u64;
    let share = usize::try_from(share).unwrap_or(usize::MAX);
    net.write_queues_bytes_max = net.write_queues_bytes_max.min(share);
    net.read_buffers_bytes_max = net.read_buffers_bytes_max.min(share);
}

pub(crate) fn handshake_config(config: &Config) -> HandshakeConfig {
    HandshakeConfig {
        threads: config.tls.handshake_threads,
        handshakes_max: config.tls.handshakes_max,
        per_source_max: config.tls.handshakes_per_source_max,
        full_queue_max: config.tls.full_waiting_max,
        full_per_s_max: config.tls.full_per_s_max,
        hello_timeout_ms: config.tls.hello_timeout_ms,
        timeout_ms: config.tls.handshake_timeout_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::super::usual_listeners;
    use super::*;
    use crate::config::{EngineAt, StoreUrl};

    #[test]
    fn a_small_budget_bounds_what_streams_hold() {
        let mut net = NetConfig::default();
        let usual = net.write_queues_bytes_max;
        bound_sockets(&mut net, 1 << 40, 2);
        assert_eq!(net.write_queues_bytes_max, usual);
        bound_sockets(&mut net, 64 << 20, 2);
        assert_eq!(net.write_queues_bytes_max, 8 << 20);
        assert_eq!(net.read_buffers_bytes_max, 8 << 20);
    }

    #[test]
    fn connections_leave_files_for_the_rest() {
        let of = |max: Option<usize>, workers, open_files| {
            let mut config = Config::default();
            config.connections.connections_max = max;
            let planned = vec![PlannedListener::at(usual_listeners()[0]); 6];
            let room = connections_room(&config, &planned, workers, open_files);
            net_config(&config, room).connections_max
        };
        // 160, 14 for each worker and a sixteenth stay for the rest.
        assert_eq!(of(None, 2, 20_000), (20_000 - 188 - 1_250) / 2);
        assert_eq!(of(None, 1, 1_024), 1_024 - 174 - 64);
        assert_eq!(of(Some(100_000), 2, 20_000), (20_000 - 188 - 1_250) / 2);
        assert_eq!(of(Some(5_000), 2, 20_000), 5_000);
        // No more than all resolutions take.
        assert_eq!(of(None, 2, 100_000), (100_000 - 188 - 2_048) / 2);
        assert_eq!(of(None, 2, 256), 32);
        assert_eq!(of(None, 2, 10), 32);
        assert_eq!(of(None, 1, u64::MAX), CONNECTIONS_MOST);
    }

    #[test]
    fn connections_leave_files_for_stores_and_engines() {
        let mut config = Config::default();
        let room = |config: &Config| connections_room(config, &[], 4, 20_000);
        let before = room(&config);
        config.users.stores = vec![StoreUrl("mysql://192.0.2.1/users".to_owned()); 2];
        config.users.connections_max = 200;
        assert_eq!(room(&config), before - 2 * 200 / 4);
        let engine: EngineAt = "udp:127.0.0.1:2223".to_owned().try_into().unwrap();
        config.media.engines = vec![engine; 3];
        assert_eq!(room(&config), before - 2 * 200 / 4 - 3);
    }
}
