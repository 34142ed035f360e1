//! What a worker writes down. Plain numbers and histograms of its own: nothing
//! is shared while the load runs.

use measure::{Causes, Failure, Handshakes, Latency, SecondRecorder, SipFigures};

use sip_tls::TlsInfo;

use crate::mix::Flow;

use super::StormCounts;

/// What the called side saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalledCounts {
    /// Calls that came.
    pub incoming: u64,
    /// Calls that were answered and acknowledged.
    pub established: u64,
    /// Calls that the other side ended.
    pub ended: u64,
    /// Calls that ended otherwise: never acknowledged, cancelled, cut.
    pub failed: u64,
    /// OPTIONS, MESSAGE and REGISTER that were answered.
    pub received: u64,
}

impl CalledCounts {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.incoming += other.incoming;
        self.established += other.established;
        self.ended += other.ended;
        self.failed += other.failed;
        self.received += other.received;
    }
}

/// How the agents were brought up, and kept up.
#[derive(Clone, Debug, Default)]
pub struct Upkeep {
    /// Agents that were brought up: connected, and registered where they are to be.
    pub ready: u64,
    /// Agents that were not.
    pub failed: u64,
    /// Why they were not, and why registrations were lost afterwards.
    pub causes: Causes,
    /// Registrations renewed.
    pub refreshed: u64,
    /// Registrations that were to be renewed and were not.
    pub not_refreshed: u64,
    /// Agents whose registration was lost when the schedule ended.
    pub lost: u64,
    /// Connections opened again that were lost.
    pub reopened: u64,
}

impl Upkeep {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.ready += other.ready;
        self.failed += other.failed;
        self.causes.merge(&other.causes);
        self.refreshed += other.refreshed;
        self.not_refreshed += other.not_refreshed;
        self.lost += other.lost;
        self.reopened += other.reopened;
    }
}

fn note(counts: &mut Vec<(&'static str, u64)>, info: &TlsInfo) {
    let resumed = info.resumed.map(|how| how.name());
    let names = [Some(info.suite_name()), info.group_name(), resumed];
    for name in names.into_iter().flatten() {
        add_to(counts, name, 1);
    }
}

/// Adds to the count of this name.
pub(crate) fn add_to(counts: &mut Vec<(&'static str, u64)>, name: &'static str, count: u64) {
    match counts.iter_mut().find(|entry| entry.0 == name) {
        Some(entry) => entry.1 += count,
        None => counts.push((name, count)),
    }
}

/// One worker's figures.
pub(crate) struct Recorder {
    pub(crate) figures: SipFigures,
    pub(crate) causes: Causes,
    pub(crate) called: CalledCounts,
    /// Why calls that came ended otherwise than by the other side's BYE.
    pub(crate) called_causes: Causes,
    pub(crate) upkeep: Upkeep,
    pub(crate) storm: StormCounts,
    /// From the time that an arrival was due to the time that it began.
    pub(crate) lateness: Latency,
    /// TLS handshakes, from the opening of the connection to its being up.
    pub(crate) handshakes: Handshakes,
    /// The same of TCP connections.
    pub(crate) connects: Latency,
    /// What was negotiated, and how often.
    pub(crate) negotiated: Vec<(&'static str, u64)>,
    /// The same of connections that the called side accepted.
    pub(crate) called_tls: Vec<(&'static str, u64)>,
    pub(crate) second: SecondRecorder,
    /// Arrivals begun.
    pub(crate) started: u64,
    /// Arrivals that the schedule ended before they came to their turn.
    pub(crate) unsent: u64,
    /// Arrivals that came to an end, well or not.
    pub(crate) ended: u64,
    /// Those that did not end well.
    pub(crate) failed: u64,
    /// Datagrams and messages that were no SIP.
    pub(crate) rubbish: u64,
    /// Messages that were sent again while this worker was itself late.
    pub(crate) ours_late: u64,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            figures: SipFigures::new(),
            causes: Causes::new(),
            called: CalledCounts::default(),
            called_causes: Causes::new(),
            upkeep: Upkeep::default(),
            storm: StormCounts::default(),
            lateness: Latency::new(),
            handshakes: Handshakes::new(),
            connects: Latency::new(),
            negotiated: Vec::new(),
            called_tls: Vec::new(),
            second: SecondRecorder::new(),
            started: 0,
            unsent: 0,
            ended: 0,
            failed: 0,
            rubbish: 0,
            ours_late: 0,
        }
    }

    /// The run begins: what was sent again until now is none of its.
    pub(crate) fn begin(&mut self) {
        self.second = SecondRecorder::new();
        self.ours_late = 0;
    }

    /// What a handshake of the calling side came to.
    pub(crate) fn note_tls(&mut self, info: &TlsInfo) {
        note(&mut self.negotiated, info);
    }

    /// What a handshake of the called side came to.
    pub(crate) fn note_called_tls(&mut self, info: &TlsInfo) {
        note(&mut self.called_tls, info);
    }

    /// An arrival was due and began, or could not.
    pub(crate) fn started(&mut self, flow: Flow, intended_ns: u64, now_ns: u64) {
        self.started += 1;
        self.lateness.record(intended_ns, intended_ns, now_ns);
        self.second.due();
        self.second.started();
        match flow {
            Flow::Call => self.figures.invite_sent(),
            Flow::Register => self.figures.register_sent(),
            other => self.figures.request(other.name()).sent += 1,
        }
    }

    /// An arrival failed without a call of its own having been set up.
    pub(crate) fn failed(&mut self, flow: Flow, failure: Failure) {
        self.fail(failure);
        match flow {
            Flow::Call => self.figures.invite_failed(failure),
            Flow::Register => self.figures.register_failed(),
            other => self.figures.request(other.name()).failed += 1,
        }
    }

    /// An arrival ended and failed; who calls counts the kind.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.ended += 1;
        self.failed += 1;
        self.causes.add(failure);
        self.figures.transport_failed += u64::from(failure.is_of_transport());
        self.second.failed();
    }

    /// An arrival ended with a 3xx: neither well nor failed.
    pub(crate) fn redirect(&mut self, status: u16) {
        self.ended += 1;
        self.figures.redirects.add(Failure::Status(status));
        self.second.redirected();
    }

    /// An arrival ended well.
    pub(crate) fn succeed(&mut self) {
        self.ended += 1;
        self.second.succeeded();
    }

    /// A call that came ended otherwise than by the other side's BYE.
    pub(crate) fn called_failed(&mut self, failure: Failure) {
        self.called.failed += 1;
        self.called_causes.add(failure);
    }
}
