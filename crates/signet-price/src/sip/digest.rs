//! Digest authentication in each algorithm: the server's challenge, the client's answer, and
//! the server's check of it, with the client's nonce counted as phones do that use none again.

use std::sync::Arc;

use signet_bed::Error;
use sip_auth::{
    Algorithm, Attempt, AuthConfig, Authenticator, Check, ClientAuth, Ha1Set, Reply, RequestParts,
    Side, Verdict,
};
use sip_msg::{Limits, Message};

use super::{RUSTCRYPTO, fault, item};
use crate::timing::{Job, Work};

/// The time of everything, in milliseconds since 1970.
const NOW_MS: u64 = 1_000;
const REALM: &str = "example.org";
const USER: &str = "alice";
const PASSWORD: &str = "swordfish";
/// Requests made ready at once.
const WAITING_MAX: u32 = 64;

pub(super) fn jobs(jobs: &mut Vec<Job>) -> Result<(), Error> {
    for algorithm in Algorithm::ALL {
        for step in [Step::Challenge, Step::Answer, Step::Check] {
            let token = algorithm.as_str().to_ascii_lowercase();
            let name = format!("digest/{token}");
            let labels = [("algorithm", algorithm.as_str())];
            jobs.push(Job {
                item: item(name, &[&token], &labels, RUSTCRYPTO, step.name()),
                size_bytes: 0,
                work: Box::new(Digest::new(algorithm, step)),
            });
        }
    }
    Ok(())
}

/// What is timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The server writes a challenge.
    Challenge,
    /// The client answers it.
    Answer,
    /// The server checks the answer.
    Check,
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Answer => "answer",
            Self::Check => "check",
        }
    }
}

struct Digest {
    algorithm: Algorithm,
    step: Step,
    server: Authenticator,
    realm: Arc<str>,
    reply: Reply,
    /// Clients that were challenged.
    challenged: Vec<(ClientAuth, Attempt)>,
    /// Requests with their credentials.
    requests: Vec<Message>,
    out: Vec<u8>,
}

impl Digest {
    fn new(algorithm: Algorithm, step: Step) -> Self {
        let config = AuthConfig {
            algorithms: vec![algorithm],
            ..AuthConfig::default()
        };
        let set = Ha1Set::compute(USER.as_bytes(), REALM.as_bytes(), PASSWORD.as_bytes());
        Self {
            algorithm,
            step,
            server: Authenticator::new(config, &[7; 32], 1),
            realm: REALM.into(),
            reply: Reply::Secret(set.get(algorithm).clone()),
            challenged: Vec::new(),
            requests: Vec::new(),
            out: Vec::new(),
        }
    }

    fn wrong(&self, why: &str) -> Error {
        fault(&format!("digest with {}", self.algorithm.as_str()), why)
    }

    /// A client that has a challenge to answer.
    fn challenge(&mut self) -> Result<(ClientAuth, Attempt), Error> {
        self.write_challenge();
        let response = [
            b"SIP/2.0 401 Unauthorized\r\n",
            &self.out[..],
            b"Content-Length: 0\r\n\r\n",
        ]
        .concat();
        let response = Message::parse(&response, &Limits::default())
            .map_err(|_| self.wrong("the challenge is no message"))?;
        let (mut client, mut attempt) = (ClientAuth::new(), Attempt::default());
        client.add(REALM, USER, PASSWORD);
        client
            .handle_challenge(&mut attempt, &response)
            .map_err(|_| self.wrong("the challenge was not taken"))?;
        Ok((client, attempt))
    }

    fn write_challenge(&mut self) {
        self.out.clear();
        self.server
            .write_challenge(NOW_MS, Side::Registrar, &self.realm, false, &mut self.out);
    }

    fn answer(&mut self, (client, attempt): &mut (ClientAuth, Attempt)) {
        let parts = RequestParts {
            method: b"REGISTER",
            uri: b"sip:example.org",
            body: b"",
        };
        self.out.clear();
        client.write_credentials(attempt, parts, 0x1234_5678, &mut self.out);
    }

    fn request(&self) -> Result<Message, Error> {
        let text = [
            &b"REGISTER sip:example.org SIP/2.0\r\n\
               Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK74bf9\r\n\
               Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=a73kszlfl\r\n\
               To: <sip:alice@example.org>\r\nCall-ID: 1j9FpLxk3uxtm8tn@192.0.2.1\r\n\
               CSeq: 2 REGISTER\r\nContact: <sip:alice@192.0.2.1>\r\n"[..],
            &self.out,
            b"Content-Length: 0\r\n\r\n",
        ]
        .concat();
        Message::parse(&text, &Limits::default())
            .map_err(|_| self.wrong("the request is no message"))
    }
}

impl Work for Digest {
    fn prepare(&mut self, times: u32) -> Result<(), Error> {
        self.challenged.clear();
        self.requests.clear();
        if self.step == Step::Challenge {
            return Ok(());
        }
        for _ in 0..times {
            let mut client = self.challenge()?;
            if self.step == Step::Answer {
                self.challenged.push(client);
                continue;
            }
            self.answer(&mut client);
            self.requests.push(self.request()?);
        }
        Ok(())
    }

    fn run(&mut self, times: u32) -> Result<(), Error> {
        match self.step {
            Step::Challenge => {
                for _ in 0..times {
                    self.write_challenge();
                    std::hint::black_box(&self.out);
                }
            }
            Step::Answer => {
                let mut challenged = std::mem::take(&mut self.challenged);
                for client in &mut challenged {
                    self.answer(client);
                    std::hint::black_box(&self.out);
                }
                self.challenged = challenged;
            }
            Step::Check => {
                for request in &self.requests {
                    let checked = self
                        .server
                        .check(NOW_MS, request, Side::Registrar, &self.realm);
                    let Check::Lookup(pending) = checked else {
                        return Err(self.wrong("the answer was not looked up"));
                    };
                    let verdict = self.server.finish(NOW_MS, pending, &self.reply);
                    if !matches!(verdict, Verdict::Ok(_)) {
                        return Err(self.wrong("the right answer was refused"));
                    }
                }
            }
        }
        Ok(())
    }

    fn batch_max(&self) -> u32 {
        WAITING_MAX
    }
}
