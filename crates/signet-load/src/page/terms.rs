//! The terms of RFC 6076, in a sentence each.

/// Terms and what they mean; as they are shown beside their figures.
const TERMS: &[(&str, &str)] = &[
    (
        "RRD",
        "Registration Request Delay (RFC 6076 4.1): from a REGISTER to its 200, a challenge between them included",
    ),
    (
        "SRD",
        "Session Request Delay (RFC 6076 4.3.1): from an INVITE to the first response that is more than 100 Trying, of calls that were answered",
    ),
    (
        "SRD of failures",
        "Session Request Delay of calls that failed (RFC 6076 4.3.2): from an INVITE to the response that refused it",
    ),
    (
        "set-up",
        "From an INVITE to its 200. Not of RFC 6076: what it is longer than the SRD, the called side rang",
    ),
    (
        "SDD",
        "Session Disconnect Delay (RFC 6076 4.4.1): from a BYE to its 200",
    ),
    (
        "SDD of failures",
        "Session Disconnect Delay of failures (RFC 6076 4.4.2): from a BYE until it was given up",
    ),
    (
        "SDT",
        "Session Duration Time (RFC 6076 4.5.1): from the 200 of an INVITE to the BYE",
    ),
    (
        "SDT of failures",
        "Session Duration Time of sessions whose end failed (RFC 6076 4.5.2): from the 200 until the BYE was given up",
    ),
    (
        "full handshake",
        "From the beginning of a connection to the end of its full TLS handshake",
    ),
    (
        "resumed handshake",
        "The same of handshakes that resumed an earlier session",
    ),
    (
        "IRA",
        "Ineffective Registration Attempts (RFC 6076 4.2): the share of registrations that failed",
    ),
    (
        "SER",
        "Session Establishment Ratio (RFC 6076 4.6): of the INVITEs that were not redirected, the share that was answered 200",
    ),
    (
        "SEER",
        "Session Establishment Effectiveness Ratio (RFC 6076 4.7): the same, with those that the called person declined or was too busy for (480, 486, 600, 603)",
    ),
    (
        "ISA",
        "Ineffective Session Attempts (RFC 6076 4.8): the share of INVITEs that ended with 408, 500, 503, 504 or with no answer, or whose transport failed",
    ),
    (
        "SCR",
        "Session Completion Ratio (RFC 6076 4.9): the share of INVITEs whose session was set up and ended by a BYE that was answered",
    ),
];

/// What a term means; nothing for one that says it itself.
pub(super) fn meaning(term: &str) -> &'static str {
    TERMS
        .iter()
        .find(|(name, _)| *name == term)
        .map_or("", |(_, meaning)| meaning)
}

/// A delay in words, in the plural.
pub(super) fn spelt(term: &str) -> String {
    match term {
        "SRD" => "delays from INVITE to first answer (SRD)".to_owned(),
        "RRD" => "delays of registrations (RRD)".to_owned(),
        other => format!("delays of {other}"),
    }
}
