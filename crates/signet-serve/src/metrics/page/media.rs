//! The media engines that calls go to.

use sip_media::Shown;

use super::Page;

pub(super) fn media(page: &mut Page, all: &[Shown]) {
    type Get = fn(&Shown) -> u64;
    let figures: [(&str, &str, &str, Get); 4] = [
        (
            "signet_media_engine_in_use",
            "1 while calls that begin go to that media engine, 0 while it has failed or is drained.",
            "gauge",
            |of| u64::from(of.why.is_none() && !of.is_drained),
        ),
        (
            "signet_media_engine_failed_total",
            "How often that media engine was found gone.",
            "counter",
            |of| of.times_out,
        ),
        (
            "signet_media_engine_pings_good_total",
            "Pings that it answered.",
            "counter",
            |of| of.pings_good,
        ),
        (
            "signet_media_engine_pings_failed_total",
            "Pings that it did not answer.",
            "counter",
            |of| of.pings_failed,
        ),
    ];
    for (name, help, kind, get) in figures {
        page.head(name, help, kind);
        for shown in all {
            let address = shown.address.to_string();
            page.sample(name, &[("engine", &address)], get(shown));
        }
    }
}
