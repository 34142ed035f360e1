//! A registration as its client keeps it (RFC 3261 10.2): what came goes in, what is to be done
//! comes out. Times and chance are given to it
//! (`docs/decisions/0213-a-registration-is-one-workers.md`).

/// How often one round may be sent again at once: for challenges, a longer time, a contact.
const AGAIN_MAX: u8 = 8;
/// RFC 5626 4.5 has these for a registration of which none is left: the base and the most.
const BASE_MS: u64 = 30_000;
const WAIT_MS_MAX: u64 = 1_800_000;
/// The longest time that a registrar may ask for.
const EXPIRES_MAX_S: u32 = 604_800;
/// So long before its end a binding is renewed at the latest, where it lasts for twice that:
/// a transaction's time (RFC 3261 17.1.2.2).
const MARGIN_MS: u64 = 32_000;

/// Why a registration was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No member answered.
    Silent,
    /// No member could be reached.
    Unreachable,
    /// DNS has no address of a member.
    NotResolved,
    /// No listener leads to a member, or its own address is not known.
    NoTransport,
    /// The answer was this.
    Refused(u16),
    /// The password was refused.
    WrongPassword,
    /// The challenge was for another realm than the trunk's.
    ForeignRealm,
    /// The challenge asks for what is not supported, or cannot be read.
    BadChallenge,
}

impl Failure {
    /// What happened.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Silent => "no member answered",
            Self::Unreachable => "no member can be reached",
            Self::NotResolved => "DNS has no address of a member",
            Self::NoTransport => {
                "no listener leads to a member, or its own address is not known: see `contact`"
            }
            Self::Refused(_) => "it was refused",
            Self::WrongPassword => "the password was refused",
            Self::ForeignRealm => "the realm asked for is not the trunk's",
            Self::BadChallenge => "the challenge asks for what is not supported",
        }
    }

    /// Its name, which programs read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Unreachable => "unreachable",
            Self::NotResolved => "not_resolved",
            Self::NoTransport => "no_transport",
            Self::Refused(_) => "refused",
            Self::WrongPassword => "wrong_password",
            Self::ForeignRealm => "foreign_realm",
            Self::BadChallenge => "bad_challenge",
        }
    }
}

/// What has become of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is bound, for so long.
    Registered {
        /// Seconds.
        expires_s: u32,
    },
    /// It is not, and was before, or was asked for the first time or by other settings, or
    /// the reason is another.
    Failed {
        /// Why.
        why: Failure,
        /// The realm of the challenge, safe to be shown, where that is not the trunk's.
        realm: Box<str>,
        /// After how long it is asked for again.
        again_ms: u64,
    },
    /// It was taken back.
    Ended,
}

/// What a REGISTER came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The contact is bound, for so long.
    Bound { expires_s: u32 },
    /// 2xx to one without a contact, or to one that takes the contact back.
    Done,
    /// A challenge was taken up.
    Challenged,
    /// The time was too brief (423).
    TooBrief { min_s: Option<u32> },
    /// The member cannot, or is not there: another may.
    Member(Failure),
    /// The account is not to be: no member will say otherwise.
    Account(Failure),
}

/// What is to be done then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is sent again, to the same member.
    Again,
    /// It is sent to the next member.
    Other,
    /// There is nothing to be done before it is due.
    Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is not bound, and is to be asked for then.
    Unbound { due_ms: u64 },
    /// It is being asked for.
    Asking,
    /// It is bound, and is to be renewed then.
    Bound { due_ms: u64 },
    /// It is being taken back.
    Ending,
    /// It was taken back, or is left.
    Over,
}

/// A registration.
#[derive(Clone, Debug)]
pub(super) struct Registration {
    phase: Phase,
    /// The time that is asked for.
    expires_s: u32,
    is_raised: bool,
    /// Until when the contact is bound, as far as is known.
    until_ms: u64,
    cseq: u32,
    failures_in_a_row: u32,
    agains: u8,
    /// How it stands, as it was told last.
    told: Option<Result<(), Failure>>,
    /// Whether other settings have come since this round began.
    is_outdated: bool,
}

impl Registration {
    /// One that is to be asked for at once.
    pub(super) fn new(expires_s: u32) -> Self {
        Self {
            phase: Phase::Unbound { due_ms: 0 },
            expires_s,
            is_raised: false,
            until_ms: 0,
            cseq: 0,
            failures_in_a_row: 0,
            agains: 0,
            told: None,
            is_outdated: false,
        }
    }

    /// When something is to be sent; `None` where it is under way, or over.
    pub(super) fn due_ms(&self) -> Option<u64> {
        match self.phase {
            Phase::Unbound { due_ms } | Phase::Bound { due_ms } => Some(due_ms),
            Phase::Asking | Phase::Ending | Phase::Over => None,
        }
    }

    /// Begins a round: it is asked for, or renewed.
    pub(super) fn begin(&mut self) {
        self.phase = Phase::Asking;
        self.agains = 0;
        self.is_outdated = false;
    }

    /// It is asked for by other settings, at once: what it came to by those before says nothing of
    /// these. What is under way is waited for.
    // RFC 3261 10.2: "UAs MUST NOT send a new registration (that is, containing new Contact header
    // field values, as opposed to a retransmission) until they have received a final response from
    // the registrar for the previous one or the previous REGISTER request has timed out."
    pub(super) fn ask_anew(&mut self, expires_s: u32) {
        (self.expires_s, self.is_raised) = (expires_s, false);
        self.failures_in_a_row = 0;
        self.told = self.told.filter(Result::is_ok);
        match self.phase {
            Phase::Asking | Phase::Ending => self.is_outdated = true,
            _ => self.phase = Phase::Unbound { due_ms: 0 },
        }
    }

    /// Whether other settings have come since this round began.
    pub(super) fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Begins to take it back; false where nothing is bound.
    pub(super) fn begin_end(&mut self, now_ms: u64) -> bool {
        let may_be_bound = now_ms < self.until_ms || self.phase == Phase::Asking;
        self.phase = match may_be_bound {
            true => Phase::Ending,
            false => Phase::Over,
        };
        self.agains = 0;
        self.is_outdated = false;
        may_be_bound
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether it is being taken back.
    pub(super) fn is_ending(&self) -> bool {
        self.phase == Phase::Ending
    }

    /// Until when the contact is bound.
    pub(super) fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// The number of the next REGISTER.
    // RFC 3261 10.2: "A UA MUST increment the CSeq value by one for each REGISTER request with the
    // same Call-ID."
    pub(super) fn next_cseq(&mut self) -> u32 {
        self.cseq = self.cseq.wrapping_add(1) & 0x7fff_ffff;
        self.cseq
    }

    /// The seconds that it asks for; 0 takes the contact back.
    // RFC 3261 10.2.2: "A UA requests the immediate removal of a binding by specifying an expiration
    // interval of "0" for that contact address in a REGISTER request."
    pub(super) fn asked_s(&self) -> u32 {
        match self.is_ending() {
            true => 0,
            false => self.expires_s,
        }
    }

    /// What a REGISTER came to. `has_other`: whether another member, or another address, is
    /// left; `pause_ms`: what the answer asked for; `lot` draws a number up to another.
    pub(super) fn answered(
        &mut self,
        now_ms: u64,
        answer: Answer,
        has_other: bool,
        pause_ms: Option<u64>,
        lot: impl FnOnce(u64) -> u64,
    ) -> (Next, Option<Change>) {
        if self.is_ending() {
            return self.ended(now_ms, answer);
        }
        let why = match answer {
            Answer::Bound { expires_s: 0 } => Failure::Refused(200),
            Answer::Bound { expires_s } => {
                return (Next::Rest, self.bound(now_ms, expires_s, lot));
            }
            // Whatever it is, it is an answer to settings that are no more: neither is it told, nor
            // is another member of theirs asked, nor one of theirs shown the password of these.
            _ if self.is_outdated => {
                self.phase = Phase::Unbound { due_ms: now_ms };
                return (Next::Rest, None);
            }
            Answer::Challenged | Answer::Done if self.may_again() => return (Next::Again, None),
            Answer::Challenged => Failure::BadChallenge,
            Answer::Done => Failure::NoTransport,
            // RFC 3261 10.2.8: "If a UA receives a 423 (Interval Too Brief) response, it MAY retry the
            // registration after making the expiration interval of all contact addresses in the
            // REGISTER request equal to or greater than the expiration interval within the
            // Min-Expires header field of the 423 (Interval Too Brief) response."
            Answer::TooBrief { min_s: Some(min_s) }
                if !self.is_raised
                    && (self.expires_s..=EXPIRES_MAX_S).contains(&min_s)
                    && self.may_again() =>
            {
                self.is_raised = true;
                self.expires_s = min_s;
                return (Next::Again, None);
            }
            Answer::TooBrief { .. } => Failure::Refused(423),
            Answer::Member(_) if has_other => return (Next::Other, None),
            Answer::Member(why) | Answer::Account(why) => why,
        };
        let again_ms = self.failed(now_ms, pause_ms, lot);
        let is_news = self.told != Some(Err(why));
        self.told = Some(Err(why));
        let change = is_news.then(|| Change::Failed {
            why,
            realm: Box::default(),
            again_ms,
        });
        (Next::Rest, change)
    }

    fn may_again(&mut self) -> bool {
        self.agains += 1;
        self.agains <= AGAIN_MAX
    }

    fn bound(
        &mut self,
        now_ms: u64,
        expires_s: u32,
        lot: impl FnOnce(u64) -> u64,
    ) -> Option<Change> {
        let expires_s = expires_s.min(EXPIRES_MAX_S);
        let expires_ms = u64::from(expires_s) * 1_000;
        self.until_ms = now_ms + expires_ms;
        self.failures_in_a_row = 0;
        let after_ms = renew_after_ms(expires_ms);
        let sooner_ms = lot(after_ms / 10);
        let rest_ms = match self.is_outdated {
            true => 0,
            false => after_ms.saturating_sub(sooner_ms),
        };
        self.phase = Phase::Bound {
            due_ms: now_ms + rest_ms,
        };
        let is_news = self.told != Some(Ok(()));
        self.told = Some(Ok(()));
        is_news.then_some(Change::Registered { expires_s })
    }

    /// After how long it is asked for again.
    // RFC 5626 4.5: the wait is between half of it and all of it,
    // min(max-time, base-time * 2 ^ consecutive-failures).
    fn failed(&mut self, now_ms: u64, pause_ms: Option<u64>, lot: impl FnOnce(u64) -> u64) -> u64 {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let doubled = self.failures_in_a_row.min(16);
        let most_ms = (BASE_MS << doubled).min(WAIT_MS_MAX);
        let wait_ms = most_ms / 2 + lot(most_ms / 2);
        let wait_ms = wait_ms.max(pause_ms.unwrap_or(0));
        self.phase = Phase::Unbound {
            due_ms: now_ms + wait_ms,
        };
        wait_ms
    }

    /// The same while it is being taken back: once, with the answer to one challenge.
    fn ended(&mut self, now_ms: u64, answer: Answer) -> (Next, Option<Change>) {
        if answer == Answer::Challenged && !self.is_outdated && self.may_again() {
            return (Next::Again, None);
        }
        // By settings that came meanwhile it is wanted again.
        self.phase = match self.is_outdated {
            true => Phase::Unbound { due_ms: now_ms },
            false => Phase::Over,
        };
        (self.until_ms, self.told) = (0, None);
        (Next::Rest, Some(Change::Ended))
    }
}

/// When a binding of that length is renewed.
fn renew_after_ms(expires_ms: u64) -> u64 {
    let most_ms = (expires_ms / 5 * 4).min(expires_ms.saturating_sub(MARGIN_MS));
    most_ms.max(expires_ms / 2).max(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws all that may be drawn.
    fn all(of: u64) -> u64 {
        of
    }

    fn none(_: u64) -> u64 {
        0
    }

    fn asking() -> Registration {
        let mut registration = Registration::new(3_600);
        assert_eq!(registration.due_ms(), Some(0));
        registration.begin();
        assert_eq!(registration.due_ms(), None);
        registration
    }

    fn bound() -> Registration {
        let mut registration = asking();
        let bound = Answer::Bound { expires_s: 600 };
        let (next, change) = registration.answered(1_000, bound, true, None, none);
        assert_eq!(next, Next::Rest);
        assert_eq!(change, Some(Change::Registered { expires_s: 600 }));
        registration
    }

    #[test]
    fn it_is_renewed_at_a_part_of_its_time_and_told_once() {
        let mut registration = bound();
        assert_eq!(registration.due_ms(), Some(1_000 + 480_000));
        assert_eq!(registration.until_ms(), 601_000);
        registration.begin();
        let again = Answer::Bound { expires_s: 600 };
        let (next, change) = registration.answered(500_000, again, true, None, all);
        assert_eq!((next, change), (Next::Rest, None));
        assert_eq!(registration.due_ms(), Some(500_000 + 432_000));
        for (expires_s, after_s) in [(3_600, 2_880), (120, 88), (60, 30), (10, 5), (1, 1)] {
            assert_eq!(
                renew_after_ms(expires_s * 1_000),
                after_s * 1_000,
                "{expires_s}"
            );
        }
    }

    #[test]
    fn numbers_rise_by_one() {
        // RFC 3261 10.2: "A UA MUST increment the CSeq value by one for each REGISTER request with
        // the same Call-ID."
        let mut registration = asking();
        assert_eq!([(); 3].map(|()| registration.next_cseq()), [1, 2, 3]);
    }

    #[test]
    fn it_fails_over_and_then_waits_longer_each_time() {
        let mut registration = asking();
        let silent = Answer::Member(Failure::Silent);
        assert_eq!(
            registration.answered(0, silent, true, None, none),
            (Next::Other, None)
        );
        let mut waits = Vec::new();
        for round in 0..8 {
            let (next, change) = registration.answered(0, silent, false, None, all);
            assert_eq!(next, Next::Rest);
            assert_eq!(change.is_some(), round == 0, "told once");
            waits.push(registration.due_ms().unwrap() / 1_000);
            registration.begin();
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1_800, 1_800, 1_800]);
        registration.answered(0, silent, false, None, none);
        assert_eq!(registration.due_ms(), Some(900_000), "half of it at least");
        // A pause that was asked for is kept, and no member more is asked for the account.
        registration.begin();
        let refused = Answer::Account(Failure::Refused(403));
        let (next, _) = registration.answered(0, refused, true, Some(5_000_000), none);
        assert_eq!((next, registration.due_ms()), (Next::Rest, Some(5_000_000)));
        // What is granted then is told, and the row is over.
        registration.begin();
        let (_, change) =
            registration.answered(0, Answer::Bound { expires_s: 60 }, true, None, none);
        assert_eq!(change, Some(Change::Registered { expires_s: 60 }));
        registration.begin();
        registration.answered(0, silent, false, None, all);
        assert_eq!(registration.due_ms(), Some(60_000));
    }

    #[test]
    fn a_time_that_is_too_brief_is_raised_once() {
        // RFC 3261 10.2.8: "it MAY retry the registration after making the expiration interval of
        // all contact addresses in the REGISTER request equal to or greater than the expiration
        // interval within the Min-Expires header field".
        let mut registration = asking();
        let brief = |min_s| Answer::TooBrief { min_s };
        let (next, _) = registration.answered(0, brief(Some(7_200)), true, None, none);
        assert_eq!((next, registration.asked_s()), (Next::Again, 7_200));
        let (next, change) = registration.answered(0, brief(Some(9_999)), true, None, none);
        assert_eq!(next, Next::Rest);
        assert!(matches!(
            change,
            Some(Change::Failed {
                why: Failure::Refused(423),
                ..
            })
        ));
        for nonsense in [None, Some(1), Some(u32::MAX)] {
            let mut registration = asking();
            let (next, _) = registration.answered(0, brief(nonsense), true, None, none);
            assert_eq!(next, Next::Rest, "{nonsense:?}");
        }
    }

    #[test]
    fn nobody_keeps_it_asking_for_ever() {
        let mut registration = asking();
        let mut rounds = 0;
        while registration
            .answered(0, Answer::Challenged, true, None, none)
            .0
            == Next::Again
        {
            rounds += 1;
        }
        assert_eq!(rounds, AGAIN_MAX);
        assert!(registration.due_ms().is_some());
        // A registrar that grants no time grants nothing.
        let mut registration = asking();
        let nothing = Answer::Bound { expires_s: 0 };
        let (_, change) = registration.answered(0, nothing, true, None, none);
        assert!(matches!(change, Some(Change::Failed { .. })));
    }

    #[test]
    fn another_time_is_asked_for_at_once() {
        let mut registration = bound();
        registration.ask_anew(60);
        assert_eq!(
            (registration.due_ms(), registration.asked_s()),
            (Some(0), 60)
        );
    }

    #[test]
    fn what_is_under_way_is_waited_for_and_says_nothing_of_other_settings() {
        for answer in [
            Answer::Challenged,
            Answer::Member(Failure::Silent),
            Answer::Account(Failure::WrongPassword),
            Answer::Bound { expires_s: 600 },
        ] {
            let mut registration = asking();
            registration.ask_anew(60);
            assert_eq!(registration.due_ms(), None);
            let (next, change) = registration.answered(5, answer, true, Some(9_000), all);
            assert_eq!(next, Next::Rest, "{answer:?}");
            assert_eq!(registration.due_ms(), Some(5), "{answer:?}");
            let is_bound = matches!(answer, Answer::Bound { .. });
            assert_eq!(change.is_some(), is_bound, "{answer:?}");
            // Now it is asked for by those.
            registration.begin();
            assert_eq!(registration.asked_s(), 60);
            let (next, _) = registration.answered(6, Answer::Challenged, true, None, none);
            assert_eq!(next, Next::Again);
        }
    }

    #[test]
    fn a_failure_is_told_once_for_each_reason_and_by_other_settings_once_more() {
        let mut registration = asking();
        let mut is_told = |why, is_anew: bool| {
            if is_anew {
                registration.ask_anew(60);
                assert_eq!(registration.due_ms(), Some(0));
            }
            registration.begin();
            let answer = Answer::Account(why);
            let (_, change) = registration.answered(0, answer, false, None, all);
            (change.is_some(), registration.due_ms().unwrap() / 1_000)
        };
        assert_eq!(is_told(Failure::ForeignRealm, false), (true, 60));
        assert_eq!(is_told(Failure::ForeignRealm, false), (false, 120));
        assert_eq!(is_told(Failure::WrongPassword, false), (true, 240));
        assert_eq!(is_told(Failure::WrongPassword, true), (true, 60));
        assert_eq!(is_told(Failure::WrongPassword, false), (false, 120));
    }

    #[test]
    fn what_is_being_taken_back_is_wanted_again() {
        let mut registration = bound();
        assert!(registration.begin_end(2_000));
        registration.ask_anew(60);
        assert_eq!(registration.due_ms(), None);
        let (next, change) = registration.answered(3_000, Answer::Done, true, None, none);
        assert_eq!((next, change), (Next::Rest, Some(Change::Ended)));
        assert!(!registration.is_over());
        assert_eq!(registration.due_ms(), Some(3_000));
        // And what was taken back before.
        let mut registration = bound();
        assert!(!registration.begin_end(601_000));
        assert!(registration.is_over());
        registration.ask_anew(60);
        assert_eq!(registration.due_ms(), Some(0));
    }

    #[test]
    fn it_is_taken_back_once() {
        let mut registration = bound();
        assert!(registration.begin_end(2_000));
        assert_eq!((registration.asked_s(), registration.due_ms()), (0, None));
        let (next, _) = registration.answered(3_000, Answer::Challenged, true, None, none);
        assert_eq!(next, Next::Again);
        let silent = Answer::Member(Failure::Silent);
        let (next, change) = registration.answered(3_000, silent, true, None, none);
        assert_eq!((next, change), (Next::Rest, Some(Change::Ended)));
        assert!(registration.is_over());
        // Nothing is taken back of what is not bound, or not any more.
        assert!(!bound().begin_end(601_000));
        assert!(!Registration::new(60).begin_end(1));
        // What is being asked for may be bound by now.
        assert!(asking().begin_end(1));
    }
}
