//! What a run writes is what ratings and choices read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use protection::{Levels, Policy, Prices, Ratings, Use, choose_ipsec, performance};
use signet_price::crypto::{self, Choice};
use signet_price::paper::Paper;
use signet_price::{Task, Timing, record, run};

#[test]
fn a_record_of_packets_prices_ciphers_and_authentications() {
    let only = [
        "aes-128-cbc+none",
        "aes-128-gcm",
        "hmac-sha1-96",
        "null+hmac-sha1-96",
    ];
    let only = only.map(str::to_owned);
    let choice = Choice::new(&[64, 300, 1_400], &only, &[]).unwrap();
    let (jobs, missed) = crypto::jobs(&choice).unwrap();
    let task = Task {
        command: "a test".to_owned(),
        jobs,
        missed,
        versions: crypto::versions(),
        timing: Timing {
            batch_ns: 1_000,
            rounds: Timing::ROUNDS_MIN,
            ..Timing::default()
        },
    };
    let found = run(task, &mut |_, _| {}).unwrap();
    let name = format!("prices_are_read-{}", std::process::id());
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("prices.json");
    // A link is followed, and stays one.
    let link = folder.join("link.json");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    record::write(&link, &found).unwrap();
    assert!(link.is_symlink() && !file.is_symlink());
    let prices = Prices::from_file(&file).unwrap();
    for (what, name) in [
        (Use::Cipher, "AES-128-CBC"),
        (Use::Cipher, "AES-128-GCM"),
        (Use::Mac, "HMAC-SHA1-96"),
    ] {
        let price = prices
            .of(what, name)
            .unwrap_or_else(|| panic!("{name} has no price"));
        assert!(price.at(1_400).is_some(), "{name}: {price:?}");
    }
    assert_eq!(prices.of(Use::Cipher, "3DES-CBC"), None);
    let policy = Policy {
        min_authentication: "4".parse().ok(),
        max_cost_ns: Some(1e12),
        ..Policy::default()
    };
    let choice = choose_ipsec(&policy, None, 1_400, &Levels::shipped(), &prices).unwrap();
    assert_eq!(choice.second, ["HMAC-SHA1-96"], "the others have no price");
    let ratings = Ratings::new(&Levels::shipped(), &prices, 10_000_000_000);
    let rated = ratings
        .ratings
        .iter()
        .filter(|rating| rating.performance.is_some());
    assert_eq!(rated.count(), 3);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn table_14_is_the_papers() {
    let paper = Paper::niedermayer_2006().unwrap();
    let value = |number: u32, name: &str, column: usize| {
        let table = paper.tables.iter().find(|table| table.number == number);
        let mut rows = table.unwrap().rows.iter();
        let row = rows.find(|row| {
            let named = row.what.esp.as_ref().or(row.what.hash.as_ref());
            named.is_some_and(|named| named.eq_ignore_ascii_case(name))
        });
        row.unwrap_or_else(|| panic!("{name} is not in table {number}"))
            .values[column]
    };
    for row in performance::TABLE_14 {
        assert_eq!(value(14, row.name, 0), f64::from(row.protection), "{row:?}");
        assert_eq!(
            value(14, row.name, 1),
            f64::from(row.performance),
            "{row:?}"
        );
        let throughput = if row.is_cipher { 8 } else { 6 };
        assert_eq!(
            value(throughput, row.name, 1),
            f64::from(row.mbit_per_s),
            "{row:?}"
        );
    }
}
