//! What CPU time is spent on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What CPU time is spent on. Every nanosecond belongs to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// The kernel, on behalf of the process: sockets, wake-ups, page faults.
    Kernel,
    /// Reading, routing and writing SIP messages, transactions, registrations.
    SipCore,
    /// Records, handshake messages and states of TLS, and reading certificates.
    TlsProtocol,
    /// Signatures, key agreement and key encapsulation, with their arithmetic.
    PublicKey,
    /// Ciphers, hashes, authentication codes, random numbers, and what of a crypto library
    /// belongs to no other component.
    Symmetric,
    /// Taking and giving back memory.
    MemoryAllocation,
    /// The C library without its allocator: copying, comparing, formatting, locks.
    Libc,
    /// Asking a database and reading its answer.
    DatabaseClient,
    /// The database itself, in the server's process or in its own.
    Database,
    /// What no rule knows.
    Other,
}

impl Component {
    /// How many there are.
    pub const COUNT: usize = 10;
    /// All of them, in the order of tables.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Kernel,
        Self::SipCore,
        Self::TlsProtocol,
        Self::PublicKey,
        Self::Symmetric,
        Self::MemoryAllocation,
        Self::Libc,
        Self::DatabaseClient,
        Self::Database,
        Self::Other,
    ];

    /// The name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::SipCore => "SIP core",
            Self::TlsProtocol => "TLS protocol",
            Self::PublicKey => "public-key crypto",
            Self::Symmetric => "symmetric crypto and hashes",
            Self::MemoryAllocation => "memory allocation",
            Self::Libc => "libc",
            Self::DatabaseClient => "database client",
            Self::Database => "database",
            Self::Other => "other",
        }
    }

    /// The name in files: of rules, of results, of published values.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::SipCore => "sip_core",
            Self::TlsProtocol => "tls_protocol",
            Self::PublicKey => "public_key",
            Self::Symmetric => "symmetric",
            Self::MemoryAllocation => "memory_allocation",
            Self::Libc => "libc",
            Self::DatabaseClient => "database_client",
            Self::Database => "database",
            Self::Other => "other",
        }
    }

    /// Its place in [`Component::ALL`].
    pub(crate) const fn place(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The components of a paper's profile, each with those of ours that it is made of. Where two
/// of theirs are one of ours, or the other way round, they stand together.
pub type Legend = &'static [(&'static str, &'static [Component])];

/// Shen 2010, figures 6, 8, 10 and 12: OProfile of OpenSIPS, OpenSSL 0.9.8 and MySQL on one
/// machine. The allocators of OpenSIPS for shared and private memory are part of its core.
pub const SHEN_2010: Legend = &[
    ("Kernel", &[Component::Kernel]),
    (
        "OpenSIPS-Core, OpenSIPS-Module",
        &[Component::SipCore, Component::MemoryAllocation],
    ),
    ("libc", &[Component::Libc]),
    ("RSA", &[Component::PublicKey]),
    ("AES, 3DES, MAC, other libcrypto", &[Component::Symmetric]),
    ("libssl", &[Component::TlsProtocol]),
    (
        "database",
        &[Component::DatabaseClient, Component::Database],
    ),
    ("other", &[Component::Other]),
];

/// Maguluri 2012, table 15: OProfile of OpenSIPS by image, so that one library of crypto is
/// one component.
pub const MAGULURI_2012: Legend = &[
    ("kernel", &[Component::Kernel]),
    (
        "opensips, tm",
        &[Component::SipCore, Component::MemoryAllocation],
    ),
    ("libc", &[Component::Libc]),
    ("libcrypto", &[Component::PublicKey, Component::Symmetric]),
    ("libssl", &[Component::TlsProtocol]),
    (
        "other",
        &[
            Component::DatabaseClient,
            Component::Database,
            Component::Other,
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_files_have() {
        for (place, component) in Component::ALL.into_iter().enumerate() {
            assert_eq!(component.place(), place);
            let text = serde_json::to_string(&component).unwrap();
            assert_eq!(text, format!("\"{}\"", component.key()));
            assert_eq!(serde_json::from_str::<Component>(&text).unwrap(), component);
        }
    }

    #[test]
    fn every_component_has_one_place_in_each_paper() {
        for legend in [SHEN_2010, MAGULURI_2012] {
            let mut found: Vec<Component> = legend
                .iter()
                .flat_map(|(_, components)| components.iter().copied())
                .collect();
            found.sort_unstable();
            assert_eq!(found, Component::ALL);
        }
    }
}
