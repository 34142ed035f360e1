//! The paper's grid: processes that each send a batch and wait for its answer.

use super::database::{Database, Kind};
use super::load::Callers;
use super::paper::{PAIR_SIDES, PROCESSES, formula};
use super::record::{How, PeakRow};
use super::{Bench, USERS, ports};

/// What is guessed of the rate that this machine's two cores hold, before any is known.
const GUESS_PER_S: f64 = 6_000.0;
/// Where the formula would have more, a ramp goes so far beyond what was seen so far.
const BEYOND: f64 = 1.2;

/// The cells: processes alone, one process with batches, and the pairs.
pub(super) fn cells() -> Vec<(u32, u32)> {
    let alone = PROCESSES.iter().map(|&processes| (processes, 1));
    let one = PAIR_SIDES.iter().map(|&batch| (1, batch));
    let pairs = PAIR_SIDES
        .iter()
        .flat_map(|&processes| PAIR_SIDES.map(|batch| (processes, batch)));
    alone.chain(one).chain(pairs).collect()
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let database = bench.database(Kind::MariaDb, USERS)?;
    let mut cells = cells();
    if bench.is_quick() {
        cells.retain(|cell| [(4, 1), (64, 1), (8, 8), (32, 16)].contains(cell));
    }
    let mut most = GUESS_PER_S;
    for (processes, batch) in cells {
        let how = How::Blocking { processes, batch };
        let guess = formula(processes, batch).min(most);
        let peak = bench
            .scene(&database, how.lookups())
            .and_then(|scene| bench.peak_about(&scene, guess, Callers::First(USERS)));
        match peak {
            Ok(peak) => {
                most = most.max(peak.rate_per_s * BEYOND);
                bench.record.peak(PeakRow {
                    case: "grid".to_owned(),
                    store: database.kind.name().to_owned(),
                    users: USERS,
                    how,
                    name: how.name(),
                    repeat: 0,
                    peak,
                });
            }
            // One cell without a figure leaves the others theirs.
            Err(error) => bench
                .record
                .aims
                .fail(&format!("grid {}", how.name()), &error),
        }
    }
    Ok(())
}

impl Bench<'_> {
    /// Starts a database on its core and its port.
    pub(super) fn database(&self, kind: Kind, users: usize) -> Result<Database, String> {
        let offset = match kind {
            Kind::MariaDb => ports::MARIADB,
            Kind::Postgres => ports::POSTGRES,
            Kind::Redis => ports::REDIS,
        };
        let core = &self.arguments.cores.database;
        Database::start(kind, self.databases.path(), self.port(offset), core, users)
    }

    /// Of the grid, the best pair and the best without batches, as they were measured here;
    /// else the pair that was asked for, and the paper's.
    pub(super) fn best_of_grid(&self) -> (How, How) {
        let best = |is_one: bool| {
            let of_grid = self.record.peaks.iter().filter(|row| row.case == "grid");
            of_grid
                .filter(
                    |row| matches!(row.how, How::Blocking { batch, .. } if (batch == 1) == is_one),
                )
                .max_by(|a, b| a.peak.rate_per_s.total_cmp(&b.peak.rate_per_s))
                .map(|row| row.how)
        };
        let (processes, batch) = self.arguments.pair;
        let pair = best(false).unwrap_or(How::Blocking { processes, batch });
        let one = best(true).unwrap_or(How::Blocking {
            processes: 512,
            batch: 1,
        });
        (pair, one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_paper_ran_is_in_the_grid() {
        let cells = cells();
        assert_eq!(cells.len(), 10 + 6 + 36);
        for printed in super::super::paper::PRINTED {
            assert!(cells.contains(&(printed.processes, printed.batch)));
        }
    }
}
