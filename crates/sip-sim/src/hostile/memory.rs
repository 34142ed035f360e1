//! What passed somebody who keeps everything.

use crate::text::{Dialog, Text, inner};

/// Of each kind, at most so many: the oldest go.
const KEPT_MAX: usize = 24;

#[derive(Default)]
pub(super) struct Memory {
    /// Whole messages.
    pub(super) messages: Vec<String>,
    /// Record-Route and Route values, whole.
    pub(super) routes: Vec<String>,
    /// The user parts of those: tokens.
    pub(super) tokens: Vec<String>,
    pub(super) call_ids: Vec<String>,
    pub(super) tags: Vec<String>,
    pub(super) vias: Vec<String>,
    /// Whole values of From and To.
    pub(super) names: Vec<String>,
    /// URIs in Contact.
    pub(super) contacts: Vec<String>,
    pub(super) cseqs: Vec<u32>,
    /// Lines of credentials: his own.
    pub(super) credentials: Vec<String>,
    pub(super) dialogs: Vec<Dialog>,
}

impl Memory {
    pub(super) fn keep(&mut self, bytes: &[u8], text: &Text) {
        keep(
            &mut self.messages,
            String::from_utf8_lossy(bytes).into_owned(),
        );
        for name in ["record-route", "route", "path", "service-route"] {
            for value in text.values(name) {
                let uri = inner(&value);
                let rest = uri.split_once(':').map_or("", |(_, rest)| rest);
                if let Some((token, _)) = rest.split_once('@') {
                    keep(&mut self.tokens, token.to_owned());
                }
                keep(&mut self.routes, value);
            }
        }
        for name in ["from", "to"] {
            let value = text.header(name).to_owned();
            if let Some(tag) = crate::text::param(&value, "tag") {
                keep(&mut self.tags, tag.to_owned());
            }
            keep(&mut self.names, value);
        }
        for value in text.values("contact") {
            keep(&mut self.contacts, inner(&value).to_owned());
        }
        for value in text.values("via") {
            keep(&mut self.vias, value);
        }
        keep(&mut self.call_ids, text.call_id().to_owned());
        keep(&mut self.cseqs, text.cseq());
        if self.dialogs.len() > KEPT_MAX {
            self.dialogs.remove(0);
        }
        if self.credentials.len() > KEPT_MAX {
            self.credentials.remove(0);
        }
    }
}

fn keep<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if all.contains(&one) {
        return;
    }
    if all.len() >= KEPT_MAX {
        all.remove(0);
    }
    all.push(one);
}
