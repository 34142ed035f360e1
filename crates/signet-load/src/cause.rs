//! The names of what went wrong.

use measure::Failure;
use sip_dialog::Cause;
use sip_net::{CloseReason, SendError, UpgradeFault};
use sip_tls::{CertificateFault, HandshakeError, HandshakeFailure};
use smime::OpenError;

/// No agent was free to do it.
pub(crate) const NO_AGENT: Failure = Failure::Other("no free agent");
/// The table of calls, requests or transactions is full.
pub(crate) const NO_ROOM: Failure = Failure::Other("no room");
/// The run ended first.
pub(crate) const UNFINISHED: Failure = Failure::Other("unfinished");
/// The storm that was asked for broke off the connection on which its answer would have come.
pub(crate) const CUT: &str = "cut by the storm";
/// A registration was taken, and is over at once: 0 seconds were granted.
pub(crate) const NO_TIME: Failure = Failure::Other("granted for 0 s");
/// What a bound of this side held back, by whatever name: the server had no part in it.
pub(crate) const HELD_BACK: [&str; 7] = [
    "no free agent",
    "no room",
    "registering already",
    "no local port",
    "too many handshakes",
    "handshake: too many",
    "made room",
];

/// Why a socket gave a message up. `step` is why the last handshake or upgrade failed.
pub(crate) const fn of_send(error: SendError, step: &'static str) -> &'static str {
    match error {
        SendError::Gone => "closed",
        SendError::Closed(reason) => of_close(reason, step),
        SendError::Full => "queue full",
        SendError::NoLocalPort => "no local port",
        SendError::Lost => "lost",
        SendError::Unsendable | SendError::NoRoute => "unsendable",
        SendError::Unreachable => "unreachable",
        SendError::NoListener => "no socket",
    }
}

/// Why a connection is gone.
pub(crate) const fn of_close(reason: CloseReason, step: &'static str) -> &'static str {
    match reason {
        CloseReason::Peer => "closed",
        CloseReason::Broken => "reset",
        CloseReason::Asked => "closed here",
        CloseReason::Idle => "idle",
        CloseReason::MessageTimeout => "half a message",
        CloseReason::SlowReader => "stalled",
        CloseReason::Malformed => "rubbish",
        CloseReason::ConnectFailed => "connect refused",
        CloseReason::ConnectTimeout => "connect timeout",
        CloseReason::Handshake | CloseReason::Upgrade => step,
        CloseReason::Tls => "tls record",
        CloseReason::Refused => "too many handshakes",
        CloseReason::Certificate => "the certificate ended",
        CloseReason::Evicted => "made room",
    }
}

/// Why a connection became no WebSocket.
pub(crate) const fn of_upgrade(fault: UpgradeFault) -> &'static str {
    match fault {
        UpgradeFault::Malformed => "upgrade: no http",
        UpgradeFault::TooLarge => "upgrade: answer too long",
        UpgradeFault::Refused(400) => "upgrade: status 400",
        UpgradeFault::Refused(401) => "upgrade: status 401",
        UpgradeFault::Refused(403) => "upgrade: status 403",
        UpgradeFault::Refused(404) => "upgrade: status 404",
        UpgradeFault::Refused(426) => "upgrade: status 426",
        UpgradeFault::Refused(503) => "upgrade: status 503",
        UpgradeFault::Refused(_) => "upgrade: refused",
        UpgradeFault::NoUpgrade => "upgrade: none in the answer",
        UpgradeFault::Accept => "upgrade: answer to another key",
        UpgradeFault::Protocol => "upgrade: no subprotocol sip",
        UpgradeFault::Extension => "upgrade: unknown extension",
        UpgradeFault::TimedOut => "upgrade: timed out",
    }
}

/// Why a handshake failed.
pub(crate) const fn of_handshake(error: &HandshakeError) -> &'static str {
    use CertificateFault as Fault;
    match (error.failure, error.fault) {
        (HandshakeFailure::TimedOut, _) => "handshake: timed out",
        (HandshakeFailure::Cut, _) => "handshake: cut",
        (HandshakeFailure::CertificateRefused, _) => "handshake: our certificate was refused",
        (HandshakeFailure::Incompatible, _) => "handshake: nothing in common",
        (HandshakeFailure::Broken, _) => "handshake: no tls",
        (HandshakeFailure::Refused, _) => "handshake: too many",
        (HandshakeFailure::BadCertificate, Some(fault)) => match fault {
            Fault::Missing => "handshake: no certificate",
            Fault::Malformed => "handshake: certificate malformed",
            Fault::Expired => "handshake: certificate expired",
            Fault::NotYetValid => "handshake: certificate not yet valid",
            Fault::WrongName => "handshake: certificate for another name",
            Fault::UnknownIssuer => "handshake: unknown authority",
            Fault::NotAnAuthority => "handshake: issuer is no authority",
            Fault::NameConstraint => "handshake: name not allowed",
            Fault::ChainTooLong => "handshake: chain too long",
            Fault::Revoked => "handshake: certificate revoked",
            Fault::RevocationUnknown => "handshake: revocation unknown",
            Fault::WrongUsage => "handshake: certificate for another use",
            Fault::WeakKey => "handshake: weak key",
            Fault::CriticalExtension => "handshake: critical extension",
            Fault::BadSignature => "handshake: bad signature",
            Fault::Other => "handshake: bad certificate",
        },
        (HandshakeFailure::BadCertificate, _) => "handshake: bad certificate",
    }
}

/// Why a request was refused for its body.
pub(crate) const fn of_body(error: OpenError) -> Failure {
    Failure::Other(error.name())
}

/// A transport that failed, by what the sockets said of it.
pub(crate) fn of_transport(why: &'static str) -> Failure {
    let is_ours = HELD_BACK.contains(&why) || matches!(why, "no socket" | "closed here" | CUT);
    if is_ours {
        Failure::Other(why)
    } else {
        Failure::Broken(why)
    }
}

/// Why a call or a request failed. `why` is what the sockets said.
pub(crate) fn of_end(cause: Cause, why: Option<&'static str>) -> Failure {
    match cause {
        Cause::Status(status) => Failure::Status(status),
        Cause::Timeout => Failure::Timeout,
        Cause::Transport => match why {
            Some(why) => of_transport(why),
            None => Failure::Transport,
        },
        Cause::Full => NO_ROOM,
        Cause::Cancelled => Failure::Other("cancelled"),
        Cause::HungUp => Failure::Other("hung up"),
        Cause::PeerHungUp => Failure::Other("hung up by the peer"),
        Cause::NoAck => Failure::Other("no ack"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_this_side_is_no_failure_of_the_transport() {
        let of = |why| of_end(Cause::Transport, Some(why));
        for (why, is_ineffective) in [
            (of_close(CloseReason::Broken, ""), true),
            (of_close(CloseReason::ConnectFailed, ""), true),
            (
                of_close(CloseReason::Handshake, "handshake: timed out"),
                true,
            ),
            (of_send(SendError::Unreachable, ""), true),
            (of_send(SendError::NoLocalPort, ""), false),
            (of_close(CloseReason::Refused, ""), false),
            (CUT, false),
        ] {
            assert_eq!(of(why).is_ineffective(), is_ineffective, "{why}");
            assert_eq!(of(why).to_string(), why);
        }
        assert!(of_end(Cause::Transport, None).is_ineffective());
    }
}
