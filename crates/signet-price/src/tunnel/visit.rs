//! One measurement of one tunnel: it is made, something passes through it, and it is gone.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use measure::RunResult;
use signet_bed::certificates::Certificates;
use signet_bed::process::{Process, Stretch};
use signet_bed::record::Repeat;
use signet_bed::run::Stop;
use signet_bed::system::tail;

use super::driver::{AtHand, ECHO, End, Member, SIP, THROUGHPUT, Up, core, words};
use super::kind::{Carries, Tunnel};
use super::link::{DEVICE, Folder, Link};
use super::probe::RoundTrips;
use super::record::figure;

/// How long a tunnel may take until something passes through it.
const WAIT_S: u64 = 20;
/// How long a program may take beyond what it was asked for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is seen whether a program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// What all measurements of a run have in common.
pub(super) struct Common<'a> {
    /// The program `signet`: it sends messages, sends them back, and calls.
    pub(super) signet: &'a Path,
    pub(super) folder: &'a Folder,
    pub(super) certificates: &'a Certificates,
    pub(super) stop: &'a Stop,
    pub(super) seconds: u32,
    pub(super) calls_per_s: u32,
}

/// What a measurement gave.
pub(super) struct Visited {
    pub(super) repeat: Repeat,
    /// Which of several implementations it was.
    pub(super) by: Option<String>,
}

impl Common<'_> {
    /// Measures a tunnel once.
    ///
    /// # Errors
    /// Why it does not work here, or that the end of the run is asked for.
    pub(super) fn visit(&self, tunnel: &Tunnel) -> Result<Visited, String> {
        let link = Link::make().map_err(|error| error.to_string())?;
        let at_hand = AtHand {
            link: &link,
            folder: self.folder,
            certificates: self.certificates,
        };
        let at_unix_s = unix_s();
        let mut up = tunnel.make(&at_hand)?;
        let measured = self.measure(tunnel, &at_hand, &mut up);
        let repeat = measured.map_err(|why| {
            if self.stop.is_asked() {
                return why;
            }
            let said: Vec<String> = up.members.iter().map(Member::said).collect();
            match said.iter().all(String::is_empty) {
                true => why,
                false => format!("{why}; its programs say: {}", said.join("; ")),
            }
        })?;
        // Its programs end before the namespaces that they are in.
        let by = up.by.take();
        drop(up);
        Ok(Visited {
            repeat: Repeat {
                at_unix_s,
                ..repeat
            },
            by,
        })
    }

    fn measure(
        &self,
        tunnel: &Tunnel,
        at_hand: &AtHand<'_>,
        up: &mut Up,
    ) -> Result<Repeat, String> {
        let far = &at_hand.link.far;
        let any = Ipv4Addr::UNSPECIFIED;
        let log = |name: &str| self.folder.path(name);
        let signet = self.signet.display().to_string();
        let listen = format!("{any}:{ECHO}");
        let echo = words(&["price", "echo", "--listen", &listen]);
        let _echo = far.start(core(End::Far), &signet, &echo, &log("echo.log"))?;
        let server = words(&["-s", "-p", &THROUGHPUT.to_string()]);
        let _server = far.start(core(End::Far), "iperf3", &server, &log("iperf3-server.log"))?;
        let mut figures = BTreeMap::new();
        self.delays(tunnel, at_hand, up, &mut figures)?;
        at_hand.must_say(&up.says)?;
        // The address within is there by now.
        let answer = format!("tcp:{}:{SIP}", up.at);
        let answer = words(&["load", "answer", "--listen", &answer, "--quiet"]);
        let _answer = far.start(core(End::Far), &signet, &answer, &log("answer.log"))?;
        self.throughput(at_hand, up, &mut figures)?;
        let (causes, doubts) = self.sip(at_hand, up, &mut figures)?;
        for member in &mut up.members {
            member.must_run()?;
        }
        let counts = [
            (figure::CARRIED_BYTES, up.carried_bytes(at_hand.link)),
            (figure::WIRE_BYTES, at_hand.link.bytes(DEVICE)),
        ];
        for (name, bytes) in counts {
            figures.extend(bytes.map(|bytes| (name.to_owned(), bytes as f64)));
        }
        Ok(Repeat {
            figures,
            causes,
            doubts,
            ..Repeat::default()
        })
    }

    /// Waits until it lets something through, and takes the time of round trips.
    fn delays(
        &self,
        tunnel: &Tunnel,
        at_hand: &AtHand<'_>,
        up: &mut Up,
        figures: &mut BTreeMap<String, f64>,
    ) -> Result<(), String> {
        let to = format!("{}:{ECHO}", up.to);
        // What is lost is told of datagrams alone: a stream has none.
        let mut carriers = vec![("tcp", figure::TCP_P50_US, figure::TCP_P99_US, None)];
        if tunnel.carries == Carries::Packets {
            let lost = Some(figure::UDP_LOST);
            carriers.push(("udp", figure::UDP_P50_US, figure::UDP_P99_US, lost));
        }
        for (carrier, p50, p99, lost) in carriers {
            let (wait, seconds) = (WAIT_S.to_string(), self.seconds.to_string());
            let probe = words(&[
                "price",
                "probe",
                "--to",
                &to,
                "--carrier",
                carrier,
                "--wait",
                &wait,
                "--seconds",
                &seconds,
            ]);
            let name = format!("probe-{carrier}.log");
            let signet = self.signet.display().to_string();
            let told = self.end(at_hand, &signet, &probe, &name, WAIT_S, &mut up.members)?;
            let found: RoundTrips = serde_json::from_str(told.trim())
                .map_err(|_| format!("nothing comes through: {}", last_line(&told)))?;
            if found.count == 0 {
                return Err(format!("no message over {carrier} came back"));
            }
            figures.insert(p50.to_owned(), found.p50_us);
            figures.insert(p99.to_owned(), found.p99_us);
            figures.extend(lost.map(|lost| (lost.to_owned(), found.lost as f64)));
        }
        Ok(())
    }

    /// What TCP carries, by iperf3.
    fn throughput(
        &self,
        at_hand: &AtHand<'_>,
        up: &mut Up,
        figures: &mut BTreeMap<String, f64>,
    ) -> Result<(), String> {
        let (to, port, seconds) = (
            up.to.to_string(),
            THROUGHPUT.to_string(),
            self.seconds.to_string(),
        );
        let client = words(&["-c", &to, "-p", &port, "-t", &seconds, "--json"]);
        let spent = Spent::begin(&up.members);
        let told = self.end(at_hand, "iperf3", &client, "iperf3.log", 0, &mut up.members)?;
        let (cpu_ns, elapsed_s) = spent.end();
        let found = carried(&told)?;
        let mut put = |name: &str, value: f64| figures.insert(name.to_owned(), value);
        put(figure::THROUGHPUT_BITS_PER_S, found.bits_per_s);
        if !up.members.is_empty() {
            put(figure::CORES, cpu_ns / 1e9 / elapsed_s);
            put(figure::CPU_NS_PER_BYTE, cpu_ns / found.bytes.max(1.0));
        }
        Ok(())
    }

    /// Calls through it; gives failures by cause, and what the load doubts of itself.
    fn sip(
        &self,
        at_hand: &AtHand<'_>,
        up: &mut Up,
        figures: &mut BTreeMap<String, f64>,
    ) -> Result<(BTreeMap<String, u64>, Vec<String>), String> {
        let json = self.folder.path("calls.json");
        let _ = std::fs::remove_file(&json);
        let (to, rate, duration, file) = (
            format!("sip:called@{}:{SIP}", up.to),
            format!("{}/s", self.calls_per_s),
            format!("{}s", self.seconds),
            json.display().to_string(),
        );
        let load = words(&[
            "load",
            "call",
            "--to",
            &to,
            "--transport",
            "tcp",
            "--rate",
            &rate,
            "--duration",
            &duration,
            "--drain-timeout",
            "3s",
            "--failures-max",
            "99%",
            "--no-check-self",
            "--quiet",
            "--json",
            &file,
        ]);
        let signet = self.signet.display().to_string();
        let spent = Spent::begin(&up.members);
        let told = self.end(at_hand, &signet, &load, "calls.log", 0, &mut up.members)?;
        let (cpu_ns, _) = spent.end();
        let result = RunResult::read(&json)
            .map_err(|error| format!("the calls told nothing ({error}): {}", last_line(&told)))?;
        let calls = result.figures.completed as f64;
        let srd = result.figures.srd.summary().intended;
        let mut put = |name: &str, value: f64| figures.insert(name.to_owned(), value);
        put(figure::CALLS, calls);
        let failed = result.figures.failed() as f64;
        put(figure::FAILED_SHARE, failed / (failed + calls).max(1.0));
        if calls > 0.0 {
            put(figure::SRD_P50_US, srd.p50_us as f64);
            put(figure::SRD_P99_US, srd.p99_us as f64);
            if !up.members.is_empty() {
                put(figure::CPU_US_PER_CALL, cpu_ns / 1e3 / calls);
            }
        }
        let causes = serde_json::to_value(&result.causes).unwrap_or_default();
        let causes = causes.as_object().into_iter().flatten();
        let causes = causes
            .map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0)))
            .filter(|(_, count)| *count > 0);
        let doubts = result.doubts.iter().map(|doubt| doubt.sentence.clone());
        Ok((causes.collect(), doubts.collect()))
    }

    /// Runs a program at the near end to its end, while the tunnel's programs run; gives what
    /// it printed. It has the time of a measurement, and so many seconds more.
    fn end(
        &self,
        at_hand: &AtHand<'_>,
        program: &str,
        arguments: &[String],
        log: &str,
        more_s: u64,
        members: &mut [Member],
    ) -> Result<String, String> {
        let log = self.folder.path(log);
        let near = &at_hand.link.near;
        let mut process: Process = near.start(core(End::Near), program, arguments, &log)?;
        let patience = PATIENCE + Duration::from_secs(more_s + u64::from(self.seconds));
        let until = Instant::now() + patience;
        while process.is_running() {
            if self.stop.is_asked() {
                return Err("interrupted".to_owned());
            }
            for member in members.iter_mut() {
                member.must_run()?;
            }
            if Instant::now() > until {
                return Err(format!("{program} did not end: {}", tail(&log)));
            }
            std::thread::sleep(LOOK);
        }
        std::fs::read_to_string(&log).map_err(|error| format!("{}: {error}", log.display()))
    }
}

/// CPU time of a tunnel's programs while something else runs.
struct Spent(Vec<Stretch>);

impl Spent {
    fn begin(members: &[Member]) -> Self {
        Self(members.iter().map(|one| one.process.stretch()).collect())
    }

    /// Nanoseconds of all of them, and how long it was in seconds.
    fn end(self) -> (f64, f64) {
        let ends = self.0.into_iter().map(Stretch::end);
        ends.fold(
            (0.0, f64::MIN_POSITIVE),
            |(cpu_ns, most_s), (more_ns, s)| (cpu_ns + more_ns as f64, most_s.max(s)),
        )
    }
}

/// What iperf3 counted at the far end.
struct Carried {
    bytes: f64,
    bits_per_s: f64,
}

/// Reads what `iperf3 --json` printed.
fn carried(told: &str) -> Result<Carried, String> {
    let value: serde_json::Value = serde_json::from_str(told.trim())
        .map_err(|error| format!("iperf3 told no JSON ({error}): {}", last_line(told)))?;
    if let Some(why) = value.get("error").and_then(serde_json::Value::as_str) {
        return Err(format!("iperf3: {why}"));
    }
    let received = value.get("end").and_then(|end| end.get("sum_received"));
    let number = |name: &str| received.and_then(|it| it.get(name)?.as_f64());
    match (number("bytes"), number("bits_per_second")) {
        (Some(bytes), Some(bits_per_s)) if bytes > 0.0 => Ok(Carried { bytes, bits_per_s }),
        _ => Err("iperf3 carried nothing".to_owned()),
    }
}

fn last_line(text: &str) -> &str {
    text.trim().lines().last().unwrap_or("")
}

pub(super) fn unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iperf3_says_is_read() {
        let told = r#"{"end":{"sum_received":{"bytes":1000,"bits_per_second":8000.5}}}"#;
        let found = carried(told).unwrap();
        assert_eq!((found.bytes, found.bits_per_s), (1_000.0, 8_000.5));
        for (told, why) in [
            (r#"{"error":"unable to connect"}"#, "unable to connect"),
            (r#"{"end":{}}"#, "carried nothing"),
            ("iperf3: bad option", "bad option"),
        ] {
            let error = carried(told).err().unwrap();
            assert!(error.contains(why), "{error}");
        }
    }
}
