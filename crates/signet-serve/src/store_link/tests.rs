//! Whom the cache answers, and whom the stores.

use sip_auth::{Algorithm, Secrets};
use sip_lookup::{BatchAnswer, CacheConfig, Pipeline, PipelineConfig};

use super::*;

fn question(why: Why) -> Question {
    Question {
        subject: Subject::new(b"alice", Arc::from("example.org")),
        algorithm: Algorithm::Md5,
        digest: None,
        why,
    }
}

/// A cache that has alice in example.org.
pub(crate) fn cache() -> Arc<Cache> {
    let cache = Arc::new(Cache::new([1; 16], CacheConfig::default()));
    let shared = Some(cache.clone());
    let mut pipeline = Pipeline::new(0, [1; 16], PipelineConfig::default(), shared);
    let asked = pipeline.submit(0, (), question(Why::Digest), 1_000_000);
    asked.unwrap();
    let batch = pipeline.poll_batch(0).unwrap();
    let mut secrets = Secrets::default();
    let ha1 = Ha1::compute(Algorithm::Md5, b"alice", b"example.org", b"1234");
    secrets.insert(ha1);
    let rows = BatchAnswer::Rows(vec![Ok(Some(secrets))]);
    pipeline.handle_answer(1, batch.id, rows);
    cache
}

#[test]
fn a_cache_answers_whoever_has_a_digest_and_nobody_who_calls() {
    let (lookups, mut asked) = Lookups::unserved(cache(), false);
    let mut under_way = UnderWay {
        asked: Asked::new([2; 16]),
        waiting: HashMap::new(),
    };
    let until_ms = clock::now_ms() + 60_000;
    let mut find = |park: u64, why: Why| {
        let tag = Tag {
            worker: 0,
            park: ParkId(park),
        };
        match under_way.find(&lookups, tag, question(why), until_ms) {
            AtOnce::Known(Reply::Cached(_)) => Some(true),
            AtOnce::Known(Reply::NotCached) => Some(false),
            AtOnce::Pending => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(find(1, Why::Digest), Some(true));
    assert_eq!(
        find(2, Why::Existence),
        None,
        "who calls waits for the store"
    );
    assert_eq!(find(3, Why::Digest), Some(true), "and keeps nobody waiting");
    assert_eq!(find(4, Why::DigestAgain), None);
    assert_eq!(
        find(5, Why::Digest),
        Some(false),
        "what was asked first is answered first"
    );
    assert_eq!(find(5, Why::DigestUncached), None);
    let mut passed_on = Vec::new();
    while let Ok(ToAsk { tag, .. }) = asked.try_recv() {
        passed_on.push(tag.park);
    }
    assert_eq!(passed_on, [ParkId(2), ParkId(4), ParkId(5)]);
}

#[test]
fn where_names_have_realms_who_is_called_is_asked_for_with_his() {
    let (lookups, mut asked) = Lookups::unserved(cache(), true);
    let mut under_way = UnderWay {
        asked: Asked::new([2; 16]),
        waiting: HashMap::new(),
    };
    let tag = Tag {
        worker: 0,
        park: ParkId(1),
    };
    let until_ms = clock::now_ms() + 60_000;
    for (why, expected) in [
        (Why::Existence, &b"alice@example.org"[..]),
        // He says himself what he is called.
        (Why::DigestAgain, b"alice"),
    ] {
        under_way.find(&lookups, tag, question(why), until_ms);
        let ToAsk { question, .. } = asked.try_recv().unwrap();
        assert_eq!(question.subject.user(), expected);
    }
}
