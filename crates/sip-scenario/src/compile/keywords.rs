//! Keywords in square brackets, and the shape of messages around them.

use crate::problem::Problem;
use crate::template::{Constant, FieldPart, Login, Part, Template};
use crate::xml::Attribute;

use super::Compiler;

/// Bytes of a keyword with its parameters.
const KEYWORD_MAX: usize = 4_096;
/// Bytes of a file that `[file name=...]` names.
const FILE_MAX: usize = 65_536;

impl Compiler<'_> {
    /// A message: white space around lines is layout of the XML file and goes,
    /// line ends become CRLF, and one that ends with its headers gets the empty
    /// line behind them. A body ends with a line end if the file has one behind it.
    pub(crate) fn message(&mut self, raw: &[u8], base: usize) -> Result<Template, Problem> {
        let end = raw.trim_ascii_end().len();
        let layout = raw.get(end..).unwrap_or_default();
        self.lines(raw, base, memchr::memchr(b'\n', layout).is_some())
    }

    /// A command to another instance: the same, but that its body never ends with a line end.
    pub(crate) fn command(&mut self, raw: &[u8], base: usize) -> Result<Template, Problem> {
        self.lines(raw, base, false)
    }

    fn lines(&mut self, raw: &[u8], base: usize, ends: bool) -> Result<Template, Problem> {
        let mut template = Template::default();
        let begin = raw.len() - raw.trim_ascii_start().len();
        let end = raw.trim_ascii_end().len();
        let mut has_body = false;
        let mut at = begin;
        while at < end {
            let rest = raw.get(at..end).unwrap_or_default();
            let line_len = line_len(rest);
            let line = rest.get(..line_len).unwrap_or_default();
            let indent = line.len() - line.trim_ascii_start().len();
            let text = line.trim_ascii();
            has_body |= text.is_empty();
            self.fill(&mut template, text, base + at + indent)?;
            at += line_len + 1;
            if at < end {
                template.push_text(b"\r\n");
            }
        }
        if !has_body {
            template.push_text(b"\r\n\r\n");
        } else if ends {
            template.push_text(b"\r\n");
        }
        Ok(template)
    }

    /// The value of an attribute in which keywords stand.
    pub(crate) fn text(&mut self, attribute: &Attribute) -> Result<Template, Problem> {
        let mut template = Template::default();
        self.fill(&mut template, &attribute.value, attribute.value_at)?;
        Ok(template)
    }

    fn fill(&mut self, template: &mut Template, raw: &[u8], base: usize) -> Result<(), Problem> {
        let mut at = 0;
        while let Some(rest) = raw.get(at..)
            && !rest.is_empty()
        {
            let plain = memchr::memchr2(b'[', b'\\', rest).unwrap_or(rest.len());
            template.push_text(rest.get(..plain).unwrap_or_default());
            at += plain;
            match rest.get(plain..).unwrap_or_default() {
                [b'[', inside @ ..] => {
                    let text = plain_before(inside);
                    let (Some(len), None) = (closing(inside), text) else {
                        if text.is_none() {
                            self.warn(
                                base + at,
                                "the bracket is not closed and is taken as text; \
                                 \\x5B says that this is meant",
                            );
                        }
                        let text = text.unwrap_or_default();
                        template.push_text(b"[");
                        template.push_text(text);
                        at += text.len() + 1;
                        continue;
                    };
                    let keyword = inside.get(..len).unwrap_or_default();
                    self.keyword(template, keyword, base + at + 1)?;
                    at += len + 2;
                }
                [b'\\', b'x', high, low, ..] => {
                    match (hex(*high), hex(*low)) {
                        (Some(high), Some(low)) => template.push_text(&[high * 16 + low]),
                        _ => template.push_text(&[b'\\', b'x', *high, *low]),
                    }
                    at += 4;
                }
                [byte, ..] => {
                    template.push_text(&[*byte]);
                    at += 1;
                }
                [] => {}
            }
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        template: &mut Template,
        keyword: &[u8],
        at: usize,
    ) -> Result<(), Problem> {
        if let Some(name) = keyword.strip_prefix(b"$") {
            let name = String::from_utf8_lossy(name);
            let (name, offset) = split_offset(&name);
            if offset.is_some() {
                let what = format!("[${name}] takes no offset; it is passed over");
                self.warn(at, what);
            }
            let variable = self.variable(name, at + 1)?;
            template.push(Part::Variable(variable));
            return Ok(());
        }
        let text = String::from_utf8_lossy(keyword).into_owned();
        if let Some((_, value)) = self.options.keys.iter().find(|(name, _)| *name == text) {
            template.push_text(value);
            return Ok(());
        }
        let (word, parameters) = match text.find(char::is_whitespace) {
            Some(space) => (
                text.get(..space).unwrap_or_default(),
                text.get(space..).unwrap_or_default(),
            ),
            None => (text.as_str(), ""),
        };
        if let Some(column) = word.strip_prefix("field")
            && let Ok(column) = column.parse::<u16>()
        {
            let parameters_at = at + word.len();
            return self.field(template, column, parameters, at, parameters_at);
        }
        match word {
            "authentication" => return self.login(template, parameters, at + word.len()),
            "file" => return self.file_contents(template, parameters, at + word.len()),
            "fill" => return self.filling(template, parameters, at + word.len()),
            _ => {}
        }
        let (name, offset) = split_offset(word);
        if !parameters.trim().is_empty() {
            return Err(self.problem(
                at,
                format!(
                    "[{word}] takes no parameters; \"{}\" is too much",
                    parameters.trim()
                ),
            ));
        }
        if offset.is_some() && !takes_offset(name) {
            self.warn(at, format!("[{name}] takes no offset; it is passed over"));
        }
        let part = match simple(name, offset) {
            Some(part) => part,
            None if name == "sipp_version" => {
                // The version whose scenario language this is.
                template.push_text(b"3.6.1");
                return Ok(());
            }
            None => self.last(template, name, at)?,
        };
        template.push(part);
        Ok(())
    }

    fn last(&mut self, template: &mut Template, name: &str, at: usize) -> Result<Part, Problem> {
        if let Some(header) = name.strip_prefix("last_").filter(|name| !name.is_empty()) {
            let header = header.strip_suffix(':').unwrap_or(header);
            if header.contains(':') {
                let what = format!("[{name}] is never there; to take a part of it use <ereg>");
                self.warn(at, what);
            }
            let span = template.intern(header.as_bytes());
            return Ok(Part::Last(span));
        }
        let what = if name.starts_with("rtpstream") || name == "rtp_echo" {
            format!("[{name}] is not covered: this generator sends no media")
        } else {
            format!(
                "the keyword [{name}] is not known; give it with -key {name} VALUE, \
                 or write \\x5B for the bracket itself"
            )
        };
        Err(self.problem(at, what))
    }

    fn field(
        &mut self,
        template: &mut Template,
        column: u16,
        parameters: &str,
        at: usize,
        parameters_at: usize,
    ) -> Result<(), Problem> {
        let (mut file, mut line) = (None, None);
        for parameter in self.parameters(parameters, parameters_at)? {
            match parameter.name.as_str() {
                "file" => file = Some(self.file(&parameter.value, parameter.value_at)?),
                "line" => {
                    let mut text = Template::default();
                    self.fill(&mut text, parameter.value.as_bytes(), parameter.value_at)?;
                    line = Some(text);
                }
                name => self.unknown_parameter("field", name, parameter.at),
            }
        }
        if self.options.files.is_empty() {
            return Err(self.problem(
                at,
                format!("[field{column}] without an injection file; give one with -inf FILE"),
            ));
        }
        let file = file.unwrap_or(0);
        if let Some(known) = self.options.files.get(usize::from(file))
            && usize::from(column) >= known.columns()
        {
            return Err(self.problem(
                at,
                format!(
                    "[field{column}]: no line of {} has so many fields; the last is field{}",
                    known.name(),
                    known.columns().saturating_sub(1)
                ),
            ));
        }
        template.push(Part::Field(Box::new(FieldPart { file, column, line })));
        Ok(())
    }

    /// `[authentication username=... password=...]`, after its first word.
    pub(crate) fn login(
        &mut self,
        template: &mut Template,
        parameters: &str,
        at: usize,
    ) -> Result<(), Problem> {
        if template.any(&|part| matches!(part, Part::Authentication(_))) {
            return Err(self.problem(at, "[authentication] may stand once in a message"));
        }
        let mut login = Login::default();
        for parameter in self.parameters(parameters, at)? {
            let slot = match parameter.name.as_str() {
                "username" => &mut login.user,
                "password" => &mut login.password,
                name @ ("aka_K" | "aka_OP" | "aka_AMF") => {
                    let what = format!("{name} is not covered: AKA challenges are not answered");
                    return Err(self.problem(parameter.at, what));
                }
                name => {
                    self.unknown_parameter("authentication", name, parameter.at);
                    continue;
                }
            };
            let mut text = Template::default();
            self.fill(&mut text, parameter.value.as_bytes(), parameter.value_at)?;
            *slot = Some(text);
        }
        template.push(Part::Authentication(Box::new(login)));
        Ok(())
    }

    fn file_contents(
        &mut self,
        template: &mut Template,
        parameters: &str,
        at: usize,
    ) -> Result<(), Problem> {
        let mut contents = None;
        for parameter in self.parameters(parameters, at)? {
            if parameter.name != "name" {
                self.unknown_parameter("file", &parameter.name, parameter.at);
                continue;
            }
            let mut name = Template::default();
            self.fill(&mut name, parameter.value.as_bytes(), parameter.value_at)?;
            let Some(name) = name.literal() else {
                let what = "the name of a file holds no keyword: files are read once, before \
                            anything is sent";
                return Err(self.problem(parameter.value_at, what));
            };
            let name = String::from_utf8_lossy(name).into_owned();
            let read = match self.options.read_file {
                Some(read) => read(&name),
                None => Err(std::io::ErrorKind::Unsupported.into()),
            };
            let bytes = read.map_err(|error| {
                let what = format!("cannot read {name}: {error}");
                self.problem(parameter.value_at, what)
            })?;
            if bytes.len() > FILE_MAX {
                return Err(self.problem(
                    parameter.value_at,
                    format!("{name} has more than {FILE_MAX} bytes"),
                ));
            }
            contents = Some(bytes);
        }
        match contents {
            Some(bytes) => {
                template.push_text(&bytes);
                Ok(())
            }
            None => Err(self.problem(at, "write [file name=\"...\"]")),
        }
    }

    fn filling(
        &mut self,
        template: &mut Template,
        parameters: &str,
        at: usize,
    ) -> Result<(), Problem> {
        let (mut text, mut variable) = (None, None);
        for parameter in self.parameters(parameters, at)? {
            match parameter.name.as_str() {
                "text" if !parameter.value.is_empty() => text = Some(parameter.value),
                "variable" => {
                    variable = Some(self.variable(&parameter.value, parameter.value_at)?);
                }
                name => self.unknown_parameter("fill", name, parameter.at),
            }
        }
        let Some(variable) = variable else {
            return Err(self.problem(at, "write [fill variable=NAME text=\"...\"]"));
        };
        let span = template.intern(text.as_deref().unwrap_or("X").as_bytes());
        template.push(Part::Fill(span, variable));
        Ok(())
    }

    fn unknown_parameter(&mut self, keyword: &str, name: &str, at: usize) {
        self.warn(
            at,
            format!("the parameter \"{name}\" of [{keyword}] has no meaning and is passed over"),
        );
    }

    /// `name=value` and `name="value"`, with white space between them.
    fn parameters(&self, text: &str, at: usize) -> Result<Vec<Parameter>, Problem> {
        let bytes = text.as_bytes();
        let mut found = Vec::new();
        let mut i = 0;
        loop {
            while bytes.get(i).is_some_and(u8::is_ascii_whitespace) {
                i += 1;
            }
            if i >= bytes.len() {
                return Ok(found);
            }
            let start = i;
            let Some(equals) = text.get(i..).and_then(|rest| rest.find('=')) else {
                return Err(self.problem(at + start, "write NAME=VALUE"));
            };
            let name = text
                .get(i..i + equals)
                .unwrap_or_default()
                .trim()
                .to_owned();
            i += equals + 1;
            let rest = text.get(i..).unwrap_or_default();
            let (value, value_at, used) = if let Some(quoted) = rest.strip_prefix('"') {
                let Some(len) = quoted.find('"') else {
                    return Err(self.problem(at + i, "a quotation mark is missing"));
                };
                (quoted.get(..len).unwrap_or_default(), i + 1, len + 2)
            } else {
                let len = unquoted_len(rest);
                (rest.get(..len).unwrap_or_default(), i, len)
            };
            found.push(Parameter {
                name,
                at: at + start,
                value: value.to_owned(),
                value_at: at + value_at,
            });
            i += used;
        }
    }
}

struct Parameter {
    name: String,
    at: usize,
    value: String,
    value_at: usize,
}

/// The length of a value that ends with white space; keywords in it may hold some.
fn unquoted_len(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b if b.is_ascii_whitespace() && depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// The length of a line; one inside brackets does not end it.
fn line_len(rest: &[u8]) -> usize {
    memchr::memchr(b'\n', rest).unwrap_or(rest.len())
}

/// Where the bracket that was opened before `inside` is closed.
fn closing(inside: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in inside.iter().enumerate().take(KEYWORD_MAX) {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 0 => return Some(at),
            b']' => depth -= 1,
            b'\n' => return None,
            _ => {}
        }
    }
    None
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

/// `branch-3` into `branch` and -3.
fn split_offset(word: &str) -> (&str, Option<i64>) {
    for (at, sign) in word.char_indices().skip(1) {
        if (sign == '+' || sign == '-')
            && let (Some(name), Some(digits)) = (word.get(..at), word.get(at + 1..))
            && !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && let Ok(number) = digits.parse::<i64>()
        {
            return (name, Some(if sign == '-' { -number } else { number }));
        }
    }
    (word, None)
}

/// What stands before another opening bracket that comes before any closing one:
/// text, as SIPp has it, unless the keyword is one whose parameters may hold others.
fn plain_before(inside: &[u8]) -> Option<&[u8]> {
    const NESTING: [&[u8]; 4] = [b"field", b"authentication", b"fill", b"file"];
    if NESTING.iter().any(|name| inside.starts_with(name)) {
        return None;
    }
    let at = memchr::memchr2(b'[', b']', inside)?;
    inside.get(..at).filter(|_| inside.get(at) == Some(&b'['))
}

/// Whether a keyword may have an offset.
fn takes_offset(name: &str) -> bool {
    matches!(
        name,
        "branch"
            | "cseq"
            | "last_cseq_number"
            | "local_port"
            | "remote_port"
            | "media_port"
            | "auto_media_port"
            | "len"
    )
}

fn simple(name: &str, offset: Option<i64>) -> Option<Part> {
    let by = offset.unwrap_or(0);
    Some(match name {
        "service" => Part::Constant(Constant::Service),
        "remote_ip" => Part::Constant(Constant::RemoteIp),
        "remote_port" => Part::Constant(Constant::RemotePort(by)),
        "remote_host" => Part::Constant(Constant::RemoteHost),
        "transport" => Part::Constant(Constant::Transport),
        "local_ip" => Part::Constant(Constant::LocalIp),
        "local_ip_type" => Part::Constant(Constant::LocalIpType),
        "local_port" => Part::Constant(Constant::LocalPort(by)),
        "media_ip" => Part::Constant(Constant::MediaIp),
        "media_ip_type" => Part::Constant(Constant::MediaIpType),
        "media_port" => Part::Constant(Constant::MediaPort(by)),
        // What earlier versions called it.
        "rtpstream_audio_port" | "rtpstream_video_port" => Part::Constant(Constant::MediaPort(0)),
        "auto_media_port" => Part::AutoMediaPort(by),
        "server_ip" => Part::Constant(Constant::ServerIp),
        "pid" => Part::Constant(Constant::Pid),
        "users" => Part::Constant(Constant::Users),
        "call_number" => Part::CallNumber,
        "call_id" => Part::CallId,
        "branch" => Part::Branch(by),
        "cseq" => Part::Cseq(by),
        "last_cseq_number" => Part::LastCseqNumber(by),
        "msg_index" => Part::MsgIndex,
        "len" => Part::Len(by),
        "last_message" => Part::LastMessage,
        "last_Request_URI" => Part::LastRequestUri,
        "peer_tag_param" => Part::PeerTag,
        "routes" => Part::Routes,
        "next_url" => Part::NextUrl,
        "timestamp" => Part::Timestamp,
        "date" => Part::Date,
        "clock_tick" => Part::ClockTick,
        "userid" => Part::UserId,
        "dynamic_id" => Part::DynamicId,
        _ => return None,
    })
}
