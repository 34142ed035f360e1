//! Who waits until all workers go by new settings. The thread that takes signals looks now and
//! then whether they do: a worker that is stuck must not keep it from a signal that ends the
//! server.

use std::time::Duration;

use tokio::time::Instant;

use crate::people::{Asked, PeopleAsked};
use crate::{Error, service_manager};

/// How long the workers have to take a reload over, and how often it is looked whether they did.
const RELOAD_MAX: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(5);
/// The same for what is written of people: a command waits for it.
const PEOPLE_MAX: Duration = Duration::from_secs(3);

/// Who waits, and until when.
#[derive(Default)]
pub(super) struct Awaited {
    reload: Option<Instant>,
    people: Option<(Instant, Vec<Asked>)>,
}

impl Awaited {
    /// A reload is to be said.
    pub(super) fn begin_reload(&mut self, now: Instant) {
        self.reload = Some(now + RELOAD_MAX);
    }

    /// Commands are to be answered.
    pub(super) fn begin_people(&mut self, now: Instant, asked: Vec<Asked>) {
        self.people = Some((now + PEOPLE_MAX, asked));
    }

    /// Whether a reload waits: what comes after it waits for its end.
    pub(super) const fn has_reload(&self) -> bool {
        self.reload.is_some()
    }

    /// The same of commands.
    pub(super) const fn has_people(&self) -> bool {
        self.people.is_some()
    }

    /// Waits until it is to be looked again; for ever where nobody waits.
    pub(super) async fn look(&self) {
        match self.has_reload() || self.has_people() {
            true => tokio::time::sleep(STEP).await,
            false => std::future::pending().await,
        }
    }

    /// The server ends, and no reload is said any more.
    pub(super) fn end_reload(&mut self) {
        self.reload = None;
    }

    /// Nobody waits any more. Who did is told that the server ends: by his end of the way.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Tells those for whom it is over, since all workers go by the newest settings or the time
    /// is up.
    pub(super) fn settle(&mut self, is_taken_over: bool, now: Instant) {
        let is_over = |deadline: Instant| is_taken_over || now > deadline;
        if self.reload.take_if(|deadline| is_over(*deadline)).is_some() {
            say_reloaded(is_taken_over);
        }
        if let Some((_, asked)) = self.people.take_if(|(deadline, _)| is_over(*deadline)) {
            PeopleAsked::answer(asked, &people_told(is_taken_over));
        }
    }
}

/// Says so when all workers go by it: what comes after that is treated as it says.
fn say_reloaded(is_taken_over: bool) {
    match is_taken_over {
        true => tracing::info!("reloaded"),
        false => tracing::warn!(
            "reloaded, but after {} s not every worker goes by it: a worker is stuck or overloaded",
            RELOAD_MAX.as_secs()
        ),
    }
    service_manager::ready();
}

fn people_told(is_taken_over: bool) -> Result<(), Error> {
    match is_taken_over {
        true => Ok(()),
        false => Err(Error::new(
            "not every worker has taken it over",
            "look at `signet top` and the log: a worker is stuck or overloaded",
        )),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::testing::logged;

    #[test]
    fn who_waits_is_told_when_the_workers_have_it_or_the_time_is_up() {
        let now = Instant::now();
        let late = now + RELOAD_MAX + STEP;
        for (is_taken_over, at, word) in [
            (true, now, "reloaded\n"),
            (false, late, "not every worker goes by it"),
        ] {
            let mut awaited = Awaited::default();
            let (tell, mut told) = oneshot::channel();
            awaited.begin_reload(now);
            awaited.begin_people(now, vec![tell]);
            let before = logged(|| awaited.settle(false, now));
            assert!(before.is_empty() && told.try_recv().is_err(), "{before}");
            assert!(awaited.has_reload() && awaited.has_people());
            let log = logged(|| awaited.settle(is_taken_over, at));
            assert!(log.contains(word), "{log}");
            assert_eq!(told.try_recv().unwrap().is_ok(), is_taken_over);
            assert!(!awaited.has_reload() && !awaited.has_people());
        }
    }

    #[test]
    fn a_command_waits_less_than_a_reload() {
        let mut awaited = Awaited::default();
        let now = Instant::now();
        let (tell, mut told) = oneshot::channel();
        awaited.begin_reload(now);
        awaited.begin_people(now, vec![tell]);
        awaited.settle(false, now + PEOPLE_MAX + STEP);
        assert!(told.try_recv().unwrap().is_err());
        assert!(awaited.has_reload() && !awaited.has_people());
    }
}
