//! The cases, and how long they take.

use crate::contender::Contender;
use crate::sipp::SippTransport;

/// What is asked of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Calls by SIPp at this rate; 0 for the highest that it holds through the floor.
    Sipp(SippTransport, u64),
    /// Calls by the project's own generator.
    Own(SippTransport, u64),
    /// The largest rate that the generator finds without a failure.
    OwnPeak(SippTransport),
    /// Registrations in memory, what is due sent every so many microseconds.
    Register { tick_us: u64 },
    /// Registrations with digest, durable, as many as there can be.
    RegisterDigest,
}

/// A case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    /// Whether it runs where no case is asked for by name.
    is_usual: bool,
}

/// Registrations a second.
pub(crate) const REGISTER_RATE: u64 = 8_000;
/// Seconds of a run of registrations with digest.
pub(crate) const DIGEST_S: u64 = 8;
/// The longest search for a peak.
pub(crate) const SEARCH_S_MAX: u64 = 300;

const UDP: SippTransport = SippTransport::Udp;
const ONE: SippTransport = SippTransport::TcpOne;
const PER_CALL: SippTransport = SippTransport::TcpPerCall;

const fn usual(name: &'static str, work: Work) -> Case {
    Case {
        name,
        work,
        is_usual: true,
    }
}

const fn by_name(name: &'static str, work: Work) -> Case {
    Case {
        name,
        work,
        is_usual: false,
    }
}

/// All cases, in the order in which they run.
const ALL: &[Case] = &[
    usual("udp-2000", Work::Sipp(UDP, 2_000)),
    by_name("udp-peak", Work::Sipp(UDP, 0)),
    by_name("udp-own-2000", Work::Own(UDP, 2_000)),
    usual("udp-own-5000", Work::Own(UDP, 5_000)),
    by_name("udp-own-10000", Work::Own(UDP, 10_000)),
    by_name("udp-own-peak", Work::OwnPeak(UDP)),
    usual("tcp-one-2000", Work::Sipp(ONE, 2_000)),
    by_name("tcp-one-peak", Work::Sipp(ONE, 0)),
    by_name("tcp-one-own-2000", Work::Own(ONE, 2_000)),
    usual("tcp-one-own-5000", Work::Own(ONE, 5_000)),
    by_name("tcp-one-own-10000", Work::Own(ONE, 10_000)),
    by_name("tcp-one-own-peak", Work::OwnPeak(ONE)),
    // A port of a caller that opens connections is free again a minute later:
    // with 28,000 of them a run of a minute holds no more than this.
    by_name("tcp-per-call-400", Work::Sipp(PER_CALL, 400)),
    usual("tcp-per-call-own-1000", Work::Own(PER_CALL, 1_000)),
    by_name("tcp-per-call-own-peak", Work::OwnPeak(PER_CALL)),
    usual(
        "register-memory-8000-ticks",
        Work::Register { tick_us: 1_000 },
    ),
    by_name("register-memory-8000-smooth", Work::Register { tick_us: 0 }),
    usual("register-digest-durable", Work::RegisterDigest),
];

/// The cases whose name contains one of `only`; the usual ones where it is empty.
pub(crate) fn wanted(only: &[String]) -> Result<Vec<Case>, String> {
    if let Some(part) = only
        .iter()
        .find(|part| !ALL.iter().any(|case| case.name.contains(part.as_str())))
    {
        let names: Vec<&str> = ALL.iter().map(|case| case.name).collect();
        return Err(format!(
            "no case is called {part:?}; there are {}",
            names.join(", ")
        ));
    }
    let is_wanted = |case: &&Case| {
        if only.is_empty() {
            case.is_usual
        } else {
            only.iter().any(|part| case.name.contains(part.as_str()))
        }
    };
    Ok(ALL.iter().filter(is_wanted).copied().collect())
}

/// How the repeats of a set are spread over visits: a server is started and
/// brought to its steady state once a visit. Two visits, the second in the reverse order of servers.
pub(crate) fn visits(repeats: usize) -> Vec<usize> {
    let second = repeats / 2;
    let mut visits = vec![repeats - second];
    if second > 0 {
        visits.push(second);
    }
    visits
}

/// Sizes of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) repeats: usize,
    pub(crate) seconds: u64,
    pub(crate) is_quick: bool,
}

impl Case {
    /// What a search for a rate measures; it is recorded nowhere.
    pub(crate) const fn search(transport: SippTransport, rate: u64) -> Self {
        by_name("search", Work::Sipp(transport, rate))
    }

    /// Whether this server takes part.
    pub(crate) fn has(&self, contender: &Contender) -> bool {
        match self.work {
            Work::Sipp(..) | Work::Own(..) | Work::OwnPeak(_) => true,
            Work::Register { .. } => !contender.is_floor(),
            // It has the one worker that it starts by itself.
            Work::RegisterDigest => contender.signet().is_some() && contender.workers == 1,
        }
    }

    /// Roughly how many seconds a set of this case takes: all repeats of all servers.
    pub(crate) fn set_s(&self, contenders: &[Contender], sizes: Sizes) -> u64 {
        // Starts and ends of processes.
        const AROUND_S: u64 = 4;
        let taking_part = contenders.iter().filter(|c| self.has(c));
        let search_s = match self.work {
            // Five rates at most, and the floor's start each time.
            Work::Sipp(_, 0) => 5 * (AROUND_S + 8),
            _ => 0,
        };
        let repeats = sizes.repeats as u64;
        let servers_s: u64 = taking_part
            .map(|contender| match self.work {
                Work::OwnPeak(_) => repeats * (SEARCH_S_MAX / 3 + sizes.seconds + AROUND_S),
                Work::RegisterDigest => repeats * (DIGEST_S + AROUND_S),
                _ => {
                    let warm_s = contender.warm_s(sizes.is_quick) + AROUND_S;
                    // A second for the calibration between two stretches.
                    visits(sizes.repeats).len() as u64 * warm_s + repeats * (sizes.seconds + 1)
                }
            })
            .sum();
        search_s + servers_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Kind;

    #[test]
    fn a_case_is_chosen_by_a_part_of_its_name() {
        let names = |only: &[&str]| -> Vec<&str> {
            let only: Vec<String> = only.iter().map(|part| (*part).to_owned()).collect();
            wanted(&only)
                .unwrap()
                .iter()
                .map(|case| case.name)
                .collect()
        };
        assert_eq!(
            names(&["udp-2000", "digest"]),
            ["udp-2000", "register-digest-durable"]
        );
        assert_eq!(names(&["own-peak"]).len(), 3);
        assert!(!names(&[]).iter().any(|name| name.contains("peak")));
        assert!(wanted(&["nothing".to_owned()]).is_err());
    }

    #[test]
    fn the_repeats_are_spread_over_two_visits() {
        assert_eq!(visits(5), [3, 2]);
        assert_eq!(visits(6), [3, 3]);
        assert_eq!(visits(1), [1]);
    }

    #[test]
    fn the_usual_cases_take_less_than_their_limit() {
        let contender = |name: &str, kind| Contender {
            name: name.to_owned(),
            kind,
            workers: 1,
        };
        let three = [
            contender("floor", Kind::Floor),
            contender("kamailio", Kind::Kamailio),
            contender("signet", Kind::Signet("signet".into())),
        ];
        let sizes = Sizes {
            repeats: crate::REPEATS,
            seconds: crate::SECONDS,
            is_quick: false,
        };
        let all_s: u64 = wanted(&[])
            .unwrap()
            .iter()
            .map(|case| case.set_s(&three, sizes))
            .sum();
        assert!(all_s <= crate::MINUTES_MAX * 60 * 9 / 10, "{all_s} s");
    }
}
