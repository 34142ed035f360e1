//! What may be wrong with a peer's certificate, and with a handshake.

use rustls::{AlertDescription, CertificateError, Error, OtherError};

/// Why a certificate was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CertificateFault {
    /// There was none.
    Missing,
    /// It is no certificate that can be read.
    Malformed,
    /// Its time, or that of one above it, is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// It does not bear the name that was asked for.
    WrongName,
    /// Its chain leads to nobody whom we trust: self-signed, of a stranger,
    /// or a link is missing.
    UnknownIssuer,
    /// A certificate in the chain must not issue certificates.
    NotAnAuthority,
    /// An authority does not allow the name.
    NameConstraint,
    /// The chain is longer than is followed, or than an authority allows.
    ChainTooLong,
    /// It, or one above it, was revoked.
    Revoked,
    /// Whether it was revoked cannot be known: no list, or one out of date.
    RevocationUnknown,
    /// It is for another use (keyUsage, extendedKeyUsage).
    WrongUsage,
    /// Its key is too short.
    WeakKey,
    /// It has a critical extension that nobody here knows.
    CriticalExtension,
    /// A signature is wrong, or by an algorithm that is not accepted.
    BadSignature,
    /// Something else.
    Other,
}

impl CertificateFault {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 16] = [
        Self::Missing,
        Self::Malformed,
        Self::Expired,
        Self::NotYetValid,
        Self::WrongName,
        Self::UnknownIssuer,
        Self::NotAnAuthority,
        Self::NameConstraint,
        Self::ChainTooLong,
        Self::Revoked,
        Self::RevocationUnknown,
        Self::WrongUsage,
        Self::WeakKey,
        Self::CriticalExtension,
        Self::BadSignature,
        Self::Other,
    ];

    /// A short name, for metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::WrongName => "wrong_name",
            Self::UnknownIssuer => "unknown_issuer",
            Self::NotAnAuthority => "not_an_authority",
            Self::NameConstraint => "name_constraint",
            Self::ChainTooLong => "chain_too_long",
            Self::Revoked => "revoked",
            Self::RevocationUnknown => "revocation_unknown",
            Self::WrongUsage => "wrong_usage",
            Self::WeakKey => "weak_key",
            Self::CriticalExtension => "critical_extension",
            Self::BadSignature => "bad_signature",
            Self::Other => "other",
        }
    }

    /// The fault behind an error of the library.
    pub(crate) fn of(error: &CertificateError) -> Self {
        use CertificateError as E;
        match error {
            E::BadEncoding => Self::Malformed,
            E::Expired | E::ExpiredContext { .. } => Self::Expired,
            E::NotValidYet | E::NotValidYetContext { .. } => Self::NotYetValid,
            E::Revoked => Self::Revoked,
            E::UnhandledCriticalExtension => Self::CriticalExtension,
            E::UnknownIssuer => Self::UnknownIssuer,
            E::UnknownRevocationStatus
            | E::ExpiredRevocationList
            | E::ExpiredRevocationListContext { .. } => Self::RevocationUnknown,
            E::BadSignature
            | E::UnsupportedSignatureAlgorithmContext { .. }
            | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => Self::BadSignature,
            E::NotValidForName | E::NotValidForNameContext { .. } => Self::WrongName,
            E::InvalidPurpose | E::InvalidPurposeContext { .. } => Self::WrongUsage,
            E::Other(OtherError(inner)) => {
                inner.downcast_ref::<Own>().map_or(Self::Other, |own| own.0)
            }
            _ => Self::Other,
        }
    }

    /// The error with which the library ends a handshake for this fault, and
    /// which chooses the alert.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Missing => Error::NoCertificatesPresented,
            Self::Malformed => CertificateError::BadEncoding.into(),
            Self::Expired => CertificateError::Expired.into(),
            Self::NotYetValid => CertificateError::NotValidYet.into(),
            Self::WrongName => CertificateError::NotValidForName.into(),
            Self::UnknownIssuer => CertificateError::UnknownIssuer.into(),
            Self::Revoked => CertificateError::Revoked.into(),
            Self::RevocationUnknown => CertificateError::UnknownRevocationStatus.into(),
            Self::WrongUsage => CertificateError::InvalidPurpose.into(),
            Self::CriticalExtension => CertificateError::UnhandledCriticalExtension.into(),
            Self::BadSignature => CertificateError::BadSignature.into(),
            Self::NotAnAuthority
            | Self::NameConstraint
            | Self::ChainTooLong
            | Self::WeakKey
            | Self::Other => {
                CertificateError::Other(OtherError(std::sync::Arc::new(Own(self)))).into()
            }
        }
    }

    /// The fault behind an error of the chain's verification.
    pub(crate) fn of_chain(error: &webpki::Error) -> Self {
        use webpki::Error as E;
        match error {
            E::CertExpired { .. } | E::InvalidCertValidity => Self::Expired,
            E::CertNotValidYet { .. } => Self::NotYetValid,
            E::CertNotValidForName(_) => Self::WrongName,
            E::CertRevoked => Self::Revoked,
            E::UnknownRevocationStatus
            | E::CrlExpired { .. }
            | E::InvalidCrlSignatureForPublicKey
            | E::IssuerNotCrlSigner => Self::RevocationUnknown,
            E::UnknownIssuer | E::CertDistrusted => Self::UnknownIssuer,
            E::EndEntityUsedAsCa | E::CaUsedAsEndEntity => Self::NotAnAuthority,
            E::NameConstraintViolation | E::MalformedNameConstraint => Self::NameConstraint,
            E::PathLenConstraintViolated
            | E::MaximumPathDepthExceeded
            | E::MaximumPathBuildCallsExceeded
            | E::MaximumSignatureChecksExceeded
            | E::MaximumNameConstraintComparisonsExceeded => Self::ChainTooLong,
            E::RequiredEkuNotFoundContext(_) | E::EmptyEkuExtension => Self::WrongUsage,
            E::UnsupportedCriticalExtension => Self::CriticalExtension,
            E::InvalidSignatureForPublicKey
            | E::SignatureAlgorithmMismatch
            | E::UnsupportedSignatureAlgorithmContext(_)
            | E::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => Self::BadSignature,
            E::BadDer
            | E::BadDerTime
            | E::TrailingData(_)
            | E::ExtensionValueInvalid
            | E::InvalidSerialNumber
            | E::MalformedExtensions
            | E::MalformedDnsIdentifier
            | E::UnsupportedCertVersion => Self::Malformed,
            _ => Self::Other,
        }
    }
}

/// A fault for which the library has no error of its own.
#[derive(Debug)]
struct Own(CertificateFault);

impl std::fmt::Display for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

impl std::error::Error for Own {}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandshakeFailure {
    /// It took too long.
    TimedOut,
    /// The connection ended before it did.
    Cut,
    /// The peer's certificate was not accepted.
    BadCertificate,
    /// The peer did not accept our certificate, or wanted one.
    CertificateRefused,
    /// No version, suite, group or certificate in common.
    Incompatible,
    /// What came was no TLS, or not as it must be.
    Broken,
    /// Too many handshakes: it was not begun.
    Refused,
}

impl HandshakeFailure {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 7] = [
        Self::TimedOut,
        Self::Cut,
        Self::BadCertificate,
        Self::CertificateRefused,
        Self::Incompatible,
        Self::Broken,
        Self::Refused,
    ];

    /// A short name, for metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Cut => "cut",
            Self::BadCertificate => "bad_certificate",
            Self::CertificateRefused => "certificate_refused",
            Self::Incompatible => "incompatible",
            Self::Broken => "broken",
            Self::Refused => "refused",
        }
    }

    pub(crate) fn of(error: &Error) -> Self {
        use AlertDescription as Alert;
        match error {
            Error::InvalidCertificate(_)
            | Error::InvalidCertRevocationList(_)
            | Error::NoCertificatesPresented => Self::BadCertificate,
            Error::AlertReceived(
                Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::CertificateRequired
                | Alert::NoCertificate
                | Alert::UnknownCA,
            ) => Self::CertificateRefused,
            Error::PeerIncompatible(_)
            | Error::AlertReceived(
                Alert::HandshakeFailure
                | Alert::ProtocolVersion
                | Alert::InsufficientSecurity
                | Alert::UnrecognisedName,
            ) => Self::Incompatible,
            _ => Self::Broken,
        }
    }
}

/// An alert that ended a handshake (RFC 8446 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlsAlert {
    /// Its number in IANA's registry.
    pub code: u8,
    /// Whether it came from the peer; otherwise we sent it.
    pub received: bool,
}

impl TlsAlert {
    /// Its name in RFC 8446 6, or `unknown`.
    pub const fn name(self) -> &'static str {
        match self.code {
            0 => "close_notify",
            10 => "unexpected_message",
            20 => "bad_record_mac",
            22 => "record_overflow",
            40 => "handshake_failure",
            42 => "bad_certificate",
            43 => "unsupported_certificate",
            44 => "certificate_revoked",
            45 => "certificate_expired",
            46 => "certificate_unknown",
            47 => "illegal_parameter",
            48 => "unknown_ca",
            49 => "access_denied",
            50 => "decode_error",
            51 => "decrypt_error",
            70 => "protocol_version",
            71 => "insufficient_security",
            80 => "internal_error",
            86 => "inappropriate_fallback",
            90 => "user_canceled",
            109 => "missing_extension",
            110 => "unsupported_extension",
            112 => "unrecognized_name",
            116 => "certificate_required",
            120 => "no_application_protocol",
            _ => "unknown",
        }
    }

    /// The alert behind an error: the one received, or the one that the
    /// library sends for it where its number can be known.
    pub(crate) fn of(error: &Error, sent: &[u8]) -> Option<Self> {
        if let Error::AlertReceived(alert) = error {
            return Some(Self {
                code: u8::from(*alert),
                received: true,
            });
        }
        // In the clear the record tells: type, version, length 2, level, code.
        if let Some([21, _, _, 0, 2, _, code]) = sent.last_chunk::<7>() {
            return Some(Self {
                code: *code,
                received: false,
            });
        }
        let code = match error {
            Error::InvalidCertificate(error) => u8::from(AlertDescription::from(error.clone())),
            Error::NoCertificatesPresented => u8::from(AlertDescription::CertificateRequired),
            _ => return None,
        };
        (!sent.is_empty()).then_some(Self {
            code,
            received: false,
        })
    }
}

/// A handshake that failed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandshakeError {
    /// Why.
    pub failure: HandshakeFailure,
    /// What was wrong with the peer's certificate, where that was the reason.
    pub fault: Option<CertificateFault>,
    /// The alert that was sent or received.
    pub alert: Option<TlsAlert>,
    /// How long it took on the clock, in microseconds.
    pub wall_us: u64,
    /// How long it took on the processor, in microseconds.
    pub cpu_us: u64,
}

impl HandshakeError {
    /// For this reason, with nothing else known of it.
    pub const fn new(failure: HandshakeFailure) -> Self {
        Self {
            failure,
            fault: None,
            alert: None,
            wall_us: 0,
            cpu_us: 0,
        }
    }

    /// `sent` is what was sent last.
    pub(crate) fn of(error: &Error, sent: &[u8]) -> Self {
        let fault = match error {
            Error::InvalidCertificate(error) => Some(CertificateFault::of(error)),
            Error::InvalidCertRevocationList(_) => Some(CertificateFault::RevocationUnknown),
            Error::NoCertificatesPresented => Some(CertificateFault::Missing),
            _ => None,
        };
        Self {
            fault,
            alert: TlsAlert::of(error, sent),
            ..Self::new(HandshakeFailure::of(error))
        }
    }
}

impl std::fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.failure.name())?;
        if let Some(fault) = self.fault {
            write!(f, ", {}", fault.name())?;
        }
        match self.alert {
            Some(alert) if alert.received => write!(f, ", alert {} received", alert.name()),
            Some(alert) => write!(f, ", alert {} sent", alert.name()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for HandshakeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_and_failure_has_its_own_place_and_name() {
        for (place, fault) in CertificateFault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, place);
        }
        for (place, failure) in HandshakeFailure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, place);
        }
    }

    #[test]
    fn a_fault_survives_the_way_through_the_library() {
        for fault in CertificateFault::ALL {
            let error = HandshakeError::of(&fault.into_error(), &[]);
            assert_eq!(error.fault, Some(fault));
            assert_eq!(error.failure, HandshakeFailure::BadCertificate);
        }
    }

    #[test]
    fn an_alert_in_the_clear_is_read_and_another_is_known_by_its_cause() {
        let error = Error::General("x".into());
        let sent = [22, 3, 3, 0, 0, 21, 3, 3, 0, 2, 2, 40];
        let alert = TlsAlert::of(&error, &sent).unwrap();
        assert_eq!((alert.name(), alert.received), ("handshake_failure", false));
        let error = CertificateFault::Revoked.into_error();
        let alert = TlsAlert::of(&error, &[23; 24]).unwrap();
        assert_eq!(
            (alert.name(), alert.received),
            ("certificate_revoked", false)
        );
        let error = Error::AlertReceived(AlertDescription::UnknownCA);
        let alert = TlsAlert::of(&error, &[]).unwrap();
        assert_eq!((alert.name(), alert.received), ("unknown_ca", true));
    }
}
