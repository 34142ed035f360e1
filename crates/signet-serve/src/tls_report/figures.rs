//! What was counted, in a form that can be written down: only what happened.

use std::collections::BTreeMap;

use serde::Serialize;
use sip_net::{AGE_BOUNDS_S, ConnectionFigures};
use sip_tls::{
    CertificateFault, GROUP_NAMES, HandshakeFailure, HandshakeTally, Resumption, SUITE_NAMES,
    TlsVersion,
};

type Counts = BTreeMap<&'static str, u64>;

/// Handshakes.
#[derive(Serialize)]
pub(super) struct Handshakes {
    pub(super) full: u64,
    pub(super) resumed: u64,
    pub(super) failed: u64,
    /// Those resumed among those done, from 0 to 1; `None` without any.
    resumed_share: Option<f64>,
    pub(super) versions: Counts,
    pub(super) suites: Counts,
    pub(super) groups: Counts,
    pub(super) resumed_by: Counts,
    pub(super) failed_by: Counts,
    /// Certificates of the other side that were not accepted.
    pub(super) certificates_refused: Counts,
    /// Sessions not resumed because the client's certificate is no longer good.
    pub(super) resumptions_refused: u64,
    pub(super) full_cpu_us: u64,
    pub(super) full_wall_us: u64,
    pub(super) resumed_cpu_us: u64,
    pub(super) resumed_wall_us: u64,
    failed_cpu_us: u64,
}

impl Handshakes {
    pub(super) fn new(tally: &HandshakeTally) -> Self {
        let (full, resumed) = (tally.full_total(), tally.resumed_total());
        let by_version = tally.full.iter().zip(&tally.resumed);
        let versions: Vec<u64> = by_version.map(|(full, resumed)| full + resumed).collect();
        let total = full + resumed;
        Self {
            full,
            resumed,
            failed: tally.failed.iter().sum(),
            #[expect(
                clippy::cast_precision_loss,
                reason = "a share needs no more than 53 bits"
            )]
            resumed_share: (total > 0).then(|| resumed as f64 / total as f64),
            versions: used(&TlsVersion::ALL.map(TlsVersion::name), &versions),
            suites: used(&SUITE_NAMES, &tally.suites),
            groups: used(&GROUP_NAMES, &tally.groups),
            resumed_by: used(&Resumption::ALL.map(Resumption::name), &tally.resumed_by),
            failed_by: used(
                &HandshakeFailure::ALL.map(HandshakeFailure::name),
                &tally.failed,
            ),
            certificates_refused: used(
                &CertificateFault::ALL.map(CertificateFault::name),
                &tally.faults,
            ),
            resumptions_refused: tally.resumptions_refused,
            full_cpu_us: tally.full_cpu_us,
            full_wall_us: tally.full_wall_us,
            resumed_cpu_us: tally.resumed_cpu_us,
            resumed_wall_us: tally.resumed_wall_us,
            failed_cpu_us: tally.failed_cpu_us,
        }
    }
}

/// Connections now.
#[derive(Serialize)]
pub(super) struct Connections {
    pub(super) open: u64,
    /// What they hold in structures of their own, buffers aside.
    pub(super) bytes: u64,
    pub(super) mean_age_s: u64,
    pub(super) oldest_s: u64,
    /// How many are this old at most, in seconds, and older than the bound before.
    ages_s: BTreeMap<String, u64>,
}

impl Connections {
    pub(super) fn new(figures: &ConnectionFigures) -> Self {
        let bounds = AGE_BOUNDS_S.iter().map(|bound| format!("{bound:06}"));
        let bounds = bounds.chain(["older".to_owned()]);
        Self {
            open: figures.open,
            bytes: figures.bytes,
            mean_age_s: figures.age_ms_sum.checked_div(figures.open).unwrap_or(0) / 1_000,
            oldest_s: figures.oldest_ms / 1_000,
            ages_s: bounds
                .zip(figures.ages)
                .filter(|(_, count)| *count > 0)
                .collect(),
        }
    }
}

/// Those that were counted at all.
fn used(names: &[&'static str], counts: &[u64]) -> Counts {
    let all = names.iter().copied().zip(counts.iter().copied());
    all.filter(|(_, count)| *count > 0).collect()
}
