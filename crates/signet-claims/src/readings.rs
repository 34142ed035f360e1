//! What a message says, in a form in which two parsers can be compared.

use std::collections::BTreeMap;

use sip_msg::header::NameAddr;
use sip_msg::{HeaderName, Message, Uri};

/// What a parser reads in a message: names, and values without what may be
/// written in several ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    values: BTreeMap<String, Vec<u8>>,
}

impl Reading {
    /// What our own parser reads.
    pub fn of(message: &Message) -> Self {
        let mut reading = Self::default();
        if message.is_request() {
            reading.put("method", message.method_token());
            if let Ok(uri) = message.uri() {
                reading.put_uri("uri", &uri);
            }
        } else {
            reading.put("status", message.status().to_string().as_bytes());
        }
        for (name, address) in [("from", message.from()), ("to", message.to())] {
            if let Ok(address) = address {
                reading.put_address(name, &address);
            }
        }
        reading.put("call-id", message.call_id());
        if let Ok(cseq) = message.cseq() {
            reading.put("cseq", cseq.number.to_string().as_bytes());
            reading.put("cseq-method", cseq.method);
        }
        reading.put("vias", message.vias().count().to_string().as_bytes());
        for (number, via) in message.vias().enumerate() {
            let Some(via) = via else { continue };
            reading.put(&format!("via{number}-branch"), via.branch);
            let host = via.sent_by.host.to_ascii_lowercase();
            reading.put(&format!("via{number}-host"), &host);
            let port = via
                .sent_by
                .port
                .map_or(String::new(), |port| port.to_string());
            reading.put(&format!("via{number}-port"), port.as_bytes());
        }
        for (name, header) in [
            ("route", HeaderName::Route),
            ("record-route", HeaderName::RecordRoute),
            ("contact", HeaderName::Contact),
        ] {
            let values: Vec<_> = message.values(header).collect();
            reading.put(&format!("{name}s"), values.len().to_string().as_bytes());
            for (number, (value, _)) in values.iter().enumerate() {
                if let Some(uri) = NameAddr::parse(value).and_then(|address| address.uri()) {
                    reading.put_uri(&format!("{name}{number}"), &uri);
                }
            }
        }
        if let Ok(Some(hops)) = message.max_forwards() {
            reading.put("max-forwards", hops.to_string().as_bytes());
        }
        reading.put("body", message.body());
        reading
    }

    /// What another parser wrote: lines of a name, an equals sign and a value in
    /// hexadecimal digits.
    pub fn written(text: &str) -> Option<Self> {
        let mut reading = Self::default();
        for line in text.lines() {
            let (name, digits) = line.split_once('=')?;
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let value = digits.as_bytes().chunks(2).map(|pair| match pair {
                [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
                _ => None,
            });
            let mut value: Vec<u8> = value.collect::<Option<_>>()?;
            if name.ends_with("-port") {
                // A number, however it is written.
                let zeroes = value.iter().take_while(|digit| **digit == b'0').count();
                value.drain(..zeroes.min(value.len().saturating_sub(1)));
            }
            reading.values.insert(name.to_owned(), value);
        }
        Some(reading)
    }

    /// What is said by that name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.values.get(name).map(Vec::as_slice)
    }

    /// The names of what both read, and read otherwise.
    pub fn disagreements<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        self.values.iter().filter_map(|(name, value)| {
            let theirs = other.values.get(name)?;
            (theirs != value).then_some(name.as_str())
        })
    }

    fn put(&mut self, name: &str, value: &[u8]) {
        self.values.insert(name.to_owned(), value.to_vec());
    }

    fn put_address(&mut self, name: &str, address: &NameAddr<'_>) {
        // Several tags are none that we go by, and another parser may take the first: such
        // a request is answered 400, and the answer repeats them.
        if address.has_sound_tag() {
            self.put(&format!("{name}-tag"), address.tag().unwrap_or_default());
        }
        if let Some(uri) = address.uri() {
            self.put_uri(name, &uri);
        }
    }

    fn put_uri(&mut self, name: &str, uri: &Uri<'_>) {
        if !uri.is_sip() {
            return;
        }
        let is_secure = uri.scheme == sip_msg::uri::Scheme::Sips;
        let scheme = if is_secure { "sips" } else { "sip" };
        self.put(&format!("{name}-scheme"), scheme.as_bytes());
        self.put(
            &format!("{name}-user"),
            &unescaped(uri.user.unwrap_or_default()),
        );
        self.put(
            &format!("{name}-host"),
            &uri.host_port.host.to_ascii_lowercase(),
        );
        let port = uri
            .host_port
            .port
            .map_or(String::new(), |port| port.to_string());
        self.put(&format!("{name}-port"), port.as_bytes());
    }
}

/// A user part without its escapes.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let pair = (digit(text.get(at + 1)), digit(text.get(at + 2)));
        match (byte, pair) {
            (b'%', (Some(high), Some(low))) => {
                out.extend(u8::try_from(high * 16 + low));
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}
