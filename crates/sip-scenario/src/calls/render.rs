//! Writes messages: literal bytes are copied, the rest is patched in.

use std::net::SocketAddr;
use std::ops::Range;

use sip_msg::ListenerId;

use crate::calendar::Moment;
use crate::scan;
use crate::settings::ip_text;
use crate::template::{FieldPart, Login, Part, Template};
use crate::value::{Scopes, read_number};

use super::Core;
use super::call::Call;
use super::credentials::injected;

/// The width of `[len]`, right-aligned, as SIPp prints it.
const LEN_WIDTH: usize = 5;

/// SIPp's number for a text that is no message of the scenario.
pub(super) const NO_MESSAGE: i64 = -2;

/// What is filled in when the rest is written.
#[derive(Default)]
struct Later<'t> {
    len: Option<(usize, i64)>,
    login: Option<(usize, &'t Login)>,
    /// An `[authentication]` that a field of a file brought.
    injected: Option<Range<usize>>,
}

impl Core {
    /// Appends a message or text. `step` is the number in `[branch]`, and the
    /// same without an offset in `[msg_index]`.
    pub(super) fn render(
        &mut self,
        call: &mut Call,
        template: &Template,
        step: i64,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        let mut later = Later::default();
        // Bytes that are missing at the beginning of a line take the white
        // space behind them along, the line end included.
        let mut swallows = false;
        for part in &template.parts {
            if let Part::Text(span) = part {
                let bytes = template.bytes(span);
                if swallows {
                    out.extend_from_slice(bytes.trim_ascii_start());
                    swallows = false;
                } else {
                    out.extend_from_slice(bytes);
                }
                continue;
            }
            let before = out.len();
            self.write_part(call, template, part, step, &mut later, out);
            let may_swallow = matches!(
                part,
                Part::Last(_) | Part::Routes | Part::Variable(_) | Part::Field(_)
            );
            if out.len() == before && may_swallow {
                swallows = before > start && out.last() == Some(&b'\n');
            } else {
                swallows = false;
            }
        }
        self.finish(call, start, later, out);
    }

    fn write_part<'t>(
        &mut self,
        call: &mut Call,
        template: &'t Template,
        part: &'t Part,
        step: i64,
        later: &mut Later<'t>,
        out: &mut Vec<u8>,
    ) {
        match part {
            Part::Text(_) | Part::Constant(_) => {}
            Part::CallNumber => number(call.number, out),
            Part::CallId => out.extend_from_slice(&call.id),
            Part::Branch(offset) => self.write_branch(call, step, *offset, out),
            Part::Cseq(offset) => signed(i64::from(call.cseq).saturating_add(*offset), out),
            Part::LastCseqNumber(offset) => {
                let (cseq, _) = scan::split_cseq(
                    scan::header(&call.last_received, b"CSeq").unwrap_or_default(),
                );
                signed(i64::from(cseq).saturating_add(*offset), out);
            }
            Part::MsgIndex => signed(step, out),
            Part::LocalIp => {
                if let Some(local) = self.local(call.local, call.target.listener) {
                    out.extend_from_slice(ip_text(local.ip()).as_bytes());
                }
            }
            Part::LocalPort(offset) => {
                let local = self.local(call.local, call.target.listener);
                let port = local.map_or(0, |local| i64::from(local.port()));
                signed(port.saturating_add(*offset), out);
            }
            Part::AutoMediaPort(offset) => {
                let shift = call.number.wrapping_sub(1).wrapping_mul(4) % 10_000;
                let port = u64::from(self.settings.media_port) + shift;
                signed(
                    i64::try_from(port).unwrap_or(0).saturating_add(*offset),
                    out,
                );
            }
            Part::Len(offset) => {
                later.len = Some((out.len(), *offset));
                out.extend_from_slice(&[b' '; LEN_WIDTH]);
            }
            Part::Last(name) => {
                write_last(&call.last_received, template.bytes(name), out);
            }
            Part::LastMessage => out.extend_from_slice(&call.last_received),
            Part::LastRequestUri => write_last_uri(&call.last_received, out),
            Part::PeerTag => {
                if !call.peer_tag.is_empty() {
                    out.extend_from_slice(b";tag=");
                    out.extend_from_slice(&call.peer_tag);
                }
            }
            Part::Routes => {
                if !call.routes.is_empty() {
                    out.extend_from_slice(b"Route: ");
                    out.extend_from_slice(&call.routes);
                }
            }
            Part::NextUrl => out.extend_from_slice(&call.next_url),
            Part::Variable(variable) => self.scopes(call).get(*variable).write(out),
            Part::Field(field) => {
                let from = out.len();
                self.write_field(call, field, out);
                if later.injected.is_none() {
                    later.injected = injected(out, from);
                }
            }
            Part::Fill(text, variable) => {
                let text = template.bytes(text);
                let count = self.scopes(call).get(*variable).number();
                // A datagram is no longer than this.
                let count = count.clamp(0.0, 65_535.0) as usize;
                out.extend(text.iter().copied().cycle().take(count));
            }
            Part::Timestamp => out.extend_from_slice(self.moment().stamp().as_bytes()),
            Part::Date => out.extend_from_slice(self.moment().sip_date().as_bytes()),
            Part::ClockTick => number(self.now_ns / 1_000_000, out),
            Part::UserId => number(u64::from(call.user.unwrap_or(0)), out),
            Part::DynamicId => number(u64::from(self.next_dynamic_id()), out),
            Part::Authentication(login) => later.login = Some((out.len(), login)),
        }
    }

    /// SIPp's own form, so that messages compare.
    fn write_branch(&self, call: &Call, step: i64, offset: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"z9hG4bK-");
        number(u64::from(self.settings.pid), out);
        out.push(b'-');
        number(call.number, out);
        out.push(b'-');
        // A text has that of the message before the step at which the call stands.
        let step = match step {
            NO_MESSAGE => i64::from(call.step) - 1,
            step => step,
        };
        signed(step.saturating_add(offset), out);
    }

    /// A field of the call's line, or of the line that a text names.
    fn write_field(&mut self, call: &mut Call, field: &FieldPart, out: &mut Vec<u8>) {
        let line = match &field.line {
            None => call.lines.get(usize::from(field.file)).copied(),
            Some(template) => {
                let mut text = std::mem::take(&mut self.scratch);
                text.clear();
                self.render(call, template, NO_MESSAGE, &mut text);
                let line = line_number(&text);
                if line.is_none() {
                    let text = String::from_utf8_lossy(&text);
                    let why = format!("{text:?} is no number of a line of a [field]");
                    self.complaint = Some(why);
                }
                self.scratch = text;
                line.flatten()
            }
        };
        if let (Some(line), Some(file)) = (line, self.files.get(usize::from(field.file))) {
            file.write_field(line, usize::from(field.column), out);
        }
    }

    /// Fills in what depends on the rest of the message.
    fn finish(&mut self, call: &mut Call, start: usize, later: Later<'_>, out: &mut Vec<u8>) {
        // What stands behind a length with more digits than it had room for.
        let mut moved = (usize::MAX, 0);
        if let Some((at, offset)) = later.len {
            let body_len = scan::body(out.get(start..).unwrap_or_default()).len();
            let len = i64::try_from(body_len)
                .unwrap_or(i64::MAX)
                .saturating_add(offset);
            let before = out.len();
            write_len(len, at, out);
            moved = (at, out.len() - before);
        }
        let place = |at: usize| if at > moved.0 { at + moved.1 } else { at };
        if let Some((at, login)) = later.login {
            self.insert_credentials(call, start, place(at), login, out);
        } else if let Some(keyword) = later.injected {
            let keyword = place(keyword.start)..place(keyword.end);
            self.insert_injected_credentials(call, start, keyword, out);
        }
    }

    /// Appends a 200 to a request of no call, or one that nobody expects.
    pub(super) fn write_ok(
        &self,
        request: &[u8],
        own: Option<SocketAddr>,
        listener: ListenerId,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"SIP/2.0 200 OK\r\n");
        for name in [&b"Via"[..], b"From", b"To", b"Call-ID", b"CSeq"] {
            write_last_line(request, name, out);
        }
        self.write_contact(b"", own, listener, out);
        out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }

    /// Appends a Contact of this side.
    pub(super) fn write_contact(
        &self,
        user: &[u8],
        own: Option<SocketAddr>,
        listener: ListenerId,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"Contact: <sip:");
        out.extend_from_slice(user);
        self.write_local(own, listener, out);
        out.extend_from_slice(b";transport=");
        out.extend_from_slice(self.settings.transport.via_name().as_bytes());
        out.extend_from_slice(b">\r\n");
    }

    /// Appends address and port of this side.
    pub(super) fn write_local(
        &self,
        own: Option<SocketAddr>,
        listener: ListenerId,
        out: &mut Vec<u8>,
    ) {
        if let Some(local) = self.local(own, listener) {
            out.extend_from_slice(ip_text(local.ip()).as_bytes());
            out.push(b':');
            number(u64::from(local.port()), out);
        }
    }

    /// Appends the Call-ID of a call that begins here.
    pub(super) fn write_call_id(&self, call: &Call, out: &mut Vec<u8>) {
        out.clear();
        let mut rest = self.settings.call_id.as_str();
        while let Some(at) = rest.find('%') {
            out.extend_from_slice(rest.get(..at).unwrap_or_default().as_bytes());
            let mut behind = rest.get(at + 1..).unwrap_or_default().chars();
            match behind.next() {
                Some('u') => number(call.number, out),
                Some('p') => number(u64::from(self.settings.pid), out),
                Some('s') => {
                    if let Some(local) = self.local(call.local, call.target.listener) {
                        out.extend_from_slice(local.ip().to_string().as_bytes());
                    }
                }
                Some('%') | None => out.push(b'%'),
                Some(other) => {
                    out.push(b'%');
                    out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            rest = behind.as_str();
        }
        out.extend_from_slice(rest.as_bytes());
    }

    /// The address of a call's side: its own, or that of its listener.
    fn local(&self, own: Option<SocketAddr>, listener: ListenerId) -> Option<SocketAddr> {
        let locals = &self.settings.locals;
        own.or_else(|| {
            locals
                .get(usize::from(listener.0))
                .or(locals.first())
                .copied()
        })
    }

    pub(super) fn moment(&self) -> Moment {
        Moment::from_unix_us(
            self.settings
                .epoch_unix_us
                .saturating_add(self.now_ns / 1_000),
        )
    }

    pub(super) fn scopes<'a>(&'a mut self, call: &'a mut Call) -> Scopes<'a> {
        let user = call.user.unwrap_or(0) as usize;
        Scopes {
            call: &mut call.variables,
            user: self
                .users
                .get_mut(user)
                .map(Vec::as_mut_slice)
                .unwrap_or_default(),
            global: &mut self.globals,
        }
    }
}

/// Appends all headers of a name as one, without a line end. Gives whether
/// there was any.
pub(super) fn write_last(message: &[u8], name: &[u8], out: &mut Vec<u8>) -> bool {
    let mut is_first = true;
    for (found, value) in scan::headers(message, name) {
        if is_first {
            out.extend_from_slice(found);
            out.extend_from_slice(b": ");
        } else {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(value);
        is_first = false;
    }
    !is_first
}

/// The same with a line end, if there was any.
pub(super) fn write_last_line(message: &[u8], name: &[u8], out: &mut Vec<u8>) {
    if write_last(message, name, out) {
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the URI in the To of a message.
pub(super) fn write_last_uri(message: &[u8], out: &mut Vec<u8>) {
    let to = scan::header(message, b"To").unwrap_or_default();
    scan::write_unfolded(scan::in_brackets(to).unwrap_or_default(), out);
}

/// The number of a line; `None` is no number, and one that is below zero has no line.
fn line_number(text: &[u8]) -> Option<Option<u64>> {
    let number = read_number(text)?;
    Some((number >= 0.0).then_some(number as u64))
}

/// Puts a length at the end of the room that was left for it.
fn write_len(len: i64, at: usize, out: &mut Vec<u8>) {
    let behind = out.len();
    signed(len, out);
    let digits = out.len() - behind;
    if digits <= LEN_WIDTH {
        out.copy_within(behind.., at + LEN_WIDTH - digits);
        out.truncate(behind);
    } else {
        let text = out.split_off(behind);
        out.splice(at..at + LEN_WIDTH, text);
    }
}

/// Appends a number in decimal digits.
pub(super) fn number(value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value;
    loop {
        at -= 1;
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        }
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

fn signed(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    number(value.unsigned_abs(), out);
}
