#![doc = include_str!("../README.md")]
//!
//! # How it runs
//! ```text
//! match authenticator.check(unix_ms, &message, Side::Registrar, &realm) {  // or check_from
//!     Check::Challenge(why) => // 401 with add_challenge(.., why.is_stale(), ..)
//!     Check::Malformed(why) => // 400 with why.reason
//!     Check::Lookup(pending) => {
//!         // ask the store for pending.key(); park the request; then
//!         match authenticator.finish(unix_ms, pending, &reply) {
//!             Verdict::Ok(authenticated) => // go on, as authenticated.user()
//!             Verdict::Challenge(why) => // as above
//!             Verdict::AskAgain(pending) => // ask the store itself, and finish again
//!         }
//!     }
//! }
//! ```
//!
//! # Why it holds
//! **A stranger costs no memory.** A challenge is a function of the clock, a
//! counter and the node's secret; nothing is kept for it. A nonce carries the
//! time of its issue, the server, the process and a serial number, under a
//! MAC that binds all of it to the realm, and is compared in constant time. A
//! nonce that was not issued here is answered by a plain challenge; one that
//! was, but by another server or process or too long ago, by `stale=true`, so
//! that nobody is asked for his password again.
//!
//! **A digest is good once.** After a digest was verified, and not before, its
//! nonce count is marked in a window that all shards share: a new Call-ID
//! leads to another shard and to the same window. A wrong digest with a high
//! count marks nothing. What the window had to forget under load is answered
//! as stale; nothing is accepted that is not recorded ([`replay`'s bounds are
//! a watermark of serial numbers][AuthConfig::replay_entries_max]). The window
//! dies with the process, and so do its nonces: each process has a boot
//! number, so that this holds even where the clock was set back meanwhile.
//! Credentials without a nonce count (RFC 2069) are not accepted, but from phones
//! that the operator names ([`Lenient`]), and then once for each nonce: they use up
//! all of its counts.
//!
//! RFC 3261 22.4 asks for compatibility with RFC 2069; this is a deviation,
//! for a replayed REGISTER is worth more than a phone from before 1999.
//!
//! **One guess a request.** A request may bear credentials for one realm more than once,
//! as phones do that answer each challenge. Each is judged by itself, [`JUDGED_MAX`] at
//! most, and the first that is good in itself is looked up: of an algorithm that is
//! accepted, for this request, with a fresh nonce. No second one is compared with a
//! password, so nobody tries more passwords by writing more lines.
//!
//! **A name cannot be probed.** For an unknown user the digest is computed all
//! the same, against a secret, and the answer has the same shape. Everything
//! that is answered 400 or by a challenge before the store is asked depends on
//! the request alone.
//!
//! **A cache tells nothing.** What a cache has lets in whose digest it matches, and
//! answers nobody else: for him the store itself is asked, and until it answers he is
//! not told, and no nonce count is marked, so that a wrong password takes as long
//! whether its user is in the cache or not.
//!
//! **A store's word is no more than a digest.** Where the store verifies
//! ([`AuthConfig::store_verifies`]), its word takes the place of the comparison and of
//! nothing else: the nonce must be fresh and its count unused all the same.
//!
//! **A proof is a type.** [`Authenticated`] has no public constructor; what
//! needs it cannot be reached without [`Authenticator::finish`]. Whether the
//! proven user may act as the From, To or P-Asserted-Identity of a request is
//! the caller's question: this crate says who he is.
//!
//! **A digest covers one request.** The method and the URI are hashed, and the
//! URI must be the Request-URI, or at least of its host for phones that the operator names;
//! with `auth-int` the body too. A proxy cuts the
//! credentials for its realms ([`credential_lines_of`]) before it forwards.
//!
//! **No password is kept.** The store holds [`Ha1`]s, which are masked in
//! every output and wiped after use. An HA1 is as good as the password in its
//! realm and nowhere else.
//!
//! **A client tells nobody else.** [`ClientAuth`] answers only for the realms
//! that it was given, never twice to the same refusal, and with no algorithm
//! below the one that it was told to accept.
#![forbid(unsafe_code)]

mod algorithm;
mod answered;
mod client;
mod config;
mod credentials;
mod failure;
mod ha1;
mod hash;
mod key;
mod lenient;
mod lookup;
mod nonce;
mod password;
mod replay;
mod server;

pub use algorithm::{Algorithm, Qop};
pub use answered::is_answered;
pub use client::{Attempt, ClientAuth, GiveUp, RequestParts};
pub use config::{AuthConfig, AuthCounters, NothingToOffer, Side};
pub use credentials::{
    CNONCE_MAX, Claimed, JUDGED_MAX, Malformed, USERNAME_MAX, claimed, credential_lines,
    credential_lines_of,
};
pub use failure::Failure;
pub use ha1::{Ha1, Ha1Set};
pub use key::CredentialKey;
pub use lenient::{Claimant, Lenient};
pub use lookup::{DigestRequest, Reply, Secrets, Subject};
pub use password::Password;
pub use server::{Authenticated, Authenticator, Check, Pending, Verdict};

/// Appends the inside of a quoted string (RFC 3261 25.1); characters that
/// cannot stand in one, escaped or not, become spaces.
fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..=0x1f | 0x7f => out.push(b' '),
            _ => out.push(byte),
        }
    }
}
