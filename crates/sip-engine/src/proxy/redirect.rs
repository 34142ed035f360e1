//! Redirect mode (RFC 3261 8.3): where the proxy would send a copy, a 302 says
//! where to.

use invariant::broken;
use sip_msg::write::reason_phrase;
use sip_msg::{Message, MessageWriter, Uri};

use super::context::{Candidate, TargetKind};
use super::egress::{target_uri, write_next_hop};
use super::targets::Targets;
use crate::park::Job;
use crate::permit::Permit;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// Answers a request with the places where its user is.
    pub(crate) fn redirect(&mut self, now: Now, job: Job, permit: &Permit, out: &mut Outputs) {
        let mut candidates = std::mem::take(&mut self.candidates);
        let targets = self.find_targets(now, &job.request, &job.routed, permit, &mut candidates);
        match targets {
            Targets::Absent => self.ask_for_user(now, job, out),
            Targets::Answer(outcome) => self.fail_job(now, job, outcome, out),
            Targets::Found => {
                let has_any = candidates.iter().any(is_elsewhere);
                if has_any {
                    let status = (302, reason_phrase(302));
                    let contacts = |writer: &mut MessageWriter<'_>| {
                        write_contacts(&candidates, &job.request, writer);
                    };
                    let Job {
                        request,
                        sender,
                        server,
                        ..
                    } = &job;
                    self.answer_with(now, sender, *server, request, status, contacts, out);
                    self.pool.recycle(job.request);
                } else {
                    // The request names its place itself, and this server relays nothing.
                    self.answer_job(now, job, 404, out);
                }
            }
        }
        candidates.clear();
        self.candidates = candidates;
    }
}

fn is_elsewhere(candidate: &Candidate) -> bool {
    matches!(
        candidate.kind,
        TargetKind::Contact(_) | TargetKind::NextHops { .. }
    )
}

fn write_contacts(candidates: &[Candidate], request: &Message, writer: &mut MessageWriter<'_>) {
    let mut text = Vec::new();
    for candidate in candidates.iter().filter(|c| is_elsewhere(c)) {
        text.clear();
        let uri = target_uri(&candidate.kind, &mut text);
        writer.header_with("Contact", |value| {
            value.push(b'<');
            match (uri, &candidate.kind) {
                (Some(uri), _) => value.extend_from_slice(uri),
                (None, kind) => write_at_next_hop(request, kind, value),
            }
            value.push(b'>');
            write_q(candidate.q, value);
        });
    }
}

/// The user of the Request-URI at the next hop.
fn write_at_next_hop(request: &Message, kind: &TargetKind, value: &mut Vec<u8>) {
    let TargetKind::NextHops { hops, at, .. } = kind else {
        return broken!("only a next hop has no URI");
    };
    let Some(next) = hops.get(usize::from(*at)) else {
        return broken!("a target without next hops is not found");
    };
    value.extend_from_slice(b"sip:");
    if let Some(user) = Uri::parse(request.request_uri()).and_then(|uri| uri.user) {
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
