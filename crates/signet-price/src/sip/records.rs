//! TLS records of SIP-sized messages, in each suite.

use signet_bed::Error;
use sip_tls::{SUITE_NAMES, Session, TlsEngine, TlsVersion};

use super::made::{KeyKind, Made};
use super::tls::{Ends, Offer};
use super::{AWS_LC, fault, item};
use crate::record::Missed;
use crate::timing::{Job, Work};

/// Records that wait to be opened; they stay within a core's first caches.
const WAITING_BYTES_MAX: u64 = 32_768;

pub(super) fn jobs(
    sizes_bytes: &[u64],
    jobs: &mut Vec<Job>,
    missed: &mut Vec<Missed>,
) -> Result<(), Error> {
    let (rsa, p256) = (Made::new(KeyKind::Rsa2048)?, Made::new(KeyKind::P256)?);
    for suite in SUITE_NAMES {
        let engine = TlsEngine::of_suite(suite);
        // Those of TLS 1.3 name no key.
        let version = if suite.contains("_WITH_") {
            TlsVersion::V12
        } else {
            TlsVersion::V13
        };
        let made = if suite.contains("RSA_WITH_") {
            &rsa
        } else {
            &p256
        };
        let offer = Offer {
            version,
            suite: Some(suite),
            group: None,
            is_mutual: false,
            resumes: false,
        };
        let ends = Ends::new(made, &offer)?;
        let provider = match engine {
            TlsEngine::Modern => AWS_LC,
            TlsEngine::Legacy => "openssl",
        };
        for &size_bytes in sizes_bytes {
            let data = vec![b'a'; usize::try_from(size_bytes).unwrap_or(usize::MAX)];
            let done = ends.shake()?;
            if done.info.suite_name() != suite {
                return Err(fault(suite, "another suite was negotiated"));
            }
            let labels = [("suite", suite), ("version", version.name())];
            let item = |operation| {
                item(
                    format!("tls-record/{suite}"),
                    &[suite],
                    &labels,
                    provider,
                    operation,
                )
            };
            // Each direction has keys and numbers of its own: one session does not disturb the
            // other.
            let other = ends.shake()?;
            jobs.push(Job {
                item: item("send"),
                size_bytes,
                work: Box::new(Send {
                    session: done.client,
                    data: data.clone(),
                    unread: Vec::new(),
                    out: Vec::new(),
                }),
            });
            jobs.push(Job {
                item: item("receive"),
                size_bytes,
                work: Box::new(Receive {
                    sender: other.client,
                    receiver: other.server,
                    data,
                    unread: Vec::new(),
                    waiting: Vec::new(),
                }),
            });
        }
    }
    if !TlsEngine::Legacy.is_here() {
        missed.push(Missed {
            name: "tls-record/TLS_RSA_WITH_".to_owned(),
            provider: "openssl".to_owned(),
            why: "this build has no legacy engine; build it with --features legacy-tls".to_owned(),
        });
    }
    Ok(())
}

struct Send {
    session: Session,
    data: Vec<u8>,
    unread: Vec<u8>,
    out: Vec<u8>,
}

impl Work for Send {
    fn run(&mut self, times: u32) -> Result<(), Error> {
        for _ in 0..times {
            self.out.clear();
            let data = std::hint::black_box(&self.data);
            self.session
                .send(data, &mut self.unread, &mut self.out)
                .map_err(|error| fault("a record cannot be made", error))?;
            std::hint::black_box(&self.out);
        }
        Ok(())
    }
}

struct Receive {
    sender: Session,
    receiver: Session,
    data: Vec<u8>,
    unread: Vec<u8>,
    waiting: Vec<Vec<u8>>,
}

impl Work for Receive {
    fn prepare(&mut self, times: u32) -> Result<(), Error> {
        self.waiting.resize_with(times as usize, Vec::new);
        for record in &mut self.waiting {
            record.clear();
            self.sender
                .send(&self.data, &mut self.unread, record)
                .map_err(|error| fault("a record cannot be made", error))?;
        }
        Ok(())
    }

    fn run(&mut self, times: u32) -> Result<(), Error> {
        let mut answer = Vec::new();
        for record in self.waiting.iter_mut().take(times as usize) {
            let mut received = 0;
            let length = record.len();
            let taken = self
                .receiver
                .receive(record, &mut answer, &mut |data| received += data.len())
                .map_err(|error| fault("a record cannot be opened", error))?;
            if received != self.data.len() || taken.consumed != length {
                return Err(fault("a record", "not all of it was opened"));
            }
        }
        Ok(())
    }

    fn batch_max(&self) -> u32 {
        (WAITING_BYTES_MAX / (self.data.len() as u64 + 64)).clamp(8, 256) as u32
    }
}
