//! What a request comes to where no response decides it: the status that is
//! answered, and why (`docs/decisions/0083-a-status-for-each-reason.md`).

use sip_locate::{LocateError, Refusal};

use super::context::TargetKind;
use crate::refusal::{Reason, StatusLine};

/// Why this server answers a request itself, or a target came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The Request-URI cannot be read.
    UnreadableUri,
    /// Who sent it reaches our users only.
    NotRelayed,
    /// It leads into a network to which nothing is relayed.
    NetworkDenied,
    /// It names a gateway, and those are reached by the tables.
    NamesGateway,
    /// Nobody has that address here.
    NobodyThere,
    /// No row of the tables is for that number.
    NoRouteForNumber,
    /// It is farther than whoever pays for it may call.
    NotPermitted,
    /// Nobody may call that number.
    NumberBlocked,
    /// Whoever pays for it has as many calls as he may have.
    UserCallsMax,
    /// As many calls go over the group as may.
    GroupCallsMax,
    /// Whoever forwards it has begun as many calls as he may in that time.
    ForwardRate,
    /// It is forwarded to where its user may not call himself.
    ForwardRefused,
    /// Aliases and forwards lead in a circle, or too far.
    LedInCircle,
    /// Nobody to whom an alias, or a provider's number, leads is registered.
    NotRegistered,
    /// DNS knows no server of that name.
    NoSuchServer,
    /// No final response came in time.
    TimedOut,
    /// The user exists and can be reached nowhere at the moment.
    Absent,
    /// A SIPS URI is called and nothing there is reached under TLS.
    NotUnderTls,
    /// The flow to the user's phone is gone (RFC 5626 5.3).
    FlowGone,
    /// The request would come back to this server.
    ComesBack,
    /// What came back is no response to it.
    BadResponse,
    /// Somebody else's server cannot be reached.
    Unreachable,
    /// There is no listener of a transport that leads there.
    NoTransport,
    /// What was reached last has answered, and that another is to be tried.
    NextHopBusy,
    /// None of the operator's next hops can be reached.
    NextHopsDown,
    /// The operator has drained all next hops that it might take.
    Drained,
    /// There is no room for what forwarding it takes.
    NoRoom,
    /// DNS did not answer.
    DnsSilent,
    /// The provider does not take the trunk's credentials.
    TrunkRefused,
    /// A provider calls a number that none of our users has.
    NobodysNumber,
    /// It needs a media engine, and none answers.
    MediaGone,
    /// The media engine refuses its session description.
    MediaRefused,
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoHost => Self::NoSuchServer,
            Refusal::NoTlsOverUdp => Self::NotUnderTls,
            Refusal::NoSipUri
            | Refusal::UnknownTransport
            | Refusal::OpenedByPeer
            | Refusal::NoListener => Self::NoTransport,
        }
    }
}

impl From<LocateError> for Outcome {
    fn from(error: LocateError) -> Self {
        match error {
            LocateError::Refused(refusal) => refusal.into(),
            LocateError::NotFound => Self::NoSuchServer,
            LocateError::Timeout | LocateError::Failed => Self::DnsSilent,
        }
    }
}

impl Outcome {
    /// What this means for a target of that kind: a user's phone is not at fault in
    /// the same way as a foreign server or a gateway of ours.
    pub(crate) fn at(self, kind: &TargetKind) -> Self {
        let is_unreached = matches!(
            self,
            Self::Unreachable | Self::NoTransport | Self::NoSuchServer | Self::DnsSilent
        );
        match kind {
            TargetKind::Contact(_) | TargetKind::Token(_) if is_unreached => Self::Absent,
            TargetKind::NextHops { .. } if is_unreached => Self::NextHopsDown,
            _ => self,
        }
    }

    /// Whether it is whoever pays who has no call left.
    pub(crate) const fn is_payers(self) -> bool {
        matches!(self, Self::UserCallsMax | Self::ForwardRate)
    }

    /// The status.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::UnreadableUri => 400,
            Self::NotRelayed
            | Self::NetworkDenied
            | Self::NamesGateway
            | Self::NotPermitted
            | Self::NumberBlocked => 403,
            // RFC 3261 21.4.24: "The callee's end system was contacted successfully, but the callee is
            // currently not willing or able to take additional calls at this end system." Here it
            // is the caller who has no call left: 503 would keep his phone from us altogether.
            Self::UserCallsMax | Self::ForwardRate => 486,
            // RFC 3261 21.4.5: "The server has definitive information that the user does not exist at
            // the domain specified in the Request-URI." Nor does anybody where there is no domain.
            Self::NobodyThere
            | Self::NoRouteForNumber
            | Self::NoSuchServer
            | Self::NobodysNumber => 404,
            Self::TimedOut => 408,
            // RFC 3261 21.4.18: "This status is also returned by a redirect or proxy server that
            // recognizes the user identified by the Request-URI, but does not currently have a valid
            // forwarding location for that user."
            Self::Absent
            | Self::NotRegistered
            | Self::ForwardRefused
            | Self::NotUnderTls
            | Self::FlowGone => 480,
            Self::ComesBack | Self::LedInCircle => 482,
            // RFC 3261 16.7: "If the only response that was received is a 503, the proxy SHOULD
            // generate a 500 response and forward that upstream."
            Self::NextHopBusy => 500,
            // RFC 3261 21.4.26: "The response has the same meaning as 606 (Not Acceptable), but only
            // applies to the specific resource addressed by the Request-URI and the request may succeed
            // elsewhere."
            Self::MediaRefused => 488,
            Self::BadResponse | Self::Unreachable | Self::NoTransport => 502,
            // RFC 3261 16.7: "In other words, forwarding a 503 means that the proxy knows it cannot
            // service any requests, not just the one for the Request-URI in the request which generated
            // the 503." It knows that of whatever takes this way.
            Self::NextHopsDown
            | Self::Drained
            | Self::GroupCallsMax
            | Self::NoRoom
            | Self::TrunkRefused
            | Self::MediaGone => 503,
            // RFC 3261 21.5.5: "The server did not receive a timely response from an external server it
            // accessed in attempting to process the request."
            Self::DnsSilent => 504,
        }
    }

    /// The status line that says so.
    pub(crate) fn line(self) -> StatusLine {
        StatusLine::refused(self.status(), self.why()).saying(self.phrase())
    }

    /// The reason that is recorded.
    pub(crate) const fn why(self) -> Reason {
        match self {
            Self::UnreadableUri => Reason::UnreadableUri,
            Self::NotRelayed => Reason::NotRelayed,
            Self::NetworkDenied => Reason::NetworkDenied,
            Self::NamesGateway => Reason::NamesGateway,
            Self::NobodyThere => Reason::NobodyThere,
            Self::NoRouteForNumber => Reason::NoRoute,
            Self::NotPermitted => Reason::NotPermitted,
            Self::NumberBlocked => Reason::NumberBlocked,
            Self::UserCallsMax => Reason::UserCallsMax,
            Self::GroupCallsMax => Reason::GroupCallsMax,
            Self::ForwardRate => Reason::RateLimited,
            Self::ForwardRefused => Reason::ForwardRefused,
            Self::LedInCircle => Reason::LedInCircle,
            Self::NotRegistered => Reason::NotRegistered,
            Self::NoSuchServer => Reason::NoSuchServer,
            Self::TimedOut => Reason::TimedOut,
            Self::Absent => Reason::PhoneUnreachable,
            Self::NotUnderTls => Reason::NotUnderTls,
            Self::FlowGone => Reason::PhoneFlowGone,
            Self::ComesBack => Reason::WouldComeBack,
            Self::BadResponse => Reason::BadResponse,
            Self::Unreachable => Reason::Unreachable,
            Self::NoTransport => Reason::NoTransport,
            Self::NextHopBusy => Reason::NextHopBusy,
            Self::NextHopsDown => Reason::GatewaysUnreachable,
            Self::Drained => Reason::GatewaysDrained,
            Self::NoRoom => Reason::NoRoom,
            Self::DnsSilent => Reason::DnsSilent,
            Self::TrunkRefused => Reason::TrunkRefused,
            Self::NobodysNumber => Reason::NoUserForNumber,
            Self::MediaGone => Reason::MediaUnavailable,
            Self::MediaRefused => Reason::MediaRefused,
        }
    }

    /// The reason phrase.
    fn phrase(self) -> &'static str {
        match self {
            Self::NetworkDenied => "Nothing Is Relayed To That Network",
            Self::NamesGateway => "Gateways Are Reached By Routes",
            Self::NotUnderTls => "SIPS Not Allowed",
            Self::NoRouteForNumber => "No Route For That Number",
            Self::NotPermitted => "Not Permitted To Call That",
            Self::NumberBlocked => "That Number Is Blocked",
            Self::UserCallsMax | Self::ForwardRate => "Too Many Calls By This User",
            Self::GroupCallsMax => "All Lines Are Busy",
            Self::LedInCircle => "Forwarded In A Circle",
            Self::NoSuchServer => "No Such Server In DNS",
            Self::Unreachable => "Next Hop Unreachable",
            Self::NoTransport => "No Transport Leads There",
            Self::NextHopsDown => "Gateways Unreachable",
            Self::Drained => "Gateways Drained",
            Self::DnsSilent => "No Answer From DNS",
            Self::TrunkRefused => "Trunk Not Available",
            Self::MediaGone => "No Media Engine Available",
            Self::MediaRefused => "Session Description Refused By Media Engine",
            Self::UnreadableUri
            | Self::NotRelayed
            | Self::NobodyThere
            | Self::TimedOut
            | Self::Absent
            | Self::NotRegistered
            | Self::ForwardRefused
            | Self::FlowGone
            | Self::ComesBack
            | Self::BadResponse
            | Self::NextHopBusy
            | Self::NobodysNumber
            | Self::NoRoom => sip_msg::write::reason_phrase(self.status()),
        }
    }

    // RFC 3261 16.9: "If the transport layer notifies a proxy of an error when it tries to
    // forward a request (see Section 18.4), the proxy MUST behave as if the forwarded
    // request received a 503 (Service Unavailable) response."
    /// How good it is among final responses, as [`super::responses::rank`] has
    /// them: what was not reached says least.
    pub(crate) const fn rank(self) -> u8 {
        match self {
            Self::TimedOut | Self::FlowGone => super::responses::rank(408),
            Self::BadResponse => super::responses::rank(502),
            _ => super::responses::rank(503),
        }
    }
}
