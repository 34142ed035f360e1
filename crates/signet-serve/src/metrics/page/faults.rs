//! Faults of the program itself.

use super::Page;

/// What should never count.
pub(super) fn faults(page: &mut Page) {
    page.counter(
        "signet_broken_invariants_total",
        "Times that the program found one of its own assumptions broken: a fault to be reported.",
        invariant::broken_count(),
    );
}
