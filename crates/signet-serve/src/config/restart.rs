//! What a running server cannot change.

use super::Config;

impl Config {
    /// Takes over from `running` what changes at a start only, and names the
    /// keys that were meant to change.
    pub(crate) fn keep_until_restart(&mut self, running: &Self) -> Vec<&'static str> {
        let mut changed = Vec::new();
        let mut keep = Keep {
            changed: &mut changed,
        };
        keep.one("data", &mut self.data, &running.data);
        keep.one("mode", &mut self.mode, &running.mode);
        keep.one("workers", &mut self.workers, &running.workers);
        keep.one("pin", &mut self.pin, &running.pin);
        let places = |config: &Self| {
            config
                .listen
                .iter()
                .map(|listen| (listen.on, listen.advertise.clone()))
                .collect::<Vec<_>>()
        };
        if places(self) != places(running) {
            keep.one("listen", &mut self.listen, &running.listen);
        }
        let (new, old) = (&mut self.authentication, &running.authentication);
        keep.one("authentication.required", &mut new.required, &old.required);
        keep.one(
            "authentication.algorithms",
            &mut new.algorithms,
            &old.algorithms,
        );
        keep.one(
            "authentication.md5_only_agents",
            &mut new.md5_only_agents,
            &old.md5_only_agents,
        );
        keep.one(
            "authentication.offer_auth_int",
            &mut new.offer_auth_int,
            &old.offer_auth_int,
        );
        keep.one(
            "authentication.authentication_info",
            &mut new.authentication_info,
            &old.authentication_info,
        );
        keep.one(
            "authentication.nonce_lifetime_s",
            &mut new.nonce_lifetime_s,
            &old.nonce_lifetime_s,
        );
        keep.one(
            "authentication.replay_entries_max",
            &mut new.replay_entries_max,
            &old.replay_entries_max,
        );
        keep.one(
            "registrar.aors_max",
            &mut self.registrar.aors_max,
            &running.registrar.aors_max,
        );
        let (new, old) = (&mut self.tls, &running.tls);
        keep.one(
            "tls.handshake_threads",
            &mut new.handshake_threads,
            &old.handshake_threads,
        );
        if new.ticket_keys != old.ticket_keys {
            // What belongs to the one is nothing to the other.
            new.ticket_secret_file.clone_from(&old.ticket_secret_file);
        }
        keep.one("tls.ticket_keys", &mut new.ticket_keys, &old.ticket_keys);
        keep.one("tls.ticket_store", &mut new.ticket_store, &old.ticket_store);
        keep.one(
            "tls.ticket_poll_s",
            &mut new.ticket_poll_s,
            &old.ticket_poll_s,
        );
        keep.one(
            "tls.ticket_secret_rotation_s",
            &mut new.ticket_secret_rotation_s,
            &old.ticket_secret_rotation_s,
        );
        keep.one(
            "tls.handshakes_max",
            &mut new.handshakes_max,
            &old.handshakes_max,
        );
        keep.one(
            "tls.handshake_timeout_ms",
            &mut new.handshake_timeout_ms,
            &old.handshake_timeout_ms,
        );
        keep.one(
            "tls.handshakes_per_source_max",
            &mut new.handshakes_per_source_max,
            &old.handshakes_per_source_max,
        );
        keep.one(
            "tls.full_waiting_max",
            &mut new.full_waiting_max,
            &old.full_waiting_max,
        );
        keep.one(
            "tls.full_per_s_max",
            &mut new.full_per_s_max,
            &old.full_per_s_max,
        );
        keep.one(
            "tls.hello_timeout_ms",
            &mut new.hello_timeout_ms,
            &old.hello_timeout_ms,
        );
        keep.one("timers", &mut self.timers, &running.timers);
        keep.one("limits", &mut self.limits, &running.limits);
        keep.one(
            "authentication.failures_max",
            &mut self.authentication.failures_max,
            &running.authentication.failures_max,
        );
        keep.one(
            "authentication.failure_delay_max_ms",
            &mut self.authentication.failure_delay_max_ms,
            &running.authentication.failure_delay_max_ms,
        );
        keep.one("sources", &mut self.sources, &running.sources);
        let (new, old) = (&mut self.bounds, &running.bounds);
        keep.one("bounds.memory_max", &mut new.memory_max, &old.memory_max);
        keep.one(
            "bounds.server_transactions_max",
            &mut new.server_transactions_max,
            &old.server_transactions_max,
        );
        keep.one(
            "bounds.client_transactions_max",
            &mut new.client_transactions_max,
            &old.client_transactions_max,
        );
        keep.one(
            "bounds.handover_max",
            &mut self.bounds.handover_max,
            &running.bounds.handover_max,
        );
        keep.one(
            "bounds.queue_ms_max",
            &mut self.bounds.queue_ms_max,
            &running.bounds.queue_ms_max,
        );
        keep.one("connections", &mut self.connections, &running.connections);
        keep.one("dns", &mut self.dns, &running.dns);
        keep.one("metrics", &mut self.metrics, &running.metrics);
        keep.one("log.level", &mut self.log.level, &running.log.level);
        changed
    }
}

struct Keep<'c> {
    changed: &'c mut Vec<&'static str>,
}

impl Keep<'_> {
    fn one<T: Clone + PartialEq>(&mut self, key: &'static str, new: &mut T, running: &T) {
        if new != running {
            self.changed.push(key);
            *new = running.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(text: &str) -> Config {
        Config::from_text(Path::new("test.toml"), &format!("version = 1\n{text}")).unwrap()
    }

    #[test]
    fn what_needs_a_restart_stays_and_is_named() {
        let running = config("workers = 1\n[[listen]]\non = \"tls:127.0.0.1:5061\"\n");
        let mut new = config(
            "workers = 2\nserver_header = \"Other\"\n[[listen]]\non = \"tls:127.0.0.1:5062\"\n[dns]\nattempts = 3\n[authentication]\nrequired = false\n",
        );
        assert_eq!(
            new.keep_until_restart(&running),
            ["workers", "listen", "authentication.required", "dns"]
        );
        assert_eq!((new.workers, new.server_header.as_str()), (1, "Other"));
        assert_eq!(new.listen, running.listen);
        assert!(new.authentication.required);
    }

    #[test]
    fn a_listeners_certificate_changes_while_it_runs() {
        let running = config("[[listen]]\non = \"tls:127.0.0.1:5061\"\n");
        let mut new = config(
            "[[listen]]\non = \"tls:127.0.0.1:5061\"\nsecurity = { certificate = \"c\", key = \"k\" }\n",
        );
        assert!(new.keep_until_restart(&running).is_empty());
        assert!(
            new.listen
                .iter()
                .all(|listen| listen.security.key.is_some())
        );
    }
}
