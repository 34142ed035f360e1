//! Before a figure counts: what the generator reaches with no server between.

use measure::{Bounds, Health, Schedule};

use super::say;
use crate::SmimeSettings;
use crate::crew::{Control, Failed, Ran, run};
use crate::settings::{Answering, Called, Settings, Share};
use crate::span::Span;

/// How long each try lasts.
const TRY_NS: u64 = 2_000_000_000;
/// Times the rate that is to be driven, the highest first.
const FACTORS: [f64; 2] = [2.0, 1.5];

/// The same load straight to a called side in this process: without a server,
/// without passwords, without holding calls and without a storm.
pub(crate) fn straight(settings: &Settings) -> Option<Settings> {
    Some(Settings {
        direct: Some(settings.transport()?),
        server: None,
        share: Share::WHOLE,
        called: Called::Uri("sip:answer@load.test".to_owned()),
        hold: Span::NONE,
        answering: Answering {
            is_registrar: true,
            tls: settings.answering.tls.clone(),
            ..Answering::default()
        },
        smime: settings.smime.as_ref().map(SmimeSettings::without_files),
        storm_at: None,
        ..settings.clone()
    })
}

/// The highest of a few rates that the generator holds against itself, or what
/// it reached at the lowest of them. `None` where it was interrupted.
pub(crate) fn check_self(
    settings: &Settings,
    control: &Control,
    quiet: bool,
    bounds: Bounds,
) -> Result<Option<f64>, Failed> {
    let (Some(straight), true) = (straight(settings), settings.schedule.is_some()) else {
        return Ok(None);
    };
    let rate_per_s = settings.rate_max_per_s();
    let mut reached_per_s = 0.0;
    for factor in FACTORS {
        let tried_per_s = rate_per_s * factor;
        let settings = Settings {
            schedule: Some(Schedule::constant(tried_per_s, TRY_NS)),
            ..straight.clone()
        };
        let ran = run(settings, control, &mut |_| {})?;
        if control.is_interrupted() {
            return Ok(None);
        }
        reached_per_s = if is_held(&ran, bounds) {
            tried_per_s
        } else {
            // What the last ones took to end is no part of it: one that was lost is waited for.
            ran.figures.succeeded() as f64 * 1e9 / ran.sending_ns.max(1) as f64
        };
        if reached_per_s >= tried_per_s {
            break;
        }
    }
    if !quiet {
        say(&format!(
            "without a server between, this generator reaches {reached_per_s:.0}/s or more"
        ));
    }
    Ok(Some(reached_per_s))
}

/// Whether the generator kept up with its own schedule, and nothing was lost.
pub(crate) fn is_held(ran: &Ran, bounds: Bounds) -> bool {
    let lateness = ran.lateness.summary().actual;
    let health = Health {
        behind_schedule: lateness,
        behind_max_ns: lateness.max_us * 1_000,
        wall_ns: ran.duration_ns,
        kernel_drops: ran.kernel_drops,
        send_queue_drops: ran.queue_drops,
        due: ran.started + ran.unsent,
        unsent: ran.unsent,
        sent: ran.started,
        bounds,
        ..Health::default()
    };
    ran.failed == 0 && ran.retransmissions.sent() == 0 && health.doubts().is_empty()
}
