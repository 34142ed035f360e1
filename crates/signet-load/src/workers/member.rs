//! A controller's conversation with one worker, on a thread of its own.

use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use measure::{RunResult, SecondPart};

use super::clocks::{Distance, Round};
use super::cut::Job;
use super::link::{Link, PipeLink, connect, say};
use super::session::Stage;
use super::token::Token;
use super::wire::{self, PROTOCOL, ToController, ToWorker};
use super::{Address, Fleet};

/// How long a greeting or the answer to a job may take, and how long a worker may be
/// silent that has a job: it says how it stands a few times a second.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often a controller gives a sign of life.
const ALIVE: Duration = Duration::from_secs(2);
/// How long it listens before it looks what is asked of it.
const TURN: Duration = Duration::from_millis(20);
/// Round trips by which a clock is compared, and how long they may take.
const ROUNDS: usize = 16;
const ROUNDS_PATIENCE: Duration = Duration::from_secs(1);

/// What the main thread asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Begin then.
    Start(Instant),
    /// Begin nothing more, or end.
    Stop { at_once: bool },
}

/// What it is told.
#[derive(Debug)]
pub(super) enum News {
    /// How the worker stands.
    Tick(Box<wire::Standing>),
    /// A part of a second.
    Part(SecondPart),
    /// It could begin.
    Prepared,
    /// It was told when to begin, in its own time, which may be wrong by so much.
    Started { error_ns: u64 },
    /// It has done its part.
    Done(Box<RunResult>),
    /// There will be no result, and why.
    Lost(String),
}

/// Who talks, and about what.
pub(super) struct Member {
    pub(super) number: usize,
    pub(super) address: Address,
    pub(super) job: Job,
    pub(super) program: String,
    pub(super) orders: Receiver<Order>,
    pub(super) news: Sender<(usize, News)>,
}

/// A conversation under way.
struct Talk<'a> {
    link: Box<dyn Link>,
    member: &'a Member,
    stage: Stage,
    began: Instant,
    heard: Instant,
    said: Instant,
    round: u32,
    /// The worker's clock in the last pong, by its round.
    pong: Option<(u32, u64)>,
}

impl Member {
    /// Talks until the worker has done its part, or is lost.
    pub(super) fn run(self, fleet: &Fleet, token: Option<&Token>) {
        let ended = self.open(fleet, token).and_then(|link| {
            let now = Instant::now();
            Talk {
                link,
                member: &self,
                stage: Stage::Greeting,
                began: now,
                heard: now,
                said: now,
                round: 0,
                pong: None,
            }
            .run()
        });
        if let Err(why) = ended {
            self.tell(News::Lost(why));
        }
    }

    fn open(&self, fleet: &Fleet, token: Option<&Token>) -> Result<Box<dyn Link>, String> {
        match (&self.address, token) {
            (Address::Port(at), Some(token)) => Ok(Box::new(connect(at, token)?)),
            (Address::Port(_), None) => {
                Err("a worker's port wants a token; write --workers-token FILE".to_owned())
            }
            (Address::Ssh(host), _) => Ok(Box::new(PipeLink::ssh(&fleet.ssh, host)?)),
        }
    }

    fn tell(&self, news: News) {
        // The main thread is gone when this fails: then nobody wants it.
        let _ = self.news.send((self.number, news));
    }
}

impl Talk<'_> {
    fn run(&mut self) -> Result<(), String> {
        self.say(&ToWorker::Hello {
            protocol: PROTOCOL,
            program: self.member.program.clone(),
        })?;
        while self.stage == Stage::Greeting {
            self.listen(TURN)?;
        }
        self.stage = Stage::Asked;
        self.say(&ToWorker::Job(Box::new(self.member.job.clone())))?;
        while self.stage != Stage::Over {
            match self.member.orders.try_recv() {
                Ok(Order::Start(at)) => self.start(at)?,
                Ok(Order::Stop { at_once }) => self.say(&ToWorker::Stop { at_once })?,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    return self.say(&ToWorker::Stop { at_once: true });
                }
            }
            if self.said.elapsed() >= ALIVE {
                self.ping()?;
            }
            self.listen(TURN)?;
        }
        Ok(())
    }

    /// Compares the clocks and says when to begin.
    fn start(&mut self, at: Instant) -> Result<(), String> {
        if self.stage != Stage::Prepared {
            // It has ended meanwhile, and says why.
            return Ok(());
        }
        let until = Instant::now() + ROUNDS_PATIENCE;
        let mut rounds = Vec::new();
        while rounds.len() < ROUNDS && Instant::now() < until {
            let sent_ns = self.now_ns();
            let round = self.ping()?;
            while self.pong.is_none_or(|pong| pong.0 != round) && Instant::now() < until {
                self.listen(until.saturating_duration_since(Instant::now()))?;
            }
            if let Some((of, theirs_ns)) = self.pong
                && of == round
            {
                rounds.push(Round {
                    sent_ns,
                    theirs_ns,
                    received_ns: self.now_ns(),
                });
            }
        }
        let distance = Distance::by(&rounds).ok_or("it answers no ping")?;
        if self.stage != Stage::Prepared {
            return Ok(());
        }
        let at_ns = distance.theirs_ns(self.at_ns(at));
        self.say(&ToWorker::Start { at_ns })?;
        self.stage = Stage::Running;
        self.member.tell(News::Started {
            error_ns: distance.error_ns,
        });
        Ok(())
    }

    fn ping(&mut self) -> Result<u32, String> {
        self.round = self.round.wrapping_add(1);
        self.say(&ToWorker::Ping { round: self.round })?;
        Ok(self.round)
    }

    /// Takes a line, if one comes so soon.
    fn listen(&mut self, patience: Duration) -> Result<(), String> {
        let Some(line) = self.link.receive(patience)? else {
            if self.heard.elapsed() > SILENCE_MAX {
                return Err(format!("it says nothing for {} s", SILENCE_MAX.as_secs()));
            }
            return Ok(());
        };
        self.heard = Instant::now();
        let message: ToController = wire::read(&line)?;
        self.stage = self.stage.after(&message)?;
        match message {
            ToController::Pong { round, clock_ns } => self.pong = Some((round, clock_ns)),
            ToController::Tick(standing) => self.member.tell(News::Tick(standing)),
            ToController::Second(part) => self.member.tell(News::Part(part)),
            ToController::Prepared => self.member.tell(News::Prepared),
            ToController::Done(result) => self.member.tell(News::Done(result)),
            ToController::Failed { why } => return Err(why),
            ToController::Hello { .. } | ToController::Accepted | ToController::Refused { .. } => {}
        }
        Ok(())
    }

    fn say(&mut self, message: &ToWorker) -> Result<(), String> {
        self.said = Instant::now();
        say(&mut *self.link, message)
    }

    fn now_ns(&self) -> u64 {
        self.at_ns(Instant::now())
    }

    fn at_ns(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.began);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}
