//! What a run tells while it lasts, and what it found out.

use std::net::SocketAddr;

use measure::{
    Answered, Causes, Handshakes, Latency, Retransmissions, SecondPart, Series, SipFigures,
    ThreadUse,
};
use sip_dialog::Answers;
use sip_msg::{Method, Transport};

use crate::worker::{CalledCounts, Final, Recorder, StormCounts, Upkeep, add_to, sum_sent_again};

/// How a run stands at this moment.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// `None` while the run is prepared.
    pub elapsed_ns: Option<u64>,
    /// Agents that are brought up, and how many there are to be.
    pub ready: (u64, u64),
    /// Arrivals begun.
    pub started: u64,
    /// Arrivals that ended, well or not.
    pub ended: u64,
    /// Those that did not end well.
    pub failed: u64,
    /// Arrivals under way.
    pub in_flight: u64,
    /// Why arrivals failed.
    pub causes: Vec<(String, u64)>,
    /// The called side.
    pub called: CalledCounts,
    /// What the called side answered.
    pub answered: Answered,
    /// Messages sent again.
    pub retransmissions: u64,
    /// Datagrams that the kernel dropped.
    pub kernel_drops: u64,
    /// Messages dropped because a queue was full.
    pub queue_drops: u64,
    /// The worst worker's 99th percentile of how late arrivals began.
    pub late_p99_us: u64,
    /// The latest arrival of all.
    pub late_max_us: u64,
    /// Somebody asked how it stands since it was last told.
    pub is_asked: bool,
    /// Second by second.
    pub series: &'a Series,
    /// Whether nothing but the time of the beginning is waited for, or it has begun.
    pub is_prepared: bool,
    /// What has come to the series since this was told last, a thread's second each.
    pub parts: &'a [SecondPart],
    /// Where the called side of this process listens.
    pub answering: &'a [(Transport, SocketAddr)],
}

/// Everything that a run found out.
#[derive(Debug)]
pub struct Ran {
    /// The figures of RFC 6076.
    pub figures: SipFigures,
    /// Why arrivals failed.
    pub causes: Causes,
    /// TLS handshakes that this side began.
    pub handshakes: Handshakes,
    /// TCP connections that this side opened.
    pub connects: Latency,
    /// How late arrivals began.
    pub lateness: Latency,
    /// The called side of this process.
    pub called: CalledCounts,
    /// What it answered; nothing where this process has none.
    pub answered: Answered,
    /// How the agents were brought up, and kept up.
    pub upkeep: Upkeep,
    /// The storm, where one was asked for.
    pub storm: Option<StormCounts>,
    /// Second by second.
    pub series: Series,
    /// Messages sent again.
    pub retransmissions: Retransmissions,
    /// Arrivals begun.
    pub started: u64,
    /// Arrivals that were due and not sent when the schedule ended.
    pub unsent: u64,
    /// Arrivals that ended, well or not.
    pub ended: u64,
    /// Those that did not end well.
    pub failed: u64,
    /// From the first arrival to the end of the last.
    pub duration_ns: u64,
    /// How long arrivals were due, from the first on; 0 where there were none.
    pub sending_ns: u64,
    /// How long it took to bring the agents up.
    pub setup_ns: u64,
    /// The threads and what they took.
    pub threads: Vec<ThreadUse>,
    /// CPU time of the whole process during the run.
    pub own_cpu_ns: u64,
    /// Datagrams that the kernel dropped at these sockets.
    pub kernel_drops: u64,
    /// Messages dropped because a queue was full.
    pub queue_drops: u64,
    /// Datagrams and messages that were no SIP.
    pub rubbish: u64,
    /// What was alive when it should have been over.
    pub leaked: Leaked,
    /// Requests within dialogs that threads of the called side alone did not know.
    pub unknown_to_called: u64,
    /// Whether it was asked to end before its schedule did.
    pub is_interrupted: bool,
    /// Other counts, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// What the called side of this process negotiated by TLS, and how often.
    pub called_tls: Vec<(&'static str, u64)>,
    /// Where the called side of this process listened.
    pub answering: Vec<(Transport, SocketAddr)>,
}

/// What was alive at the end of a run: nothing, in a run without a mistake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaked {
    /// Calls.
    pub calls: u64,
    /// Requests outside of dialogs.
    pub requests: u64,
    /// Connections.
    pub connections: u64,
}

/// Why a run could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The settings contradict each other, or a file is wrong.
    Usage(String),
    /// The sockets, the server or the agents did not come up.
    Run(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(text) | Self::Run(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Failed {}

impl Ran {
    pub(super) fn new(
        series: Series,
        is_interrupted: bool,
        setup_ns: u64,
        own_cpu_ns: u64,
        answering: Vec<(Transport, SocketAddr)>,
    ) -> Self {
        Self {
            figures: SipFigures::new(),
            causes: Causes::new(),
            handshakes: Handshakes::new(),
            connects: Latency::new(),
            lateness: Latency::new(),
            called: CalledCounts::default(),
            answered: Answered::default(),
            upkeep: Upkeep::default(),
            storm: None,
            series,
            retransmissions: Retransmissions::default(),
            started: 0,
            unsent: 0,
            ended: 0,
            failed: 0,
            duration_ns: 0,
            sending_ns: 0,
            setup_ns,
            threads: Vec::new(),
            own_cpu_ns,
            kernel_drops: 0,
            queue_drops: 0,
            rubbish: 0,
            leaked: Leaked::default(),
            unknown_to_called: 0,
            is_interrupted,
            counters: Vec::new(),
            called_tls: Vec::new(),
            answering,
        }
    }

    pub(super) fn take(&mut self, end: &Final, name: String) {
        self.merge_record(&end.record);
        let (record, agents) = (&end.record, &end.agents);
        add_answers(
            &mut self.answered,
            &record.called,
            &record.called_causes,
            &end.answers,
        );
        self.handshakes.failed += end.handshakes_failed;
        self.rubbish += agents.malformed;
        if end.is_called_only {
            self.unknown_to_called += agents.unknown_dialog;
        }
        self.duration_ns = self.duration_ns.max(end.end_ns);
        self.sending_ns = self.sending_ns.max(end.sending_ns);
        self.kernel_drops += end.sockets.udp_kernel_drops - end.before.kernel_drops;
        self.queue_drops += end.sockets.udp_queue_drops - end.before.queue_drops;
        self.leaked.calls += end.live.calls as u64;
        self.leaked.requests += end.live.requests as u64;
        self.leaked.connections += end.connections as u64;
        self.merge_retransmissions(end);
        self.count_events(end);
        self.threads.push(ThreadUse {
            name,
            cpu_ns: end.cpu_ns,
            waited_for_cpu_ns: end.waited_ns,
            sending_ns: end.sent.elapsed_ns,
            sending_cpu_ns: end.sent.cpu_ns,
        });
    }

    /// Adds what a worker recorded of its arrivals and connections.
    fn merge_record(&mut self, record: &Recorder) {
        self.figures.merge(&record.figures);
        self.causes.merge(&record.causes);
        self.called.merge(&record.called);
        self.upkeep.merge(&record.upkeep);
        if let Some(all) = &mut self.storm {
            all.merge(&record.storm);
        }
        self.lateness.merge(&record.lateness);
        self.handshakes.merge(&record.handshakes);
        self.connects.merge(&record.connects);
        self.started += record.started;
        self.unsent += record.unsent;
        self.ended += record.ended;
        self.failed += record.failed;
        self.rubbish += record.rubbish;
        for &(name, count) in &record.negotiated {
            self.count(name, count);
        }
        for &(name, count) in &record.called_tls {
            add_to(&mut self.called_tls, name, count);
        }
    }

    /// Sorts what a worker sent again by whose fault it was.
    fn merge_retransmissions(&mut self, end: &Final) {
        let (before, transactions) = (&end.before, &end.transactions);
        let sent = sum_sent_again(transactions, &end.agents) - before.sent_again();
        let ours = end.record.ours_late.min(sent);
        // A response that comes again says that the request was not lost: its
        // first answer was late.
        let absorbed = transactions.response_absorbed - before.transactions.response_absorbed;
        let late = absorbed.min(sent - ours);
        self.retransmissions.ours += ours;
        self.retransmissions.late += late;
        self.retransmissions.lost += sent - ours - late;
        self.retransmissions.received += transactions.request_absorbed + absorbed
            - before.transactions.request_absorbed
            + end.agents.acks_retransmitted
            - before.agents.acks_retransmitted;
    }

    /// Counts what else a worker's layers met, by name.
    fn count_events(&mut self, end: &Final) {
        let transactions = &end.transactions;
        for (name, count) in [
            ("challenges", end.agents.challenges),
            ("stray_responses", transactions.response_stray),
            ("unknown_dialog", end.agents.unknown_dialog),
            ("forks_ended", end.agents.forks_ended),
            ("answers_too_late", end.agents.answers_too_late),
            (
                "no_room",
                end.agents.full + transactions.server_full + transactions.client_full,
            ),
            ("connections_opened", end.sockets.opened),
            ("connections_not_opened", end.sockets.open_failed),
            ("connections_accepted", end.sockets.accepted),
            ("handshakes_in", end.sockets.handshakes_in),
            ("handshakes_out", end.sockets.handshakes_out),
            ("handshakes_out_resumed", end.sockets.handshakes_out_resumed),
            ("datagrams_unsendable", end.sockets.udp_unsendable),
            ("polls", end.sockets.polls),
            ("messages_in", end.sockets.messages_in()),
            (
                "messages_out",
                end.sockets.udp.messages_out
                    + end.sockets.tcp.messages_out
                    + end.sockets.tls.messages_out
                    + end.sockets.ws.messages_out
                    + end.sockets.wss.messages_out,
            ),
            ("responses", end.agents.responses),
            ("events_dropped", end.agents.events_dropped),
        ] {
            self.count(name, count);
        }
        for (name, count) in [
            ("smime_opened", end.agents.bodies_opened),
            ("smime_refused", end.agents.bodies_refused),
            ("smime_unsealed", end.agents.bodies_unsealed),
        ] {
            if count > 0 {
                self.count(name, count);
            }
        }
    }

    pub(super) fn count(&mut self, name: &'static str, count: u64) {
        add_to(&mut self.counters, name, count);
    }
}

/// Adds what one worker's called side answered.
pub(super) fn add_answers(
    all: &mut Answered,
    called: &CalledCounts,
    causes: &Causes,
    answers: &Answers,
) {
    all.calls += called.incoming;
    all.established += called.established;
    all.ended += called.ended;
    all.failed += called.failed;
    all.causes.merge(causes);
    for (method, status, count) in answers.iter() {
        let name = match method {
            Method::Other => "others",
            known => known.token(),
        };
        all.add(name, status, count);
    }
}
