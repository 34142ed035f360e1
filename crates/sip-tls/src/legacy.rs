//! The second engine's place: what a build has of it.

#[cfg(feature = "legacy-tls")]
mod openssl;
#[cfg(feature = "legacy-tls")]
pub(crate) use openssl::{LegacyClient, LegacyServer, Pair, Resumable};

#[cfg(not(feature = "legacy-tls"))]
mod absent;
#[cfg(not(feature = "legacy-tls"))]
pub(crate) use absent::{LegacyClient, LegacyServer, Pair, Resumable};
