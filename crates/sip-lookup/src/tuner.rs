//! Finds how often a batch leaves, how large it may grow, and how many are in flight.
//!
//! # What it weighs
//! A statement costs the store `query` besides its rows, and this side some wake-ups and system
//! calls: together `K`. The questions in it wait for half an interval on average. With arrivals
//! at rate `l` and a price `H` for a question's delay, `K / D + H * l * D / 2` is least at
//! `D = sqrt(2 K / (H l))` ([`Reason::Cost`]): batches grow with the root of the load. That
//! interval is bounded
//! - from above by the latency target ([`Reason::Target`]): nobody waits longer than an
//!   interval;
//! - from below by what the store may be loaded with ([`Reason::Load`]): of `l * row` for
//!   rows and `query / D` for statements, and by the statements that may be in flight at
//!   all ([`Reason::Slots`]).
//!
//! Where statements cost next to nothing at this rate, every question leaves at once
//! ([`Reason::Idle`]).
//!
//! # What it measures
//! What a client sees of a store is one number for each statement: round trip, the store's
//! time and the wait for other statements, together. They are told apart so:
//! - The shortest round trip of the last seconds is one without waiting. A shorter way is
//!   believed at once; a longer one is suspected when a whole second shows nothing shorter,
//!   and then looked for.
//! - What a row adds is the slope along the shortest round trips of each size.
//! - What is above both is waiting, or jitter: by Little's law `q = rate * (round trip -
//!   shortest)` statements wait, which is TCP Vegas' signal `P (1 - R_min / R)`. Taken of
//!   the shortest round trip in each tenth of a second it is a queue that stood all that
//!   time. Then the interval is stretched, because larger batches are less work
//!   ([`Reason::BackOff`]).
//! - The statement's own cost is hidden in the round trip of an idle store, and plain while
//!   the store is busy: answers then come as fast as they are made.
//! - A digest that is wrong is answered late by servers that hold rejects back. Rejects have a
//!   shortest round trip of their own: it says nothing of the way, and what is above it waits.
//!
//! # What keeps it honest
//! In flight is no more than what the way holds and a quarter above; under strain, as many
//! as are answered in that time. So whatever is asked too much waits here, where it joins,
//! grows batches, expires and is refused in time, and not in the store.
//!
//! A queue in the store that never empties would pass for the way itself. So where a longer
//! way is suspected, and where the store has not been idle for some seconds, next to nothing is sent until what is
//! in flight has come back and a few small statements have found the store idle: they show
//! the way ([`Reason::Reprobe`]). It takes the queue's length and a round trip. Nothing is
//! learned of the store's speed from a queue that was not told from a longer way so, and
//! what is believed of it fades while it is not busy.

mod decision;
mod measure;
#[cfg(test)]
mod tests;

pub use decision::{Decision, Reason, Sample};
use measure::{Costs, Floor, Rate, never_idle_us};

use crate::config::{PipelineConfig, Tuning};
use crate::model::{Model, Setting};

/// How often a decision is made, and the least time over which what was measured is judged.
const PERIOD_US: u64 = 100_000;
/// Statements answered in a period, so that jitter alone does not delay all of them; with
/// fewer it takes longer.
const STATEMENTS: f64 = 64.0;
const PERIOD_MAX_US: u64 = 1_000_000;
/// Statements in a period that say anything at all.
const STATEMENTS_MIN: f64 = 8.0;
/// What a microsecond of a question's delay is worth, in microseconds of CPU time.
const DELAY_PRICE: f64 = 0.01;
/// A statement's cost until it is known.
const QUERY_US: f64 = 100.0;
/// What a statement costs this side, whatever is in it: the wake-up for it, the send, the wake-up
/// for its answer, and those of the workers that wait. A microsecond here counts as one there.
const OWN_US: f64 = 60.0;
/// The share of a core up to which statements cost next to nothing; once they leave at once, a
/// little more.
const IDLE_LOAD: f64 = 0.1;
const IDLE_LOAD_KEPT: f64 = 0.13;
/// The shortest interval that the latency target can ask for.
const INTERVAL_MIN_US: f64 = 500.0;
/// Rows that a batch may always have.
const ROWS_MIN: usize = 32;
/// Statements that may always be in flight while they leave one by one.
const FLIGHT_MIN: usize = 32;
/// Statements in flight and their rows before anything is known.
const START_FLIGHT: f64 = 8.0;
const START_ROWS: f64 = 64.0;
/// How long the store has not been found idle until that is looked for.
const REPROBE_US: u64 = 5_000_000;
/// Statements in flight and their rows while it is, and how many of them show it.
const REPROBE_FLIGHT: f64 = 4.0;
const REPROBE_ROWS: f64 = 8.0;
const REPROBE_ANSWERS: u32 = 4;
/// Round trips that it takes: what is in flight comes back, and then these do.
const REPROBE_ROUND_TRIPS: f64 = 2.0;
/// How long it counts that the floor was looked for, after the store was last busy.
const CONFIRMED_US: u64 = 10_000_000;
/// A floor that is so much higher than before is that of another way.
const SHIFTED: f64 = 1.25;
const STRETCH_MAX: f64 = 64.0;

/// What was measured since the last judgement.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    began_us: u64,
    first_us: u64,
    last_us: u64,
    statements: f64,
    rows: f64,
    first_rows: f64,
    /// Those whose time says something of the way: all but rejects.
    of_way: f64,
    /// The least that one of all took longer than the shortest of its kind.
    excess_min_us: f64,
}

/// The floor is being looked for, by statements sent from then on.
#[derive(Clone, Copy, Debug)]
struct Reprobe {
    since_us: u64,
    /// What held before, and will hold again, more or less.
    before: Decision,
    answers: u32,
    /// The shortest, and its rows.
    least_us: f64,
    rows: f64,
}

/// Measures and decides.
#[derive(Debug)]
pub struct Tuner {
    tuning: Tuning,
    batch_max: usize,
    in_flight_max: usize,
    floor: Floor,
    /// The shortest round trips of rejects: with what the server holds them back.
    rejects: Floor,
    costs: Costs,
    rate: Rate,
    period: Period,
    smoothed_us: Option<f64>,
    stretch: f64,
    is_single: bool,
    /// When the store was last found idle.
    floor_seen_us: u64,
    reprobe: Option<Reprobe>,
    /// Until when a queue is taken for one: its floor was looked for.
    confirmed_until_us: u64,
    /// Until when the floor is not looked for again: the last time has shown nothing.
    unshown_until_us: u64,
    decided_us: u64,
    /// Statements answered in a microsecond, under strain.
    answered_per_us: f64,
    /// Rows answered in a microsecond, of late.
    rows_per_us: f64,
    /// Since when this store is asked.
    restarted_us: u64,
    decision: Decision,
}

impl Tuner {
    /// With nothing measured.
    pub fn new(now_us: u64, config: &PipelineConfig) -> Self {
        let mut tuner = Self {
            tuning: config.tuning,
            batch_max: 1,
            in_flight_max: 1,
            floor: Floor::new(now_us),
            rejects: Floor::new(now_us),
            costs: Costs::default(),
            rate: Rate::new(now_us),
            period: Period::default(),
            smoothed_us: None,
            stretch: 1.0,
            is_single: false,
            floor_seen_us: now_us,
            reprobe: None,
            confirmed_until_us: 0,
            unshown_until_us: 0,
            decided_us: now_us,
            answered_per_us: 0.0,
            rows_per_us: 0.0,
            restarted_us: 0,
            decision: Decision {
                interval_us: 0,
                in_flight_max: 1,
                batch_max: 1,
                reason: Reason::Start,
            },
        };
        tuner.begin_period(now_us);
        tuner.reload(config);
        tuner
    }

    /// Takes new bounds. What was measured is kept.
    pub fn reload(&mut self, config: &PipelineConfig) {
        self.tuning = config.tuning;
        self.batch_max = config.batch_max.max(1);
        self.in_flight_max = config.in_flight_max.max(1);
        self.decision = self.decide();
    }

    /// The store is another one: only the arrivals are still true. What the one before was sent
    /// says nothing of this one, whenever it is answered.
    pub fn restart(&mut self, now_us: u64) {
        self.restarted_us = now_us;
        self.confirmed_until_us = 0;
        self.answered_per_us = 0.0;
        self.rows_per_us = 0.0;
        self.unshown_until_us = 0;
        self.floor = Floor::new(now_us);
        self.rejects = Floor::new(now_us);
        self.costs = Costs::default();
        self.smoothed_us = None;
        self.reprobe = None;
        self.relax(now_us);
        self.decision = self.decide();
    }

    /// A row is to be asked for.
    pub fn handle_arrival(&mut self) {
        self.rate.note();
    }

    /// A statement was answered.
    pub fn handle_answer(&mut self, now_us: u64, sample: &Sample) {
        if sample.sent_us < self.restarted_us {
            return;
        }
        let took_us = now_us.saturating_sub(sample.sent_us) as f64;
        let before_us = self.smoothed_us.unwrap_or(took_us);
        self.smoothed_us = Some(before_us + (took_us - before_us) / 16.0);
        self.is_single = sample.is_single;
        let rows = sample.rows as f64;
        let excess_us = match sample.is_reject {
            true => self.note_reject(now_us, took_us, sample),
            false => self.note_way(now_us, took_us, sample),
        };
        let period = &mut self.period;
        if period.statements == 0.0 {
            (period.first_us, period.first_rows) = (now_us, rows);
            period.excess_min_us = excess_us;
        }
        period.last_us = now_us;
        period.statements += 1.0;
        period.rows += rows;
        period.excess_min_us = period.excess_min_us.min(excess_us);
        if !sample.is_reject {
            period.of_way += 1.0;
        }
    }

    /// Learns how long rejects are held back, which says nothing of the way; how much longer this
    /// one took than the shortest. That is a queue, as with any other answer.
    fn note_reject(&mut self, now_us: u64, took_us: f64, sample: &Sample) -> f64 {
        self.look_for_floor(now_us, f64::INFINITY, sample);
        self.rejects.note(now_us, took_us, sample.rows, false);
        let least_us = self.rejects.least_us().unwrap_or(took_us);
        let rows = sample.rows as f64;
        (took_us - self.rejects.row_us() * rows - least_us).max(0.0)
    }

    /// Learns of the way from an answer; how much longer that took than the shortest.
    fn note_way(&mut self, now_us: u64, took_us: f64, sample: &Sample) -> f64 {
        let learns = self.stretch <= 1.0;
        let seems_other = self.floor.note(now_us, took_us, sample.rows, learns);
        // A queue that was told from a longer way just now is no news.
        let is_confirmed = self.is_strained() && now_us < self.confirmed_until_us;
        if seems_other && !is_confirmed && self.reprobe.is_none() && self.may_show(now_us) {
            self.begin_reprobe(now_us);
        }
        self.look_for_floor(now_us, took_us, sample);
        let floor_us = self.floor.least_us().unwrap_or(took_us);
        let rows = sample.rows as f64;
        let excess_us = (took_us - self.floor.row_us() * rows - floor_us).max(0.0);
        if excess_us <= never_idle_us(floor_us) {
            self.floor_seen_us = now_us;
        }
        excess_us
    }

    /// Decides anew where it is time to; then the decision is one to count.
    pub fn poll_decision(&mut self, now_us: u64) -> Option<Decision> {
        let has_changed = self.rate.reckon(now_us);
        let passed_us = now_us.saturating_sub(self.period.began_us);
        let is_told = self.period.statements >= STATEMENTS || passed_us >= PERIOD_MAX_US;
        if passed_us >= PERIOD_US && is_told {
            self.judge(now_us);
        }
        if !has_changed && now_us.saturating_sub(self.decided_us) < PERIOD_US {
            return None;
        }
        self.decided_us = now_us;
        self.decision = self.decide();
        Some(self.decision)
    }

    /// The decision that holds.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Rows asked for in a second, of late.
    pub fn rate_per_s(&self) -> f64 {
        self.rate.per_us() * 1e6
    }

    /// The shortest recent round trip; 0 before the first.
    pub fn round_trip_min_us(&self) -> u64 {
        self.floor.least_us().unwrap_or(0.0) as u64
    }

    /// What it takes the store to be. Until the store was busy once, its workers are one
    /// and a statement costs it a tenth of a millisecond.
    pub fn model(&self) -> Model {
        let floor_us = self.floor.least_us().unwrap_or(0.0);
        let row_us = self.floor.row_us();
        let (query_us, busy_row_us) = self.costs.found().unwrap_or((QUERY_US, row_us));
        let workers = match busy_row_us > 0.0 {
            true => (row_us / busy_row_us).clamp(1.0, 1_024.0),
            false => 1.0,
        };
        Model {
            round_trip_us: (floor_us - workers * query_us).max(0.0),
            query_us,
            row_us: busy_row_us,
            workers,
        }
    }

    /// How long a question behind `queued` others will take with a setting of the operator's;
    /// `None` before the first answer.
    pub fn expected_us(&self, queued: usize, setting: &Setting) -> Option<u64> {
        self.expect_us(queued, setting, f64::INFINITY)
    }

    /// The same with the tuner's own. While the floor is being looked for next to nothing is
    /// sent, which says nothing of what the store can do: after that pause things will be as
    /// they were.
    pub fn expected_tuned_us(&self, now_us: u64, queued: usize) -> Option<u64> {
        let Some(reprobe) = &self.reprobe else {
            return self.expected_us(queued, &Setting::from(&self.decision));
        };
        let pause_us = REPROBE_ROUND_TRIPS * self.smoothed_us?;
        let left_us = (pause_us as u64).saturating_sub(now_us.saturating_sub(reprobe.since_us));
        // Whether it can do more than it did is not known.
        let rows_max_per_us = match self.rows_per_us > 0.0 {
            true => self.rows_per_us,
            false => f64::INFINITY,
        };
        let then_us = self.expect_us(queued, &Setting::from(&reprobe.before), rows_max_per_us)?;
        Some(then_us.saturating_add(left_us))
    }

    fn expect_us(&self, queued: usize, setting: &Setting, rows_max_per_us: f64) -> Option<u64> {
        let smoothed_us = self.smoothed_us?;
        let (interval_us, rows, flight) = match *setting {
            Setting::Paced {
                interval_us,
                batch_max,
                in_flight_max,
            } => (interval_us, batch_max, in_flight_max),
            Setting::Blocking { processes, batch } => (0, batch, processes),
        };
        let rows = rows.max(1) as f64;
        let mut per_us = (flight.max(1) as f64 * rows / smoothed_us.max(1.0)).min(rows_max_per_us);
        if let Some((query_us, row_us)) = self.costs.found() {
            per_us = per_us.min(rows / (query_us + row_us * rows).max(1e-3));
        }
        let ahead = (queued as f64 - rows).max(0.0);
        Some((smoothed_us + interval_us as f64 + ahead / per_us.max(1e-9)) as u64)
    }

    fn begin_reprobe(&mut self, now_us: u64) {
        self.reprobe = Some(Reprobe {
            since_us: now_us,
            before: self.decision,
            answers: 0,
            least_us: f64::INFINITY,
            rows: 0.0,
        });
        self.decision = self.decide();
    }

    /// What was sent since has found the store idle.
    fn look_for_floor(&mut self, now_us: u64, took_us: f64, sample: &Sample) {
        let Some(reprobe) = &mut self.reprobe else {
            return;
        };
        if sample.sent_us < reprobe.since_us {
            return;
        }
        reprobe.answers += 1;
        if took_us < reprobe.least_us {
            (reprobe.least_us, reprobe.rows) = (took_us, sample.rows as f64);
        }
        if reprobe.answers < REPROBE_ANSWERS {
            return;
        }
        let Reprobe { least_us, rows, .. } = *reprobe;
        self.reprobe = None;
        if least_us.is_finite() {
            self.found_floor(now_us, least_us, rows);
        } else {
            // All were rejects, and so will those be that are sent next.
            self.unshown_until_us = now_us + CONFIRMED_US;
        }
        self.begin_period(now_us);
        self.decision = self.decide();
    }

    /// Whether it is any use to look for the floor now.
    fn may_show(&self, now_us: u64) -> bool {
        now_us >= self.unshown_until_us
    }

    /// An idle store was that quick with so many rows.
    fn found_floor(&mut self, now_us: u64, least_us: f64, rows: f64) {
        let before_us = self.floor.least_us().unwrap_or(least_us);
        if least_us > before_us * SHIFTED {
            // What looked like waiting was the way, and nothing was learned from it.
            self.costs = Costs::default();
            self.floor.set_row_min(0.0);
            self.stretch = 1.0;
        }
        let own_us = least_us - self.floor.row_us() * rows;
        self.floor.set(now_us, own_us);
        self.floor_seen_us = now_us;
        self.confirmed_until_us = now_us + CONFIRMED_US;
    }

    fn relax(&mut self, now_us: u64) {
        self.stretch = 1.0;
        self.floor_seen_us = now_us;
        self.begin_period(now_us);
    }

    fn begin_period(&mut self, now_us: u64) {
        self.period = Period {
            began_us: now_us,
            ..Period::default()
        };
    }

    /// Learns from a period, and judges whether statements wait in the store.
    fn judge(&mut self, now_us: u64) {
        let period = self.period;
        let floor_us = self.floor.least_us().unwrap_or(0.0);
        let target_us = self.tuning.delay_target_us as f64;
        let time_us = period.last_us.saturating_sub(period.first_us) as f64;
        let (statements, rows) = (period.statements - 1.0, period.rows - period.first_rows);
        if statements < STATEMENTS_MIN {
            // Of fewer in flight there would be fewer still. A store that gives none, or each of
            // them late, hangs or has a queue.
            if period.statements > 0.0 && period.excess_min_us < target_us / 16.0 {
                self.stretch = (self.stretch * 0.9).max(1.0);
            }
            return self.begin_period(now_us);
        }
        if time_us < PERIOD_US as f64 / 4.0 {
            return self.begin_period(now_us);
        }
        let per_us = statements / time_us;
        // Jitter is not a queue: that each one waited is. By Little's law so many did.
        let standing_us = period.excess_min_us;
        let standing = standing_us * per_us;
        let is_busy = standing > 1.0 && standing_us > never_idle_us(floor_us);
        let is_shown = period.of_way >= STATEMENTS_MIN && self.may_show(now_us);
        let looks_other = is_shown && standing_us > floor_us * (SHIFTED - 1.0) + 1_000.0;
        if self.reprobe.is_some() {
            // Neither is kept busy nor what it can do.
        } else if !is_busy {
            self.costs.idle(time_us, statements, rows);
        } else if looks_other && now_us >= self.confirmed_until_us {
            // A queue, or another way: that is seen first.
            return self.begin_reprobe(now_us);
        } else {
            self.confirmed_until_us = self.confirmed_until_us.max(now_us + CONFIRMED_US);
            self.costs.busy(time_us, statements, rows);
        }
        let row_min_us = self.costs.found().map_or(0.0, |(_, row_us)| row_us);
        self.floor.set_row_min(row_min_us);
        if standing_us > target_us / 8.0 && standing > 1.0 {
            self.stretch = (self.stretch * 1.25).min(STRETCH_MAX);
        } else if standing_us < target_us / 16.0 {
            self.stretch = (self.stretch * 0.9).max(1.0);
        }
        // Few are in flight at times, which must not make them fewer still.
        self.answered_per_us = per_us.max(self.answered_per_us * 0.9);
        self.rows_per_us = rows / time_us;
        let unseen_us = now_us.saturating_sub(self.floor_seen_us);
        if self.is_strained() && unseen_us >= REPROBE_US && self.may_show(now_us) {
            self.floor_seen_us = now_us;
            self.begin_reprobe(now_us);
        }
        self.begin_period(now_us);
    }

    /// Whether statements wait in the store, or would.
    fn is_strained(&self) -> bool {
        self.stretch > 1.0 || self.decision.reason == Reason::Load
    }

    fn decide(&self) -> Decision {
        let whole = |reason, interval_us: f64, flight: f64, rows: f64| Decision {
            interval_us: interval_us as u64,
            in_flight_max: (flight.ceil() as usize).clamp(1, self.in_flight_max),
            batch_max: (rows.ceil() as usize).clamp(1, self.batch_max),
            reason,
        };
        let flight_max = self.in_flight_max as f64;
        // Digests one by one have no batches, but a way that may have become longer.
        if self.reprobe.is_some() {
            return whole(Reason::Reprobe, 0.0, REPROBE_FLIGHT, REPROBE_ROWS);
        }
        if self.is_single {
            return whole(Reason::Single, 0.0, flight_max / self.stretch, 1.0);
        }
        let Some(floor_us) = self.floor.least_us() else {
            return whole(Reason::Start, 1_000.0, START_FLIGHT, START_ROWS);
        };
        let rate = self.rate.per_us();
        let (query_us, row_us) = self.costs.found().unwrap_or((QUERY_US, 0.0));
        let idle_load = match self.decision.reason {
            Reason::Idle => IDLE_LOAD_KEPT,
            _ => IDLE_LOAD,
        };
        if rate * (query_us + OWN_US) < idle_load && self.stretch <= 1.0 {
            let flight = (4.0 * rate * floor_us).max(FLIGHT_MIN as f64);
            return whole(Reason::Idle, 0.0, flight, f64::INFINITY);
        }
        let (interval_us, reason) = self.interval(rate, floor_us, query_us, row_us);
        let target_us = self.tuning.delay_target_us as f64;
        let own_us = self.floor.row_us() * (rate * interval_us).min(self.batch_max as f64);
        let slack_us = (floor_us / 4.0).min(target_us / 2.0).max(own_us);
        let mut flight = (floor_us + slack_us) / interval_us + 1.0;
        if self.is_strained() {
            flight = flight.min(1.25 * self.answered_per_us * (floor_us + slack_us) + 2.0);
        }
        let rows = (4.0 * rate * interval_us * self.stretch).max(ROWS_MIN as f64);
        let rows = rows.min(target_us / 2.0 / self.floor.row_us().max(0.1));
        whole(reason, interval_us, flight.max(2.0), rows.max(1.0))
    }

    fn interval(&self, rate: f64, floor_us: f64, query_us: f64, row_us: f64) -> (f64, Reason) {
        let target_us = self.tuning.delay_target_us as f64;
        let load_max = self.tuning.load_max.clamp(0.01, 1.0);
        let cost_us = query_us + OWN_US;
        let mut best = (2.0 * cost_us / (DELAY_PRICE * rate.max(1e-9))).sqrt() * self.stretch;
        let mut reason = match self.stretch > 1.0 {
            true => Reason::BackOff,
            false => Reason::Cost,
        };
        let own_us = self.floor.row_us() * (rate * best).min(self.batch_max as f64);
        let longest_us = ((target_us - own_us) / 2.0).max(INTERVAL_MIN_US);
        if self.costs.found().is_some() {
            let room = load_max - rate * row_us;
            let least_us = match room > 0.0 {
                true => query_us / room,
                false => f64::INFINITY,
            };
            if least_us > best {
                (best, reason) = (least_us, Reason::Load);
            }
        }
        if best > longest_us {
            let is_cost = reason == Reason::Cost;
            (best, reason) = (longest_us, if is_cost { Reason::Target } else { reason });
        }
        // Not to be had any sooner: batches that wait for one in flight to come back would all
        // leave together.
        let slots_us = (floor_us + own_us) / self.in_flight_max as f64;
        if slots_us > best {
            (best, reason) = (slots_us, Reason::Slots);
        }
        (best.max(1.0), reason)
    }
}
