use std::net::SocketAddr;

use sip_msg::Transport;
use sip_worker::{Direction, Trace as _};

use super::outlet::WAITING_BYTES_MAX;
use super::*;
use crate::testing::TempDir;

fn quiet() -> Tracer {
    Tracer::start(&Log::default()).unwrap()
}

fn show(worker: &WorkerTracer, bytes: &[u8]) {
    let remote: SocketAddr = "192.0.2.1:5060".parse().unwrap();
    worker.message(&Passing {
        direction: Direction::In,
        transport: Transport::Udp,
        local: Some("192.0.2.2:5060".parse().unwrap()),
        remote,
        bytes,
    });
}

fn of_call(call: &str) -> Filter {
    Filter {
        call: Some(call.to_owned()),
        ..Filter::default()
    }
}

fn message(call: &str) -> Vec<u8> {
    format!("OPTIONS sip:a SIP/2.0\r\nCall-ID: {call}\r\n\r\n").into_bytes()
}

#[test]
fn it_is_on_while_somebody_asks() {
    let tracer = quiet();
    let worker = tracer.for_worker();
    assert!(!worker.is_on());
    let Ok(name) = tracer.open_for(Filter::default()) else {
        panic!("there is room");
    };
    assert!(worker.is_on());
    show(&worker, b"x");
    let (seen, left_out) = tracer.take_for(name).unwrap();
    assert_eq!((seen.len(), left_out), (1, 0));
    assert!(tracer.take_for(name).unwrap().0.is_empty());
    tracer.close_for(name);
    assert!(!worker.is_on());
    assert!(tracer.take_for(name).is_none());
}

#[test]
fn it_is_off_again_when_who_asked_is_gone() {
    let tracer = quiet();
    let worker = tracer.for_worker();
    let Ok(name) = tracer.open_for(Filter::default()) else {
        panic!("there is room");
    };
    let now = Instant::now();
    tracer.sweep(now);
    assert!(worker.is_on());
    tracer.sweep(now + Duration::from_secs(6));
    assert!(!worker.is_on() && tracer.take_for(name).is_none());
}

#[test]
fn each_gets_what_he_asked_for() {
    let tracer = quiet();
    let worker = tracer.for_worker();
    let names: Vec<u64> = ["a", "b", "c", ""]
        .iter()
        .filter_map(|call| tracer.open_for(of_call(call)).ok())
        .collect();
    assert!(tracer.open_for(Filter::default()).is_err(), "four are all");
    assert!(worker.is_on());
    for call in ["a1", "a2", "b"] {
        show(&worker, &message(call));
    }
    let counts = names
        .iter()
        .map(|name| tracer.take_for(*name).unwrap().0.len());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 1, 0, 3]);
}

#[test]
fn what_is_not_taken_is_left_out_and_counted_and_no_worker_waits() {
    let tracer = quiet();
    let worker = tracer.for_worker();
    let Ok(name) = tracer.open_for(Filter::default()) else {
        panic!("there is room");
    };
    assert!(worker.is_on());
    // By their number, and by their bytes.
    for (len, count) in [(1, 10_000), (60_000, 1_000)] {
        for _ in 0..count {
            show(&worker, &vec![b'x'; len]);
        }
        let (mut taken, mut bytes, mut left_out) = (0, 0, 0);
        loop {
            let (seen, out) = tracer.take_for(name).unwrap();
            left_out += out;
            if seen.is_empty() {
                break;
            }
            taken += seen.len() as u64;
            bytes += seen.iter().map(|seen| seen.bytes.len()).sum::<usize>();
        }
        assert_eq!(taken + left_out, count);
        assert!(left_out > 0 && taken > 200 && bytes <= WAITING_BYTES_MAX);
    }
}

#[test]
fn a_file_is_begun_kept_and_ended_by_the_configuration() {
    let folder = TempDir::new("trace-file");
    let path = folder.path().join("t.pcapng");
    let tracer = quiet();
    let worker = tracer.for_worker();
    let mut log = Log {
        trace_pcap: Some(path.clone()),
        ..Log::default()
    };
    for call in ["", "other"] {
        // The second time with another filter, and the same file goes on.
        log.trace_call = Some(call.to_owned());
        tracer.take_over(tracer.prepare(&log).unwrap());
        assert!(worker.is_on());
        show(&worker, &message("first"));
    }
    show(&worker, &message("other"));
    drop(worker);
    tracer.end();
    let written = std::fs::read(&path).unwrap();
    let count = |text: &[u8]| {
        let parts = written.windows(text.len());
        parts.filter(|part| *part == text).count()
    };
    assert_eq!((count(b": first\r\n"), count(b": other\r\n")), (1, 1));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    log.trace_pcap = Some(folder.path().join("no/such/folder"));
    assert!(tracer.prepare(&log).is_err());
}

#[test]
fn what_is_left_out_at_the_end_of_a_file_is_told() {
    let folder = TempDir::new("trace-end");
    let path = folder.path().join("t.pcapng");
    let (outlet, inlet) = Outlet::new();
    let seen = Arc::new(Seen {
        at_unix_us: 0,
        direction: Direction::In,
        transport: Transport::Udp,
        local: Some("192.0.2.2:5060".parse().unwrap()),
        remote: "192.0.2.1:5060".parse().unwrap(),
        bytes: b"x".to_vec(),
    });
    let of_no_way = Arc::new(Seen {
        local: None,
        ..Seen::clone(&seen)
    });
    // Nobody takes any meanwhile: the last ones are too many.
    let count = 10_000;
    outlet.give(&seen);
    (1..count).for_each(|_| outlet.give(&of_no_way));
    drop(outlet);
    let mut file = PcapFile::create(&path, FILE_BYTES_MAX).unwrap();
    // What was left out is said with the first message, which came before them.
    assert_eq!(write_until_end(&inlet, &mut file).unwrap(), 0);

    let (outlet, inlet) = Outlet::new();
    (0..count).for_each(|_| outlet.give(&of_no_way));
    drop(outlet);
    let left_out = write_until_end(&inlet, &mut file).unwrap();
    assert!(left_out > 0 && left_out < count);
}
