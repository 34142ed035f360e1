//! The arithmetic of batches in flight.
//!
//! A statement of `b` rows takes the store `s(b) = query + row * b` of one of its `workers`,
//! and its answer is back after `R + s(b)` where it found one free. With at most `P`
//! statements of at most `B` rows in flight,
//!
//! - the store answers at most `workers * B / s(B)` rows a second,
//! - and no more than `P * B / (R + s(B))` can be in flight;
//! - of arrivals at rate `l`, batches that leave every `D` hold `l * D`, and one waits for
//!   half of that.
//!
//! The wait for a free worker is Sakasegawa's approximation for many servers with any
//! arrivals and any service: paced batches come nearly evenly, which is why it is short.

use crate::config::Mode;
use crate::tuner::Decision;

/// What is known of a store and the way to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// The round trip without the store's time for a statement.
    pub round_trip_us: f64,
    /// The store's time for a statement without rows, divided among its workers: how much
    /// of the store's time each statement takes.
    pub query_us: f64,
    /// The store's time for a row, divided among its workers.
    pub row_us: f64,
    /// How many statements the store works on at once.
    pub workers: f64,
}

/// How batches leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// By pacing or by size, whichever is first.
    Paced {
        /// The time from one batch to the next.
        interval_us: u64,
        /// Rows with which a batch leaves before its time.
        batch_max: usize,
        /// Batches in flight.
        in_flight_max: usize,
    },
    /// Whenever a process is free and its batch is full or has waited for
    /// [`Setting::PATIENCE_US`].
    Blocking {
        /// Processes.
        processes: usize,
        /// Questions in a batch.
        batch: usize,
    },
}

impl Setting {
    /// How long a batch of [`Setting::Blocking`] waits to be full. The paper proposes such a
    /// bound and has none: half of the time after which SIP sends again (RFC 3261 17.1.1.1,
    /// T1).
    pub const PATIENCE_US: u64 = 250_000;

    /// The setting of a mode; `None` where the tuner sets it.
    pub fn of(mode: Mode) -> Option<Self> {
        match mode {
            Mode::Tuned => None,
            Mode::Fixed {
                interval_us,
                batch_max,
                in_flight_max,
            } => Some(Self::Paced {
                interval_us,
                batch_max,
                in_flight_max,
            }),
            Mode::Blocking { processes, batch } => Some(Self::Blocking { processes, batch }),
        }
    }

    /// The most rows and the most batches in flight.
    fn bounds(&self) -> (f64, f64) {
        let (rows, batches) = match *self {
            Self::Paced {
                batch_max,
                in_flight_max,
                ..
            } => (batch_max, in_flight_max),
            Self::Blocking { processes, batch } => (batch, processes),
        };
        (rows.max(1) as f64, batches.max(1) as f64)
    }
}

impl From<&Decision> for Setting {
    fn from(decision: &Decision) -> Self {
        Self::Paced {
            interval_us: decision.interval_us,
            batch_max: decision.batch_max,
            in_flight_max: decision.in_flight_max,
        }
    }
}

/// What is to be expected of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The most look-ups answered in a second.
    pub capacity_per_s: f64,
    /// From question to answer, on average; infinite past the capacity.
    pub mean_delay_us: f64,
    /// Rows in a batch, on average.
    pub mean_rows: f64,
}

/// A batch as it leaves: its mean rows, the rows of the batch that a question finds itself
/// in, the question's wait, batches in a microsecond, and how uneven their rhythm is.
struct Leaving {
    rows: f64,
    rows_of_one: f64,
    wait_us: f64,
    per_us: f64,
    variance: f64,
}

impl Model {
    /// The store's time for a statement of so many rows.
    pub fn service_us(&self, rows: f64) -> f64 {
        self.workers * (self.query_us + self.row_us * rows)
    }

    /// What `setting` can do, and what it costs at `load_per_s` look-ups a second that arrive
    /// by themselves (Poisson).
    pub fn predict(&self, setting: &Setting, load_per_s: f64) -> Prediction {
        let (rows_max, in_flight_max) = setting.bounds();
        let full_us = self.round_trip_us + self.service_us(rows_max);
        let by_flight = in_flight_max * rows_max / full_us;
        let by_store = rows_max / (self.query_us + self.row_us * rows_max).max(1e-9);
        let capacity_per_s = by_flight.min(by_store) * 1e6;
        let load = (load_per_s / 1e6).max(1e-12);
        let leaving = match *setting {
            Setting::Paced { interval_us, .. } => {
                self.paced(load, interval_us as f64, rows_max, in_flight_max)
            }
            Setting::Blocking { .. } => self.blocking(load, rows_max, in_flight_max),
        };
        let service_us = self.service_us(leaving.rows_of_one);
        let mean_delay_us = if load_per_s >= capacity_per_s {
            f64::INFINITY
        } else {
            let queue_us = self.store_wait_us(&leaving);
            leaving.wait_us + self.round_trip_us + service_us + queue_us
        };
        Prediction {
            capacity_per_s,
            mean_delay_us,
            mean_rows: leaving.rows,
        }
    }

    /// A batch leaves when an interval has passed since the one before and somebody is
    /// there, when it is full, or, with the bound on those in flight reached, when one is
    /// answered.
    fn paced(&self, load: f64, interval_us: f64, rows_max: f64, in_flight_max: f64) -> Leaving {
        let full_us = rows_max / load;
        let interval_us = interval_us.min(full_us);
        // In flight at once, at this pace; more than the bound spreads them further apart.
        let slot_us = |rows: f64| (self.round_trip_us + self.service_us(rows)) / in_flight_max;
        let rows = load * interval_us;
        let held_us = slot_us(rows.max(1.0));
        let (interval_us, slots_bind) = match held_us > interval_us + 1.0 / load {
            // The batch that its own round trip gathers.
            true => {
                let per_row = self.workers * self.row_us / in_flight_max;
                let fixed = slot_us(0.0);
                (fixed / (1.0 - load * per_row).max(1e-3), true)
            }
            false => (interval_us, false),
        };
        let expected = load * interval_us;
        // Nobody came meanwhile: the next one leaves at once and alone.
        let nobody = if slots_bind { 0.0 } else { (-expected).exp() };
        let rows = expected + nobody;
        let cycle_us = interval_us + nobody / load;
        Leaving {
            rows,
            rows_of_one: (expected * (1.0 + expected) + nobody) / rows,
            wait_us: expected * interval_us / 2.0 / rows,
            per_us: 1.0 / cycle_us,
            variance: nobody,
        }
    }

    /// A batch leaves full or out of patience, once a process is free.
    fn blocking(&self, load: f64, rows_max: f64, processes: f64) -> Leaving {
        let patience_us = Setting::PATIENCE_US as f64;
        let gather_us = (rows_max - 1.0) / load;
        let (rows, gathering_us) = if gather_us <= patience_us {
            (rows_max, gather_us / 2.0)
        } else {
            let rows = 1.0 + load * patience_us;
            let others = load * patience_us;
            (rows, patience_us * (1.0 + others / 2.0) / rows)
        };
        let held_us = self.round_trip_us + self.service_us(rows);
        let per_us = load / rows;
        let process_us = waiting_us(per_us, held_us, processes, 1.0 / rows);
        Leaving {
            rows,
            rows_of_one: rows,
            wait_us: gathering_us + process_us,
            per_us,
            variance: 1.0 / rows,
        }
    }

    /// The wait for one of the store's workers.
    fn store_wait_us(&self, leaving: &Leaving) -> f64 {
        let service_us = self.service_us(leaving.rows);
        waiting_us(leaving.per_us, service_us, self.workers, leaving.variance)
    }

    /// Finds the model that measurements were made by: of an idle store, rows of a statement
    /// and microseconds to its answer; of a store kept busy, rows of a statement and rows
    /// answered in a second. Each needs two sizes that differ.
    pub fn fit(idle: &[(f64, f64)], busy: &[(f64, f64)]) -> Option<Self> {
        let (fixed_us, slope_us) = line(idle)?;
        let taken: Vec<(f64, f64)> = busy
            .iter()
            .map(|&(b, per_s)| (b, b * 1e6 / per_s))
            .collect();
        let (query_us, row_us) = line(&taken)?;
        let (query_us, row_us) = (query_us.max(0.0), row_us.max(1e-3));
        let workers = (slope_us / row_us).max(1.0);
        Some(Self {
            round_trip_us: (fixed_us - workers * query_us).max(0.0),
            query_us,
            row_us,
            workers,
        })
    }
}

/// The wait for one of `servers`, each busy for `service_us` with what comes `per_us`, with
/// a squared coefficient of variation `variance` of the times between arrivals.
fn waiting_us(per_us: f64, service_us: f64, servers: f64, variance: f64) -> f64 {
    let load = per_us * service_us / servers;
    if load >= 1.0 {
        return f64::INFINITY;
    }
    let all_busy = load.powf((2.0 * (servers + 1.0)).sqrt() - 1.0);
    variance / 2.0 * service_us * all_busy / (servers * (1.0 - load))
}

/// The line through points, by least squares: its height at 0 and its slope.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    let common: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    if points.len() < 2 || spread <= 0.0 {
        return None;
    }
    let slope = common / spread;
    Some((y - slope * x, slope))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        Model {
            round_trip_us: 30_000.0,
            query_us: 150.0 / 4.0,
            row_us: 15.0 / 4.0,
            workers: 4.0,
        }
    }

    fn is_about(is: f64, expected: f64) -> bool {
        (is - expected).abs() <= expected.abs() * 0.01
    }

    #[test]
    fn four_blocking_processes_do_what_the_paper_says() {
        let setting = Setting::Blocking {
            processes: 4,
            batch: 1,
        };
        let capacity = model().predict(&setting, 1.0).capacity_per_s;
        assert!((130.0..134.0).contains(&capacity), "{capacity}");
    }

    #[test]
    fn the_store_bounds_what_enough_statements_in_flight_can_get() {
        let setting = Setting::Paced {
            interval_us: 1_000,
            batch_max: 64,
            in_flight_max: 1_000,
        };
        let capacity = model().predict(&setting, 1.0).capacity_per_s;
        assert!(is_about(capacity, 4.0 * 64.0 / 1_110.0 * 1e6), "{capacity}");
    }

    #[test]
    fn a_lone_question_takes_the_round_trip_and_its_own_time() {
        let setting = Setting::Paced {
            interval_us: 500,
            batch_max: 64,
            in_flight_max: 64,
        };
        let delay = model().predict(&setting, 1.0).mean_delay_us;
        assert!(is_about(delay, 30_165.0), "{delay}");
    }

    #[test]
    fn past_the_capacity_there_is_no_end_to_the_wait() {
        let setting = Setting::Blocking {
            processes: 4,
            batch: 1,
        };
        assert_eq!(
            model().predict(&setting, 200.0).mean_delay_us,
            f64::INFINITY
        );
    }

    #[test]
    fn a_model_is_found_again_from_what_it_says() {
        let model = model();
        let idle = [1.0, 8.0, 64.0].map(|b| (b, model.round_trip_us + model.service_us(b)));
        let busy = [1.0, 64.0].map(|b| (b, b * 1e6 / (model.query_us + model.row_us * b)));
        let found = Model::fit(&idle, &busy).unwrap();
        assert!(
            is_about(found.round_trip_us, model.round_trip_us),
            "{found:?}"
        );
        assert!(is_about(found.query_us, model.query_us), "{found:?}");
        assert!(is_about(found.row_us, model.row_us), "{found:?}");
        assert!(is_about(found.workers, model.workers), "{found:?}");
        assert_eq!(Model::fit(&idle[..1], &busy), None);
    }
}
