//! What controller and worker say to each other: a line of JSON each, of a bounded
//! length, in a numbered version.

use measure::{RunResult, SecondPart};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cut::Job;
use crate::crew::Progress;

/// The version that this program speaks. Another is refused: both ends are the same
/// program, and a load of which half is understood would be another load.
pub(super) const PROTOCOL: u32 = 1;
/// The longest line: a million users in a job, or the histograms of a result.
pub(super) const LINE_BYTES_MAX: usize = 64 << 20;

/// What a controller says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToWorker {
    /// First of all.
    Hello { protocol: u32, program: String },
    /// To be answered at once by a pong of the same number. It is a sign of life too.
    Ping { round: u32 },
    /// Prepare this.
    Job(Box<Job>),
    /// Begin what is prepared at this time of the worker's clock.
    Start { at_ns: u64 },
    /// Begin nothing more and let end what is under way, or end at once.
    Stop { at_once: bool },
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToController {
    /// To a hello.
    Hello {
        protocol: u32,
        program: String,
        cores: u64,
    },
    /// To a hello or a job: what is wrong with it.
    Refused { why: String },
    /// To a ping: the worker's clock.
    Pong { round: u32, clock_ns: u64 },
    /// To a job: it is being prepared.
    Accepted,
    /// How it stands, a few times a second.
    Tick(Box<Standing>),
    /// A thread's part of a second.
    Second(SecondPart),
    /// All agents are up: it could begin.
    Prepared,
    /// It is over.
    Done(Box<RunResult>),
    /// It could not be prepared.
    Failed { why: String },
}

/// How a run stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Standing {
    pub(super) ready: u64,
    pub(super) agents: u64,
    pub(super) started: u64,
    pub(super) ended: u64,
    pub(super) failed: u64,
    pub(super) in_flight: u64,
    pub(super) causes: Vec<(String, u64)>,
    pub(super) retransmissions: u64,
    pub(super) kernel_drops: u64,
    pub(super) queue_drops: u64,
    pub(super) late_p99_us: u64,
    pub(super) late_max_us: u64,
}

impl Standing {
    pub(super) fn of(progress: &Progress<'_>) -> Self {
        Self {
            ready: progress.ready.0,
            agents: progress.ready.1,
            started: progress.started,
            ended: progress.ended,
            failed: progress.failed,
            in_flight: progress.in_flight,
            causes: progress.causes.clone(),
            retransmissions: progress.retransmissions,
            kernel_drops: progress.kernel_drops,
            queue_drops: progress.queue_drops,
            late_p99_us: progress.late_p99_us,
            late_max_us: progress.late_max_us,
        }
    }
}

/// A message as a line, with its end.
///
/// # Errors
/// Where it is longer than a line may be.
pub(super) fn line<T: Serialize>(message: &T) -> Result<Vec<u8>, String> {
    let mut bytes = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    if bytes.len() > LINE_BYTES_MAX {
        return Err(format!(
            "a message of {} bytes is longer than {LINE_BYTES_MAX}; use fewer users or a shorter run",
            bytes.len()
        ));
    }
    bytes.push(b'\n');
    Ok(bytes)
}

/// A message from a line.
///
/// # Errors
/// Where it is none of this version.
pub(super) fn read<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| format!("what came is no message: {error}"))
}

/// Cuts what was read into lines.
#[derive(Default)]
pub(super) struct Lines {
    unread: Vec<u8>,
    /// Bytes at the front that are no line's end.
    scanned: usize,
}

impl Lines {
    /// Adds what was read.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// The next whole line, without its end.
    ///
    /// # Errors
    /// Where it is too long.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let rest = self.unread.get(self.scanned..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == b'\n');
        let len = end.map_or(self.unread.len(), |end| self.scanned + end);
        if len > LINE_BYTES_MAX {
            return Err(format!("a line longer than {LINE_BYTES_MAX} bytes"));
        }
        if end.is_none() {
            self.scanned = len;
            return Ok(None);
        }
        self.scanned = 0;
        let mut line: Vec<u8> = self.unread.drain(..=len).collect();
        line.pop();
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_they_are_read() {
        let text = b"one\n\ntwo three\nfour";
        for step in 1..=text.len() {
            let mut lines = Lines::default();
            let mut all = Vec::new();
            for bytes in text.chunks(step) {
                lines.push(bytes);
                while let Some(line) = lines.next().unwrap() {
                    all.push(String::from_utf8(line).unwrap());
                }
            }
            assert_eq!(all, ["one", "", "two three"], "{step}");
        }
    }

    #[test]
    fn a_line_that_does_not_end_is_not_kept_for_ever() {
        let mut lines = Lines::default();
        lines.push(&vec![b'x'; LINE_BYTES_MAX]);
        assert_eq!(lines.next(), Ok(None));
        lines.push(b"x");
        assert!(lines.next().unwrap_err().contains("longer"));
    }

    #[test]
    fn messages_are_what_they_were() {
        let said = [
            ToController::Hello {
                protocol: PROTOCOL,
                program: "1".to_owned(),
                cores: 2,
            },
            ToController::Accepted,
            ToController::Tick(Box::default()),
            ToController::Second(SecondPart {
                at_s: 3,
                delays: vec![(5, 7)],
                ..SecondPart::default()
            }),
            ToController::Done(Box::default()),
        ];
        for message in said {
            let mut lines = Lines::default();
            lines.push(&line(&message).unwrap());
            let read: ToController = read(&lines.next().unwrap().unwrap()).unwrap();
            assert_eq!(read, message);
        }
        // As it is written down: a change of it is another version.
        let ping = line(&ToWorker::Ping { round: 1 }).unwrap();
        assert_eq!(ping, b"{\"ping\":{\"round\":1}}\n");
        for wrong in [
            "",
            "{}",
            "{\"shell\":\"rm\"}",
            "{\"start\":{}}",
            "\"ping\"",
            "[1]",
        ] {
            let error = super::read::<ToWorker>(wrong.as_bytes()).unwrap_err();
            assert!(error.contains("no message"), "{error}");
        }
    }
}
