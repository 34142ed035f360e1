//! Where CPU time goes.

use ledger::CpuTimes;

use super::Page;
use crate::worker::Snapshot;

/// The workers' as of their last reports, and what the other threads use now.
pub(super) fn cpu(page: &mut Page, workers: &[Snapshot], threads: CpuTimes) {
    let of_workers = workers.iter().map(|of| &of.sockets.cpu);
    page.counted(of_workers.chain([&threads]));
}
