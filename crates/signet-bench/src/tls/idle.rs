//! The memory of idle connections of registered phones: the slope over their
//! number, so that what a server holds without any does not count.

use std::time::{Duration, Instant};

use super::load::Phones;
use super::record::Figure;
use super::servers::{Listen, Plan};
use super::{Bench, Kind, Load, Server};
use crate::aims::Relation;
use crate::process::Process;

const CASE: &str = "idle";
const SLOPE: &str = "bytes_per_connection";
/// Connections opened a second: little enough for each server.
pub(super) const SETUP_PER_S: usize = 1_000;

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    for server in bench.order(&[Server::Kamailio, Server::Before, Server::Signet], 0) {
        let measured = slope(bench, server);
        match measured {
            Ok(()) => {}
            Err(error) if !server.must_be_measured() => {
                eprintln!("{CASE} {}: not measured: {error}", server.name());
            }
            Err(error) => return Err(error),
        }
    }
    let slope = bench.record.median(CASE, Server::Signet.name(), SLOPE);
    bench.record.bar(
        (CASE, "memory of an idle TLS connection in bytes, slope"),
        slope,
        (Relation::AtMost, 12.0 * 1024.0),
        &[CASE],
    );
    Ok(())
}

fn slope(bench: &mut Bench<'_>, server: Server) -> Result<(), String> {
    let plan = Plan {
        listens: vec![Listen::Tls(Kind::P256)],
        next: "tcp",
    };
    let mut process = bench.start(server, &plan, false)?;
    let empty = process.open_files();
    let steps = [1_000, 4_000, 5_000, 5_000].map(|count| bench.sized(count, count / 20));
    let mut loads: Vec<Load> = Vec::new();
    let mut points: Vec<(f64, f64)> = Vec::new();
    for ((name, net), count) in ["a", "b", "c", "d"].into_iter().zip(10_u8..).zip(steps) {
        let before = process.open_files();
        let load = bench.phones(&Phones {
            name,
            net,
            count,
            port: bench.tls_port(Kind::P256),
            setup_per_s: SETUP_PER_S,
            more: Vec::new(),
        })?;
        loads.push(load);
        if let Some(load) = loads.last_mut() {
            wait_for_connections(&process, before + count, load)?;
        }
        // The last of them are registered, and what was freed is given back.
        std::thread::sleep(Duration::from_millis(2_500));
        let connections = process.open_files().saturating_sub(empty);
        let bytes = process.memory_bytes();
        // One that has ended holds none.
        process.must_run(server.name())?;
        bench.record.add(Figure {
            case: format!("{CASE}-{connections}"),
            server: server.name(),
            what: "memory_bytes",
            value: bytes as f64,
            repeat: 0,
            load: None,
        });
        points.push((connections as f64, bytes as f64));
    }
    let mut last = None;
    for load in loads {
        last = Some(load.stop()?);
    }
    bench.record.add(Figure {
        case: CASE.to_owned(),
        server: server.name(),
        what: SLOPE,
        value: least_squares(&points).ok_or("too few points for a slope")?,
        repeat: 0,
        load: last,
    });
    Ok(())
}

/// Waits until a server has that many files open.
pub(super) fn wait_for_connections(
    process: &Process,
    files: usize,
    load: &mut Load,
) -> Result<(), String> {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let open = process.open_files();
        if open >= files {
            return Ok(());
        }
        load.must_run()?;
        if Instant::now() > until {
            return Err(format!("only {open} of {files} files are open"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The slope of the line that fits best.
fn least_squares(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / count;
    let above: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let below: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    (below > 0.0).then(|| above / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_needs_two_points_and_forgives_what_is_there_without_any() {
        assert_eq!(least_squares(&[]), None);
        assert_eq!(least_squares(&[(1.0, 1.0)]), None);
        let points = [(1_000.0, 50e6), (5_000.0, 90e6), (15_000.0, 190e6)];
        assert!((least_squares(&points).unwrap() - 10_000.0).abs() < 1e-6);
    }
}
