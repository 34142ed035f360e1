//! Messages and texts with variable parts: literal bytes and what is patched
//! in between them.

use std::ops::Range;

use invariant::broken;

use crate::program::VarRef;

/// A text with variable parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Template {
    text: Vec<u8>,
    pub(crate) parts: Vec<Part>,
}

/// Bytes of a template's text.
pub(crate) type Span = Range<u32>;

/// A part of a template, in the order of the message.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Bytes as they stand.
    Text(Span),
    /// The same in the whole run: becomes text when the program is linked.
    Constant(Constant),
    CallNumber,
    CallId,
    /// `[branch]`, an offset on the step's number.
    Branch(i64),
    Cseq(i64),
    LastCseqNumber(i64),
    MsgIndex,
    LocalIp,
    LocalPort(i64),
    AutoMediaPort(i64),
    /// The length of the body plus an offset.
    Len(i64),
    /// All headers of this name, in the last message received; the name stands
    /// in the text.
    Last(Span),
    LastMessage,
    LastRequestUri,
    PeerTag,
    Routes,
    NextUrl,
    Variable(VarRef),
    Field(Box<FieldPart>),
    /// A text repeated to as many bytes as a variable says.
    Fill(Span, VarRef),
    Timestamp,
    Date,
    ClockTick,
    UserId,
    DynamicId,
    Authentication(Box<Login>),
}

/// What is the same in the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Constant {
    Service,
    RemoteIp,
    RemotePort(i64),
    RemoteHost,
    LocalIp,
    LocalIpType,
    LocalPort(i64),
    MediaIp,
    MediaIpType,
    MediaPort(i64),
    Transport,
    Pid,
    Users,
    ServerIp,
}

/// `[fieldN file= line=]`.
#[derive(Clone, Debug)]
pub(crate) struct FieldPart {
    pub(crate) file: u16,
    pub(crate) column: u16,
    pub(crate) line: Option<Template>,
}

/// `[authentication username= password=]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<Template>,
    pub(crate) password: Option<Template>,
}

/// What a message of the scenario is, as far as its text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A request with this method; empty where a keyword stands in its place.
    Request(Vec<u8>),
    /// A response.
    Response,
}

impl Template {
    /// The bytes of a span.
    pub(crate) fn bytes(&self, span: &Span) -> &[u8] {
        let bytes = self.text.get(span.start as usize..span.end as usize);
        bytes.unwrap_or_else(|| broken!("a span lies within its template", b""))
    }

    /// Appends literal bytes.
    pub(crate) fn push_text(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let span = self.intern(bytes);
        if let Some(Part::Text(last)) = self.parts.last_mut()
            && last.end == span.start
        {
            last.end = span.end;
        } else {
            self.parts.push(Part::Text(span));
        }
    }

    /// Keeps bytes that a part names without being text itself.
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> Span {
        let start = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.text.extend_from_slice(bytes);
        start..u32::try_from(self.text.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn push(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// Its text, if there is nothing else in it.
    pub(crate) fn literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [Part::Text(span)] => Some(self.bytes(span)),
            _ => None,
        }
    }

    /// Whether it begins with a request line.
    pub(crate) fn kind(&self) -> Kind {
        let first = match self.parts.first() {
            Some(Part::Text(span)) => self.bytes(span),
            _ => b"",
        };
        if first.starts_with(b"SIP/2.0") {
            return Kind::Response;
        }
        let len = memchr::memchr2(b' ', b'\r', first);
        Kind::Request(
            len.and_then(|len| first.get(..len))
                .unwrap_or_default()
                .to_vec(),
        )
    }

    /// Whether a part satisfies `is`, those inside of parts included.
    pub(crate) fn any(&self, is: &dyn Fn(&Part) -> bool) -> bool {
        self.parts.iter().any(|part| {
            is(part)
                || match part {
                    Part::Field(field) => field.line.as_ref().is_some_and(|line| line.any(is)),
                    Part::Authentication(login) => [&login.user, &login.password]
                        .into_iter()
                        .flatten()
                        .any(|t| t.any(is)),
                    _ => false,
                }
        })
    }

    /// The same with the run's constants as text.
    pub(crate) fn link(&self, constant: &dyn Fn(Constant, &mut Vec<u8>) -> bool) -> Self {
        let mut linked = Self::default();
        let mut value = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(span) => linked.push_text(self.bytes(span)),
                Part::Constant(which) => {
                    value.clear();
                    if constant(*which, &mut value) {
                        linked.push_text(&value);
                    } else {
                        linked.push(match *which {
                            Constant::LocalPort(offset) => Part::LocalPort(offset),
                            _ => Part::LocalIp,
                        });
                    }
                }
                Part::Last(span) => {
                    let span = linked.intern(self.bytes(span));
                    linked.push(Part::Last(span));
                }
                Part::Fill(span, variable) => {
                    let span = linked.intern(self.bytes(span));
                    linked.push(Part::Fill(span, *variable));
                }
                Part::Field(field) => linked.push(Part::Field(Box::new(FieldPart {
                    file: field.file,
                    column: field.column,
                    line: field.line.as_ref().map(|line| line.link(constant)),
                }))),
                Part::Authentication(login) => {
                    linked.push(Part::Authentication(Box::new(Login {
                        user: login.user.as_ref().map(|t| t.link(constant)),
                        password: login.password.as_ref().map(|t| t.link(constant)),
                    })));
                }
                other => linked.push(other.clone()),
            }
        }
        linked
    }
}
