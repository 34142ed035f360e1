//! What the public-key operations of a full handshake cost the server, as `signet price` takes
//! them: an X25519 key, the agreement with the client's, and the signature.

use signet_bed::process::SERVER_CORE;
use signet_price::sip::keys::{KeyKind, with_x25519};
use signet_price::{Clock, Timing, timing};

use super::{Bench, Kind};

/// How long a batch is.
const BATCH_NS: u64 = 5_000_000;

/// Time of one handshake's operations, in microseconds, by kind of key.
pub(super) struct Raw(Vec<(Kind, f64)>);

impl Raw {
    /// 0 for a kind that was not measured.
    pub(super) fn of(&self, kind: Kind) -> f64 {
        let found = self.0.iter().find(|(known, _)| *known == kind);
        found.map_or(0.0, |(_, us)| *us)
    }
}

impl Bench<'_> {
    /// Measures on the core on which the servers run.
    pub(super) fn raw(&self) -> Result<Raw, String> {
        let rounds = u32::try_from(self.sized(100, 10)).unwrap_or(u32::MAX);
        let core = SERVER_CORE.parse().unwrap_or(0);
        let measuring = std::thread::spawn(move || measure(core, rounds));
        measuring
            .join()
            .map_err(|_| "the raw loop did not end well".to_owned())?
    }
}

fn measure(core: usize, rounds: u32) -> Result<Raw, String> {
    sip_net::sys::pin_thread(core)
        .map_err(|error| format!("cannot stay on core {core}: {error}"))?;
    let timing = Timing {
        batch_ns: BATCH_NS,
        rounds,
        ..Timing::default()
    };
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let key = match kind {
            Kind::Rsa2048 => KeyKind::Rsa2048,
            Kind::P256 => KeyKind::P256,
            Kind::Ed25519 => KeyKind::Ed25519,
        };
        let job = with_x25519(key).map_err(|error| error.to_string())?;
        let items = timing::run(vec![job], &timing, &Clock::default(), &mut |_, _| {})
            .map_err(|error| error.to_string())?;
        let median_ns = items
            .first()
            .and_then(|item| item.points.first())
            .map_or(0.0, |point| point.median_ns);
        all.push((kind, median_ns / 1_000.0));
    }
    Ok(Raw(all))
}
