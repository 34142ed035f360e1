//! A worker's turn, and what it asks the store and the resolver.

use sip_auth::Reply;
use sip_engine::{BindingChange, ParkId};
use sip_locate::Options;
use sip_lookup::Unavailable;
use sip_worker::{SocketEvent, StoreAnswer};

use super::process::Seat;
use super::{Answer, Arrival, Server, Turned, now};
use crate::Dice;
use crate::distant::Tag;
use crate::dns::Lookup;
use crate::environment::Question;
use crate::plan::Store;

impl Server {
    /// Has a worker that is due take its turn; none where none is.
    pub(crate) fn turn(&mut self, now_ms: u64) -> Option<Turned> {
        let process = self.process.as_mut()?;
        let due = |seat: &Seat| seat.look_ms.into_iter().chain(seat.due_ms).min();
        let is_due = |seat: &Seat| due(seat).is_some_and(|due_ms| due_ms <= now_ms);
        let worker = process.seats.iter().position(is_due)?;
        let seat = process.seats.get_mut(worker)?;
        seat.look_ms = None;
        seat.due_ms = None;
        seat.bell.quiet();
        if !seat.worker.begin_turn(&mut seat.sockets) {
            seat.arrivals.clear();
            return Some(Turned::default());
        }
        seat.worker.wake_up(|| now(now_ms));
        seat.asked.with(|asked| {
            if let Some(front) = &mut asked.front {
                front.now_us = now_ms * 1_000;
            }
        });
        seat.take_in();
        seat.worker.end_turn(&mut seat.sockets);
        let wait = seat.worker.timeout();
        seat.due_ms = wait.map(|wait| now_ms + wait.as_millis() as u64);
        if !seat.sockets.returned.is_empty() {
            seat.due_ms = Some(now_ms);
        }
        let mut turned = Turned {
            worker,
            outbox: std::mem::take(&mut seat.sockets.outbox),
            closes: std::mem::take(&mut seat.sockets.closes),
            ended_calls: std::mem::take(&mut seat.sockets.ended_calls),
            was_told: !seat.told.is_empty(),
            ..Turned::default()
        };
        for (to, bytes) in std::mem::take(&mut seat.sockets.to_engines) {
            if let Some(engines) = &mut self.engines {
                let said = engines.receive(now_ms, worker, to, &bytes);
                let answers = said
                    .into_iter()
                    .map(|said| (said.at_ms, Answer::Engine(said)));
                turned.answers.extend(answers);
                turned.faults.append(&mut engines.faults);
            }
        }
        let told = std::mem::take(&mut seat.told);
        let questions = seat
            .asked
            .with(|asked| std::mem::take(&mut asked.questions));
        for (park, is_durable) in told {
            let fault = self.check_saved(now_ms, (worker, park), is_durable);
            turned.faults.extend(fault);
        }
        for question in questions {
            self.ask(now_ms, worker, question, &mut turned.answers);
        }
        Some(turned)
    }

    /// A question goes to the store or to the resolver.
    fn ask(
        &mut self,
        now_ms: u64,
        worker: usize,
        question: Question,
        answers: &mut Vec<(u64, Answer)>,
    ) {
        let store = self.plan.store;
        let fails = self.dice.thousandths(store.failure);
        let delay_ms = delay_ms(&mut self.dice, &store);
        match question {
            Question::Credential(park, question, until_ms) if self.plan.distance.is_some() => {
                let subject = question.subject.clone();
                let tag = Tag {
                    worker,
                    park,
                    subject,
                };
                let Some(process) = &mut self.process else {
                    return;
                };
                let distant = process.distant.as_mut();
                let submitted = distant.map(|of| of.submit(now_ms, tag, question, until_ms));
                if let (Some(Err(full)), Some(seat)) = (submitted, process.seats.get_mut(worker)) {
                    seat.is_told(StoreAnswer::Credential(park, Err(full)));
                }
            }
            Question::Credential(park, question, _) => {
                let found = self.users.get(question.subject.user());
                let found = found.map(|set| set.get(question.algorithm).clone());
                let answer = match fails {
                    true => Err(Unavailable {
                        retry_after_s: None,
                    }),
                    false => Ok(found.map_or(Reply::Unknown, Reply::Secret)),
                };
                let answer = Answer::Store(worker, StoreAnswer::Credential(park, answer));
                answers.push((now_ms + delay_ms, answer));
            }
            Question::Save(park, changes) => {
                let Some(process) = &mut self.process else {
                    return;
                };
                self.figures.unsaved += u64::from(fails);
                process.saves.insert((worker, park), changes.clone());
                let durable_ms = process.saved_ms.max(now_ms + delay_ms);
                process.saved_ms = durable_ms + self.dice.between(0, 5);
                if !fails {
                    answers.push((durable_ms, Answer::Durable(changes)));
                }
                let answer = if fails { Err(()) } else { Ok(()) };
                let answer = Answer::Store(worker, StoreAnswer::Saved(park, answer));
                answers.push((process.saved_ms, answer));
            }
            Question::Hook(park, question, until_ms) => {
                let Some(process) = &mut self.process else {
                    return;
                };
                let hook = process.hook.as_mut();
                let asker = (worker, park);
                let known = hook.and_then(|hook| hook.submit(now_ms, asker, question, until_ms));
                if let (Some(known), Some(seat)) = (known, process.seats.get_mut(worker)) {
                    seat.is_told_by_hook(park, known);
                }
            }
            Question::Name(park, query) => {
                let listeners = self.settings.listeners.iter();
                let options = Options {
                    reach: listeners
                        .map(|listener| (listener.transport, listener.bound.ip()))
                        .collect(),
                    ..Options::default()
                };
                let lookup = Lookup::new(now_ms, worker, park, query, options);
                answers.push((now_ms, Answer::Lookup(lookup)));
            }
        }
    }

    /// Whether calls see exactly what the store acknowledged: to be asked
    /// right after the worker was told of it.
    fn check_saved(
        &mut self,
        now_ms: u64,
        saved: (usize, ParkId),
        is_durable: bool,
    ) -> Option<String> {
        let process = self.process.as_mut()?;
        let changes = process.saves.remove(&saved)?;
        let unix_ms = now(now_ms).unix_ms;
        for change in &changes {
            let BindingChange::Put { aor, binding, .. } = change else {
                continue;
            };
            let mut found = Vec::new();
            process.location.find(aor, unix_ms, &mut found);
            let is_seen = found.iter().any(|seen| **seen == **binding);
            if is_seen != is_durable && binding.expires_unix_ms > unix_ms {
                let (aor, uri) = (aor.escape_ascii(), binding.uri.escape_ascii());
                return Some(format!(
                    "{aor} at {uri}: durable {is_durable}, seen by calls {is_seen}"
                ));
            }
        }
        None
    }
}

impl Seat {
    /// Its worker hears of all that has come.
    fn take_in(&mut self) {
        let returned = std::mem::take(&mut self.sockets.returned);
        for cookie in returned {
            self.worker.handle_event(SocketEvent::Returned { cookie });
        }
        for arrival in std::mem::take(&mut self.arrivals) {
            let event = match &arrival {
                Arrival::Message { flow, bytes } => {
                    self.sockets.messages_in += 1;
                    SocketEvent::Message { flow: *flow, bytes }
                }
                Arrival::SendFailed { cookie, failure } => SocketEvent::SendFailed {
                    cookie: *cookie,
                    failure: *failure,
                },
                Arrival::Closed(conn) => SocketEvent::Closed(*conn),
                Arrival::Engine { from, bytes } => match bytes {
                    Some(bytes) => SocketEvent::FromEngine { from: *from, bytes },
                    None => SocketEvent::EngineUnreachable(*from),
                },
                Arrival::Unreachable { remote, quoted } => {
                    match self.sockets.take_recent(*remote, quoted) {
                        Some(cookie) => SocketEvent::Returned { cookie },
                        None => SocketEvent::Unreachable {
                            remote: *remote,
                            quoted,
                        },
                    }
                }
            };
            self.worker.handle_event(event);
        }
    }
}

fn delay_ms(dice: &mut Dice, store: &Store) -> u64 {
    if dice.thousandths(store.stall) {
        return dice.between(3_000, 12_000);
    }
    dice.between(0, store.delay_max_ms)
}
