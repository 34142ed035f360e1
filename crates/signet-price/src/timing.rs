//! Taking the time of many things in turns: short batches, round after round, so that what
//! moves the machine moves all of them alike, and the median of the batches.

use std::time::Instant;

use measure::statistics::median_interval_95;
use signet_bed::Error;

use crate::line::Line;
use crate::record::{Clock, Item, Point};

/// Something whose time is taken.
pub trait Work {
    /// Makes ready what the next batch of `times` needs: packets to receive. It is not timed.
    ///
    /// # Errors
    /// Why it cannot go on.
    fn prepare(&mut self, times: u32) -> Result<(), Error> {
        let _ = times;
        Ok(())
    }

    /// The work itself, so many times over.
    ///
    /// # Errors
    /// Why it cannot go on.
    fn run(&mut self, times: u32) -> Result<(), Error>;

    /// Nanoseconds of the last [`Work::run`] that count, where not all of its time does: of a
    /// handshake those of one side. `None` where all of it counts.
    fn counted_ns(&self) -> Option<f64> {
        None
    }

    /// The longest batch that can be prepared at once.
    fn batch_max(&self) -> u32 {
        u32::MAX
    }
}

/// A size of an item, with its work. Jobs whose items are equal become points of one item.
pub struct Job {
    /// The item, without points.
    pub item: Item,
    /// Bytes of payload; 0 where there is no size.
    pub size_bytes: u64,
    /// The work.
    pub work: Box<dyn Work>,
}

/// How long and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a batch is to take; where one time takes longer, it is a batch alone.
    pub batch_ns: u64,
    /// Rounds: batches of each job.
    pub rounds: u32,
    /// No round begins later than this, once there were [`Timing::ROUNDS_MIN`].
    pub budget_ns: u64,
}

impl Timing {
    /// Fewer batches make no median.
    pub const ROUNDS_MIN: u32 = 5;

    /// How many times of so long each make a batch, and no more than `most`.
    fn times(&self, each_ns: f64, most: u32) -> u32 {
        (self.batch_ns as f64 / each_ns.max(1.0)).clamp(1.0, f64::from(most)) as u32
    }

    /// Whether batches of so many times are a small part of what they are to be: an interruption
    /// made the work look long when they were chosen.
    pub(crate) fn is_short(&self, times: u32, each_ns: f64) -> bool {
        times == 1 && each_ns * SHORT < self.batch_ns as f64
    }
}

/// A batch of one time that is shorter than the batch that was wanted by more than this.
const SHORT: f64 = 8.0;
/// How many trials agree before the last number of times is settled.
const TRIALS: u32 = 3;

impl Default for Timing {
    fn default() -> Self {
        Self {
            batch_ns: 50_000,
            rounds: 101,
            budget_ns: 120_000_000_000,
        }
    }
}

struct Timed {
    job: Job,
    times: u32,
    each_ns: Vec<f64>,
}

/// Times all jobs and gives their items, in the order of the jobs. `told` hears of each round
/// that is done: which, and of how many.
///
/// # Errors
/// The first work that cannot go on.
pub fn run(
    jobs: Vec<Job>,
    timing: &Timing,
    clock: &Clock,
    told: &mut dyn FnMut(u32, u32),
) -> Result<Vec<Item>, Error> {
    let begun = Instant::now();
    let mut timed = jobs
        .into_iter()
        .map(|job| first(job, timing, clock))
        .collect::<Result<Vec<_>, _>>()?;
    for round in 0..timing.rounds {
        let is_late = begun.elapsed().as_nanos() > u128::from(timing.budget_ns);
        if is_late && round >= Timing::ROUNDS_MIN {
            break;
        }
        for timed in &mut timed {
            let each_ns = batch(&mut *timed.job.work, timed.times, clock)?;
            timed.each_ns.push(each_ns);
        }
        told(round + 1, timing.rounds);
    }
    Ok(items(timed, clock))
}

/// What taking the time of nothing shows, in nanoseconds.
pub fn overhead_ns() -> f64 {
    let mut all: Vec<f64> = (0..1_001)
        .map(|_| Instant::now().elapsed().as_nanos() as f64)
        .collect();
    quartiles(&mut all).1
}

/// Finds how many times make a batch.
fn first(mut job: Job, timing: &Timing, clock: &Clock) -> Result<Timed, Error> {
    let most = job.work.batch_max().max(1);
    // The first time finds cold caches; what counts is the time after it.
    batch(&mut *job.work, 1, clock)?;
    let mut times = 1;
    loop {
        let mut each_ns = batch(&mut *job.work, times, clock)?;
        // An interruption makes one trial long, and batches short for the whole run: so where no
        // longer ones seem to be wanted it is tried again, and the shortest counts.
        for _ in 1..TRIALS {
            if timing.times(each_ns, most) <= times.saturating_mul(2) {
                each_ns = each_ns.min(batch(&mut *job.work, times, clock)?);
            }
        }
        let wanted = timing.times(each_ns, most);
        if wanted <= times.saturating_mul(2) {
            return Ok(Timed {
                job,
                times: wanted,
                each_ns: Vec::new(),
            });
        }
        times = wanted.min(times.saturating_mul(8));
    }
}

/// Nanoseconds for each of `times`.
fn batch(work: &mut dyn Work, times: u32, clock: &Clock) -> Result<f64, Error> {
    work.prepare(times)?;
    let begun = Instant::now();
    work.run(times)?;
    let elapsed_ns = begun.elapsed().as_nanos() as f64 - clock.overhead_ns;
    let ns = work.counted_ns().unwrap_or(elapsed_ns);
    Ok(ns.max(0.0) / f64::from(times))
}

fn items(timed: Vec<Timed>, clock: &Clock) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for mut timed in timed {
        let point = Point {
            times: timed.times,
            ..point(timed.job.size_bytes, &mut timed.each_ns, clock)
        };
        let item = timed.job.item;
        let same = |known: &&mut Item| {
            known.name == item.name
                && known.provider == item.provider
                && known.operation == item.operation
        };
        match items.iter_mut().rev().find(same) {
            Some(known) => known.points.push(point),
            None => items.push(Item {
                points: vec![point],
                ..item
            }),
        }
    }
    for item in &mut items {
        item.points.sort_by_key(|point| point.size_bytes);
        item.line = Line::through(&item.points);
    }
    items
}

fn point(size_bytes: u64, each_ns: &mut [f64], clock: &Clock) -> Point {
    let (low, median_ns, high) = quartiles(each_ns);
    let spread = if median_ns > 0.0 {
        (high - low) / 2.0 / median_ns
    } else {
        0.0
    };
    Point {
        size_bytes,
        median_ns,
        spread,
        interval_ns: median_interval_95(each_ns).map(|(low, high)| [low, high]),
        cycles: (clock.hz > 0.0).then(|| median_ns * clock.hz / 1e9),
        batches: u32::try_from(each_ns.len()).unwrap_or(u32::MAX),
        times: 0,
    }
}

/// First quartile, median and third quartile; zeros of nothing.
fn quartiles(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (values.len().saturating_sub(1) as f64 * share).round() as usize;
        values.get(index).copied().unwrap_or(0.0)
    };
    (at(0.25), at(0.5), at(0.75))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what it was asked for.
    struct Counted {
        prepared: u32,
        most: u32,
    }

    impl Work for Counted {
        fn prepare(&mut self, times: u32) -> Result<(), Error> {
            self.prepared = times;
            Ok(())
        }

        fn run(&mut self, times: u32) -> Result<(), Error> {
            assert!(times <= self.prepared && times <= self.most);
            Ok(())
        }

        fn batch_max(&self) -> u32 {
            self.most
        }
    }

    fn job(name: &str, size_bytes: u64) -> Job {
        let item = Item {
            name: name.to_owned(),
            ..Item::default()
        };
        let work = Box::new(Counted {
            prepared: 0,
            most: 16,
        });
        Job {
            item,
            size_bytes,
            work,
        }
    }

    #[test]
    fn sizes_of_one_item_come_together() {
        let jobs = vec![job("a", 300), job("b", 64), job("a", 64), job("a", 1_400)];
        let timing = Timing {
            rounds: 3,
            ..Timing::default()
        };
        let mut rounds = 0;
        let items = run(jobs, &timing, &Clock::default(), &mut |_, _| rounds += 1).unwrap();
        assert_eq!(rounds, 3);
        let sizes = |nth: usize| -> Vec<u64> {
            items[nth]
                .points
                .iter()
                .map(|point| point.size_bytes)
                .collect()
        };
        assert_eq!(
            (items.len(), sizes(0), sizes(1)),
            (2, vec![64, 300, 1_400], vec![64])
        );
        assert!(
            items
                .iter()
                .flat_map(|item| &item.points)
                .all(|point| point.batches == 3)
        );
    }

    #[test]
    fn a_budget_ends_rounds_but_not_before_there_is_a_median() {
        let timing = Timing {
            budget_ns: 0,
            ..Timing::default()
        };
        let items = run(
            vec![job("a", 64)],
            &timing,
            &Clock::default(),
            &mut |_, _| {},
        )
        .unwrap();
        assert_eq!(items[0].points[0].batches, Timing::ROUNDS_MIN);
    }

    /// Takes 300 ns each by its own count, and is interrupted in one of its batches.
    struct Interrupted {
        batches: u32,
        in_batch: u32,
        ns: f64,
    }

    impl Work for Interrupted {
        fn run(&mut self, times: u32) -> Result<(), Error> {
            self.ns = f64::from(times) * 300.0;
            if self.batches == self.in_batch {
                self.ns += 5e6;
            }
            self.batches += 1;
            Ok(())
        }

        fn counted_ns(&self) -> Option<f64> {
            Some(self.ns)
        }
    }

    fn interrupted(in_batch: u32) -> Job {
        Job {
            work: Box::new(Interrupted {
                batches: 0,
                in_batch,
                ns: 0.0,
            }),
            ..job("a", 64)
        }
    }

    #[test]
    fn an_interruption_while_a_batch_is_sized_makes_no_short_batches() {
        let timing = Timing::default();
        let sized = |in_batch: u32| {
            let job = interrupted(in_batch);
            first(job, &timing, &Clock::default()).unwrap().times
        };
        let undisturbed = sized(u32::MAX);
        assert_eq!(undisturbed, 166);
        for in_batch in 0..10 {
            assert_eq!(sized(in_batch), undisturbed, "{in_batch}");
        }
    }

    #[test]
    fn how_many_times_made_a_batch_is_in_the_record() {
        let timing = Timing {
            rounds: 3,
            ..Timing::default()
        };
        let jobs = vec![interrupted(u32::MAX)];
        let items = run(jobs, &timing, &Clock::default(), &mut |_, _| {}).unwrap();
        assert_eq!(items[0].points[0].times, 166);
        assert!(timing.is_short(1, 300.0) && !timing.is_short(166, 300.0));
        assert!(!timing.is_short(1, 40_000.0));
    }

    #[test]
    fn quartiles_of_few() {
        assert_eq!(quartiles(&mut []), (0.0, 0.0, 0.0));
        assert_eq!(quartiles(&mut [3.0, 1.0, 2.0, 5.0, 4.0]), (2.0, 3.0, 4.0));
    }
}
