//! The connection that all calls share (`-t t1`, `l1`), and the paths of new calls.

use sip_msg::Target;

use crate::paths::NoPath;

use super::Engine;

impl Engine {
    /// The path of a new call; `None` where there is none, and the run may be over.
    pub(super) fn take_path(&mut self) -> Option<Target> {
        let taken = self.paths.take(&mut self.net, self.args.reconnects_max);
        taken.map_err(|why| self.handle_no_path(why)).ok()
    }

    /// Whether the connection that all calls share is up; where it is not there, it is opened.
    pub(super) fn is_connected(&mut self) -> bool {
        let connected = self.paths.connect(&mut self.net, self.args.reconnects_max);
        connected.unwrap_or_else(|why| {
            self.handle_no_path(why);
            false
        })
    }

    fn handle_no_path(&mut self, why: NoPath) {
        match why {
            NoPath::Exhausted => self.fail(
                "the connection of all calls is lost, and -max_reconnect allows no other"
                    .to_owned(),
            ),
            NoPath::Failed(error) => self.handle_lost_connection(&format!("{error:?}"), true),
        }
    }

    /// The connection of all calls is gone, or was not opened. Where it `broke`, the run ends
    /// unless it may be opened anew; else only when a call wants it.
    pub(super) fn handle_lost_connection(&mut self, why: &str, broke: bool) {
        let what = format!("the connection of all calls is gone: {why}");
        self.calls.warn(what, &mut self.out);
        let sleep_ns = self.args.reconnect_sleep_ms.saturating_mul(1_000_000);
        self.reconnect_at_ns = self.now_ns().saturating_add(sleep_ns);
        if broke && !self.paths.may_connect(self.args.reconnects_max) {
            self.fail(format!(
                "no connection to {}: {why}; -max_reconnect allows no other",
                self.args.remote.as_deref().unwrap_or_default()
            ));
        }
    }
}
