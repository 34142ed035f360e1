//! Drives a load by workers and gathers what they tell.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use measure::{RunResult, Second, Series};

use super::Address;
use super::cut::Job;
use super::member::{Member, News, Order};
use super::token::Token;
use super::wire::Standing;
use crate::Local;
use crate::crew::{Control, Failed, Progress};
use crate::worker::CalledCounts;

/// How long after all are prepared they begin: the clocks are compared first.
const START_AFTER: Duration = Duration::from_millis(2_000);
/// How often it is drawn where nothing is told.
const DRAW: Duration = Duration::from_millis(200);

/// The workers of a load.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Where they are.
    pub workers: Vec<Address>,
    /// The file with the token, for workers that listen at a port.
    pub token: Option<PathBuf>,
    /// The program that starts workers given as `ssh:HOST`.
    pub ssh: String,
    /// Where the load comes from; each worker chooses if left out.
    pub local: Option<Local>,
    /// Where each worker's own result is written.
    pub results: Option<PathBuf>,
}

/// What came of one worker's part.
#[derive(Debug)]
pub(crate) struct Part {
    /// Its address and, of several with the same one, its number.
    pub(crate) name: String,
    /// Its result, or why there is none.
    pub(crate) end: Result<Box<RunResult>, String>,
    /// How long after the beginning that was.
    pub(crate) end_ns: u64,
    /// By how much its beginning may have been another than that of the others.
    pub(crate) start_error_ns: u64,
}

/// What came of all parts.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) parts: Vec<Part>,
    pub(crate) series: Vec<Second>,
}

/// What the main thread knows of a worker.
struct Post {
    name: String,
    orders: Sender<Order>,
    standing: Standing,
    is_prepared: bool,
    start_error_ns: u64,
    end: Option<(Instant, Result<Box<RunResult>, String>)>,
}

/// Drives the jobs, one for each worker, and calls `draw` a few times a second.
///
/// # Errors
/// [`Failed::Run`] where a worker is lost before the beginning, or all are after it.
pub(crate) fn gather(
    jobs: Vec<Job>,
    fleet: &Fleet,
    program: &str,
    control: &Control,
    draw: &mut dyn FnMut(&Progress<'_>),
) -> Result<Gathered, Failed> {
    let token = match &fleet.token {
        Some(path) => Some(Token::read(path).map_err(Failed::Usage)?),
        None => None,
    };
    let (fleet, token) = (Arc::new(fleet.clone()), Arc::new(token));
    let (tell, news) = channel();
    let mut posts = Vec::new();
    let names = names(&fleet.workers);
    let workers = fleet.workers.iter().zip(names).zip(jobs);
    for (number, ((address, name), job)) in workers.enumerate() {
        let (orders, taken) = channel();
        let member = Member {
            number,
            address: address.clone(),
            job,
            program: program.to_owned(),
            orders: taken,
            news: tell.clone(),
        };
        let (fleet, token) = (Arc::clone(&fleet), Arc::clone(&token));
        std::thread::Builder::new()
            .name(format!("member-{number}"))
            .spawn(move || member.run(&fleet, (*token).as_ref()))
            .map_err(|error| Failed::Run(format!("cannot start a thread: {error}")))?;
        posts.push(Post {
            name,
            orders,
            standing: Standing::default(),
            is_prepared: false,
            start_error_ns: 0,
            end: None,
        });
    }
    let mut gathering = Gathering {
        posts,
        series: Series::new(),
        start: None,
        asked: 0,
    };
    while !gathering.is_over() {
        if let Ok((number, news)) = news.recv_timeout(DRAW) {
            gathering.take(number, news);
        }
        gathering.go_on(control)?;
        gathering.draw(control.take_report(), draw);
    }
    gathering.conclude()
}

struct Gathering {
    posts: Vec<Post>,
    series: Series,
    /// When all begin.
    start: Option<Instant>,
    /// How often they were asked to end.
    asked: u8,
}

impl Gathering {
    fn is_over(&self) -> bool {
        self.posts.iter().all(|post| post.end.is_some())
    }

    fn take(&mut self, number: usize, news: News) {
        let Some(post) = self.posts.get_mut(number) else {
            return invariant::broken!("a worker tells under its own number");
        };
        match news {
            News::Tick(standing) => post.standing = *standing,
            News::Part(part) => self.series.add(&part),
            News::Prepared => post.is_prepared = true,
            News::Started { error_ns } => post.start_error_ns = error_ns,
            News::Done(result) => post.end = Some((Instant::now(), Ok(result))),
            News::Lost(why) => post.end = Some((Instant::now(), Err(why))),
        }
    }

    /// Begins when all are ready, and asks all to end where that is asked.
    fn go_on(&mut self, control: &Control) -> Result<(), Failed> {
        if self.start.is_none() {
            for post in &self.posts {
                if let Some((_, Err(why))) = &post.end {
                    // Without it this would be another load. The others end with us.
                    return Err(Failed::Run(format!("{}: {why}", post.name)));
                }
            }
            if self.posts.iter().all(|post| post.is_prepared) && !control.is_interrupted() {
                let at = Instant::now() + START_AFTER;
                self.start = Some(at);
                self.order(Order::Start(at));
            }
        }
        let asked = control.asked();
        if asked > self.asked {
            self.asked = asked;
            self.order(Order::Stop {
                at_once: control.is_to_stop(),
            });
        }
        Ok(())
    }

    fn order(&self, order: Order) {
        for post in self.posts.iter().filter(|post| post.end.is_none()) {
            // One that is gone is lost, and its thread has told so.
            let _ = post.orders.send(order);
        }
    }

    fn draw(&self, is_asked: bool, draw: &mut dyn FnMut(&Progress<'_>)) {
        let all = || self.posts.iter().map(|post| &post.standing);
        let sum = |figure: fn(&Standing) -> u64| all().map(figure).sum();
        let most = |figure: fn(&Standing) -> u64| all().map(figure).max().unwrap_or(0);
        let mut causes: Vec<(String, u64)> = Vec::new();
        for (name, count) in all().flat_map(|standing| &standing.causes) {
            match causes.iter_mut().find(|cause| cause.0 == *name) {
                Some(cause) => cause.1 += count,
                None => causes.push((name.clone(), *count)),
            }
        }
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.1));
        let now = Instant::now();
        let elapsed = self.start.and_then(|at| now.checked_duration_since(at));
        draw(&Progress {
            elapsed_ns: elapsed.map(nanoseconds),
            ready: (
                sum(|standing| standing.ready),
                sum(|standing| standing.agents),
            ),
            started: sum(|standing| standing.started),
            ended: sum(|standing| standing.ended),
            failed: sum(|standing| standing.failed),
            in_flight: sum(|standing| standing.in_flight),
            causes,
            called: CalledCounts::default(),
            answered: Default::default(),
            retransmissions: sum(|standing| standing.retransmissions),
            kernel_drops: sum(|standing| standing.kernel_drops),
            queue_drops: sum(|standing| standing.queue_drops),
            late_p99_us: most(|standing| standing.late_p99_us),
            late_max_us: most(|standing| standing.late_max_us),
            is_asked,
            series: &self.series,
            is_prepared: self.start.is_some(),
            parts: &[],
            answering: &[],
        });
    }

    fn conclude(self) -> Result<Gathered, Failed> {
        let start = self.start;
        let mut parts = Vec::new();
        for post in self.posts {
            let Some((at, end)) = post.end else {
                return invariant::broken!(
                    "all have ended",
                    Err(Failed::Run("a worker said nothing".to_owned()))
                );
            };
            let since = start.map(|start| at.saturating_duration_since(start));
            parts.push(Part {
                name: post.name,
                end,
                end_ns: nanoseconds(since.unwrap_or_default()),
                start_error_ns: post.start_error_ns,
            });
        }
        let lost: Vec<String> = parts
            .iter()
            .filter_map(|part| Some(format!("{}: {}", part.name, part.end.as_ref().err()?)))
            .collect();
        if lost.len() == parts.len() {
            return Err(Failed::Run(format!(
                "all workers were lost: {}",
                lost.join("; ")
            )));
        }
        Ok(Gathered {
            parts,
            series: self.series.seconds(),
        })
    }
}

/// What the workers are called: by their addresses, with a number from the second one of the same
/// address on, so that each has its own file and its own doubts.
fn names(workers: &[Address]) -> Vec<String> {
    let name = |(number, address): (usize, &Address)| {
        let before = workers.iter().take(number);
        match before.filter(|other| *other == address).count() {
            0 => address.to_string(),
            count => format!("{address}#{}", count + 1),
        }
    };
    workers.iter().enumerate().map(name).collect()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_of_one_address_have_names_of_their_own() {
        let workers = ["ssh:host1", "host1:7000", "ssh:host1", "ssh:host1"];
        let workers = workers.map(|one| one.parse::<Address>().unwrap());
        assert_eq!(
            names(&workers),
            ["ssh:host1", "host1:7000", "ssh:host1#2", "ssh:host1#3"]
        );
    }
}
