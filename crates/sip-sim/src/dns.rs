//! The names that there are, and how long their servers take. What is asked and what is
//! made of the answers is decided by [`sip_locate::Resolution`], as in service.

use std::net::{IpAddr, SocketAddr};

use sip_engine::ParkId;
use sip_locate::{
    Answer, Hop, Kind, LocateError, Options, Query, Question, Record, Resolution, Step,
};

use crate::Dice;
use crate::plan::Dns;
use crate::server::{GATEWAY, NEIGHBOUR, SERVER, carrier, foreign};
use crate::warden::EVIL;

/// How long a whole resolution may take.
const DEADLINE_MS: u64 = 4_000;
/// How long a question is asked until it is given up.
const GIVEN_UP_MS: u64 = 2_000;

/// One resolution under way.
pub(crate) struct Lookup {
    pub(crate) worker: usize,
    pub(crate) park: ParkId,
    resolution: Resolution,
    answers: Vec<Answer>,
    deadline_ms: u64,
}

/// What comes of a step.
pub(crate) enum Stepped {
    /// To be gone on with at that time.
    Waits(u64, Lookup),
    /// The worker is told at that time.
    Done(u64, Result<Vec<Hop>, LocateError>),
}

impl Lookup {
    pub(crate) fn new(
        now_ms: u64,
        worker: usize,
        park: ParkId,
        query: Query,
        options: Options,
    ) -> Self {
        Self {
            worker,
            park,
            resolution: Resolution::new(query, options),
            answers: Vec::new(),
            deadline_ms: now_ms + DEADLINE_MS,
        }
    }

    /// Asks what is to be asked next.
    pub(crate) fn step(mut self, now_ms: u64, dns: &Dns, dice: &mut Dice) -> Stepped {
        let answers = std::mem::take(&mut self.answers);
        let lot = &mut |max: u32| dice.between(0, u64::from(max)) as u32;
        let questions = match self.resolution.step(answers, lot) {
            Step::Ask(questions) => questions,
            Step::Done(result) => {
                // A thread that has no time answers when nobody waits any more.
                let late_ms = if dice.thousandths(dns.stall) {
                    6_000
                } else {
                    0
                };
                return Stepped::Done(now_ms + late_ms, result);
            }
        };
        let mut wait_ms = 0;
        for question in &questions {
            let (mut answer, mut took_ms) =
                (answer(question, dns), dice.between(0, dns.delay_max_ms));
            if dice.thousandths(dns.failure) {
                answer = match dice.below(2) {
                    0 => Answer::Failed,
                    _ => Answer::Timeout,
                };
            }
            if answer == Answer::Timeout {
                took_ms = GIVEN_UP_MS;
            }
            wait_ms = wait_ms.max(took_ms);
            self.answers.push(answer);
        }
        match now_ms + wait_ms {
            at_ms if at_ms > self.deadline_ms => {
                Stepped::Done(self.deadline_ms, Err(LocateError::Timeout))
            }
            at_ms => Stepped::Waits(at_ms, self),
        }
    }
}

/// What the name servers say.
fn answer(question: &Question, dns: &Dns) -> Answer {
    let name = question.name.to_ascii_lowercase();
    if let Some(rest) = name.strip_suffix(EVIL) {
        // Those of the neighbour lead where he wants.
        let ip = match rest {
            "self." => SocketAddr::from(SERVER).ip(),
            "loop." => IpAddr::from([127, 0, 0, 1]),
            "gw." => SocketAddr::from(GATEWAY).ip(),
            _ => SocketAddr::from(NEIGHBOUR).ip(),
        };
        return addr(question, ip);
    }
    match name.as_str() {
        "mute.test" => Answer::Timeout,
        "broken.test" => Answer::Failed,
        "far.test" => addr(question, foreign().ip()),
        // Its records name a transport that leads from here to nowhere.
        "tls.test" if question.kind == Kind::Naptr => {
            Answer::Records(vec![naptr(1, "SIPS+D2T", "_sips._tcp.tls.test")])
        }
        "_sips._tcp.tls.test" => Answer::Records(vec![srv(1, 1, "far.test")]),
        "carrier.test" if question.kind == Kind::Naptr && dns.has_naptr => Answer::Records(vec![
            naptr(1, "SIP+D2T", "_sip._tcp.carrier.test"),
            naptr(2, "SIP+D2U", "_sip._udp.carrier.test"),
        ]),
        "_sip._udp.carrier.test" | "_sip._tcp.carrier.test" if question.kind == Kind::Srv => {
            Answer::Records(vec![
                srv(10, 70, "gw0.carrier.test"),
                srv(10, 30, "gw1.carrier.test"),
                srv(20, 0, "gw2.carrier.test"),
                srv(30, 0, "gone.carrier.test"),
            ])
        }
        "gw0.carrier.test" => addr(question, carrier(0).ip()),
        "gw1.carrier.test" => addr(question, carrier(1).ip()),
        "gw2.carrier.test" => addr(question, carrier(2).ip()),
        _ => Answer::Nothing,
    }
}

fn addr(question: &Question, ip: IpAddr) -> Answer {
    match question.kind {
        Kind::A => Answer::Records(vec![Record::Addr(ip)]),
        _ => Answer::Nothing,
    }
}

fn srv(priority: u16, weight: u16, target: &str) -> Record {
    Record::Srv {
        priority,
        weight,
        port: 5060,
        target: target.to_owned(),
    }
}

fn naptr(order: u16, services: &str, replacement: &str) -> Record {
    Record::Naptr {
        order,
        preference: 0,
        flags: "s".to_owned(),
        services: services.to_owned(),
        replacement: replacement.to_owned(),
    }
}
