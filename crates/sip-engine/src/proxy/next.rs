//! Which targets could be tried next (RFC 3261 16.6): those that wait, one flow of a phone at a
//! time (RFC 5626).

use super::context::{Candidate, Context, Progress, TargetKind};

/// The targets that wait and could be started. Another flow of a phone that is being tried could
/// not: it waits for as long as that one has not failed, and keeps nobody else waiting.
pub(super) fn next_targets(context: &Context) -> impl Iterator<Item = &Candidate> {
    let all = context.candidates.iter().enumerate();
    all.filter(|(at, target)| is_next(context, *at, target))
        .map(|(_, target)| target)
}

/// Whether a target waits and could be started.
pub(super) fn is_next(context: &Context, at: usize, target: &Candidate) -> bool {
    // Most do not wait, each time that something is heard of a call, and few have an instance.
    target.progress == Progress::Waiting && !has_twin(context, at, target)
}

/// Whether another flow of the same phone is being tried, or has been heard of: the next is tried
/// only when that one failed.
fn has_twin(context: &Context, at: usize, target: &Candidate) -> bool {
    let Some(instance) = instance_of(target) else {
        return false;
    };
    let mut others = context.candidates.iter().enumerate();
    others.any(|(other_at, other)| {
        other_at != at
            && other.progress != Progress::Waiting
            && !other.is_flow_failed
            && instance_of(other) == Some(instance)
    })
}

fn instance_of(target: &Candidate) -> Option<&[u8]> {
    match &target.kind {
        TargetKind::Contact(binding) if binding.reg_id.is_some() => binding.instance.as_deref(),
        _ => None,
    }
}
