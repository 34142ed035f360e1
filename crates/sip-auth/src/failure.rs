//! Why nobody was proved.

/// Why the credentials of a request let nobody in: a closed list, for the operator. The
/// sender is told no more than that he is to answer a challenge: an unknown name and a
/// wrong password look alike to him.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    /// The digest is not that of the user's password.
    WrongPassword,
    /// There is no such user, or none with that algorithm.
    UnknownUser,
    /// The nonce is too old, of another process or node, or may have been forgotten; the next works
    /// with the right password.
    Stale,
    /// The digest is right and was used before.
    Replay,
    /// The nonce was not issued here.
    ForgedNonce,
    /// An algorithm that is not offered, or the form of RFC 2069, which has no guard
    /// against replays.
    NotOffered,
    /// The digest is as long as one of another algorithm: phones answer a challenge of
    /// SHA-256 by MD5.
    OtherAlgorithm,
    /// The credentials cannot be read, or are for another request.
    Malformed,
    /// The user is proved, and the request speaks for somebody else.
    NotHimself,
    /// Too many before these were wrong: they were not looked at.
    TooManyGuesses,
    /// The store could not say, or not in time.
    StoreUnavailable,
}

impl Failure {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::WrongPassword,
        Self::UnknownUser,
        Self::Stale,
        Self::Replay,
        Self::ForgedNonce,
        Self::NotOffered,
        Self::OtherAlgorithm,
        Self::Malformed,
        Self::NotHimself,
        Self::TooManyGuesses,
        Self::StoreUnavailable,
    ];

    /// Its name as the label of a counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WrongPassword => "wrong_password",
            Self::UnknownUser => "unknown_user",
            Self::Stale => "stale",
            Self::Replay => "replay",
            Self::ForgedNonce => "forged_nonce",
            Self::NotOffered => "not_offered",
            Self::OtherAlgorithm => "other_algorithm",
            Self::Malformed => "malformed",
            Self::NotHimself => "not_himself",
            Self::TooManyGuesses => "too_many_guesses",
            Self::StoreUnavailable => "store_unavailable",
        }
    }

    /// The same in words, for a log.
    pub const fn text(self) -> &'static str {
        match self {
            Self::WrongPassword => "wrong password",
            Self::UnknownUser => "unknown user",
            Self::Stale => "stale nonce",
            Self::Replay => "replayed digest",
            Self::ForgedNonce => "forged nonce",
            Self::NotOffered => "algorithm not offered",
            Self::OtherAlgorithm => "digest of another algorithm",
            Self::Malformed => "malformed credentials",
            Self::NotHimself => "speaks for somebody else",
            Self::TooManyGuesses => "too many guesses",
            Self::StoreUnavailable => "store unavailable",
        }
    }

    /// Whether only the nonce was not good, so that the challenge says `stale=true` and
    /// nobody is asked for his password again.
    pub const fn is_stale(self) -> bool {
        matches!(self, Self::Stale | Self::Replay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_where_its_number_says_and_has_a_name_of_its_own() {
        for (nth, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, nth);
            let alike = Failure::ALL
                .iter()
                .filter(|other| other.name() == failure.name() || other.text() == failure.text());
            assert_eq!(alike.count(), 1, "{failure:?}");
        }
    }
}
