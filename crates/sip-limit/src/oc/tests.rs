use super::*;

#[test]
fn what_a_via_tells_is_read() {
    let loss = |value, validity_ms, seq| {
        Some(Feedback {
            algorithm: Algorithm::Loss,
            value,
            validity_ms,
            seq,
        })
    };
    for (via, expected) in [
        (
            "SIP/2.0/UDP a;branch=z9hG4bK1;oc=20;oc-algo=\"loss\";oc-validity=500;oc-seq=1282321615.782",
            loss(20, 500, 1_282_321_615_782_000),
        ),
        ("SIP/2.0/UDP a;OC = 20 ;branch=z9hG4bK1", loss(20, 500, 0)),
        (
            "SIP/2.0/UDP a;oc=0;oc-validity=0;oc-seq=7",
            loss(0, 0, 7_000_000),
        ),
        ("SIP/2.0/UDP a;oc;oc-algo=\"loss,rate\"", None),
        ("SIP/2.0/UDP a;oc=x", None),
        ("SIP/2.0/UDP a;oc=20;oc-algo=\"window\"", None),
        ("SIP/2.0/UDP a;branch=1, SIP/2.0/UDP b;oc=20", None),
        ("SIP/2.0/UDP a;x=\";oc=20\"", None),
        ("", None),
    ] {
        assert_eq!(read_feedback(via.as_bytes()), expected, "{via}");
    }
    let rate = read_feedback(b"SIP/2.0/UDP a;oc=150;oc-algo=\"rate\";oc-seq=1.5").unwrap();
    assert_eq!(
        (rate.algorithm, rate.value, rate.seq),
        (Algorithm::Rate, 150, 1_500_000)
    );
}

#[test]
fn who_offers_is_told_in_his_own_via_and_nobody_elses_word_stays() {
    let told = |via: &str| {
        let mut bytes = b"before".to_vec();
        bytes.extend_from_slice(
            format!("SIP/2.0 200 OK\r\n{via}\r\nTo: <sip:a@b>\r\n\r\n").as_bytes(),
        );
        let was = write_feedback(&mut bytes, 6, 25, 1_282_321_615_782);
        let text = String::from_utf8(bytes).unwrap();
        was.then(|| text[22..].split("\r\n").next().unwrap().to_owned())
    };
    let ours = ";oc=25;oc-algo=\"loss\";oc-validity=500;oc-seq=1282321615.782";
    assert_eq!(
        told("Via: SIP/2.0/UDP a;oc;oc-algo=\"loss,rate\";branch=z9hG4bK1, SIP/2.0/UDP b;oc")
            .unwrap(),
        format!("Via: SIP/2.0/UDP a{ours};branch=z9hG4bK1, SIP/2.0/UDP b;oc")
    );
    assert_eq!(
        told("v: SIP/2.0/UDP a;branch=z9hG4bK1;oc=100;oc-seq=9999999999.0;oc-validity=60000")
            .unwrap(),
        format!("v: SIP/2.0/UDP a;branch=z9hG4bK1{ours}")
    );
    assert_eq!(
        told("Via: SIP/2.0/UDP a;branch=z9hG4bK1, SIP/2.0/UDP b;oc"),
        None
    );
    assert_eq!(told("From: <sip:a@b>;oc"), None);
}

fn addr() -> SocketAddr {
    "192.0.2.1:5060".parse().unwrap()
}

fn word(algorithm: Algorithm, value: u32, seq: u64) -> Feedback {
    Feedback {
        algorithm,
        value,
        validity_ms: 1_000,
        seq,
    }
}

fn sent(neighbours: &mut Neighbours, from_ms: u64, ms: u64, per_ms: u64) -> u64 {
    let mut sent = 0;
    for now_ms in from_ms..from_ms + ms {
        for _ in 0..per_ms {
            sent += u64::from(neighbours.may_send(now_ms, addr()));
        }
    }
    sent
}

#[test]
fn a_loss_is_obeyed_while_it_is_valid() {
    let mut neighbours = Neighbours::default();
    assert_eq!(sent(&mut neighbours, 0, 10, 10), 100);
    neighbours.take_feedback(100, addr(), word(Algorithm::Loss, 20, 5));
    assert_eq!(sent(&mut neighbours, 100, 100, 10), 800);
    neighbours.take_feedback(200, addr(), word(Algorithm::Loss, 100, 6));
    assert_eq!(sent(&mut neighbours, 200, 100, 10), 0);
    // An older word, and one of somebody else.
    neighbours.take_feedback(300, addr(), word(Algorithm::Loss, 0, 4));
    neighbours.take_feedback(
        300,
        "192.0.2.2:5060".parse().unwrap(),
        word(Algorithm::Loss, 0, 9),
    );
    assert_eq!(sent(&mut neighbours, 300, 100, 10), 0);
    assert_eq!(sent(&mut neighbours, 1_200, 100, 10), 1_000);
    neighbours.take_feedback(1_300, addr(), word(Algorithm::Loss, 100, 7));
    let over = Feedback {
        validity_ms: 0,
        ..word(Algorithm::Loss, 100, 8)
    };
    neighbours.take_feedback(1_300, addr(), over);
    assert_eq!(sent(&mut neighbours, 1_300, 10, 10), 100);
}

#[test]
fn a_rate_is_obeyed_and_not_made_up_for() {
    let mut neighbours = Neighbours::default();
    neighbours.take_feedback(0, addr(), word(Algorithm::Rate, 100, 1));
    let first = sent(&mut neighbours, 0, 500, 10);
    assert!((49..=61).contains(&first), "{first}");
    assert!(sent(&mut neighbours, 900, 1, 100) <= 10);
    neighbours.take_feedback(950, addr(), word(Algorithm::Rate, 0, 2));
    assert_eq!(sent(&mut neighbours, 951, 100, 10), 0);
}

#[test]
fn the_table_is_bounded() {
    let mut neighbours = Neighbours::default();
    for port in 1..5_000u16 {
        neighbours.take_feedback(
            1,
            SocketAddr::new([192, 0, 2, 1].into(), port),
            word(Algorithm::Loss, 1, 1),
        );
    }
    assert_eq!(neighbours.by_addr.len(), NEIGHBOURS_MAX);
}

#[test]
fn who_counts_anew_is_heeded_when_his_last_word_is_long_over() {
    let mut neighbours = Neighbours::default();
    neighbours.take_feedback(1_000, addr(), word(Algorithm::Loss, 0, 9_000_000));
    let mut stops = |now_ms| {
        neighbours.take_feedback(now_ms, addr(), word(Algorithm::Loss, 100, 5));
        !neighbours.may_send(now_ms, addr())
    };
    assert!(!stops(1_100), "older than what is known");
    assert!(!stops(30_000), "it may have been long on its way");
    assert!(stops(90_000), "he has begun to count anew");
}
