//! What other instances have to say to the loop.

use sip_scenario::{CallPath, Twin};

use crate::twins::Heard;

use super::{Engine, State};

/// Commands heard before sockets are looked at again.
const COMMANDS_MAX: usize = 256;

impl Engine {
    /// What other instances have to say; gives whether there may be more.
    pub(super) fn hear_twins(&mut self) -> bool {
        for _ in 0..COMMANDS_MAX {
            let Some(heard) = self.twins.receive() else {
                return false;
            };
            let now_ns = self.now_ns();
            match heard {
                Heard::Command(text) => {
                    self.traces.command(now_ns, &text, false);
                    if !self.calls.receive_command(now_ns, &text, &mut self.out) {
                        self.start_by_command(&text);
                    }
                }
                Heard::Ended => self.end_with_twin(),
            }
        }
        true
    }

    fn start_by_command(&mut self, text: &[u8]) {
        let Some(target) = self.take_path() else {
            return;
        };
        let now_ns = self.now_ns();
        let path = CallPath {
            target,
            local: None,
            since_ns: now_ns,
        };
        let started = self
            .calls
            .start_by_command(now_ns, path, text, &mut self.out);
        if let Err(why) = started {
            let what = format!("a command begins no call: {why:?}");
            self.calls.warn(what, &mut self.out);
        }
    }

    /// Another instance has ended, so calls of both can no longer go on. As SIPp:
    /// who sent the first command lets its own calls end.
    fn end_with_twin(&mut self) {
        let what = "one of the other instances has ended: so does this one";
        self.calls.warn(what.to_owned(), &mut self.out);
        let is_one = self.args.third_party.twin.is_some();
        if is_one && self.calls.program().twin() == Some(Twin::Tells) {
            self.end_softly();
        } else {
            self.state = State::Over;
        }
    }
}
