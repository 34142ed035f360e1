//! Why requests are refused: the closed list. Its names are in the log, in
//! `signet_refusals_total` and in what `signet why` prints, so they stay as they are.

use sip_auth::Failure;
use sip_limit::Table;

/// How loudly the log tells of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Part of how SIP works.
    Debug,
    /// A matter of whoever called.
    Info,
    /// A matter of the operator's.
    Warn,
}

macro_rules! reasons {
    ($($(#[doc = $text:literal])+ $Name:ident = $name:literal, $Table:ident, $Level:ident;)+) => {
        /// Why a request is refused, or a copy of it came to nothing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $text])+ $Name,)+
        }

        impl Reason {
            /// All.
            pub const ALL: &'static [Self] = &[$(Self::$Name),+];

            /// Its name, which programs read.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Name => $name,)+
                }
            }

            /// What happened, and what the operator may do.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$Name => concat!($($text),+).trim_ascii(),)+
                }
            }

            /// By whom it is brought about: the floods of strangers crowd out no record of
            /// what befell users.
            pub const fn table(self) -> Table {
                match self {
                    $(Self::$Name => Table::$Table,)+
                }
            }

            /// How loudly it is told.
            pub const fn level(self) -> Level {
                match self {
                    $(Self::$Name => Level::$Level,)+
                }
            }
        }
    };
}

reasons! {
    /// It came without credentials and was asked for them. A phone that gets no further has
    /// no password, or knows none of the algorithms that are offered.
    Challenged = "challenged", Routine, Debug;
    /// Its nonce is too old or from an earlier process: it was given another, which works with the
    /// right password.
    StaleNonce = "stale_nonce", Routine, Debug;
    /// Its nonce was sent to another address, and it comes from a network where that must be
    /// shown: it was given another nonce.
    SourceUnproved = "source_unproved", Routine, Debug;
    /// The caller has cancelled it.
    Cancelled = "cancelled", Routine, Debug;

    /// The digest is not that of the user's password: `signet user passwd`.
    WrongPassword = "wrong_password", Strangers, Warn;
    /// There is no user of that name and domain, or none with a password for that
    /// algorithm: `signet user list`.
    UnknownUser = "unknown_user", Strangers, Warn;
    /// Too many passwords before this one were wrong, so it was not looked at: wait, or look
    /// who guesses. `signet bans lift ADDRESS` forgets them, once the phone has the right one.
    TooManyGuesses = "too_many_guesses", Strangers, Warn;
    /// The digest is right and was used before: somebody replays what he overheard, or a phone
    /// repeats itself.
    Replay = "replay", Strangers, Warn;
    /// Its nonce was not made here: the phone answers another server's challenge, or
    /// somebody tries.
    ForgedNonce = "forged_nonce", Strangers, Warn;
    /// It answers with an algorithm that is not offered, or as RFC 2069 has it, without qop:
    /// `authentication.algorithms`, or `[[authentication.lenient]]` for such phones alone.
    NotOffered = "algorithm_not_offered", Strangers, Warn;
    /// Its digest is of another algorithm than it says, by its length: offer such phones MD5
    /// first, by `[[authentication.lenient]]`.
    OtherAlgorithm = "digest_of_other_algorithm", Strangers, Warn;
    /// Its credentials cannot be read, or are for another request: the phrase says which, and
    /// `[[authentication.lenient]]` what phones may be allowed.
    CredentialsMalformed = "credentials_malformed", Strangers, Warn;
    /// The message, or a header that must be read, is malformed.
    Malformed = "malformed", Strangers, Warn;
    /// From is of no domain of ours and the sender is not in `[[trusted]]`: list the peer, or
    /// see `inbound`. With 503 or 500 the store of users has not listed its domains yet.
    ForeignFrom = "foreign_from", Strangers, Warn;
    /// The caller is anonymous (RFC 3323) and was asked who he is: a user of ours has a password
    /// for that. Where a peer brings such calls, list it in `[[trusted]]`.
    AnonymousCaller = "anonymous_caller", Routine, Debug;
    /// It comes from a gateway to which calls are sent, and which is not in `[[trusted]]`: add
    /// its address there if it may call in.
    GatewayNotTrusted = "gateway_not_trusted", Strangers, Warn;
    /// The sender is let in to call our users and nobody else: its Request-URI is none of
    /// theirs.
    NotForOurUsers = "not_for_our_users", Strangers, Warn;
    /// A stranger asserts the identity of a user of ours (P-Asserted-Identity).
    AssertsOurUser = "asserts_our_user", Strangers, Warn;
    /// The sender does not speak for the domain that it names: see `speaks_for`, and the
    /// names in its certificate.
    SpeaksForOthers = "speaks_for_others", Strangers, Warn;
    /// The user is proved, and From, To or P-Asserted-Identity names somebody else: the
    /// phone's user name and account must be the same.
    NotHimself = "not_himself", Users, Warn;
    /// The same source was refused too often, or has sent too many OPTIONS for this server by
    /// datagrams, so it is answered 503, and then not at all for a while: see `[sources]`.
    RefusedTooOften = "refused_too_often", Strangers, Debug;
    /// It comes back to this server by way of itself: look for a name, contact or `forward`
    /// that leads here.
    CameBack = "came_back", Strangers, Warn;
    /// It was here before with the same target (RFC 5393): two servers forward to each
    /// other.
    Loop = "loop", Strangers, Warn;
    /// Max-Forwards is 0: it went through too many servers, or in a circle.
    TooManyHops = "too_many_hops", Strangers, Warn;
    /// Max-Breadth is 0 (RFC 5393): its sender lets it be forwarded no more.
    BreadthSpent = "breadth_spent", Strangers, Info;
    /// Its Request-URI is neither `sip:`, `sips:` nor `tel:`.
    UnknownScheme = "unknown_scheme", Strangers, Info;
    /// It requires an extension that is not here: the header Unsupported names it.
    ExtensionRequired = "extension_required", Strangers, Info;
    /// A CANCEL for nothing that is under way.
    NothingToCancel = "nothing_to_cancel", Strangers, Info;
    /// A worker falls behind: `signet_overload_severity_thousandths`, `bounds.queue_ms_max`; or it
    /// takes no more from the others: `signet_handover_refused_total`, `bounds.handover_max`.
    Overloaded = "overloaded", Strangers, Warn;
    /// The memory for messages is spent: `bounds.memory_max`.
    MemoryFull = "memory_full", Strangers, Warn;
    /// There are as many transactions or forwarded requests as there may be: `[bounds]`.
    TooManyTransactions = "too_many_transactions", Strangers, Warn;
    /// The server is about to end and begins no new calls.
    Draining = "draining", Strangers, Info;
    /// Too many requests wait for the store of users: from that address, or in all
    /// (`authentication.lookups_max`).
    TooManyLookups = "too_many_lookups", Strangers, Warn;
    /// The store of users did not answer in time: `authentication.lookup_timeout_ms`.
    StoreTimeout = "store_timeout", Strangers, Warn;
    /// The store of users cannot be asked: the log names it.
    StoreUnavailable = "store_unavailable", Strangers, Warn;

    /// More than `[rates]` allows: the log says which rate.
    RateLimited = "rate_limited", Users, Debug;
    /// The user exists and is not registered: `signet bindings`.
    NotRegistered = "not_registered", Users, Info;
    /// There is no user of that name and domain.
    NoSuchUser = "no_such_user", Users, Info;
    /// The address names no user: nobody has it.
    NobodyThere = "nobody_there", Users, Info;
    /// The user is registered and his phone cannot be reached.
    PhoneUnreachable = "phone_unreachable", Users, Info;
    /// The connection to the user's phone is gone: it must register again.
    PhoneFlowGone = "phone_flow_gone", Users, Info;
    /// A SIPS URI was called, and nothing there is reached under TLS.
    NotUnderTls = "not_under_tls", Users, Info;
    /// No `[[route]]` is for that number.
    NoRoute = "no_route_for_number", Users, Info;
    /// The number is farther than the user may call, or than the user who forwards it there may, or
    /// whoever asks a gateway by a REFER to call it (one who is no user of ours, users of ours alone):
    /// `signet user set NAME --permissions ...`, or `permissions` in `[numbers]` and
    /// `[[user_group]]`.
    NotPermitted = "not_permitted", Users, Warn;
    /// The number is one that nobody may call: `blocked` in `[numbers]`. Or it has more than eight
    /// parts between `*` and `#`, or as many prefixes one behind the other: nobody dials that.
    NumberBlocked = "number_blocked", Users, Warn;
    /// The user has as many calls under way as he may have begun: `signet user set NAME
    /// --calls-max N`, or `calls_max` in `[[user_group]]`. Or 32 that he forwards to the outside
    /// wait for an answer.
    UserCallsMax = "user_calls_max", Users, Warn;
    /// As many calls go over the group of gateways as may: `calls_max` in `[[gateway_group]]`.
    GroupCallsMax = "group_calls_max", Users, Warn;
    /// A user forwards his calls to a place that he may not call, or his phone does by a 3xx to a
    /// gateway that calls in, so they end there: `signet user show NAME`, and his permissions.
    ForwardRefused = "forward_refused", Users, Warn;
    /// Aliases and forwards lead the call in a circle, or through too many; or a ring goes by a
    /// provider, and one user forwards eight calls of one caller that nobody answers: `signet alias
    /// list`, `signet user show NAME`.
    LedInCircle = "led_in_circle", Users, Warn;
    /// The sender may call our users and nobody else: `may_relay`, `inbound`.
    NotRelayed = "not_relayed", Users, Warn;
    /// It leads into a network to which nothing is relayed: `proxy.relay_denied`.
    NetworkDenied = "network_denied", Users, Warn;
    /// It names a gateway, which is reached by a `[[route]]` alone. Within a call its route does not
    /// prove itself: the phone has changed it, or the gateway's Contact is in `proxy.relay_denied`.
    NamesGateway = "names_gateway", Users, Warn;
    /// The Request-URI, or the route, cannot be read.
    UnreadableUri = "unreadable_uri", Users, Info;
    /// DNS has no server of that name.
    NoSuchServer = "no_such_server", Users, Info;
    /// DNS did not answer, or said that it could not: see `dns.servers`.
    DnsSilent = "dns_silent", Users, Warn;
    /// No final response came in time.
    TimedOut = "timed_out", Users, Info;
    /// The next hop cannot be reached: nobody listens there, or the network refuses.
    Unreachable = "next_hop_unreachable", Users, Warn;
    /// The next hop answered 503: it serves nobody at the moment.
    NextHopBusy = "next_hop_busy", Users, Warn;
    /// There is no listener of the transport that leads there: `[[listen]]`.
    NoTransport = "no_transport", Users, Warn;
    /// No gateway of the route, or of `forward`, can be reached: the records before this one
    /// say what each of them did.
    GatewaysUnreachable = "gateways_unreachable", Users, Warn;
    /// All gateways of the route, or `forward`, are drained: `signet gateways undrain`.
    GatewaysDrained = "gateways_drained", Users, Warn;
    /// A gateway gave no response to a call in time, and the next one was tried: `timeout_ms`
    /// of its group.
    GatewaySilent = "gateway_silent", Users, Warn;
    /// A gateway gave an answer after which the next one is tried: `failover` of its group.
    GatewayFailed = "gateway_failed", Users, Info;
    /// The provider of a trunk does not take its credentials, or did not lately: `password_file`,
    /// `auth_user` and `algorithm_min` of its `[[trunk]]`, and `signet trunks`.
    TrunkRefused = "trunk_refused", Users, Warn;
    /// A challenge from a trunk was not answered: it is for another realm than the trunk's, comes
    /// from a place where none of its members is, or from whoever was called, in the provider's
    /// name. The record names the realm: `realm` and `challenge_status` of its `[[trunk]]`.
    TrunkForeignRealm = "trunk_foreign_realm", Users, Warn;
    /// A provider calls a number that none of our users has: `numbers` and `to` of its
    /// `[[trunk]]`.
    NoUserForNumber = "no_user_for_number", Users, Warn;
    /// It needs a media engine and none answers, all are at their limits, or the one that had
    /// the call was started anew: `signet media` shows them.
    MediaUnavailable = "media_unavailable", Users, Warn;
    /// The media engine refuses its session description: the engine's log says why. Or what it
    /// gives is longer than `[limits]` allow, or who has answered left out the tag in To.
    MediaRefused = "media_refused", Users, Warn;
    /// What came back is no response to it.
    BadResponse = "bad_response", Users, Warn;
    /// There is no room for a copy, or too many names are being resolved for its sender.
    NoRoom = "no_room", Users, Warn;
    /// It would come back to this server.
    WouldComeBack = "would_come_back", Users, Warn;
    /// There is nowhere else to redirect it to.
    NowhereElse = "nowhere_else", Users, Info;
    /// The operator's hook rejects it, with the words that are told beside this: look into that
    /// program.
    Hook = "hook", Users, Info;
    /// The operator's hook gave no usable answer, for the reason shown beside this, and
    /// `on_failure` in `[hook]` refuses such requests.
    HookFailed = "hook_failed", Users, Warn;

    /// A header of the REGISTER cannot be used: the phrase says which.
    RegisterMalformed = "register_malformed", Users, Info;
    /// The contacts are not the sender's to change: To must be his own.
    NotHisContacts = "not_his_contacts", Users, Warn;
    /// The user has as many contacts as he may: `registrar.contacts_max`.
    TooManyContacts = "too_many_contacts", Users, Info;
    /// A contact that cannot be called, or must not be: the phrase says why.
    BadContact = "bad_contact", Users, Warn;
    /// To is no address-of-record of the domain in the Request-URI.
    NoAddressOfRecord = "no_address_of_record", Users, Info;
    /// It asks for less time than `registrar.expires_min_s`.
    IntervalTooBrief = "interval_too_brief", Users, Info;
    /// The phone wants an outbound flow, and the proxy before us does not keep one (RFC
    /// 5626): drop `reg-id` from the phone or the proxy.
    NoOutbound = "no_outbound", Users, Info;
    /// A later REGISTER of the same phone was here before it.
    OutOfOrder = "out_of_order", Users, Info;
    /// The contacts could not be stored: the disk is full or hangs, or the database is locked; the
    /// log says so.
    NotStored = "not_stored", Users, Warn;
    /// Too many REGISTERs wait for the store.
    RegistrarBusy = "registrar_busy", Users, Warn;
    /// There is no room for another user's contacts: `registrar.aors_max`.
    LocationFull = "location_full", Users, Warn;
}

impl Reason {
    /// Reasons that share their lines of log and their records. What a line costs must not
    /// tell whether a name exists: after a wrong password for one name, an unknown one
    /// would be the first of its kind.
    pub(super) const fn group(self) -> u8 {
        match self {
            Self::WrongPassword | Self::UnknownUser | Self::TooManyGuesses => {
                Self::WrongPassword as u8
            }
            Self::NotRegistered | Self::NoSuchUser => Self::NotRegistered as u8,
            other => other as u8,
        }
    }

    /// How many of one source are recorded in ten seconds.
    pub(super) const fn records_max(self) -> u64 {
        match self.table() {
            Table::Routine => 4,
            Table::Strangers => 16,
            Table::Users => 256,
        }
    }

    /// Whether the answer names it (RFC 3261 20.43): where the sender was let in, and it says
    /// what the operator has to change, and nothing of who exists or is at home.
    pub(crate) const fn is_told(self) -> bool {
        matches!(
            self,
            Self::NotUnderTls
                | Self::NoRoute
                | Self::NotPermitted
                | Self::NumberBlocked
                | Self::UserCallsMax
                | Self::GroupCallsMax
                | Self::NetworkDenied
                | Self::NamesGateway
                | Self::NoSuchServer
                | Self::DnsSilent
                | Self::Unreachable
                | Self::NoTransport
                | Self::GatewaysUnreachable
                | Self::GatewaysDrained
                | Self::TrunkRefused
                | Self::BadResponse
                | Self::MediaUnavailable
                | Self::MediaRefused
                | Self::WouldComeBack
        )
    }
}

impl From<Failure> for Reason {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::WrongPassword => Self::WrongPassword,
            Failure::UnknownUser => Self::UnknownUser,
            Failure::Stale => Self::StaleNonce,
            Failure::Replay => Self::Replay,
            Failure::ForgedNonce => Self::ForgedNonce,
            Failure::NotOffered => Self::NotOffered,
            Failure::OtherAlgorithm => Self::OtherAlgorithm,
            Failure::Malformed => Self::CredentialsMalformed,
            Failure::NotHimself => Self::NotHimself,
            Failure::TooManyGuesses => Self::TooManyGuesses,
            Failure::StoreUnavailable => Self::StoreUnavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_for_programs_and_texts_for_people() {
        let names: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(reason.name().bytes().all(is_plain), "{reason:?}");
            let text = reason.text();
            assert!(text.ends_with('.') && !text.contains("  "), "{text}");
        }
        assert!(Reason::ALL.len() <= usize::from(u8::MAX));
    }

    #[test]
    fn what_tells_of_users_is_not_told() {
        for reason in Reason::ALL.iter().filter(|reason| reason.is_told()) {
            assert_eq!(reason.table(), Table::Users, "{reason:?}");
        }
        // Whether a name exists changes nothing in what is written of it, or when.
        let one = |reason: Reason| (reason.group(), reason.table(), reason.level());
        for other in [Reason::UnknownUser, Reason::TooManyGuesses] {
            assert_eq!(one(other), one(Reason::WrongPassword));
        }
        assert_eq!(one(Reason::NoSuchUser), one(Reason::NotRegistered));
    }
}
