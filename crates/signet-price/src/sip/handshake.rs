//! Handshakes: full, resumed and mutual, by key and group, each side for itself.

use signet_bed::Error;
use sip_tls::{GROUP_NAMES, TlsVersion};

use super::made::{KeyKind, Made};
use super::tls::{Ends, Offer};
use super::{AWS_LC, fault, item};
use crate::timing::{Job, Work};

/// The groups that are agreed on with every key, in TLS 1.3.
const GROUPS: [&str; 3] = ["X25519", "P-256", "X25519MLKEM768"];

/// The groups for a key: all with P-256, since by its handshakes a policy compares groups.
fn groups(key: KeyKind) -> Vec<&'static str> {
    if key == KeyKind::P256 {
        GROUP_NAMES.to_vec()
    } else {
        GROUPS.to_vec()
    }
}

/// How a handshake is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HandshakeKind {
    /// The server shows a certificate.
    Full,
    /// The client shows one as well.
    Mutual,
    /// By a ticket of an earlier one.
    Resumed,
}

impl HandshakeKind {
    const ALL: [Self; 3] = [Self::Full, Self::Mutual, Self::Resumed];

    const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Mutual => "mutual",
            Self::Resumed => "resumed",
        }
    }
}

pub(super) fn jobs(jobs: &mut Vec<Job>) -> Result<(), Error> {
    for key in KeyKind::ALL {
        let made = Made::new(key)?;
        let kinds = groups(key)
            .into_iter()
            .map(|group| (TlsVersion::V13, group))
            .chain([(TlsVersion::V12, "X25519")]);
        for (version, group) in kinds {
            for kind in HandshakeKind::ALL {
                let offer = Offer {
                    version,
                    suite: None,
                    group: Some(group),
                    is_mutual: kind == HandshakeKind::Mutual,
                    resumes: kind == HandshakeKind::Resumed,
                };
                let ends = Ends::new(&made, &offer)?;
                for operation in ["client", "server"] {
                    jobs.push(job(key, version, group, kind, operation, ends.clone()));
                }
            }
        }
    }
    Ok(())
}

fn job(
    key: KeyKind,
    version: TlsVersion,
    group: &str,
    kind: HandshakeKind,
    operation: &str,
    ends: Ends,
) -> Job {
    let group = group.to_ascii_lowercase();
    let mut name = format!("handshake/{}/{}/{group}", kind.name(), key.name());
    // TLS 1.3 is what is meant where nothing is said.
    if version == TlsVersion::V12 {
        name.push_str("/tls-1.2");
    }
    let labels = [
        ("way", kind.name()),
        ("key", key.name()),
        ("group", &group),
        ("version", version.name()),
    ];
    Job {
        item: item(name, &[key.name(), &group], &labels, AWS_LC, operation),
        size_bytes: 0,
        work: Box::new(Shakes {
            ends,
            resumes: kind == HandshakeKind::Resumed,
            has_session: false,
            of_client: operation == "client",
            counted_ns: 0,
        }),
    }
}

/// Handshakes, of which one side counts.
struct Shakes {
    ends: Ends,
    resumes: bool,
    /// Whether there is a session to resume.
    has_session: bool,
    of_client: bool,
    counted_ns: u64,
}

impl Work for Shakes {
    fn prepare(&mut self, _: u32) -> Result<(), Error> {
        if self.resumes && !self.has_session {
            self.ends.shake()?;
            self.has_session = true;
        }
        Ok(())
    }

    fn run(&mut self, times: u32) -> Result<(), Error> {
        self.counted_ns = 0;
        for _ in 0..times {
            let done = self.ends.shake()?;
            if done.info.resumed.is_some() != self.resumes {
                return Err(fault("a handshake", "it was resumed, or it was not"));
            }
            self.counted_ns += if self.of_client {
                done.taken.client_ns
            } else {
                done.taken.server_ns
            };
        }
        Ok(())
    }

    fn counted_ns(&self) -> Option<f64> {
        Some(self.counted_ns as f64)
    }
}
