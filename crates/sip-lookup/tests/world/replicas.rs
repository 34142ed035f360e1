//! What replicas do with statements.

use sip_auth::{Algorithm, Secrets, Subject};
use sip_lookup::{ABSENT_USER, BadRow, Batch, BatchAnswer, BatchFailure, BatchId, Row, Rows};

use super::{BAD, Event, MUTE, POISON, Said, Weather, World, ha1};

impl World {
    pub(super) fn send(&mut self, batch: Batch) {
        let Batch { id, replica, rows } = batch;
        assert!(
            self.in_flight.insert(id, ()).is_none(),
            "a number is used twice"
        );
        if let Rows::Secrets(subjects) = &rows {
            assert!((1..=self.config.batch_max).contains(&subjects.len()));
            for (nth, subject) in subjects.iter().enumerate() {
                assert!(
                    !subjects[..nth].contains(subject),
                    "a row is asked for twice"
                );
            }
        }
        let probes = self.timeout_us / self.config.probe_interval_us + 1;
        let bound = self.in_flight_max as u64 + probes * self.config.replicas as u64;
        assert!(
            self.in_flight.len() as u64 <= bound,
            "{} in flight",
            self.in_flight.len()
        );
        let weather = self.weather[replica.0];
        let said = self.say(weather, &rows);
        let delay_us = match self.random.u8(0..10) {
            0 if self.asks_left > 0 => self.random.u64(0..500_000),
            _ => self.random.u64(5_000..15_000),
        };
        match weather {
            Weather::Silent => {}
            _ if self.is_for_mute(&rows) => {
                self.report.muted += 1;
                if self.mute_closes {
                    let why = "it was closed".to_owned();
                    let failure = match self.random.bool() {
                        true => BatchFailure::Unreachable(why),
                        false => BatchFailure::Ended(why),
                    };
                    self.after(delay_us, Event::Answer(id, Said::Failure(failure)));
                }
            }
            Weather::Busy => {
                self.report.broken_off += 1;
                self.after(delay_us, Event::Answer(id, said));
            }
            Weather::Closed => self.after(delay_us / 10, Event::Answer(id, said)),
            Weather::Deadly => {
                self.report.ended += u64::from(matches!(said, Said::Failure(_)));
                self.after(delay_us, Event::Answer(id, said));
            }
            Weather::Refusing => {
                self.report.turned_away += u64::from(matches!(said, Said::Failure(_)));
                self.after(delay_us, Event::Answer(id, said));
            }
            Weather::Fair => self.after(delay_us, Event::Answer(id, said)),
            Weather::Mad => {
                if self.random.bool() {
                    let again = self.say(Weather::Mad, &rows);
                    self.after(delay_us * 2, Event::Answer(id, again));
                }
                if self.random.u8(0..3) > 0 {
                    self.after(delay_us, Event::Answer(id, said));
                }
            }
        }
    }

    fn is_for_mute(&self, rows: &Rows) -> bool {
        let mute = &self.users[MUTE].subject;
        match rows {
            Rows::Secrets(subjects) => subjects.contains(mute),
            Rows::Verify(digest) => digest.user == mute.user(),
        }
    }

    /// What a replica says. What it reads, it reads now.
    fn say(&mut self, weather: Weather, rows: &Rows) -> Said {
        if weather == Weather::Busy {
            return Said::Failure(BatchFailure::Cancelled("later".into()));
        }
        if weather == Weather::Closed {
            return Said::Failure(match self.random.u8(0..4) {
                0 => BatchFailure::Unusable("no such table".into()),
                _ => BatchFailure::Unreachable("closed".into()),
            });
        }
        let is_mad = weather == Weather::Mad;
        match rows {
            Rows::Verify(digest) => Said::Answer(match is_mad && self.random.bool() {
                true => BatchAnswer::Rows(vec![Ok(None)]),
                false => BatchAnswer::Verified(digest.response == b"right"),
            }),
            Rows::Secrets(subjects) => {
                if subjects.contains(&self.users[POISON].subject) {
                    return Said::Failure(BatchFailure::Refused("what is this?".into()));
                }
                let mut answer: Vec<Row> = subjects.iter().map(|s| self.row(s)).collect();
                let finds = answer.iter().any(|row| matches!(row, Ok(Some(_))));
                if weather == Weather::Deadly && finds {
                    return Said::Failure(BatchFailure::Ended("it fell over".into()));
                }
                if weather == Weather::Refusing && finds {
                    return Said::Failure(BatchFailure::Refused("not him".into()));
                }
                if is_mad {
                    match self.random.u8(0..4) {
                        0 => answer.insert(0, Ok(None)),
                        1 => drop(answer.remove(0)),
                        2 => return Said::Answer(BatchAnswer::Verified(true)),
                        _ => return Said::Failure(BatchFailure::Refused("no".into())),
                    }
                }
                Said::Answer(BatchAnswer::Rows(answer))
            }
        }
    }

    fn row(&self, subject: &Subject) -> Row {
        if subject.user() == ABSENT_USER.as_bytes() {
            return Ok(None);
        }
        let user = (subject.user()[0] - b'a') as usize;
        if user == BAD {
            return Err(BadRow::Bad("no digest".into()));
        }
        let version = self.version(user);
        let (_, exists) = self.users[user].versions[version as usize];
        if !exists {
            return Ok(None);
        }
        let mut secrets = Secrets::default();
        secrets.insert(ha1(user, version, Algorithm::Md5));
        Ok(Some(secrets))
    }

    pub(super) fn answer(&mut self, id: BatchId, said: Said) {
        let is_closed = matches!(said, Said::Failure(BatchFailure::Unreachable(_)));
        self.in_flight.remove(&id);
        match said {
            Said::Answer(answer) => self.pipeline.handle_answer(self.now_us, id, answer),
            Said::Failure(failure) => self.pipeline.handle_failure(self.now_us, id, failure),
        }
        // A connection that ends takes others' statements with it, until all is fair.
        if is_closed && self.asks_left > 0 && self.random.bool() {
            let others: Vec<BatchId> = self.in_flight.keys().copied().collect();
            for other in others {
                if self.random.bool() {
                    self.in_flight.remove(&other);
                    let failure = BatchFailure::Unreachable("it ended".into());
                    self.pipeline.handle_failure(self.now_us, other, failure);
                }
            }
        }
    }
}
