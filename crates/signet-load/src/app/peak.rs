//! The largest rate that a server holds, or the generator without one.

use std::time::Duration;

use measure::search::{Rfc7502Config, Rfc7502Peak, Rfc7502Report};
use measure::{Doubt, Host, Outcome, Peak, PeakSearch, Rfc7502, Schedule, SearchConfig, Step};
use serde_json::json;

use super::check_self::straight;
use super::report::{Circumstances, describe, result_of};
use super::{
    EXIT_DOUBT, EXIT_FAILED, EXIT_FINE, EXIT_INTERRUPTED, EXIT_USAGE, Output, complain, say,
    signals, unix_ms,
};
use crate::crew::{Control, Failed, run};
use crate::settings::Settings;

/// How a peak is looked for.
#[derive(Clone, Debug)]
pub struct PeakSettings {
    /// What counts as held.
    pub search: SearchConfig,
    /// Which percentile of the set-up delay is held against the limit.
    pub delay_percent: f64,
    /// RFC 7502's algorithm after it, with so many attempts a try.
    pub rfc7502: Option<u64>,
}

/// What is reported of one search.
struct Searched {
    peak: Peak,
    suite: String,
}

/// Searches, prints, writes; gives the exit code.
pub fn peak(settings: Settings, options: &PeakSettings, output: &Output) -> u8 {
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

fn try_peak(
    settings: &Settings,
    options: &PeakSettings,
    output: &Output,
    control: &Control,
) -> Result<u8, Failed> {
    settings.check().map_err(Failed::Usage)?;
    let started_unix_ms = unix_ms();
    let mut own = None;
    if output.check_self
        && settings.direct.is_none()
        && let Some(straight) = straight(settings)
    {
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
        own = Some(search_peak(&straight, &search, options.delay_percent, output, control)?.peak);
        say("then the server");
    }
    let searched = search_peak(
        settings,
        &options.search,
        options.delay_percent,
        output,
        control,
    )?;
    let peak = searched.peak;
    let rfc7502 = match options.rfc7502 {
        Some(attempts) if !control.is_interrupted() => Some(search_rfc7502(
            settings, options, attempts, &peak, output, control,
        )?),
        _ => None,
    };
    let own_peak_per_s = own.as_ref().map(|own| own.peak_cps);
    let doubts = doubts(
        &peak,
        own_peak_per_s,
        settings.direct.is_some(),
        control.is_interrupted(),
    );
    say(&format!(
        "peak {:.0}/s, 95% interval {:.0} to {:.0}, {:?}, {} tries",
        peak.peak_cps,
        peak.low,
        peak.high,
        peak.ending,
        peak.tries.len()
    ));
    let report = rfc7502
        .as_ref()
        .map(|found| report(settings, options, found, &searched.suite));
    if let Some(report) = &report {
        say(&report.to_string());
    }
    for doubt in &doubts {
        say(&format!("doubt: {}", doubt.sentence));
    }
    if let Some(path) = &output.json {
        let value = json!({
            "format": "signet-load-peak",
            "version": 1,
            "command": output.command,
            "program_version": output.program_version,
            "started_unix_ms": started_unix_ms,
            "host": Host::this(),
            "settings": describe(settings),
            "search": options.search,
            "peak_cps": peak.peak_cps,
            "low": peak.low,
            "high": peak.high,
            "peak": peak,
            "self_peak_cps": own_peak_per_s,
            "rfc7502": rfc7502,
            "rfc7502_report": report,
            "doubts": doubts,
            "valid": doubts.is_empty(),
        });
        write_json(path, &value).map_err(Failed::Usage)?;
    }
    Ok(if control.is_interrupted() {
        EXIT_INTERRUPTED
    } else if !doubts.is_empty() {
        complain(
            EXIT_DOUBT,
            "the figure above may be this generator's own, not the server's",
        )
    } else {
        EXIT_FINE
    })
}

fn search_peak(
    settings: &Settings,
    config: &SearchConfig,
    delay_percent: f64,
    output: &Output,
    control: &Control,
) -> Result<Searched, Failed> {
    let mut search = PeakSearch::new(config.clone());
    let mut suite = String::new();
    loop {
        match search.next() {
            Step::Rest { duration_ns } => rest(duration_ns, control),
            Step::Try {
                rate_per_s,
                attempts,
            } => {
                let outcome = attempt(
                    settings,
                    rate_per_s,
                    attempts,
                    delay_percent,
                    output,
                    control,
                    &mut suite,
                )?;
                search.give(outcome);
            }
            Step::Done(peak) => return Ok(Searched { peak, suite }),
        }
    }
}

fn search_rfc7502(
    settings: &Settings,
    options: &PeakSettings,
    attempts: u64,
    peak: &Peak,
    output: &Output,
    control: &Control,
) -> Result<Rfc7502Peak, Failed> {
    say(&format!("now RFC 7502, {attempts} attempts a try"));
    let config = Rfc7502Config {
        attempts,
        ..Rfc7502Config::default()
    };
    let mut search = Rfc7502::seeded(config, peak);
    let mut suite = String::new();
    loop {
        match search.next() {
            Step::Rest { duration_ns } => rest(duration_ns, control),
            Step::Try {
                rate_per_s,
                attempts,
            } => {
                let outcome = attempt(
                    settings,
                    rate_per_s,
                    attempts,
                    options.delay_percent,
                    output,
                    control,
                    &mut suite,
                )?;
                search.give(outcome);
            }
            Step::Done(found) => return Ok(found),
        }
    }
}

/// One try: a run of its own.
fn attempt(
    settings: &Settings,
    rate_per_s: f64,
    attempts: u64,
    delay_percent: f64,
    output: &Output,
    control: &Control,
    suite: &mut String,
) -> Result<Outcome, Failed> {
    let duration_ns = (attempts as f64 / rate_per_s * 1e9) as u64 + 1_000_000_000;
    let tried = Settings {
        schedule: Some(Schedule::constant(rate_per_s, duration_ns).limit(attempts)),
        ..settings.clone()
    };
    let ran = run(tried.clone(), control, &mut |_| {})?;
    if let Some(name) = ran
        .counters
        .iter()
        .find(|counter| counter.0.starts_with("TLS_"))
    {
        *suite = name.0.to_owned();
    }
    let delay = if ran.figures.srd.count() > 0 {
        &ran.figures.srd
    } else {
        &ran.figures.rrd
    };
    let mut delay_ns = (delay.count() > 0).then(|| delay.intended_us(delay_percent) * 1_000);
    for request in ran
        .figures
        .requests
        .values()
        .filter(|request| request.delay.count() > 0)
    {
        delay_ns = delay_ns.max(Some(request.delay.intended_us(delay_percent) * 1_000));
    }
    let (started, failed) = (ran.started, ran.failed);
    // A retransmission on the way to itself is a message that was lost here.
    let lost_here = settings.direct.is_some() && ran.retransmissions.sent() > 0;
    let mut result = result_of(ran, &tried, Circumstances::default());
    result.conclude(&[]);
    // A generator that is being searched for its own limit may reach it.
    let doubtful = settings.direct.is_none()
        && result
            .doubts
            .iter()
            .any(|doubt| doubt.name != "interrupted");
    let own_limit =
        settings.direct.is_some() && result.doubts.iter().any(|doubt| doubt.name != "own cpu");
    let failures = if (lost_here || own_limit) && failed == 0 {
        started
    } else {
        failed
    };
    let outcome = Outcome {
        attempts: started,
        failures,
        delay_ns,
        doubtful,
        interrupted: control.is_interrupted(),
    };
    if !output.quiet {
        let causes: Vec<String> = result
            .causes
            .ranked()
            .iter()
            .take(3)
            .map(|(why, n)| format!("{why} {n}"))
            .collect();
        let doubts: Vec<&str> = result
            .doubts
            .iter()
            .map(|doubt| doubt.name.as_str())
            .collect();
        say(&format!(
            "{rate_per_s:8.0}/s  {started} begun, {failed} failed, {} sent again, delay {:.1} ms{}{}",
            result.retransmissions.sent(),
            delay_ns.unwrap_or(0) as f64 / 1e6,
            if causes.is_empty() {
                String::new()
            } else {
                format!(" ({})", causes.join(", "))
            },
            if doubts.is_empty() {
                String::new()
            } else {
                format!(" [{}]", doubts.join(", "))
            },
        ));
    }
    Ok(outcome)
}

fn rest(duration_ns: u64, control: &Control) {
    let mut left = Duration::from_nanos(duration_ns);
    let step = Duration::from_millis(100);
    while !left.is_zero() && !control.is_interrupted() {
        std::thread::sleep(left.min(step));
        left = left.saturating_sub(step);
    }
}

/// Why the peak may be the generator's own.
fn doubts(
    peak: &Peak,
    own_peak_per_s: Option<f64>,
    is_direct: bool,
    is_interrupted: bool,
) -> Vec<Doubt> {
    let health = measure::Health {
        self_peak_per_s: own_peak_per_s,
        rate_per_s: peak.peak_cps,
        claims_limit: !is_direct,
        interrupted: is_interrupted,
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
        measure::search::Ending::GeneratorLimit => doubt(
            "generator limit",
            "Above the rate found the generator doubts itself: the server's limit lies higher. Add threads and cores.",
        ),
        measure::search::Ending::NothingHeld => doubt(
            "nothing held",
            "Not even the lowest rate was held: look at the causes of failure above.",
        ),
        measure::search::Ending::NotReached => doubt(
            "not reached",
            "The highest rate that may be tried was held: the peak lies above it. Give a higher --rate-max.",
        ),
        measure::search::Ending::TooManyTries => doubt(
            "too many tries",
            "The search did not settle: the server does not hold the same rate twice.",
        ),
        _ => {}
    }
    doubts
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
    let rate = Some(found.rate_per_s);
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
        establishment_threshold_ms: if options.search.delay_max_ns == u64::MAX {
            64.0 * settings.timers.t1_ms as f64
        } else {
            options.search.delay_max_ns as f64 / 1e6
        },
        tls_suite: suite.to_owned(),
        ipsec_profile: String::new(),
        session_rate_per_s: rate.filter(|_| !is_register),
        registration_rate_per_s: rate.filter(|_| is_register && !settings.register_first),
        reregistration_rate_per_s: rate.filter(|_| is_register && settings.register_first),
        remarks: Vec::new(),
    }
}

fn write_json(path: &std::path::Path, value: &serde_json::Value) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())? + "\n";
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    std::fs::write(&temporary, text).map_err(failed)?;
    std::fs::rename(&temporary, path).map_err(failed)
}
