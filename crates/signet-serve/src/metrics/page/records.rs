//! What became of call records.

use std::sync::atomic::Ordering;

use super::Page;
use crate::records::Tally;

/// Those that are written, that wait, and that are lost.
pub(super) fn records(page: &mut Page, tally: &Tally) {
    page.head(
        "signet_call_records_lost_total",
        "Call records that are lost: no room in the queue of the thread that writes, on the disk, or on the way to a table.",
        "counter",
    );
    for (at, count) in tally.lost() {
        page.sample("signet_call_records_lost_total", &[("at", at)], count);
    }
    page.counter(
        "signet_call_records_written_total",
        "Call records in the file.",
        tally.written.load(Ordering::Relaxed),
    );
    page.counter(
        "signet_call_records_added_total",
        "Call records that tables have taken.",
        tally.added.load(Ordering::Relaxed),
    );
    page.gauge(
        "signet_call_records_spooled_bytes",
        "Bytes of call records that wait in the data folder for a table.",
        tally.spooled_bytes.load(Ordering::Relaxed),
    );
}
