//! The called side by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use signet_load::app::{Circumstances, result_of};
use signet_load::{Control, Flow, Mix, Settings, run};
use sip_msg::Transport;

/// Of a dialog that nobody knows.
const BYE: &[u8] = b"BYE sip:answer@127.0.0.1 SIP/2.0\r\n\
    Via: SIP/2.0/TCP 127.0.0.1:9;branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
    From: <sip:a@load.test>;tag=1\r\nTo: <sip:answer@127.0.0.1>;tag=2\r\n\
    Call-ID: a-bye\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n";

fn is_refused(at: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(at).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream.write_all(BYE).unwrap();
    let (mut bytes, mut heard) = ([0; 4_096], String::new());
    while !heard.contains("\r\n\r\n") {
        let len = match stream.read(&mut bytes) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => panic!("{error}"),
        };
        assert_ne!(len, 0, "{heard}");
        heard.push_str(&String::from_utf8_lossy(&bytes[..len]));
    }
    heard.starts_with("SIP/2.0 481 ")
}

/// A dialog is one thread's. Where a connection brings a request of it to another thread, what
/// came of it is the generator's own.
#[test]
fn dialogs_of_other_threads_are_a_doubt() {
    for threads in [1, 2] {
        let mut settings = Settings::new(Mix::only(Flow::Call));
        settings.threads = threads;
        settings.answering.listen = vec![(Transport::Tcp, "127.0.0.1:0".parse().unwrap())];
        let described = settings.clone();
        let control = Control::new();
        let mut was_refused = false;
        let ran = run(settings, &control.clone(), &mut |progress| {
            if progress.elapsed_ns.is_some() && !was_refused {
                was_refused = is_refused(progress.answering[0].1);
                assert!(was_refused);
                control.interrupt();
            }
        })
        .unwrap();
        let mut result = result_of(ran, &described, Circumstances::default());
        result.conclude(&[]);
        let mut names = result.doubts.iter().map(|doubt| doubt.name.as_str());
        let is_doubt = names.any(|name| name == "dialogs of other threads");
        assert_eq!(is_doubt, threads > 1, "{threads}");
    }
}
