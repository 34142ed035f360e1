//! SIPp's options that are not covered, and why.

const REFUSED: &[(&str, &str)] = &[
    (
        "oocsf",
        "messages of no call are counted, and answered with -aa",
    ),
    (
        "oocsn",
        "messages of no call are counted, and answered with -aa",
    ),
    ("multihome", SCTP),
    ("heartbeat", SCTP),
    ("assocmaxret", SCTP),
    ("pathmaxret", SCTP),
    ("pmtu", SCTP),
    ("gracefulclose", SCTP),
    ("mb", MEDIA),
    ("rtp_payload", MEDIA),
    ("rtp_threadtasks", MEDIA),
    ("rtp_buffsize", MEDIA),
    ("min_rtp_port", MEDIA),
    ("max_rtp_port", MEDIA),
    ("plugin", "there are no plug-ins"),
    ("tdmmap", "there are no circuits"),
    ("ci", CONTROL),
    ("cp", CONTROL),
    ("rtcheck", "retransmissions are compared byte for byte"),
    ("sleep", "start it later"),
    (
        "periodic_rtd",
        "the classes of response times count from the beginning of the run",
    ),
    ("trace_calldebug", "use -trace_msg"),
    ("calldebug_file", "use -trace_msg"),
    ("calldebug_overwrite", "use -trace_msg"),
    ("ringbuffer_files", ROTATION),
    ("ringbuffer_size", ROTATION),
    ("max_log_size", ROTATION),
];

const CONTROL: &str = "there is no control port; send signals USR1 and USR2";
const SCTP: &str = "there is no SCTP";
const MEDIA: &str = "this generator sends no media";
const ROTATION: &str = "files are not rotated";

/// Why an option of SIPp's is refused; `None` for what is no option of SIPp's.
pub(super) fn reason(option: &str) -> Option<&'static str> {
    REFUSED
        .iter()
        .find(|(name, _)| *name == option)
        .map(|(_, reason)| *reason)
}
