//! The largest rate that a server holds, or the generator without one.

mod tries;

use measure::search::{Ending, Rfc7502Peak, Rfc7502Report};
use measure::{Doubt, Host, Peak, Schedule, SearchConfig};
use serde_json::json;

use super::check_self::straight;
use super::fleet::ask;
use super::report::describe;
use super::watching::Watching;
use super::{
    EXIT_DOUBT, EXIT_FAILED, EXIT_FINE, EXIT_INTERRUPTED, EXIT_USAGE, Output, complain,
    is_standard_output, print, say, signals, try_files, unix_ms,
};
use crate::clock::NS_PER_MS;
use crate::crew::{Control, Failed};
use crate::settings::Settings;
use crate::workers::Fleet;
use tries::{Taken, Tries, processes, watched_at_peak};

/// How a peak is looked for.
#[derive(Clone, Debug)]
pub struct PeakSettings {
    /// What counts as held.
    pub search: SearchConfig,
    /// Which percentile of the set-up delay is held against the limit.
    pub delay_percent: f64,
    /// Then RFC 7502's algorithm, with this many attempts a try.
    pub rfc7502: Option<u64>,
    /// Who drives the tries; this process where nobody is named.
    pub fleet: Option<Fleet>,
}

/// Searches, prints, writes; gives the exit code.
pub fn peak(settings: Settings, options: &PeakSettings, output: &Output) -> u8 {
    if let Err(error) = try_files(output) {
        return complain(EXIT_USAGE, &error);
    }
    let control = Control::new();
    if let Err(error) = signals::watch(&control) {
        return complain(EXIT_USAGE, &error);
    }
    match try_peak(&settings, options, output, &control) {
        Ok(code) => code,
        Err(Failed::Usage(error)) => complain(EXIT_USAGE, &error),
        Err(Failed::Run(_)) if control.is_interrupted() => EXIT_INTERRUPTED,
        Err(Failed::Run(error)) => complain(EXIT_FAILED, &error),
    }
}

/// What a search came to.
struct Found {
    started_unix_ms: u64,
    peak: Peak,
    /// What the watched processes took in its tries.
    taken: Vec<Vec<Taken>>,
    own_peak_per_s: Option<f64>,
    rfc7502: Option<Rfc7502Peak>,
    rfc7502_taken: Vec<Vec<Taken>>,
    report: Option<Rfc7502Report>,
    doubts: Vec<Doubt>,
}

fn try_peak(
    settings: &Settings,
    options: &PeakSettings,
    output: &Output,
    control: &Control,
) -> Result<u8, Failed> {
    settings.check().map_err(Failed::Usage)?;
    // Before the first packet: a process that is not there is told now.
    Watching::new(&output.watch).map_err(Failed::Usage)?;
    let started_unix_ms = unix_ms();
    let alone_per_s = match &options.fleet {
        None => own_peak_per_s(settings, options, output, control)?,
        Some(_) => None,
    };
    let mut tries = Tries::new(settings, options, output, control);
    let peak = tries.search_peak(&options.search)?;
    let own_peak_per_s = match &options.fleet {
        Some(fleet) => workers_peak_per_s(settings, fleet, peak.peak_cps, output, control)?,
        None => alone_per_s,
    };
    let taken = std::mem::take(&mut tries.taken);
    let rfc7502 = match options.rfc7502 {
        Some(attempts) if !control.is_interrupted() => Some(tries.search_rfc7502(attempts, &peak)?),
        _ => None,
    };
    let mut doubts = doubts(
        &peak,
        own_peak_per_s,
        settings.direct.is_some(),
        control.is_interrupted(),
        output.bounds,
    );
    doubts.extend(rfc7502.as_ref().and_then(doubt_of_rfc7502));
    let found = Found {
        started_unix_ms,
        doubts,
        report: rfc7502
            .as_ref()
            .map(|found| report(settings, options, found, &tries.suite)),
        peak,
        taken,
        own_peak_per_s,
        rfc7502,
        rfc7502_taken: tries.taken,
    };
    match &output.json {
        Some(path) if is_standard_output(path) => {
            let value = found.value(settings, options, output);
            print(&format!("{value:#}")).map_err(Failed::Usage)?;
        }
        Some(path) => {
            let printed = print(&found.text());
            let value = found.value(settings, options, output);
            measure::file::write_json(path, &value).map_err(Failed::Usage)?;
            printed.map_err(Failed::Usage)?;
        }
        None => print(&found.text()).map_err(Failed::Usage)?,
    }
    Ok(if control.is_interrupted() {
        EXIT_INTERRUPTED
    } else if !found.doubts.is_empty() {
        complain(
            EXIT_DOUBT,
            "the figure above may be this generator's own, not the server's",
        )
    } else {
        EXIT_FINE
    })
}

/// The generator's own peak, straight to itself, where it is asked for.
fn own_peak_per_s(
    settings: &Settings,
    options: &PeakSettings,
    output: &Output,
    control: &Control,
) -> Result<Option<f64>, Failed> {
    let Some(straight) =
        straight(settings).filter(|_| output.check_self && settings.direct.is_none())
    else {
        return Ok(None);
    };
    say("first the generator alone, straight to itself");
    let search = SearchConfig {
        repeats: 1,
        delay_max_ns: u64::MAX,
        failures_max: 0.0,
        precision: 0.1,
        try_ns: 2_000_000_000,
        rest_ns: 500_000_000,
        ..options.search.clone()
    };
    // Whom it is to watch has nothing to do meanwhile.
    let alone = Output {
        watch: Vec::new(),
        ..output.clone()
    };
    let mut tries = Tries::new(&straight, options, &alone, control);
    let peak = tries.search_peak(&search)?;
    say("then the server");
    Ok(Some(peak.peak_cps))
}

/// What the workers reach together, each straight to itself, where it is asked for: twice
/// the rate that was found, or as much as they can. It takes a short run at that rate.
fn workers_peak_per_s(
    settings: &Settings,
    fleet: &Fleet,
    found_per_s: f64,
    output: &Output,
    control: &Control,
) -> Result<Option<f64>, Failed> {
    if !output.check_self || found_per_s <= 0.0 || control.is_interrupted() {
        return Ok(None);
    }
    say("then the workers alone, each straight to itself");
    let settings = Settings {
        schedule: Some(Schedule::constant(found_per_s, 1_000_000_000)),
        ..settings.clone()
    };
    let asked = ask(&settings, fleet, output, control, &mut |_| {})?;
    Ok(asked.self_peak_per_s())
}

impl Found {
    fn text(&self) -> String {
        let peak = &self.peak;
        let mut lines = vec![format!(
            "peak {:.0}/s, 95% interval {:.0} to {:.0}, {}, {} tries",
            peak.peak_cps,
            peak.low,
            peak.high,
            ended(peak.ending),
            peak.tries.len()
        )];
        lines.extend(watched_at_peak(&peak.tries, &self.taken));
        if let Some(report) = &self.report {
            lines.push(report.to_string().trim_end().to_owned());
        }
        let doubts = self.doubts.iter();
        lines.extend(doubts.map(|doubt| format!("doubt: {}", doubt.sentence)));
        lines.join("\n")
    }

    fn value(
        &self,
        settings: &Settings,
        options: &PeakSettings,
        output: &Output,
    ) -> serde_json::Value {
        let rfc7502_processes = self
            .rfc7502
            .as_ref()
            .map(|found| processes(&found.tries, &self.rfc7502_taken));
        json!({
            "format": "signet-load-peak",
            "version": 1,
            "command": output.command,
            "program_version": output.program_version,
            "started_unix_ms": self.started_unix_ms,
            "host": Host::this(),
            "settings": describe(settings),
            "workers": options.fleet.as_ref().map(names),
            "search": options.search,
            "bounds": output.bounds,
            "peak_cps": self.peak.peak_cps,
            "low": self.peak.low,
            "high": self.peak.high,
            "peak": self.peak,
            "processes": processes(&self.peak.tries, &self.taken),
            "self_peak_cps": self.own_peak_per_s,
            "rfc7502": self.rfc7502,
            "rfc7502_processes": rfc7502_processes,
            "rfc7502_report": self.report,
            "doubts": self.doubts,
            "valid": self.doubts.is_empty(),
        })
    }
}

fn names(fleet: &Fleet) -> Vec<String> {
    fleet.workers.iter().map(ToString::to_string).collect()
}

/// Why a search ended, in words.
fn ended(ending: Ending) -> &'static str {
    match ending {
        Ending::Found => "found",
        Ending::NothingHeld => "nothing held",
        Ending::NotReached => "not reached",
        Ending::GeneratorLimit => "the generator's limit",
        Ending::TooManyTries => "too many tries",
        Ending::Interrupted => "interrupted",
    }
}

/// Why the peak may be the generator's own.
fn doubts(
    peak: &Peak,
    own_peak_per_s: Option<f64>,
    is_direct: bool,
    is_interrupted: bool,
    bounds: measure::Bounds,
) -> Vec<Doubt> {
    let health = measure::Health {
        self_peak_per_s: own_peak_per_s,
        rate_per_s: peak.peak_cps,
        claims_limit: !is_direct,
        interrupted: is_interrupted,
        bounds,
        ..measure::Health::default()
    };
    let mut doubts = health.doubts();
    let mut doubt = |name: &str, sentence: &str| {
        doubts.push(Doubt {
            name: name.to_owned(),
            figure: peak.peak_cps,
            bound: 0.0,
            sentence: sentence.to_owned(),
        });
    };
    match peak.ending {
        Ending::GeneratorLimit => doubt(
            "generator limit",
            "Above the rate found the generator doubts itself: the server's limit lies higher. Add threads and cores.",
        ),
        Ending::NothingHeld => doubt(
            "nothing held",
            "Not even the lowest rate was held: look at the causes of failure above.",
        ),
        Ending::NotReached => doubt(
            "not reached",
            "The highest rate that may be tried was held: the peak lies above it. Give a higher --rate-max.",
        ),
        Ending::TooManyTries => doubt(
            "too many tries",
            "The search did not settle: the server does not hold the same rate twice.",
        ),
        _ => {}
    }
    doubts
}

/// Why the rate of the RFC's search is not what its report says: the largest at which every
/// session was established.
fn doubt_of_rfc7502(found: &Rfc7502Peak) -> Option<Doubt> {
    let sentence = match found.ending {
        Ending::Found | Ending::Interrupted => return None,
        Ending::GeneratorLimit => {
            "The search of RFC 7502 ended where the generator doubted itself: the rate is the \
             highest that was held until then, and no limit of the device. Add threads and cores."
        }
        Ending::NothingHeld => {
            "At no rate of the search of RFC 7502 was every session established: look at the causes \
             of failure above."
        }
        Ending::NotReached => {
            "The search of RFC 7502 held the highest rate that may be tried: the limit of the \
             device lies above it."
        }
        Ending::TooManyTries => {
            "The search of RFC 7502 did not settle: the rate is the highest that was held once."
        }
    };
    Some(Doubt {
        name: "rfc 7502".to_owned(),
        figure: found.rate_per_s,
        bound: 0.0,
        sentence: sentence.to_owned(),
    })
}

/// How long a session may take to be established: as long as was asked for, or until its INVITE
/// is given up.
fn established_within_ns(settings: &Settings, options: &PeakSettings) -> u64 {
    match options.search.delay_max_ns {
        u64::MAX => 64 * settings.timers.t1_ms * NS_PER_MS,
        delay_max_ns => delay_max_ns,
    }
}

fn report(
    settings: &Settings,
    options: &PeakSettings,
    found: &Rfc7502Peak,
    suite: &str,
) -> Rfc7502Report {
    let transport = settings
        .transport()
        .map_or("", |transport| transport.via_name());
    let called = settings
        .answering
        .listen
        .first()
        .map_or(transport, |listen| listen.0.via_name());
    let is_register = settings.mix.flows().all(crate::Flow::is_register);
    // Where nothing was held there is no rate, not one of 0.
    let rate = Some(found.rate_per_s).filter(|rate| *rate > 0.0);
    Rfc7502Report {
        device: settings.server.as_ref().map_or_else(
            || "none: caller straight to callee".to_owned(),
            ToString::to_string,
        ),
        transport_caller: transport.to_owned(),
        transport_called: called.to_owned(),
        initial_per_s: found.tries.first().map_or(0.0, |first| first.rate_per_s),
        session_s: settings.hold.mean().as_secs_f64(),
        attempts: options.rfc7502.unwrap_or(0),
        media_streams: 0,
        establishment_threshold_ms: established_within_ns(settings, options) as f64 / 1e6,
        tls_suite: suite.to_owned(),
        ipsec_profile: String::new(),
        session_rate_per_s: rate.filter(|_| !is_register),
        registration_rate_per_s: rate.filter(|_| is_register && !settings.register_first),
        reregistration_rate_per_s: rate.filter(|_| is_register && settings.register_first),
        remarks: match found.ending {
            Ending::Interrupted => vec!["The search was stopped before its end.".to_owned()],
            _ => doubt_of_rfc7502(found)
                .map(|doubt| doubt.sentence)
                .into_iter()
                .collect(),
        },
    }
}

#[cfg(test)]
mod tests;
