//! What many idle connections cost a server that does something else: nothing,
//! or less than can be seen.

use std::time::Duration;

use super::idle::wait_for_connections;
use super::load::{Calls, Phones};
use super::record::Figure;
use super::servers::{Listen, Plan};
use super::{Bench, Kind, Load, Server, ports};
use crate::aims::Relation;
use crate::process::Process;

const CALLS_PER_S: u64 = 1_000;
const FEW: usize = 100;
/// Quick enough that a run of calls spans it, slow enough that none is lost.
const SETUP_PER_S: usize = 1_500;
/// Differences below this are not told from nothing: a thousandth of a core.
const SEEN_US_PER_S: f64 = 1_000.0;
/// The same of calls: what one run differs from the next.
const SEEN_SHARE: f64 = 0.02;

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let servers = bench.order(&[Server::Kamailio, Server::Before, Server::Signet], 0);
    for server in servers {
        match compare(bench, server) {
            Ok(()) => {}
            Err(error) if !server.must_be_measured() => {
                eprintln!("ticking {}: not measured: {error}", server.name());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Means and their standard errors.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mean {
    value: f64,
    error: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count.max(1.0);
        let squares: f64 = values.iter().map(|v| (v - value).powi(2)).sum();
        let error = (squares / (count - 1.0).max(1.0) / count.max(1.0)).sqrt();
        Self { value, error }
    }

    /// What a difference of these two must exceed to be one.
    fn noise(self, other: Self) -> f64 {
        2.0 * self.error.hypot(other.error)
    }
}

fn compare(bench: &mut Bench<'_>, server: Server) -> Result<(), String> {
    let plan = Plan {
        listens: vec![Listen::Udp, Listen::Tls(Kind::P256)],
        next: "udp",
    };
    let many = bench.sized(15_000, 600);
    let mut process = bench.start(server, &plan, false)?;
    let empty = process.open_files();
    let few_phones = phones(bench, &process, ("few", 10), FEW)?;
    let windows = bench.sized(10, 3);
    settle();
    let idle_few = Mean::of(&process.cpu_us_per_s(windows));
    let many_phones = phones(bench, &process, ("many", 11), many - FEW)?;
    settle();
    let idle_many = Mean::of(&process.cpu_us_per_s(windows));
    let connections = process.open_files().saturating_sub(empty);

    // Calls all the while, so that what they leave behind is the same: many
    // connections, few, many again.
    let warm_s = bench.warm_s(server);
    let setup_s = (many / SETUP_PER_S) as u64 + 8;
    let stretch_s = windows as u64;
    let mut calls = bench.call(&Calls {
        transport: "udp",
        port: bench.port(ports::PLAIN),
        answers: "udp",
        connection: "one",
        rate: CALLS_PER_S,
        seconds: warm_s + 3 * stretch_s + setup_s + 14,
        more: Vec::new(),
    })?;
    calls.wait_until(warm_s + 1)?;
    let busy_many = process.cpu_us_per_s(windows);
    many_phones.stop()?;
    settle();
    let busy_few = Mean::of(&process.cpu_us_per_s(windows));
    let many_phones = phones(bench, &process, ("many", 12), many - FEW)?;
    settle();
    calls.must_run()?;
    let busy_many_again = process.cpu_us_per_s(windows);
    calls.must_run()?;
    // One that has ended is idle, however many connections it had.
    process.must_run(server.name())?;
    // Not interrupted: calls that are cut off would count as failed.
    let told = calls.end()?;
    many_phones.stop()?;
    few_phones.stop()?;

    let mut add = |what, value, load| {
        bench.record.add(Figure {
            case: "ticking".to_owned(),
            server: server.name(),
            what,
            value,
            repeat: 0,
            load,
        });
    };
    let busy_many = Mean::of(&[busy_many, busy_many_again].concat());
    add("connections", connections as f64, None);
    add("idle_few_cpu_us_per_s", idle_few.value, None);
    add("idle_many_cpu_us_per_s", idle_many.value, None);
    add("idle_noise_cpu_us_per_s", idle_few.noise(idle_many), None);
    let each = |mean: f64| mean / CALLS_PER_S as f64;
    add("call_few_cpu_us", each(busy_few.value), None);
    add("call_many_cpu_us", each(busy_many.value), None);
    let noise = each(busy_few.noise(busy_many));
    add("call_noise_cpu_us", noise, Some(told));
    if server == Server::Signet {
        let noise = idle_few.noise(idle_many).max(SEEN_US_PER_S);
        let more = idle_many.value - idle_few.value;
        bench.record.bar(
            (
                "ticking",
                "CPU of an idle server with 15,000 connections beyond that with 100, us a second (limit: noise)",
            ),
            Some(more),
            (Relation::AtMost, noise),
            &["ticking"],
        );
        let noise = busy_few.noise(busy_many).max(SEEN_SHARE * busy_few.value);
        bench.record.bar(
            (
                "ticking",
                "CPU of a UDP call beside 15,000 connections beyond that beside 100, us (limit: noise)",
            ),
            Some(each(busy_many.value - busy_few.value)),
            (Relation::AtMost, each(noise)),
            &["ticking"],
        );
    }
    Ok(())
}

fn phones(
    bench: &Bench<'_>,
    process: &Process,
    (name, net): (&'static str, u8),
    count: usize,
) -> Result<Load, String> {
    let before = process.open_files();
    let mut load = bench.phones(&Phones {
        name,
        net,
        count,
        port: bench.tls_port(Kind::P256),
        setup_per_s: SETUP_PER_S,
        more: Vec::new(),
    })?;
    wait_for_connections(process, before + count, &mut load)?;
    Ok(load)
}

/// What connections leave behind when they come and go is over.
fn settle() {
    std::thread::sleep(Duration::from_secs(3));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_grows_with_what_scatters() {
        let calm = Mean::of(&[10.0, 10.0, 10.0]);
        assert_eq!(
            calm,
            Mean {
                value: 10.0,
                error: 0.0
            }
        );
        let wild = Mean::of(&[0.0, 10.0, 20.0]);
        assert_eq!(wild.value, 10.0);
        assert!(wild.noise(calm) > 10.0 && calm.noise(calm) == 0.0);
    }
}
