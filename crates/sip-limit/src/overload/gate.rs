//! Which of those that ask are let in.

use super::{Share, Shares};

/// One refusal in words for so many that are let in.
const LET_IN_PER_ANSWER: u32 = 8;
/// Refusals in words that may be saved up.
const ANSWERS_MAX: u32 = 256;
/// Refusals in words in each interval, however little is let in.
const ANSWERS_MIN: u32 = 2;

/// The class of a request, by which an overloaded server decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It belongs to a dialog or transaction that has begun: never refused.
    Within,
    /// It renews a registration, or answers a challenge.
    LetIn,
    /// It begins something new.
    NewWork,
    /// It registers a user that has no contact.
    FirstRegistration,
}

/// Admits a share of each class: evenly, and not by chance.
#[derive(Debug)]
pub struct Gate {
    shares: Shares,
    /// What each class has saved up towards the next that is let in.
    saved: [u32; 3],
    /// Quarters of refusals in words.
    answers: u32,
    /// How much of what would be let in is, at this moment.
    brake: Share,
    is_open: bool,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            shares: Shares::ALL,
            saved: [0; 3],
            answers: 0,
            brake: Share::ALL,
            is_open: true,
        }
    }
}

impl Gate {
    /// Whether everything is admitted.
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Sets the shares. To be called in each interval: each call allows a number of
    /// answers with 503.
    pub fn set(&mut self, shares: Shares) {
        self.shares = shares;
        self.is_open = self.shares.is_all() && self.brake == Share::ALL;
        self.allow(ANSWERS_MIN * LET_IN_PER_ANSWER);
    }

    /// Admits only this share of what would be admitted, until the next call: to be
    /// called in each turn ([`super::Controller::brake`]).
    pub fn set_brake(&mut self, brake: Share) {
        if brake != self.brake {
            self.brake = brake;
            self.is_open = self.shares.is_all() && brake == Share::ALL;
        }
    }

    /// Whether the next request of a class is admitted.
    pub fn admits(&mut self, class: Class) -> bool {
        if self.is_open {
            return true;
        }
        let (share, nth) = match class {
            Class::Within => return true,
            Class::LetIn => (self.shares.let_in, 0),
            Class::NewWork => (self.shares.new_work.of(self.brake), 1),
            Class::FirstRegistration => (self.shares.first_registration.of(self.brake), 2),
        };
        let is_in = share == Share::ALL
            || self.saved.get_mut(nth).is_some_and(|saved| {
                *saved += share.parts();
                let is_full = *saved >= Share::ALL.parts();
                if is_full {
                    *saved -= Share::ALL.parts();
                }
                is_full
            });
        if is_in {
            self.allow(1);
        }
        is_in
    }

    /// Whether a refused request is answered 503; otherwise it is dropped.
    pub fn may_answer(&mut self) -> bool {
        match self.answers.checked_sub(LET_IN_PER_ANSWER) {
            Some(rest) => {
                self.answers = rest;
                true
            }
            None => false,
        }
    }

    fn allow(&mut self, let_in: u32) {
        self.answers = (self.answers + let_in).min(ANSWERS_MAX * LET_IN_PER_ANSWER);
    }
}
