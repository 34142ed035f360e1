//! `signet trace`: the messages that pass a running server, until it is ended.
//!
//! A client asks again and again, with the name that the first answer gave it. The server
//! keeps for it what came meanwhile, no more than it says in [`crate::trace`], and nothing
//! once it has not asked for five seconds.

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sip_msg::Transport;
use sip_worker::Direction;

use super::socket::Admin;
use super::{Instance, ask};
use crate::Error;
use crate::config::Network;
use crate::trace::{FILE_BYTES_MAX, Filter, PcapFile, Seen, TooMany, Tracer, blotted, write_text};

/// The version of the answer's form.
const VERSION: u32 = 1;
/// How long a client waits that had got nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// Which messages `signet trace` shows, where and for how long.
#[derive(Clone, Debug, Default)]
pub struct Tracing {
    /// Which messages.
    pub filter: Filter,
    /// A file for Wireshark to write in place of text.
    pub pcap: Option<PathBuf>,
    /// For how long; until it is interrupted if left out.
    pub for_s: Option<u64>,
}

/// A question on the socket: at first which messages are wanted, then by which name they are.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Wanted {
    name: Option<u64>,
    /// Nothing more is wanted.
    is_end: bool,
    user: Option<String>,
    address: Option<String>,
    call: Option<String>,
}

/// The messages that came since the question before.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    version: u32,
    /// By which to ask next.
    name: u64,
    /// Messages that were left out before these, because they were not asked for soon enough.
    left_out: u64,
    messages: Vec<Shown>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Shown {
    at_unix_us: u64,
    is_in: bool,
    transport: String,
    local: Option<SocketAddr>,
    remote: SocketAddr,
    /// The message in hexadecimal digits, its secrets blotted out.
    bytes: String,
}

impl Answer {
    /// What a question on the socket is answered with.
    pub(crate) fn new(tracer: &Tracer, wanted: Wanted) -> Result<Self, StatusCode> {
        let name = match wanted.name {
            Some(name) => name,
            None => {
                let address = wanted.address.map(|text| text.parse::<Network>());
                let filter = Filter {
                    user: wanted.user,
                    address: address.transpose().map_err(|_| StatusCode::BAD_REQUEST)?,
                    call: wanted.call,
                };
                let opened = tracer.open_for(filter);
                opened.map_err(|TooMany| StatusCode::TOO_MANY_REQUESTS)?
            }
        };
        let (messages, left_out) = tracer.take_for(name).ok_or(StatusCode::NOT_FOUND)?;
        if wanted.is_end {
            tracer.close_for(name);
        }
        Ok(Self {
            version: VERSION,
            name,
            left_out,
            messages: messages.iter().map(|seen| Shown::from(&**seen)).collect(),
        })
    }
}

impl From<&Seen> for Shown {
    fn from(seen: &Seen) -> Self {
        Self {
            at_unix_us: seen.at_unix_us,
            is_in: seen.direction == Direction::In,
            transport: seen.transport.uri_name().to_owned(),
            local: seen.local,
            remote: seen.remote,
            bytes: hexadecimal(&blotted(&seen.bytes)),
        }
    }
}

impl Shown {
    fn seen(&self) -> Option<Seen> {
        Some(Seen {
            at_unix_us: self.at_unix_us,
            direction: match self.is_in {
                true => Direction::In,
                false => Direction::Out,
            },
            transport: Transport::from_token(self.transport.as_bytes())?,
            local: self.local,
            remote: self.remote,
            bytes: bytes_of(&self.bytes)?,
        })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or('0');
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend([digit(byte >> 4), digit(byte & 0xf)]);
    }
    text
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

/// Answers `/trace`.
pub(super) async fn traced(
    State(admin): State<Admin>,
    Json(wanted): Json<Wanted>,
) -> Result<Json<Answer>, StatusCode> {
    Answer::new(&admin.tracer, wanted).map(Json)
}

/// Shows what passes the running server, until the time is up, the server ends or nobody
/// reads it.
pub fn trace(instance: &Instance, what: &Tracing) -> Result<(), Error> {
    let folder = instance.folder()?;
    let path = ask::path(&folder);
    let unanswered = |why: &dyn std::fmt::Display| ask::unanswered(&path, why);
    let mut wanted = Wanted {
        user: what.filter.user.clone(),
        address: what.filter.address.map(|network| network.0.to_string()),
        call: what.filter.call.clone(),
        ..Wanted::default()
    };
    let mut to = None;
    // What no clock can show is for ever.
    let until = what
        .for_s
        .and_then(|for_s| Instant::now().checked_add(Duration::from_secs(for_s)));
    loop {
        let is_over = until.is_some_and(|until| Instant::now() >= until);
        wanted.is_end = is_over && wanted.name.is_some();
        let body = serde_json::to_vec(&wanted).map_err(|error| unanswered(&error))?;
        let answered = ask::ask(&path, "/trace", &body);
        let body = match answered.map_err(|error| ask::unasked(&path, &error))? {
            Some((200, body)) => body,
            Some((429, _)) => {
                return Err(Error::new(
                    "too many traces of this server",
                    "end another `signet trace`; one that was killed is forgotten in five seconds",
                ));
            }
            Some((404, _)) => {
                return Err(Error::new(
                    "the server has forgotten this trace: it was not asked for five seconds",
                    "begin again, and do not stop the program while it runs",
                ));
            }
            Some((status, _)) => return Err(unanswered(&format!("it said {status}"))),
            None if wanted.name.is_some() => {
                return Err(Error::new(
                    "the server has ended",
                    "its log says why; what was shown until then is all",
                ));
            }
            None => {
                return Err(Error::new(
                    format!("no server runs on {}", folder.display()),
                    "name the server's folder with --data DIR or its file with --config FILE",
                ));
            }
        };
        let answer: Answer = serde_json::from_slice(&body).map_err(|error| unanswered(&error))?;
        let to = match &mut to {
            Some(to) => to,
            None => to.insert(Output::begin(
                what.pcap.clone(),
                &folder.display().to_string(),
            )?),
        };
        if !to.show(&answer)? || is_over {
            return Ok(());
        }
        wanted.name = Some(answer.name);
        if answer.messages.is_empty() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Where messages are written.
enum Output {
    Text,
    File(Box<PcapFile>),
}

impl Output {
    /// Says that it has begun, and how it ends.
    fn begin(pcap: Option<PathBuf>, folder: &str) -> Result<Self, Error> {
        let (to, where_to) = match pcap {
            None => (Self::Text, String::new()),
            Some(path) => {
                let file = PcapFile::create(&path, FILE_BYTES_MAX);
                let file = file.map_err(|error| Error::file("write", &path, &error))?;
                let where_to = format!(", written to {}", path.display());
                (Self::File(Box::new(file)), where_to)
            }
        };
        let _ = writeln!(
            io::stderr(),
            "signet: tracing the server on {folder}{where_to}; Ctrl-C ends it"
        );
        Ok(to)
    }

    /// Writes what was answered; false when nobody reads it any more.
    fn show(&mut self, answer: &Answer) -> Result<bool, Error> {
        let mut left_out = answer.left_out;
        let told = answer.messages.iter().filter_map(Shown::seen);
        match self {
            Self::Text => {
                let mut out = io::stdout().lock();
                let mut written = Ok(());
                for seen in told {
                    let left_out = std::mem::take(&mut left_out);
                    written = written.and_then(|()| write_text(&seen, left_out, &mut out));
                }
                match written.and_then(|()| out.flush()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
                    Err(error) => Err(Error::new(
                        format!("cannot write to the standard output: {error}"),
                        "look at the terminal, file or program that it goes to",
                    )),
                    Ok(()) => Ok(true),
                }
            }
            Self::File(file) => {
                if left_out > 0 {
                    let _ = writeln!(
                        io::stderr(),
                        "signet: {left_out} messages left out: they come faster than they are asked for"
                    );
                }
                let mut written = Ok(());
                for seen in told {
                    let left_out = std::mem::take(&mut left_out);
                    written = written.and_then(|()| file.write(&seen, left_out));
                }
                let written = written.and_then(|()| file.flush());
                written.map_err(|error| Error::file("write", file.path(), &error))?;
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_way_over_the_socket_and_its_secret_does_not() {
        let message = b"OPTIONS sip:a:secret@b SIP/2.0\r\nX: \xff\x00\r\n\r\n";
        for direction in [Direction::In, Direction::Out] {
            let mut seen = Seen {
                at_unix_us: 1_795_219_200_042_007,
                direction,
                transport: Transport::Wss,
                local: Some("[2001:db8::1]:443".parse().unwrap()),
                remote: "192.0.2.1:4000".parse().unwrap(),
                bytes: message.to_vec(),
            };
            let text = serde_json::to_string(&Shown::from(&seen)).unwrap();
            let shown: Shown = serde_json::from_str(&text).unwrap();
            seen.bytes = message.to_vec();
            seen.bytes[14..20].copy_from_slice(b"******");
            assert_eq!(shown.seen(), Some(seen));
        }
        assert_eq!(bytes_of("0g"), None);
        assert_eq!(bytes_of("012"), None);
    }
}
