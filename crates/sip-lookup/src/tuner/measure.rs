//! What the tuner measures: the shortest round trip, the store's time, the arrivals.

use std::collections::VecDeque;

use crate::figures::size_class;

/// How long a shortest round trip is remembered, in parts.
const PART_US: u64 = 500_000;
const PARTS: usize = 20;
/// What a row is expected to take, how far off that may be, and the noise of a shortest
/// round trip as a part of it: so much must sizes differ to teach better.
const ROW_US: f64 = 10.0;
const ROW_SPREAD_US: f64 = 30.0;
const NOISE: f64 = 0.02;
/// Slopes that are remembered; the middle one counts.
const SLOPES: usize = 7;
const CLASSES: usize = 9;
/// Answers that make a part, or a class of sizes, worth listening to.
const ANSWERS_MIN: u32 = 10;
/// A part whose shortest round trip is so much longer than all before it may have been
/// measured on another way.
const SHIFT: f64 = 1.5;
const SHIFT_US: f64 = 1_000.0;

/// How much longer than the shortest a round trip is after which the store was busy.
pub(super) fn never_idle_us(least_us: f64) -> f64 {
    (least_us * 0.02).max(300.0)
}

#[derive(Clone, Copy, Debug)]
struct Class {
    least_us: f64,
    rows: f64,
    answers: u32,
}

const NO_ANSWER: Class = Class {
    least_us: f64::INFINITY,
    rows: 0.0,
    answers: 0,
};

/// The shortest round trips of the last seconds, by the size of the statement.
#[derive(Debug)]
pub(super) struct Floor {
    parts: [[Class; CLASSES]; PARTS],
    at: usize,
    began_us: u64,
    /// What each row adds to a round trip: as found in the last parts, and the middle of it.
    slopes: VecDeque<f64>,
    row_us: f64,
    least_us: Option<f64>,
}

impl Floor {
    pub(super) const fn new(now_us: u64) -> Self {
        Self {
            parts: [[NO_ANSWER; CLASSES]; PARTS],
            at: 0,
            began_us: now_us,
            slopes: VecDeque::new(),
            row_us: ROW_US,
            least_us: None,
        }
    }

    /// The shortest recent round trip, rows not counted.
    pub(super) const fn least_us(&self) -> Option<f64> {
        self.least_us
    }

    pub(super) const fn row_us(&self) -> f64 {
        self.row_us
    }

    /// A row takes the store that long at least, so a round trip is longer by it.
    pub(super) fn set_row_min(&mut self, row_min_us: f64) {
        let mut sorted: Vec<f64> = self.slopes.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(ROW_US);
        self.row_us = middle.max(row_min_us);
    }

    /// Takes a round trip. Whether the way to the store seems to have become another one:
    /// that, or statements wait there all the time. What a row adds is not learned where
    /// they do: larger statements wait longer too.
    pub(super) fn note(&mut self, now_us: u64, took_us: f64, rows: usize, learns: bool) -> bool {
        let mut seems_other = false;
        if now_us.saturating_sub(self.began_us) >= PART_US * PARTS as u64 {
            self.parts = [[NO_ANSWER; CLASSES]; PARTS];
            self.began_us = now_us;
        }
        while now_us.saturating_sub(self.began_us) >= PART_US {
            seems_other |= self.turn(learns);
        }
        if let Some(class) = self
            .parts
            .get_mut(self.at)
            .and_then(|part| part.get_mut(size_class(rows)))
        {
            class.answers = class.answers.saturating_add(1);
            if took_us < class.least_us {
                class.least_us = took_us;
                class.rows = rows as f64;
            }
        }
        let own_us = took_us - self.row_us * rows as f64;
        if self.least_us.is_none_or(|least_us| own_us < least_us) {
            self.least_us = Some(own_us.max(0.0));
        }
        seems_other
    }

    /// The way is as long as that, whatever was measured before.
    pub(super) fn set(&mut self, now_us: u64, own_us: f64) {
        *self = Self {
            slopes: std::mem::take(&mut self.slopes),
            row_us: self.row_us,
            least_us: Some(own_us.max(0.0)),
            ..Self::new(now_us)
        };
    }

    /// Begins the next part and forgets the oldest.
    fn turn(&mut self, learns: bool) -> bool {
        let of = |part: &[Class; CLASSES], row_us: f64| {
            let own = part
                .iter()
                .map(|class| class.least_us - row_us * class.rows);
            own.fold(f64::INFINITY, f64::min)
        };
        let at = self.at;
        let current = self.parts.get(at).copied().unwrap_or([NO_ANSWER; CLASSES]);
        let mine_us = of(&current, self.row_us);
        let parts = self.parts.iter().enumerate();
        let others_us = parts
            .filter(|(nth, _)| *nth != at)
            .map(|(_, part)| of(part, self.row_us))
            .fold(f64::INFINITY, f64::min);
        let answers: u32 = current.iter().map(|class| class.answers).sum();
        let seems_other = answers >= ANSWERS_MIN
            && others_us.is_finite()
            && mine_us > others_us * SHIFT + SHIFT_US;
        // Where the store was never idle, larger statements waited longer too.
        if learns && mine_us <= others_us + never_idle_us(others_us) && others_us.is_finite() {
            self.learn_row(&current);
        }
        self.at = (at + 1) % PARTS;
        if let Some(part) = self.parts.get_mut(self.at) {
            *part = [NO_ANSWER; CLASSES];
        }
        self.began_us += PART_US;
        let row_us = self.row_us;
        let parts = self.parts.iter().map(|part| of(part, row_us));
        let least_us = parts.fold(f64::INFINITY, f64::min);
        if least_us.is_finite() {
            self.least_us = Some(least_us.max(0.0));
        }
        seems_other
    }

    /// The line along the shortest round trips of each size: what waiting adds is not in it.
    /// A part in which the way changed gives any slope; the middle of several does not.
    fn learn_row(&mut self, part: &[Class; CLASSES]) {
        let known = part.iter().filter(|class| class.answers >= ANSWERS_MIN);
        let points: Vec<(f64, f64)> = known.map(|class| (class.rows, class.least_us)).collect();
        let noise_us = self.least_us.unwrap_or(0.0) * NOISE;
        let Some(slope_us) = slope(&points, ROW_US, (noise_us / ROW_SPREAD_US).powi(2)) else {
            return;
        };
        if self.slopes.len() >= SLOPES {
            self.slopes.pop_front();
        }
        self.slopes.push_back(slope_us.max(0.0));
        self.set_row_min(0.0);
    }
}

/// The slope along points, where `expected` has the weight of points so far apart (squared).
fn slope(points: &[(f64, f64)], expected: f64, weight: f64) -> Option<f64> {
    if points.len() < 2 {
        return None;
    }
    let count = points.len() as f64;
    let x = points.iter().map(|point| point.0).sum::<f64>() / count;
    let y = points.iter().map(|point| point.1).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    let common: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    Some((common + expected * weight) / (spread + weight).max(1e-9))
}

/// What a statement and a row take of the store's time, learned while it is kept busy: then
/// the time between two answers is what the later one took, whatever the round trip.
#[derive(Debug, Default)]
pub(super) struct Costs {
    statements_2: f64,
    rows_2: f64,
    both: f64,
    statements_time: f64,
    rows_time: f64,
    found: Option<(f64, f64)>,
}

/// Before sizes differ: a statement is taken to cost as much as so many rows.
const ROWS_PER_STATEMENT: f64 = 10.0;

impl Costs {
    /// Microseconds for a statement and for a row, divided among the store's workers.
    pub(super) const fn found(&self) -> Option<(f64, f64)> {
        self.found
    }

    /// In `time_us` the store, never idle, answered so many.
    pub(super) fn busy(&mut self, time_us: f64, statements: f64, rows: f64) {
        const KEPT: f64 = 0.8;
        let add = |sum: &mut f64, more: f64| *sum = *sum * KEPT + more / time_us;
        add(&mut self.statements_2, statements * statements);
        add(&mut self.rows_2, rows * rows);
        add(&mut self.both, statements * rows);
        add(&mut self.statements_time, statements * time_us);
        add(&mut self.rows_time, rows * time_us);
        let spread = self.statements_2 * self.rows_2 - self.both * self.both;
        if spread > 0.1 * self.statements_2 * self.rows_2 {
            let query_us =
                (self.statements_time * self.rows_2 - self.rows_time * self.both) / spread;
            let row_us =
                (self.rows_time * self.statements_2 - self.statements_time * self.both) / spread;
            if query_us > 0.0 && row_us > 0.0 {
                self.found = Some((query_us, row_us));
                return;
            }
        }
        // All of one size: only their sum is known.
        let (query, row) = self.found.unwrap_or((ROWS_PER_STATEMENT, 1.0));
        let scale = time_us / (query * statements + row * rows).max(1e-9);
        self.found = Some((query * scale, row * scale));
    }

    /// In `time_us` the store, idle at times, answered so many: it is no slower than that.
    /// What was found is believed a little less each time, so that a store which has become
    /// faster is found out.
    pub(super) fn idle(&mut self, time_us: f64, statements: f64, rows: f64) {
        const BELIEF: f64 = 0.998;
        if let Some((query_us, row_us)) = &mut self.found {
            let used = (*query_us * statements + *row_us * rows) / time_us.max(1.0);
            let scale = BELIEF / used.max(1.0);
            *query_us *= scale;
            *row_us *= scale;
        }
    }
}

/// Arrivals in a microsecond.
#[derive(Debug)]
pub(super) struct Rate {
    began_us: u64,
    count: u64,
    per_us: f64,
}

/// Arrivals after which the rate is reckoned, and the time after which it is with fewer.
const ARRIVALS: u64 = 64;
const RECKON_US: u64 = 100_000;
/// The least time for a rate: datagrams come in handfuls.
const RECKON_MIN_US: u64 = 1_000;
/// How long the past counts.
const MEMORY_US: f64 = 200_000.0;

impl Rate {
    pub(super) const fn new(now_us: u64) -> Self {
        Self {
            began_us: now_us,
            count: 0,
            per_us: 0.0,
        }
    }

    pub(super) const fn per_us(&self) -> f64 {
        self.per_us
    }

    pub(super) fn note(&mut self) {
        self.count += 1;
    }

    /// Reckons where it is time to. Whether the rate has changed much.
    pub(super) fn reckon(&mut self, now_us: u64) -> bool {
        let passed_us = now_us.saturating_sub(self.began_us);
        let is_time = passed_us >= RECKON_US || self.count >= ARRIVALS;
        if !is_time || passed_us < RECKON_MIN_US {
            return false;
        }
        let before = self.per_us;
        let rate = self.count as f64 / passed_us as f64;
        let weight = 1.0 - (-(passed_us as f64) / MEMORY_US).exp();
        // More is believed at once, so that a step up meets a setting for it.
        let weight = match rate > 2.0 * before && self.count >= ARRIVALS {
            true => 1.0,
            false => weight,
        };
        self.per_us += weight * (rate - before);
        (self.began_us, self.count) = (now_us, 0);
        self.per_us > 1.5 * before || self.per_us < 0.67 * before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_way_is_suspected_within_two_seconds_and_a_shorter_one_believed_at_once() {
        let mut floor = Floor::new(0);
        let mut suspected_us = None;
        for nth in 0..400_u64 {
            let now_us = nth * 10_000;
            let took_us = if now_us < 1_500_000 {
                5_000.0
            } else {
                100_000.0
            };
            if floor.note(now_us, took_us, 1, true) {
                suspected_us = suspected_us.or(Some(now_us));
            }
        }
        assert!(
            suspected_us.is_some_and(|us| us <= 3_500_000),
            "{suspected_us:?}"
        );
        assert!(floor.least_us().unwrap() < 5_000.0, "it is not believed");
        floor.set(4_000_000, 100_000.0);
        assert_eq!(floor.least_us(), Some(100_000.0));
        floor.note(4_000_001, 30_000.0, 1, true);
        assert!(floor.least_us().unwrap() < 30_000.0);
    }

    #[test]
    fn a_row_is_found_along_the_shortest() {
        let mut floor = Floor::new(0);
        let mut random = fastrand::Rng::with_seed(1);
        for nth in 0..20_000_u64 {
            let rows = 1 << random.u32(0..7);
            let wait_us = f64::from(random.u32(0..3_000));
            let took_us = 30_150.0 + 15.0 * f64::from(rows) + wait_us;
            floor.note(nth * 500, took_us, rows as usize, true);
        }
        assert!((10.0..20.0).contains(&floor.row_us()), "{}", floor.row_us());
    }

    #[test]
    fn a_busy_store_shows_what_statements_and_rows_cost() {
        let mut costs = Costs::default();
        assert_eq!(costs.found(), None);
        for (statements, rows) in [(400.0, 4_000.0), (300.0, 6_000.0), (500.0, 800.0)] {
            costs.busy(statements * 150.0 + rows * 15.0, statements, rows);
        }
        let (query_us, row_us) = costs.found().unwrap();
        assert!((140.0..160.0).contains(&query_us), "{query_us}");
        assert!((14.0..16.0).contains(&row_us), "{row_us}");
    }

    #[test]
    fn of_one_size_the_sum_is_known_and_speed_is_believed() {
        let mut costs = Costs::default();
        for _ in 0..5 {
            costs.busy(100_000.0, 100.0, 1_000.0);
        }
        let (query_us, row_us) = costs.found().unwrap();
        assert!((query_us * 100.0 + row_us * 1_000.0 - 100_000.0).abs() < 1.0);
        costs.idle(100_000.0, 200.0, 2_000.0);
        let (query_us, row_us) = costs.found().unwrap();
        assert!(query_us * 200.0 + row_us * 2_000.0 <= 100_000.0);
    }

    #[test]
    fn a_step_up_is_seen_within_its_first_hundred_arrivals() {
        let mut rate = Rate::new(0);
        let mut now_us = 0;
        for _ in 0..100 {
            now_us += 10_000;
            rate.note();
            rate.reckon(now_us);
        }
        assert!(
            (0.000_09..0.000_11).contains(&rate.per_us()),
            "{}",
            rate.per_us()
        );
        let mut was_seen = false;
        for _ in 0..140 {
            now_us += 20;
            rate.note();
            was_seen |= rate.reckon(now_us);
        }
        assert!(was_seen && rate.per_us() > 0.04, "{}", rate.per_us());
    }
}
