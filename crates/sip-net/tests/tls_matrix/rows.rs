//! The matrix of certificates: what each is called, and what is to come of it.

use rcgen::{
    BasicConstraints, ExtendedKeyUsagePurpose as Eku, IsCa, KeyUsagePurpose, date_time_ymd,
};
use sip_tls::CertificateFault;
use sip_tls::testing::TestCa;

use crate::common::shown::*;

/// What is to come of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The handshake is done.
    In,
    /// It fails, for this reason.
    Out(CertificateFault),
    /// It does not come to that.
    Never,
}

use Verdict::{In, Never, Out};

/// A certificate that is wrong in one way, or in none.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&TestCa) -> Shown,
    /// When a server shows it, to whoever calls it `example.com`.
    pub(crate) of_server: Verdict,
    /// When a client shows it.
    pub(crate) of_client: Verdict,
}

fn row(
    name: &'static str,
    make: fn(&TestCa) -> Shown,
    of_server: Verdict,
    of_client: Verdict,
) -> Row {
    Row {
        name,
        make,
        of_server,
        of_client,
    }
}

fn both(name: &'static str, make: fn(&TestCa) -> Shown, fault: CertificateFault) -> Row {
    row(name, make, Out(fault), Out(fault))
}

/// The alert that each reason has (RFC 8446 6.2).
pub(crate) fn alert_for(fault: CertificateFault) -> &'static str {
    use CertificateFault as F;
    match fault {
        F::Missing => "certificate_required",
        F::Malformed | F::WrongName | F::CriticalExtension => "bad_certificate",
        F::Expired | F::NotYetValid => "certificate_expired",
        F::UnknownIssuer | F::RevocationUnknown => "unknown_ca",
        F::Revoked => "certificate_revoked",
        F::WrongUsage => "unsupported_certificate",
        F::BadSignature => "decrypt_error",
        F::NotAnAuthority | F::NameConstraint | F::ChainTooLong | F::WeakKey | F::Other => {
            "certificate_unknown"
        }
    }
}

pub(crate) fn rows() -> Vec<Row> {
    use CertificateFault as F;
    vec![
        row("good", |ca| leaf(ca, |_| {}), In, In),
        row(
            "a sip URI",
            |ca| ca.issue(&["sip:example.com", "other.com"]).into(),
            In,
            In,
        ),
        row(
            "no extendedKeyUsage",
            |ca| leaf(ca, |p| p.extended_key_usages.clear()),
            In,
            In,
        ),
        row(
            "serverAuth alone",
            |ca| leaf(ca, |p| p.extended_key_usages = vec![Eku::ServerAuth]),
            In,
            In,
        ),
        row(
            "clientAuth alone",
            |ca| leaf(ca, |p| p.extended_key_usages = vec![Eku::ClientAuth]),
            In,
            In,
        ),
        row(
            "sipDomain alone",
            |ca| leaf(ca, |p| p.extended_key_usages = vec![sip_domain()]),
            In,
            In,
        ),
        row(
            "any use",
            |ca| leaf(ca, |p| p.extended_key_usages = vec![Eku::Any]),
            In,
            In,
        ),
        row(
            "an intermediate",
            |ca| under(ca, &[BasicConstraints::Unconstrained]),
            In,
            In,
        ),
        row(
            "six intermediates",
            |ca| under(ca, &[BasicConstraints::Unconstrained; 6]),
            In,
            In,
        ),
        both(
            "expired",
            |ca| leaf(ca, |p| p.not_after = date_time_ymd(2021, 1, 1)),
            F::Expired,
        ),
        both(
            "not yet valid",
            |ca| leaf(ca, |p| p.not_before = date_time_ymd(2098, 1, 1)),
            F::NotYetValid,
        ),
        // Names are what a client asks for; a server is told whom a client
        // speaks for, and that is nobody.
        row(
            "another name",
            |ca| ca.issue(&["example.org"]).into(),
            Out(F::WrongName),
            In,
        ),
        row(
            "a wildcard",
            |ca| ca.issue(&["*.com"]).into(),
            Out(F::WrongName),
            In,
        ),
        row(
            "a wildcard in a sip URI",
            |ca| ca.issue(&["sip:*.com"]).into(),
            Out(F::WrongName),
            In,
        ),
        row(
            "a user's sip URI",
            |ca| ca.issue(&["sip:bob@example.com"]).into(),
            Out(F::WrongName),
            In,
        ),
        row(
            "a sip URI before the name",
            |ca| ca.issue(&["sip:example.org", "example.com"]).into(),
            Out(F::WrongName),
            In,
        ),
        row(
            "the common name alone",
            |ca| leaf(ca, common_name),
            Out(F::WrongName),
            In,
        ),
        both("self-signed", |_| self_signed(), F::UnknownIssuer),
        both(
            "of a stranger",
            |_| TestCa::named("Another CA").issue(&["example.com"]).into(),
            F::UnknownIssuer,
        ),
        both(
            "of a stranger under our name",
            |_| TestCa::new().issue(&["example.com"]).into(),
            F::BadSignature,
        ),
        both("a link is missing", without_a_link, F::UnknownIssuer),
        both(
            "an expired authority",
            |ca| beneath(ca, |p| p.not_after = date_time_ymd(2021, 1, 1)),
            F::Expired,
        ),
        both(
            "an issuer that is none",
            |ca| beneath(ca, |p| p.is_ca = IsCa::ExplicitNoCa),
            F::NotAnAuthority,
        ),
        both(
            "an authority itself",
            |ca| leaf(ca, |p| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
            F::NotAnAuthority,
        ),
        both(
            "seven intermediates",
            |ca| under(ca, &[BasicConstraints::Unconstrained; 7]),
            F::ChainTooLong,
        ),
        both(
            "a path longer than allowed",
            |ca| {
                under(
                    ca,
                    &[
                        BasicConstraints::Constrained(0),
                        BasicConstraints::Unconstrained,
                    ],
                )
            },
            F::ChainTooLong,
        ),
        both(
            "a name that its issuer must not give",
            |ca| bound(ca, "example.com", "example.net"),
            F::NameConstraint,
        ),
        both(
            "a sip URI that its issuer must not give",
            |ca| bound(ca, "sip:example.com", "example.net"),
            F::NameConstraint,
        ),
        both(
            "a user's sip URI that its issuer must not give",
            |ca| bound(ca, "sip:alice@example.com", "example.net"),
            F::NameConstraint,
        ),
        row(
            "a sip URI that its issuer may give",
            |ca| bound(ca, "sip:example.com", "example.com"),
            In,
            In,
        ),
        both("revoked", |ca| revoked(ca, 5, &[4, 5, 6]), F::Revoked),
        both("a revoked authority", revoked_above, F::Revoked),
        row("another is revoked", |ca| revoked(ca, 5, &[4, 6]), In, In),
        both(
            "for signing code",
            |ca| leaf(ca, |p| p.extended_key_usages = vec![Eku::CodeSigning]),
            F::WrongUsage,
        ),
        both(
            "a key that must not sign",
            |ca| leaf(ca, |p| p.key_usages = vec![KeyUsagePurpose::KeyAgreement]),
            F::WrongUsage,
        ),
        row(
            "a key that may sign",
            |ca| {
                leaf(ca, |p| {
                    p.key_usages = vec![KeyUsagePurpose::DigitalSignature]
                })
            },
            In,
            In,
        ),
        both("a broken signature", broken_signature, F::BadSignature),
        both("garbage", |_| junk(b"no certificate"), F::Malformed),
        both(
            "the beginning of one",
            |ca| {
                let whole = leaf(ca, |_| {}).chain.remove(0);
                junk(&whole[..whole.len() / 2])
            },
            F::Malformed,
        ),
        both("an RSA key of 1,024 bits", short_key, F::WeakKey),
        both("signed with SHA-1", sha1, F::BadSignature),
        both(
            "an unknown critical extension",
            unknown_extension,
            F::CriticalExtension,
        ),
        // A server without one ends the handshake itself.
        row("none", |_| nothing(), Never, Out(F::Missing)),
    ]
}
