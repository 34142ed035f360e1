//! What a running server cannot change.

use super::Config;

/// Keeps each of these keys as it runs, and pushes the names of those that were to change.
macro_rules! keep {
    ($changed:ident, $new:ident, $running:ident: $($first:ident$(.$rest:ident)*)*) => {$(
        if $new.$first$(.$rest)* != $running.$first$(.$rest)* {
            $changed.push(concat!(stringify!($first)$(, ".", stringify!($rest))*));
            $new.$first$(.$rest)*.clone_from(&$running.$first$(.$rest)*);
        }
    )*};
}

impl Config {
    /// Takes over from `running` what changes at a start only, and names the
    /// keys that were meant to change. `etc/signet.toml` notes `restart` at each.
    pub(crate) fn keep_until_restart(&mut self, running: &Self) -> Vec<&'static str> {
        let mut changed = Vec::new();
        let places = |config: &Self| {
            let places = config.listen.iter();
            let places = places.map(|listen| {
                let place = (listen.on, listen.advertise.clone());
                (place, listen.nat, listen.media)
            });
            places.collect::<Vec<_>>()
        };
        if places(self) != places(running) {
            keep! { changed, self, running: listen }
        }
        if self.tls.ticket_keys != running.tls.ticket_keys {
            // What belongs to the one is nothing to the other.
            (self.tls.ticket_secret_file).clone_from(&running.tls.ticket_secret_file);
        }
        keep! { changed, self, running:
            data
            mode
            workers
            pin
            authentication.required
            authentication.algorithms
            authentication.md5_only_agents
            authentication.lenient
            authentication.offer_auth_int
            authentication.authentication_info
            authentication.nonce_lifetime_s
            authentication.replay_entries_max
            authentication.failures_max
            authentication.failure_delay_max_ms
            users
            registrar.aors_max
            registrar.durable
            timers
            tls.ticket_keys
            tls.ticket_store
            tls.ticket_poll_s
            tls.ticket_rotation_s
            tls.ticket_secret_rotation_s
            tls.handshake_threads
            tls.handshakes_max
            tls.handshakes_per_source_max
            tls.full_waiting_max
            tls.full_per_s_max
            tls.hello_timeout_ms
            tls.handshake_timeout_ms
            limits
            bounds.memory_max
            bounds.server_transactions_max
            bounds.client_transactions_max
            bounds.handover_max
            bounds.queue_ms_max
            sources
            connections
            dns
            metrics
            log.level
            log.format
            records
            hook.url
            hook.token_file
            hook.tls_roots
            hook.timeout_ms
            hook.cache_by
            hook.cache_entries_max
            hook.batch_max
            hook.connections_max
            hook.waiting_max
        }
        changed
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
            ["listen", "workers", "authentication.required", "dns"]
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
