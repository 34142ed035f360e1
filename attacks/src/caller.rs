//! What callers feel: calls at a fixed pace beside an attack, and how long
//! each took to be set up, counted from when it was due.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::digest::{Account, Challenge};
use crate::phone::Phone;
use crate::wire::{Draft, Text, tag_of, uri_of};
use crate::world::World;

/// A call that is not up after this is lost.
const LOST_AFTER: Duration = Duration::from_secs(4);

/// Set-up delays of a stretch.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Delays {
    /// Calls that were due.
    pub(crate) calls: u64,
    /// Calls that did not come up.
    pub(crate) lost: u64,
    /// Half of the others were quicker.
    pub(crate) p50_us: u64,
    /// One in a hundred of the others was slower.
    pub(crate) p99_us: u64,
}

/// Calls under way at a fixed pace, until they are asked to end.
pub(crate) struct Callers {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<(u64, Vec<u64>)>>,
}

/// One caller, with the challenge that he answers ahead.
struct Caller {
    phone: Phone,
    server: SocketAddr,
    account: Account,
    from: String,
    to: String,
    challenge: Option<(Challenge, u32, &'static str)>,
}

impl Callers {
    /// Begins so many calls a second to bob, shared by all callers.
    pub(crate) fn start(world: &World, per_s: u32) -> Result<Self, String> {
        let ends = Arc::new(AtomicBool::new(false));
        let accounts = world.callers();
        let count = u32::try_from(accounts.len()).unwrap_or(1).max(1);
        let pause = Duration::from_secs(1) * count / per_s.max(1);
        let mut threads = Vec::new();
        for (n, account) in (0_u32..).zip(accounts) {
            let last = u8::try_from(10 + n % 100).unwrap_or(10);
            let mut caller = Caller {
                phone: Phone::at([127, 0, 2, last])?,
                server: world.to(),
                from: world.aor(&account),
                account,
                to: world.bob_aor(),
                challenge: None,
            };
            let ends = Arc::clone(&ends);
            let first = pause * n / count;
            threads.push(std::thread::spawn(move || caller.run(first, pause, &ends)));
        }
        Ok(Self { ends, threads })
    }

    /// Ends the calls; what they felt.
    pub(crate) fn finish(self) -> Delays {
        self.ends.store(true, Ordering::Relaxed);
        let (mut lost, mut delays_us) = (0, Vec::new());
        for thread in self.threads {
            if let Ok((failed, mut own)) = thread.join() {
                lost += failed;
                delays_us.append(&mut own);
            }
        }
        delays_us.sort_unstable();
        let share = |percent: usize| {
            let at = (delays_us.len() * percent / 100).min(delays_us.len().saturating_sub(1));
            delays_us.get(at).copied().unwrap_or(0)
        };
        Delays {
            calls: lost + delays_us.len() as u64,
            lost,
            p50_us: share(50),
            p99_us: share(99),
        }
    }
}

impl Caller {
    fn run(&mut self, first: Duration, pause: Duration, ends: &AtomicBool) -> (u64, Vec<u64>) {
        let (mut lost, mut delays_us) = (0, Vec::new());
        let mut due = Instant::now() + first;
        while !ends.load(Ordering::Relaxed) {
            if let Some(left) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(left.min(Duration::from_millis(20)));
                continue;
            }
            match self.call(due + LOST_AFTER) {
                Some(()) => delays_us.push(u64::try_from(due.elapsed().as_micros()).unwrap_or(0)),
                None => lost += 1,
            }
            due += pause;
        }
        (lost, delays_us)
    }

    /// One call; `None` where it is not up in time. A caller who is late tries
    /// all the same, so that a server's pause costs the calls of that pause.
    fn call(&mut self, until: Instant) -> Option<()> {
        let left = || {
            let left = until.saturating_duration_since(Instant::now());
            left.max(Duration::from_millis(200))
        };
        let mut invite = self.phone.invite(&self.from, &self.to);
        if let Some((challenge, count, given)) = &mut self.challenge {
            *count += 1;
            let value = challenge.answer(&self.account, "INVITE", &invite.uri, *count);
            invite = invite.with(given, &value);
        }
        let mut answer = self.phone.ask_for(left(), self.server, &invite)?;
        let asked = match answer.status()? {
            401 => Some(("WWW-Authenticate", "Authorization")),
            407 => Some(("Proxy-Authenticate", "Proxy-Authorization")),
            _ => None,
        };
        if let Some((asked, given)) = asked {
            let challenge = answer.all(asked).find_map(Challenge::read)?;
            let value = challenge.answer(&self.account, "INVITE", &invite.uri, 1);
            self.challenge = Some((challenge, 1, given));
            invite.headers.clear();
            invite = invite.again().with(given, &value);
            answer = self.phone.ask_for(left(), self.server, &invite)?;
        }
        if answer.status() != Some(200) {
            return None;
        }
        self.hang_up(&invite, &answer);
        Some(())
    }

    /// ACK and BYE; the answer to the BYE is not waited for.
    fn hang_up(&self, invite: &Draft, answer: &Text) {
        let mut ack = Draft::new("ACK", &invite.from, &invite.to);
        ack.uri = answer
            .header("Contact")
            .map_or(String::new(), |c| uri_of(c).to_owned());
        ack.from_tag.clone_from(&invite.from_tag);
        ack.to_tag = answer.header("To").and_then(tag_of);
        ack.call_id.clone_from(&invite.call_id);
        ack.cseq = invite.cseq;
        ack.routes = answer.addresses("Record-Route");
        ack.routes.reverse();
        self.phone.send(self.server, &ack);
        let mut bye = ack.again();
        "BYE".clone_into(&mut bye.method);
        self.phone.send(self.server, &bye);
    }
}
