//! The end of calls that do not go through, and answers that no scenario asks for.

use crate::scan;

use super::call::Call;
use super::render::{number, write_last_line, write_last_uri};
use super::{Core, Outputs};

impl Core {
    /// Ends a call on the other side too, as far as that side can know of it.
    /// `last` is the message that the end is due to; without it the last one.
    pub(super) fn end_politely(&mut self, call: &mut Call, last: Option<&[u8]>, out: &mut Outputs) {
        if self.program.role == crate::program::Role::Server || call.step == 0 {
            return;
        }
        let kept = std::mem::take(&mut call.last_received);
        let last = last.unwrap_or(&kept);
        if last.is_empty() {
            // Nobody answered: there is nobody to tell.
        } else if !call.is_inviting {
            self.send_bye(call, last, out);
        } else if scan_status(last) >= 400 || call.owes_ack {
            self.send_ack(call, last, out);
            // Where the dialog was there before, it is there still.
            if call.owes_ack || call.is_confirmed {
                self.send_bye(call, last, out);
            }
        } else {
            self.send_cancel(call, last, out);
        }
        call.last_received = kept;
    }

    fn send_ack(&mut self, call: &Call, last: &[u8], out: &mut Outputs) {
        let start = out.outbox.bytes.len();
        let bytes = &mut out.outbox.bytes;
        begin(b"ACK", last, bytes);
        write_last_line(last, b"Via", bytes);
        write_dialog(last, b"ACK", 0, bytes);
        self.write_contact(b"sipp@", call.local, call.target.listener, bytes);
        bytes.extend_from_slice(
            b"Max-Forwards: 70\r\nSubject: Performance Test\r\nContent-Length: 0\r\n\r\n",
        );
        out.outbox.send_since(start, call.target.0.clone(), 0);
    }

    fn send_cancel(&mut self, call: &Call, last: &[u8], out: &mut Outputs) {
        let start = out.outbox.bytes.len();
        let bytes = &mut out.outbox.bytes;
        begin(b"CANCEL", last, bytes);
        write_last_line(last, b"Via", bytes);
        write_dialog(last, b"CANCEL", 0, bytes);
        bytes.extend_from_slice(b"Max-Forwards: 70\r\n");
        self.write_contact(b"sipp@", call.local, call.target.listener, bytes);
        bytes.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        out.outbox.send_since(start, call.target.0.clone(), 0);
    }

    fn send_bye(&mut self, call: &Call, last: &[u8], out: &mut Outputs) {
        let start = out.outbox.bytes.len();
        let bytes = &mut out.outbox.bytes;
        begin(b"BYE", last, bytes);
        bytes.extend_from_slice(b"Via: SIP/2.0/");
        bytes.extend_from_slice(self.settings.transport.via_name().as_bytes());
        bytes.push(b' ');
        self.write_local(call.local, call.target.listener, bytes);
        bytes.extend_from_slice(b";branch=z9hG4bK-");
        number(u64::from(self.settings.pid), bytes);
        bytes.push(b'-');
        number(call.number, bytes);
        bytes.extend_from_slice(b"--1\r\n");
        write_dialog(last, b"BYE", 1, bytes);
        bytes.extend_from_slice(b"Max-Forwards: 70\r\n");
        self.write_contact(b"sipp@", call.local, call.target.listener, bytes);
        bytes.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        out.outbox.send_since(start, call.target.0.clone(), 0);
    }
}

fn begin(method: &[u8], last: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(method);
    out.push(b' ');
    write_last_uri(last, out);
    out.extend_from_slice(b" SIP/2.0\r\n");
}

/// From, To and Call-ID of the last message, and a CSeq so much above its own.
fn write_dialog(last: &[u8], method: &[u8], above: u64, out: &mut Vec<u8>) {
    for name in [&b"From"[..], b"To", b"Call-ID"] {
        write_last_line(last, name, out);
    }
    let (cseq, _) = scan::split_cseq(scan::header(last, b"CSeq").unwrap_or_default());
    out.extend_from_slice(b"CSeq: ");
    number(u64::from(cseq) + above, out);
    out.push(b' ');
    out.extend_from_slice(method);
    out.extend_from_slice(b"\r\n");
}

fn scan_status(message: &[u8]) -> u16 {
    let code = message.strip_prefix(b"SIP/2.0 ").unwrap_or_default();
    code.iter()
        .take(3)
        .take_while(|b| b.is_ascii_digit())
        .fold(0, |code, digit| code * 10 + u16::from(digit - b'0'))
}
