//! A plan: a pure function of what things cost and of what is asked.

use serde::{Deserialize, Serialize};

use crate::demand::{Demand, Users};
use crate::erlang;
use crate::event::{Event, Rates};
use crate::profile::{Checked, Held, LONG_RUN, Profile};
use crate::rates;
use crate::saving::{self, Saving};
use crate::widen::{self, Widening};

/// The name in every file.
pub const FORMAT: &str = "signet-plan";
/// The version that is written.
pub const VERSION: u32 = 2;
/// Standard errors on either side of a figure: 95 % of a normal variable.
const ERRORS: f64 = 2.0;
/// More cores than this are no plan but a slip of the pen.
const CORES_MAX: u64 = 1_000_000;

/// A figure and the interval in which it is expected, 19 times of 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// A figure with its standard error.
    pub fn new(value: f64, error: f64) -> Self {
        Self {
            value,
            low: (value - ERRORS * error).max(0.0),
            high: value + ERRORS * error,
        }
    }

    fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }
}

/// Why there is no plan; each with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What stands against it.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

impl std::error::Error for Refusal {}

/// What to buy, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Whose prices it was made from.
    pub from: Basis,
    /// The demand that it is for.
    pub demand: Demand,
    /// Machines, those that may fail among them.
    pub machines: u64,
    /// Cores that the work needs at the load that is allowed, without spare machines.
    pub cores: u64,
    /// What decides how many: the busy hour or the return of all.
    pub decided_by: Decides,
    /// CPU time in the busy hour, in cores.
    pub busy_cores: Estimate,
    /// CPU time while all return and the cache is empty, what happens anyway included, in cores.
    pub return_cores: Estimate,
    /// What of the busy hour's CPU time goes where, the most first.
    pub parts: Vec<Part>,
    /// Memory of one machine with the others failed, in bytes.
    pub memory_bytes: Estimate,
    /// Subscribers' connections to one machine with the others failed.
    pub connections: u64,
    /// What happens in a second of the busy hour.
    pub rates: Rates,
    /// SIP in and out of all servers, in bits a second, without headers of TCP, UDP and IP.
    pub sip_bits_per_s: Estimate,
    /// Calls.
    pub calls: Calls,
    /// The database, where users are in one.
    pub database: Option<Database>,
    /// The busiest minute after a restart.
    pub minute: Minute,
    /// What a change would save, the most first.
    pub savings: Vec<Saving>,
    /// Why intervals are wider than the calibration alone would have them.
    pub widened: Vec<Widening>,
    /// What was not measured and stands in the upper end of an interval alone, a sentence each.
    #[serde(default)]
    pub unmeasured: Vec<String>,
}

/// Whose prices a plan was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Basis {
    /// The profile's name.
    pub profile: String,
    /// The machine's processor.
    pub cpu_model: String,
    /// When it was measured, seconds since 1970.
    pub made_unix_s: u64,
    /// Whether it was measured on this machine.
    pub is_own: bool,
    /// How predictions from it compared with measurements.
    pub checked: Option<Checked>,
}

/// What decides how many machines are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decides {
    /// The busy hour.
    BusyHour,
    /// The return of all subscribers.
    Return,
}

/// A part of the CPU time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// What it goes to.
    pub name: String,
    /// In cores.
    pub cores: f64,
    /// As a share of all.
    pub share: f64,
}

/// Calls at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// Calls that begin in a second.
    pub per_s: f64,
    /// Calls that stand, on the average: erlangs.
    pub erlangs: f64,
    /// The most that are to be expected, by Erlang's formula B.
    pub at_once: u64,
    /// Lines to gateways, by the same.
    pub gateway_lines: u64,
}

/// What a database has to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// Look-ups a second in the busy hour.
    pub lookups_per_s: f64,
    /// Look-ups a second while all return.
    pub return_lookups_per_s: f64,
    /// Its CPU time while all return, in cores.
    pub cores: Estimate,
    /// Look-ups under way at its distance while all return.
    pub under_way: f64,
    /// Bits a second while all return, where they were measured.
    pub bits_per_s: Option<f64>,
}

/// The busiest minute after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Minute {
    /// Connections that are opened in it.
    pub connections: f64,
    /// Registrations in it.
    pub registrations: f64,
    /// TLS handshakes in it.
    pub handshakes: f64,
    /// Of these, those in full.
    pub full_handshakes: f64,
    /// Look-ups in the store in it; the cache is empty.
    pub lookups: f64,
    /// CPU time in it, in cores.
    pub cores: Estimate,
    /// Within how long the machines of the plan, as many failed as may, could take all back if
    /// they used every core, in seconds.
    pub all_back_s: f64,
}

/// CPU time, its parts, and what of it is uncertain.
struct Cost {
    cores: Estimate,
    parts: Vec<Part>,
}

/// Makes a plan.
///
/// # Errors
/// What was never measured, or is out of all bounds.
pub fn plan(profile: &Profile, demand: &Demand, is_own: bool) -> Result<Plan, Refusal> {
    let (mut plan, _) = sized(profile, demand, is_own)?;
    plan.savings = saving::savings(profile, demand, &plan);
    Ok(plan)
}

/// A plan without what changes would save, and cores as a fraction.
pub(crate) fn sized(
    profile: &Profile,
    demand: &Demand,
    is_own: bool,
) -> Result<(Plan, f64), Refusal> {
    let busy = rates::busy(demand);
    let (meanwhile, returning) = (rates::meanwhile(demand), rates::returning(demand));
    let mut storm = meanwhile.clone();
    storm.add_all(&returning);
    priced(profile, &busy)?;
    priced(profile, &storm)?;
    let widened = widen::widenings(profile, demand, is_own);
    let wide = widen::share(profile, &widened);
    let busy_need = need(profile, &busy, demand, wide)?;
    let storm_need = need(profile, &storm, demand, wide)?;
    let cores = busy_need.max(storm_need).max(1);
    let decided_by = match storm_need > busy_need {
        true => Decides::Return,
        false => Decides::BusyHour,
    };
    let alive = cores.div_ceil(u64::from(demand.machines.cores));
    let busy_cost = cost(profile, &busy, cores, wide);
    let storm_cost = cost(profile, &storm, cores, wide);
    let fraction = busy_cost.cores.high.max(storm_cost.cores.high) / demand.machines.load_max;
    let made = Plan {
        format: FORMAT.to_owned(),
        version: VERSION,
        from: Basis {
            profile: profile.name.clone(),
            cpu_model: profile.machine.cpu_model.clone(),
            made_unix_s: profile.made_unix_s,
            is_own,
            checked: profile.checked,
        },
        demand: demand.clone(),
        machines: alive + u64::from(demand.machines.may_fail),
        cores,
        decided_by,
        busy_cores: busy_cost.cores,
        return_cores: storm_cost.cores,
        parts: busy_cost.parts,
        memory_bytes: memory(profile, demand, &storm, alive, wide),
        connections: (rates::connected(demand) / alive as f64).ceil() as u64,
        sip_bits_per_s: bits_per_s(profile, &busy),
        calls: calls(demand),
        database: database(profile, demand, [&busy, &storm], wide),
        minute: minute(
            demand,
            (&storm, &returning),
            storm_cost.cores,
            all_back_s(profile, demand, [&meanwhile, &storm], alive),
        ),
        rates: busy,
        savings: Vec::new(),
        widened,
        unmeasured: vec![base_of_one_worker(demand.machines.cores)],
    };
    Ok((made, fraction))
}

/// # Errors
/// What happens in these rates and has no price.
fn priced(profile: &Profile, rates: &Rates) -> Result<(), Refusal> {
    let missing = profile.fit.unpriced(rates);
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|event| event.title()).collect();
    let mut remedy = "run `signet plan calibrate` where it can be measured".to_owned();
    let unpriced: Vec<&str> = (profile.missing.iter().map(String::as_str))
        .filter(|why| !why.starts_with(LONG_RUN))
        .collect();
    if !unpriced.is_empty() {
        remedy = format!("{remedy} ({})", unpriced.join("; "));
    }
    Err(Refusal {
        what: format!("this profile has no price for {}", names.join(", ")),
        remedy,
    })
}

/// CPU time of all servers together, on so many workers.
fn cost(profile: &Profile, rates: &Rates, workers: u64, wide: f64) -> Cost {
    let fit = &profile.fit;
    let workers = workers as f64;
    let (wake_cores, wake_error) = fit.wake_cores(rates, workers);
    // One measured figure for all of them: its error is theirs together.
    let base_cores = workers * fit.base_cores;
    let base_error = workers * fit.base_error_cores;
    let (later_cores, later_error) = profile.later_cores(rates);
    let mut parts: Vec<(String, f64)> = vec![
        ("wake-ups".to_owned(), wake_cores),
        ("transactions that end".to_owned(), later_cores),
        ("servers with nothing to do".to_owned(), base_cores),
    ];
    let mut square = later_error.powi(2) + wake_error.powi(2) + base_error.powi(2);
    for (event, per_s) in rates.iter() {
        let price = fit.prices.get(&event).copied().unwrap_or_default();
        parts.push((event.title().to_owned(), per_s * price.us / 1e6));
        square += (per_s * price.error_us / 1e6).powi(2);
    }
    let cores: f64 = parts.iter().map(|(_, cores)| cores).sum();
    square += (cores * wide).powi(2);
    parts.retain(|(_, cores)| *cores > 0.0);
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts = parts.into_iter().map(|(name, part)| Part {
        name,
        cores: part,
        share: part / cores.max(1e-12),
    });
    Cost {
        cores: Estimate::new(cores, square.sqrt()),
        parts: parts.collect(),
    }
}

/// Cores that suffice at the load that is allowed: the least number that bears what so many
/// workers cost. More workers cost more wake-ups, so it is sought from below.
fn need(profile: &Profile, rates: &Rates, demand: &Demand, wide: f64) -> Result<u64, Refusal> {
    let mut workers = 1;
    loop {
        let high = cost(profile, rates, workers, wide).cores.high;
        let wanted = (high / demand.machines.load_max).ceil();
        if !wanted.is_finite() || wanted > CORES_MAX as f64 {
            return Err(Refusal {
                what: format!("this would take more than {CORES_MAX} cores"),
                remedy: "look at the numbers in the demand".to_owned(),
            });
        }
        if wanted as u64 <= workers {
            return Ok(workers);
        }
        workers = wanted as u64;
    }
}

/// Why memory has so high an upper end.
fn base_of_one_worker(cores: u32) -> String {
    format!(
        "memory: a server with nothing to do was looked at with one worker that had just started; \
         the upper end has that again for every core ({cores})"
    )
}

/// Memory of one of so many machines.
fn memory(profile: &Profile, demand: &Demand, storm: &Rates, alive: u64, wide: f64) -> Estimate {
    let held = &profile.memory;
    let online = rates::online(demand);
    let calls = rates::calls_per_s(demand) * demand.calls.hold_s as f64;
    let things: [(f64, Held); 5] = [
        (online * demand.transports.udp, held.binding),
        (online * demand.transports.tcp, held.tcp),
        (online * demand.transports.tls, held.tls),
        (calls, held.call),
        (Profile::kept(storm), held.transaction),
    ];
    let (mut bytes, mut square) = (0.0, 0.0);
    for (count, each) in things {
        bytes += count * each.bytes;
        square += (count * each.error_bytes).powi(2);
    }
    square += (bytes * wide).powi(2);
    let share = Estimate::new(bytes, square.sqrt()).times(1.0 / alive as f64);
    // What a worker touches once it works, and what each further one has, is in no reading. It is
    // less than a whole server with one.
    let workers = f64::from(demand.machines.cores);
    Estimate {
        value: share.value + held.base,
        low: share.low + held.base,
        high: share.high + held.base * (1.0 + workers),
    }
}

fn bits_per_s(profile: &Profile, rates: &Rates) -> Estimate {
    let each = rates.iter().map(|(event, per_s)| {
        let bytes = profile.bytes.get(&event).copied().unwrap_or(0.0);
        per_s * bytes * 8.0
    });
    let bits: f64 = each.sum();
    Estimate::new(bits, bits * profile.bytes_residual)
}

fn calls(demand: &Demand) -> Calls {
    let per_s = rates::calls_per_s(demand);
    let erlangs = per_s * demand.calls.hold_s as f64;
    let to_gateways = erlangs * (1.0 - demand.calls.local);
    Calls {
        per_s,
        erlangs,
        at_once: erlang::lines(erlangs, demand.calls.blocking_max),
        gateway_lines: erlang::lines(to_gateways, demand.calls.blocking_max),
    }
}

fn database(
    profile: &Profile,
    demand: &Demand,
    [busy, storm]: [&Rates; 2],
    wide: f64,
) -> Option<Database> {
    if demand.authentication.users != Users::Database {
        return None;
    }
    let price = profile.database.unwrap_or_default();
    let per_s = storm.get(Event::VerifyRemote);
    let cores = per_s * price.us / 1e6;
    let error = (per_s * price.error_us / 1e6).hypot(cores * wide);
    Some(Database {
        lookups_per_s: busy.get(Event::VerifyRemote),
        return_lookups_per_s: per_s,
        cores: Estimate::new(cores, error),
        under_way: per_s * (demand.authentication.rtt_ms / 1e3 + price.us / 1e6),
        bits_per_s: price.bits.map(|bits| per_s * bits),
    })
}

fn minute(
    demand: &Demand,
    (storm, returning): (&Rates, &Rates),
    cores: Estimate,
    all_back_s: f64,
) -> Minute {
    // Those who come back do so for as long as they may, and all else goes on.
    let of_return_s = (demand.storm.absorb_s as f64).min(60.0);
    let both = |of: &dyn Fn(&Rates) -> f64| {
        of(returning) * of_return_s + (of(storm) - of(returning)) * 60.0
    };
    Minute {
        connections: both(&|rates| rates.handshakes_per_s() + rates.get(Event::ConnectTcp)),
        registrations: both(&Rates::registrations_per_s),
        handshakes: both(&Rates::handshakes_per_s),
        full_handshakes: both(&|rates| rates.handshakes_per_s() - rates.get(Event::Resumed)),
        lookups: both(&rates::lookups_per_s),
        cores,
        all_back_s,
    }
}

/// How soon all could be back with every core of these machines in use.
fn all_back_s(
    profile: &Profile,
    demand: &Demand,
    [meanwhile, storm]: [&Rates; 2],
    alive: u64,
) -> f64 {
    let cores = alive * u64::from(demand.machines.cores);
    let of = |rates: &Rates| cost(profile, rates, cores, 0.0).cores.value;
    let returning = (of(storm) - of(meanwhile)) * demand.storm.absorb_s as f64;
    let left = cores as f64 - of(meanwhile);
    if left <= 0.0 {
        f64::MAX
    } else {
        returning / left
    }
}

#[cfg(test)]
mod tests;
