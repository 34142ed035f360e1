//! Strangers who ask too much: dropped before they are read, and told of.

use sip_engine::effect::Limited;
use sip_limit::{Origin, may_go_on};
use sip_msg::Flow;

use crate::{Environment, Worker};

impl<E: Environment> Worker<E> {
    /// Whether a message is to be dropped unread: its source is left without
    /// answers, and it begins something without credentials.
    pub(super) fn is_shut_out(&self, flow: &Flow, bytes: &[u8]) -> bool {
        let guard = &self.parts.guard;
        let now_ms = self.now.mono_ms;
        if !guard.is_any_shut(now_ms) {
            return false;
        }
        let origin = Origin {
            remote: flow.remote,
            is_stream: flow.transport.is_reliable(),
        };
        guard.is_shut(now_ms, &origin) && !may_go_on(bytes)
    }

    pub(super) fn log_limited(&self, flow: &Flow, what: &Limited) {
        let transport = flow.transport.uri_name();
        match what {
            Limited::Source => tracing::warn!(
                source = %flow.remote,
                transport,
                "too many requests of this source were refused: strangers from it get no answers for a while"
            ),
            Limited::Rate { party, name, rate } => tracing::warn!(
                source = %flow.remote,
                transport,
                by = party.name(),
                user = (!name.is_empty()).then_some(&**name),
                what = rate.name(),
                "more than [rates] allows is refused; signet_rate_limited_total counts it all"
            ),
        }
    }
}
