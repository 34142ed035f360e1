mod cached;
mod ended;
mod failures;
mod leaving;
mod lost;
mod refusing;
mod sharing;

use std::sync::Arc;

use sip_auth::{Algorithm, DigestRequest, Ha1, Qop, Reply, Secrets, Subject};

use super::*;
use crate::question::{BatchAnswer, BatchFailure, Row};

/// Long enough for anything here.
const PATIENT_US: u64 = 30_000_000;

struct Rig {
    pipeline: Pipeline<u32>,
    now_us: u64,
}

fn fixed(interval_us: u64, batch_max: usize, in_flight_max: usize) -> PipelineConfig {
    PipelineConfig {
        mode: Mode::Fixed {
            interval_us,
            batch_max,
            in_flight_max,
        },
        ..PipelineConfig::default()
    }
}

fn subject(name: &str) -> Subject {
    Subject::new(name.as_bytes(), Arc::from("example.org"))
}

fn ha1(algorithm: Algorithm, name: &str) -> Ha1 {
    Ha1::compute(algorithm, name.as_bytes(), b"example.org", b"1234")
}

fn row(name: &str) -> Row {
    let mut secrets = Secrets::default();
    secrets.insert(ha1(Algorithm::Md5, name));
    secrets.insert(ha1(Algorithm::Sha256, name));
    Ok(Some(secrets))
}

fn secret(name: &str) -> Outcome {
    Ok(Reply::Secret(ha1(Algorithm::Md5, name)))
}

fn question(name: &str) -> Question {
    Question {
        subject: subject(name),
        algorithm: Algorithm::Md5,
        digest: None,
        why: Why::Digest,
    }
}

fn verification(name: &str) -> Question {
    let digest = DigestRequest {
        user: name.as_bytes().to_vec(),
        realm: Arc::from("example.org"),
        nonce: Vec::new(),
        method: b"INVITE".to_vec(),
        uri: Vec::new(),
        qop: Qop::Auth,
        algorithm: Algorithm::Md5,
        cnonce: Vec::new(),
        nonce_count: Vec::new(),
        response: Vec::new(),
        body_digest: None,
    };
    Question {
        digest: Some(Box::new(digest)),
        ..question(name)
    }
}

fn names(batch: &Batch) -> Vec<String> {
    let Rows::Secrets(subjects) = &batch.rows else {
        panic!("{batch:?}");
    };
    let name = |subject: &Subject| String::from_utf8(subject.user().to_vec()).unwrap();
    subjects.iter().map(name).collect()
}

impl Rig {
    fn new(config: PipelineConfig) -> Self {
        Self::with(config, None)
    }

    fn with(config: PipelineConfig, cache: Option<Arc<Cache>>) -> Self {
        Self {
            pipeline: Pipeline::new(0, [1; 16], config, cache),
            now_us: 0,
        }
    }

    fn ask(&mut self, tag: u32, name: &str) {
        self.try_ask(tag, question(name), PATIENT_US).unwrap();
    }

    fn try_ask(&mut self, tag: u32, question: Question, for_us: u64) -> Result<(), Unavailable> {
        let deadline_us = self.now_us + for_us;
        self.pipeline
            .submit(self.now_us, tag, question, deadline_us)
    }

    fn batch(&mut self) -> Option<Batch> {
        self.pipeline.poll_batch(self.now_us)
    }

    /// The next batch, which asks for these.
    fn batch_of(&mut self, expected: &[&str]) -> BatchId {
        let batch = self.batch().expect("a batch leaves");
        assert_eq!(names(&batch), expected);
        batch.id
    }

    fn rows(&mut self, id: BatchId, rows: Vec<Row>) {
        self.pipeline
            .handle_answer(self.now_us, id, BatchAnswer::Rows(rows));
    }

    fn fail(&mut self, id: BatchId, failure: BatchFailure) {
        self.pipeline.handle_failure(self.now_us, id, failure);
    }

    fn unreachable(&mut self, id: BatchId) {
        self.fail(id, BatchFailure::Unreachable("gone".into()));
    }

    fn answers(&mut self) -> Vec<(u32, Outcome)> {
        std::iter::from_fn(|| self.pipeline.poll_answer()).collect()
    }

    fn pass(&mut self, us: u64) {
        self.now_us += us;
        self.pipeline.handle_timeout(self.now_us);
    }

    /// Has the only replica fail until it is left alone.
    fn break_down(&mut self) {
        for tag in 900..920 {
            let somebody = question(&format!("somebody{tag}"));
            if self.try_ask(tag, somebody, PATIENT_US).is_err() {
                break;
            }
            self.now_us += 10_000;
            while let Some(batch) = self.batch() {
                self.now_us += 1;
                self.unreachable(batch.id);
            }
        }
        assert!(self.answers().iter().all(|(_, outcome)| outcome.is_err()));
        assert!(self.pipeline.replicas.healthy().is_none());
    }
}
