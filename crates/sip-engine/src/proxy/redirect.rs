//! Redirect mode (RFC 3261 8.3): where the proxy would send a copy, a 302 says
//! where to.

use invariant::broken;
use sip_msg::{Message, MessageWriter, Uri};

use super::context::{Candidate, TargetKind};
use super::egress::{target_uri, write_next_hop};
use super::targets::Targets;
use crate::park::Job;
use crate::permit::Permit;
use crate::refusal::{Reason, StatusLine};
use crate::{Now, Outputs, Shard};

impl Shard {
    /// Answers a request with the places where its user is.
    pub(crate) fn redirect(&mut self, now: Now, job: Job, permit: &Permit, out: &mut Outputs) {
        let mut candidates = std::mem::take(&mut self.candidates);
        let targets = self.targets_of(now, &job, permit, &mut candidates);
        match targets {
            Targets::Absent => self.ask_for_user(now, job, out),
            Targets::Answer(outcome) => self.fail_job(now, job, outcome, out),
            Targets::Found => {
                let mut text = Vec::new();
                let came_with = job.told.as_ref().and_then(|told| told.came_with.as_deref());
                let has_any = (candidates.iter())
                    .any(|candidate| write_target(candidate, &job.request, came_with, &mut text));
                if has_any {
                    let contacts = |writer: &mut MessageWriter<'_>| {
                        write_contacts(&candidates, &job.request, came_with, writer);
                    };
                    let Job {
                        request,
                        sender,
                        server,
                        ..
                    } = &job;
                    let line = StatusLine::moved();
                    self.answer_with(now, sender, *server, request, line, contacts, out);
                    self.pool.recycle(job.request);
                } else {
                    // The request names its place itself, and this server relays nothing.
                    let line = StatusLine::refused(404, Reason::NowhereElse);
                    self.answer_job(now, job, line, out);
                }
            }
        }
        candidates.clear();
        self.candidates = candidates;
    }
}

fn write_contacts(
    candidates: &[Candidate],
    request: &Message,
    came_with: Option<&[u8]>,
    writer: &mut MessageWriter<'_>,
) {
    let mut text = Vec::new();
    for candidate in candidates {
        if write_target(candidate, request, came_with, &mut text) {
            writer.header_with("Contact", |value| {
                value.push(b'<');
                value.extend_from_slice(&text);
                value.push(b'>');
                write_q(candidate.q, value);
            });
        }
    }
}

/// Writes where a candidate is; false where that is what the request asks for itself. `came_with`
/// is what it asked for, where the operator's hook has put something else there.
fn write_target(
    candidate: &Candidate,
    request: &Message,
    came_with: Option<&[u8]>,
    text: &mut Vec<u8>,
) -> bool {
    text.clear();
    match &candidate.kind {
        TargetKind::Contact(binding) => text.extend_from_slice(&binding.uri),
        TargetKind::Uri(uri) => text.extend_from_slice(uri),
        place @ TargetKind::NextHops { .. } => {
            if target_uri(place, text).is_none() {
                let asked = candidate.own_uri().unwrap_or(request.request_uri());
                write_at_next_hop(asked, place, text);
            }
        }
        TargetKind::Routed if came_with.is_some() => {
            text.extend_from_slice(request.request_uri());
        }
        TargetKind::Routed | TargetKind::Token(_) => return false,
    }
    // RFC 3261 8.3: "However, redirect servers MUST NOT redirect a request to a URI equal to the one in the
    // Request-URI; instead, provided that the URI does not point to itself, the server MAY proxy the request
    // to the destination URI, or MAY reject it with a 404."
    let asked = Uri::parse(came_with.unwrap_or(request.request_uri()));
    Uri::parse(text).is_none_or(|uri| asked.is_none_or(|asked| !uri.equals(&asked)))
}

/// The user of that URI at the next hop.
fn write_at_next_hop(asked: &[u8], kind: &TargetKind, value: &mut Vec<u8>) {
    let TargetKind::NextHops { hops, at, .. } = kind else {
        return broken!("only a next hop has no URI");
    };
    let Some(next) = hops.get(usize::from(*at)) else {
        return broken!("a target without next hops is not found");
    };
    value.extend_from_slice(b"sip:");
    if let Some(user) = Uri::parse(asked).and_then(|uri| uri.user) {
        value.extend_from_slice(user);
        value.push(b'@');
    }
    write_next_hop(next, value);
    if let Some(transport) = next.transport {
        value.extend_from_slice(b";transport=");
        value.extend_from_slice(transport.uri_name().as_bytes());
    }
}

fn write_q(q: u16, value: &mut Vec<u8>) {
    let text = match q {
        1000.. => ";q=1".to_owned(),
        _ => format!(";q=0.{q:03}"),
    };
    value.extend_from_slice(text.as_bytes());
}
