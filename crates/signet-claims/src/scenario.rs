//! SIPp's scenarios: compiled, and played for a while.

use sip_msg::{ConnId, Flow, ListenerId, Target, Transport};
use sip_scenario::{CallPath, Calls, CompileOptions, Outputs, Program, Role, Settings};

/// Turns that a scenario is played for.
const TURNS: u64 = 12;
/// Bytes that are sent in a turn at most, whatever the scenario says.
const TURN_BYTES_MAX: usize = 64 << 20;

/// A scenario compiles or has a problem at a place that is in the file; twice
/// the same. What compiles can be played: it answers every turn, with bounded
/// output, and is never out of its own hands.
pub fn scenario(data: &[u8]) {
    let compile = || Program::compile("it.xml", data, CompileOptions::default());
    let program = match compile() {
        Ok(program) => program,
        Err(problem) => {
            let lines = data.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&(problem.line as usize)), "{problem}");
            assert!(problem.column >= 1 && !problem.what.is_empty(), "{problem}");
            assert_eq!(compile().err(), Some(problem));
            return;
        }
    };
    for step in 0..program.step_count() {
        let _ = program.step_label(step);
    }
    play(program);
}

fn play(program: Program) {
    let remote = ([127, 0, 0, 1], 5_060).into();
    let role = program.role();
    let settings = Settings {
        remote: Some(remote),
        calls_max: 4,
        ..Settings::default()
    };
    let mut calls = Calls::new(program, settings, Vec::new(), &[]);
    let mut out = Outputs::default();
    let flow = Flow {
        transport: Transport::Udp,
        listener: ListenerId(0),
        local: ([127, 0, 0, 1], 5_061).into(),
        remote,
        conn: ConnId::NONE,
    };
    let target = Target {
        may_open: true,
        ..Target::back(&flow)
    };
    if role == Role::Client {
        let path = CallPath {
            target,
            local: None,
            since_ns: 0,
        };
        let _ = calls.start(0, path, &mut out);
    }
    let invite = b"INVITE sip:service@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bK1\r\n\
        From: <sip:a@127.0.0.1>;tag=1\r\nTo: <sip:service@127.0.0.1>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\
        Contact: <sip:a@127.0.0.1>\r\nContent-Length: 0\r\n\r\n";
    for turn in 1..=TURNS {
        let now_ns = turn * 500_000_000;
        let heard = match last_sent(&out) {
            Some(sent) => answer(sent, turn),
            None => invite.to_vec(),
        };
        out.outbox.clear();
        out.events.clear();
        calls.receive(now_ns, &flow, &heard, &mut out);
        calls.advance(now_ns, &mut out);
        assert!(
            out.outbox.bytes.len() <= TURN_BYTES_MAX,
            "{} bytes in one turn",
            out.outbox.bytes.len()
        );
        assert!(calls.len() <= 4);
    }
    calls.abandon((TURNS + 1) * 500_000_000, &mut out);
    assert!(calls.is_empty(), "calls that were abandoned are gone");
}

fn last_sent(out: &Outputs) -> Option<&[u8]> {
    let send = out.outbox.sends.last()?;
    out.outbox.bytes.get(send.start..send.end)
}

/// What was sent, sent back as the response to it.
fn answer(sent: &[u8], turn: u64) -> Vec<u8> {
    let end = sent.iter().position(|byte| *byte == b'\n');
    let (_, rest) = sent.split_at(end.map_or(sent.len(), |at| at + 1));
    let first = match turn % 4 {
        0 => &b"SIP/2.0 401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n"[..],
        1 => &b"SIP/2.0 100 Trying\r\n"[..],
        _ => &b"SIP/2.0 200 OK\r\n"[..],
    };
    [first, rest].concat()
}
