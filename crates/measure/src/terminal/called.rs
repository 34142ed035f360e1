//! What the operator of a called side sees while it runs.

use super::{COLUMNS, clip, figure, known};

/// The state of a called side, to be drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveCalled {
    /// Where it listens, such as `answer on udp:192.0.2.1:5060`.
    pub title: String,
    /// Time since it began.
    pub elapsed_ns: u64,
    /// Calls that came in the last second; `None` before the first has ended.
    pub calls_per_s: Option<f64>,
    /// Calls that came.
    pub calls: u64,
    /// Calls that were answered and acknowledged.
    pub established: u64,
    /// Calls that the caller ended.
    pub ended: u64,
    /// Calls that ended otherwise.
    pub failed: u64,
    /// Other requests that were answered.
    pub requests: u64,
    /// Messages sent again.
    pub retransmissions: u64,
    /// Datagrams that the kernel dropped at its sockets.
    pub kernel_drops: u64,
}

/// The picture, at most [`COLUMNS`] wide, without control sequences.
pub fn called_picture(live: &LiveCalled) -> String {
    let lines = [
        live.title.clone(),
        format!("{} s", live.elapsed_ns / 1_000_000_000),
        String::new(),
        format!(
            "calls       {:>10}/s   came {}   acknowledged {}   ended {}",
            known(live.calls_per_s, figure),
            live.calls,
            live.established,
            live.ended
        ),
        format!(
            "            failed {}   other requests {}",
            live.failed, live.requests
        ),
        format!(
            "            sent again {}   drops {}",
            live.retransmissions, live.kernel_drops
        ),
    ];
    lines
        .iter()
        .map(|line| clip(line, COLUMNS) + "\n")
        .collect()
}

/// One line for logs, without control sequences.
pub fn called_line(live: &LiveCalled) -> String {
    format!(
        "{:>5} s  {:>8}/s  came {}  acknowledged {}  ended {}  failed {}  other requests {}  sent again {}",
        live.elapsed_ns / 1_000_000_000,
        known(live.calls_per_s, figure),
        live.calls,
        live.established,
        live.ended,
        live.failed,
        live.requests,
        live.retransmissions
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_called_side_says_what_came() {
        let mut live = LiveCalled {
            title: "answer on udp:127.0.0.1:5070".to_owned(),
            elapsed_ns: 12_000_000_000,
            calls: 30,
            established: 29,
            ended: 27,
            failed: 1,
            requests: 4,
            retransmissions: 2,
            ..LiveCalled::default()
        };
        let line = called_line(&live);
        assert!(
            line.starts_with("   12 s         -/s  came 30  acknowledged 29"),
            "nothing is known of the last second yet: {line}"
        );
        live.calls_per_s = Some(15.0);
        let picture = called_picture(&live);
        for part in [
            "answer on udp:127.0.0.1:5070",
            "15.0/s   came 30   acknowledged 29   ended 27",
            "failed 1   other requests 4",
            "sent again 2",
        ] {
            assert!(picture.contains(part), "{part:?} in\n{picture}");
        }
        live.calls = u64::MAX;
        live.established = u64::MAX;
        live.ended = u64::MAX;
        let picture = called_picture(&live);
        assert!(picture.lines().all(|line| line.chars().count() <= COLUMNS));
    }
}
