//! Actions.

use std::sync::Arc;

use invariant::broken;

use crate::compile::actions::{destination_ip, destination_port};
use crate::inject::InjectionFile;
use crate::program::{Action, Check, FileRef, Operand, SearchIn, Step, VarRef, What};
use crate::scan;
use crate::stats::Counter;
use crate::template::Template;
use crate::value::{TEXT_MAX, Value};

use super::call::{Call, Verdict};
use super::render::NO_MESSAGE;
use super::{Core, Event, Outputs};

mod variables;

use variables::{url_decode, url_encode};

/// What came of a step's actions.
pub(super) enum Acted {
    Done,
    Jumped(u32),
    Ends(Verdict),
}

/// What came of one action.
enum ActedOne {
    Done,
    Jumped(u32),
    /// It found something wrong: the rest of the step's actions are left out and, where
    /// the step received something, the call fails when it is over.
    Fails(Counter),
    Ends(Verdict),
}

impl Core {
    /// Does what a step says, after its message was sent or received.
    pub(super) fn act(
        &mut self,
        call: &mut Call,
        step: &Step,
        message: Option<&[u8]>,
        out: &mut Outputs,
    ) -> Acted {
        let mut jumped = None;
        for action in &step.actions {
            let events = out.events.len();
            let acted = self.act_one(call, action, message, out);
            if let Some(why) = self.complaint.take() {
                // A text of it could not be written: it is not done.
                out.events.truncate(events);
                self.end_run(Event::Fatal(why), out);
                return Acted::Ends(Verdict::Gone);
            }
            match acted {
                ActedOne::Done => {}
                ActedOne::Jumped(target) => jumped = Some(target),
                ActedOne::Fails(counter) => {
                    if matches!(step.what, What::Recv(_) | What::ReceiveCommand(_)) {
                        call.failure = Some(counter);
                    }
                    break;
                }
                ActedOne::Ends(verdict) => return Acted::Ends(verdict),
            }
        }
        jumped.map_or(Acted::Done, Acted::Jumped)
    }

    fn act_one(
        &mut self,
        call: &mut Call,
        action: &Action,
        message: Option<&[u8]>,
        out: &mut Outputs,
    ) -> ActedOne {
        match action {
            Action::Ereg {
                regex,
                search_in,
                check,
                assign_to,
            } => {
                return self.search(call, *regex, search_in, *check, assign_to, message, out);
            }
            Action::Log(text) => {
                let text = self.text(call, text);
                out.events.push(Event::Log(text));
            }
            Action::Warning(text) => {
                let text = self.text(call, text);
                let text = String::from_utf8_lossy(&text).into_owned();
                self.warn(text, out);
            }
            Action::Error(text) => {
                let text = self.text(call, text);
                self.stats.count(Counter::FatalErrors);
                let text = String::from_utf8_lossy(&text).into_owned();
                self.end_run(Event::Fatal(text), out);
                return ActedOne::Ends(Verdict::Gone);
            }
            Action::AssignText(to, text) => {
                let text = self.text(call, text);
                if text.len() > TEXT_MAX {
                    self.warn(
                        format!(
                            "call {}: a text of {} bytes was cut to {TEXT_MAX}",
                            call.number,
                            text.len()
                        ),
                        out,
                    );
                }
                self.scopes(call).set(*to, Value::text(text));
            }
            Action::Arithmetic(how, to, operand) => self.reckon(call, *how, *to, *operand, out),
            Action::Sample(to, distribution) => {
                let value = distribution.draw(&mut self.random);
                self.scopes(call).set(*to, Value::Number(value));
            }
            Action::ToDouble(to, from) => self.make_double(call, *to, *from, out),
            Action::Test {
                to,
                left,
                compare,
                right,
                check,
            } => return self.test(call, *to, *left, *compare, *right, *check),
            Action::Strcmp {
                to,
                left,
                right,
                check,
            } => return self.strcmp(call, *to, *left, right, *check),
            Action::Trim(variable) => {
                self.change(call, *variable, |text| text.trim_ascii().to_vec())
            }
            Action::UrlEncode(variable) => self.change(call, *variable, url_encode),
            Action::UrlDecode(variable) => self.change(call, *variable, url_decode),
            Action::Lookup { to, file, key } => return self.look_up(call, *to, file, key, out),
            Action::Jump(operand) => return self.jump(call, *operand, out),
            Action::TimeOfDay {
                seconds,
                microseconds,
            } => {
                let now = self.moment();
                let whole = (now.unix_us / 1_000_000) as f64;
                let mut scopes = self.scopes(call);
                scopes.set(*seconds, Value::Number(whole));
                scopes.set(*microseconds, Value::Number(f64::from(now.microsecond)));
            }
            Action::SetDestination {
                host,
                port,
                protocol,
            } => {
                if let Err(why) = self.set_destination(call, host, port, protocol) {
                    self.end_run(Event::Fatal(why), out);
                    return ActedOne::Ends(Verdict::Gone);
                }
            }
            Action::VerifyAuth { to, user, password } => {
                let (user, password) = (self.text(call, user), self.text(call, password));
                let is_right = is_answered(message.unwrap_or_default(), &user, &password);
                self.scopes(call).set(*to, Value::Bool(is_right));
            }
            Action::Index(to) => {
                let index = f64::from(call.step);
                self.scopes(call).set(*to, Value::Number(index));
            }
            Action::Command(text) => {
                let text = self.text(call, text);
                out.events.push(Event::Command(text));
            }
            Action::StopNow => {
                self.end_run(Event::StopNow, out);
                return ActedOne::Ends(Verdict::Gone);
            }
            Action::StopGracefully => out.events.push(Event::StopGracefully),
            Action::StopCall => return ActedOne::Ends(Verdict::Stopped),
        }
        ActedOne::Done
    }

    #[allow(clippy::too_many_arguments)]
    fn search(
        &mut self,
        call: &mut Call,
        regex: u16,
        search_in: &SearchIn,
        check: Check,
        assign_to: &[VarRef],
        message: Option<&[u8]>,
        out: &mut Outputs,
    ) -> ActedOne {
        let message = message.unwrap_or_default();
        let mut variable = Vec::new();
        let text = match search_in {
            SearchIn::Message => message,
            SearchIn::Body => scan::body(message),
            SearchIn::Header {
                name,
                ignore_case,
                occurrence,
                at_line_start,
            } => {
                let found = find_header(message, name, *ignore_case, *occurrence, *at_line_start);
                match found.filter(|text| !text.is_empty()) {
                    Some(text) => text,
                    // Whatever the expression is.
                    None if check == Check::MustBe => {
                        self.warn(
                            format!(
                                "Failed regexp match: header {} not found in message",
                                String::from_utf8_lossy(name)
                            ),
                            out,
                        );
                        return ActedOne::Fails(Counter::RegexpHeaderNotFound);
                    }
                    None => b"",
                }
            }
            SearchIn::Variable(from) => {
                variable.extend_from_slice(self.scopes(call).get(*from).string());
                variable.as_slice()
            }
        };
        let program = Arc::clone(&self.program);
        let index = usize::from(regex);
        let Some(regex) = program.regexes.get(index) else {
            return broken!("a step names expressions of its program", ActedOne::Done);
        };
        // Taken out, so that the variables can be written meanwhile.
        let spare = self.captures.get_mut(index).and_then(Option::take);
        let mut captures = spare.unwrap_or_else(|| regex.scratch());
        let found = regex.find(text, &mut captures);
        if found {
            let mut scopes = self.scopes(call);
            for (group, to) in assign_to.iter().enumerate() {
                // A part that took no part in the match leaves its variable alone.
                if let (Some(part), Some(slot)) = (captures.group(text, group), scopes.slot(*to)) {
                    slot.set_text(part);
                }
            }
        }
        if let Some(slot) = self.captures.get_mut(index) {
            *slot = Some(captures);
        }
        match check {
            Check::MustBe if !found => {
                self.warn(
                    format!(
                        "Failed regexp match: looking in '{}'",
                        String::from_utf8_lossy(text)
                    ),
                    out,
                );
                ActedOne::Fails(Counter::RegexpDoesntMatch)
            }
            Check::MustNotBe if found => {
                self.warn(
                    format!(
                        "Regexp matched but should not: looking in '{}'",
                        String::from_utf8_lossy(text)
                    ),
                    out,
                );
                ActedOne::Fails(Counter::RegexpShouldntMatch)
            }
            _ => ActedOne::Done,
        }
    }

    /// The line of a key in an injection file.
    fn look_up(
        &mut self,
        call: &mut Call,
        to: VarRef,
        file: &FileRef,
        key: &Template,
        out: &mut Outputs,
    ) -> ActedOne {
        let key = self.text(call, key);
        let index = match file {
            FileRef::Number(number) => usize::from(*number),
            FileRef::Named(name) => match self.indexed_file(call, name) {
                Ok(index) => index,
                Err(why) => {
                    self.end_run(Event::Fatal(why), out);
                    return ActedOne::Ends(Verdict::Gone);
                }
            },
        };
        let line = self.files.get(index).and_then(|file| file.lookup(&key));
        // SIPp's answer for a key that is not there.
        let line = line.map_or(-1.0, f64::from);
        self.scopes(call).set(to, Value::Number(line));
        ActedOne::Done
    }

    /// The injection file that a call names, which must have an index.
    fn indexed_file(&mut self, call: &mut Call, name: &Template) -> Result<usize, String> {
        let name = String::from_utf8_lossy(&self.text(call, name)).into_owned();
        let Some(index) = self.files.iter().position(|file| file.is_named(&name)) else {
            return Err(format!(
                "<lookup>: no injection file {name:?} was given; give it with -inf {name}"
            ));
        };
        if self.files.get(index).is_some_and(InjectionFile::is_indexed) {
            return Ok(index);
        }
        Err(format!(
            "<lookup>: {name} has no index; give one with -infindex {name} FIELD"
        ))
    }

    /// Goes on at another step, or behind the last one.
    fn jump(&mut self, call: &mut Call, operand: Operand, out: &mut Outputs) -> ActedOne {
        let target = self.operand(call, operand).trunc();
        let end = self.program.steps.len();
        let why = if target == f64::from(call.step) {
            format!("a <jump> at step {target} to itself, which would never end")
        } else if !(0.0..=end as f64).contains(&target) {
            format!("a <jump> to step {target}, which is not from 0 to {end}")
        } else {
            return ActedOne::Jumped(target as u32);
        };
        self.end_run(Event::Fatal(why), out);
        ActedOne::Ends(Verdict::Gone)
    }

    /// Where a call sends to from now on.
    fn set_destination(
        &mut self,
        call: &mut Call,
        host: &Template,
        port: &Template,
        protocol: &Template,
    ) -> Result<(), String> {
        let mut text =
            |template: &Template| String::from_utf8_lossy(&self.text(call, template)).into_owned();
        let (host, port, protocol) = (text(host), text(port), text(protocol));
        let own = self.settings.transport;
        if !protocol.eq_ignore_ascii_case(own.via_name()) {
            return Err(format!(
                "<setdest>: the protocol {protocol:?} is not that of the run, {}",
                own.via_name()
            ));
        }
        // The name of the remote host was looked up already.
        let known = self
            .settings
            .remote
            .filter(|_| host == self.settings.remote_host);
        let Some(ip) = destination_ip(&host).or(known.map(|remote| remote.ip())) else {
            return Err(format!(
                "<setdest>: {host:?} is no IP address; names are not looked up during a run"
            ));
        };
        let Some(port) = destination_port(&port) else {
            return Err(format!("<setdest>: {port:?} is no port"));
        };
        call.target.remote = std::net::SocketAddr::new(ip, port);
        // The route there decides, not where the call came in.
        call.target.local = None;
        Ok(())
    }

    fn text(&mut self, call: &mut Call, template: &Template) -> Vec<u8> {
        let mut text = Vec::new();
        self.render(call, template, NO_MESSAGE, &mut text);
        text
    }
}

/// Whether a request bears the digest of a user's password.
fn is_answered(message: &[u8], user: &[u8], password: &[u8]) -> bool {
    let line_len = memchr::memchr(b'\n', message).unwrap_or(0);
    let line = message.get(..line_len).unwrap_or_default();
    let (Some(method_len), Some(credentials)) = (
        memchr::memchr(b' ', line),
        scan::header(message, b"Authorization"),
    ) else {
        return false;
    };
    sip_auth::is_answered(
        credentials,
        user,
        password,
        line.get(..method_len).unwrap_or_default(),
        scan::body(message),
    )
}

/// What stands behind a header's name, to the end of its line. Unless the name
/// must begin a line, it may begin anywhere, as in SIPp.
fn find_header<'m>(
    message: &'m [u8],
    name: &[u8],
    ignore_case: bool,
    occurrence: u32,
    at_line_start: bool,
) -> Option<&'m [u8]> {
    let mut at = 0;
    let mut left = occurrence;
    loop {
        let rest = message.get(at..)?;
        let found = if ignore_case {
            rest.windows(name.len())
                .position(|window| window.eq_ignore_ascii_case(name))?
        } else {
            memchr::memmem::find(rest, name)?
        };
        let start = at + found;
        at = start + name.len();
        let begins_line = start == 0 || message.get(start - 1) == Some(&b'\n');
        if at_line_start && !begins_line {
            continue;
        }
        left -= 1;
        if left == 0 {
            let value = message.get(at..)?;
            let end = memchr::memchr2(b'\r', b'\n', value).unwrap_or(value.len());
            return value.get(..end);
        }
    }
}
