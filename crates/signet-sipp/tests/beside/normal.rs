//! Messages, with what must differ from run to run taken out.

use std::path::Path;

use md5::{Digest, Md5};

/// What differs from run to run.
pub(crate) struct Names {
    pub(crate) caller_pid: u32,
    pub(crate) callee_pid: u32,
    pub(crate) caller_port: u16,
    pub(crate) callee_port: u16,
}

/// The messages received, as a message log tells: call by call, without what
/// was sent again, unless copies are wanted.
pub(crate) fn received(log: &Path, names: &Names, wants_copies: bool) -> Vec<String> {
    let bytes = std::fs::read(log).unwrap_or_default();
    let mut messages: Vec<String> = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some(at) = find(rest, b"message received [") {
        rest = &rest[at + b"message received [".len()..];
        let end = find(rest, b"]").unwrap();
        let len: usize = std::str::from_utf8(&rest[..end]).unwrap().parse().unwrap();
        let start = find(rest, b"\n\n").unwrap() + 2;
        let message = String::from_utf8_lossy(&rest[start..start + len]).into_owned();
        let message = normal(&message, names);
        if wants_copies || !messages.contains(&message) {
            messages.push(message);
        }
        rest = &rest[start + len..];
    }
    // Calls that run beside each other may mix in any way.
    messages.sort_by_key(|message| header(message, "Call-ID"));
    messages
}

fn normal(message: &str, names: &Names) -> String {
    let method = message.split(' ').next().unwrap_or_default();
    let lines: Vec<String> = message
        .split_inclusive('\n')
        .map(|line| match line.split_once(':') {
            Some((name @ ("Authorization" | "Proxy-Authorization"), value)) => {
                format!("{name}: {}\r\n", credentials(value, method, names))
            }
            _ => media(&numbers(line, names)),
        })
        .collect();
    // With a socket of its own for each call, a port is nobody's.
    own_ports(&lines.concat())
}

/// Lines whose numbers mean something else, whichever process has the same one.
const OTHER_NUMBERS: [&str; 5] = [
    "SIP/2.0 ",
    "CSeq:",
    "Content-Length:",
    "Expires:",
    "Max-Forwards:",
];

/// Names for the numbers that differ from run to run.
fn numbers(text: &str, names: &Names) -> String {
    if OTHER_NUMBERS.iter().any(|start| text.starts_with(start)) {
        return text.to_owned();
    }
    let mut text = text.to_owned();
    // Behind an address it is a port, whichever process has the same number.
    for (port, name) in [
        (names.caller_port, "{caller port}"),
        (names.callee_port, "{callee port}"),
    ] {
        let (place, named) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{name}"));
        text = replace_number(&text, &place, &named);
    }
    for (number, name) in [
        (names.caller_pid, "{caller pid}"),
        (names.callee_pid, "{callee pid}"),
        (u32::from(names.caller_port), "{caller port}"),
        (u32::from(names.callee_port), "{callee port}"),
        (u32::from(names.caller_port) + 1, "{caller port + 1}"),
        (u32::from(names.callee_port) + 1, "{callee port + 1}"),
    ] {
        text = replace_number(&text, &number.to_string(), name);
    }
    text
}

/// Digits that stand by themselves.
fn replace_number(text: &str, digits: &str, name: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(digits) {
        let behind = &rest[at + digits.len()..];
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        out.push_str(&rest[..at]);
        let before = out.chars().next_back();
        if is_digit(before) || is_digit(behind.chars().next()) {
            out.push_str(digits);
        } else {
            out.push_str(name);
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// SIPp takes the first media port that is free.
fn media(line: &str) -> String {
    match line.strip_prefix("m=audio ") {
        Some(rest) => {
            let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("m=audio {{port}}{behind}")
        }
        None => line.to_owned(),
    }
}

/// A port behind `127.0.0.1:` that has no name yet.
fn own_ports(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("127.0.0.1:");
        let behind = part.trim_start_matches(|c: char| c.is_ascii_digit());
        if behind.len() < part.len() {
            out.push_str("{own port}");
        }
        out.push_str(behind);
    }
    out
}

/// The parameters of credentials in the order of their names; the response is
/// computed again and told as right or wrong, since the cnonce is random. Nothing
/// else in it is a number of the run, though its digits may look like one.
fn credentials(value: &str, method: &str, names: &Names) -> String {
    let value = value.trim().strip_prefix("Digest ").unwrap();
    let mut parameters: Vec<(String, String)> = value
        .split(',')
        .map(|part| {
            let (name, value) = part.trim().split_once('=').unwrap();
            (name.to_owned(), value.trim_matches('"').to_owned())
        })
        .collect();
    parameters.sort();
    let get = |name: &str| {
        let found = parameters.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let user = get("username");
    let password = match user.as_str() {
        "bob" => "zanzibar",
        "alice" => "secret",
        "ann" => "one",
        "ben" => "two",
        other => panic!("who is {other}?"),
    };
    let uri = get("uri");
    let ha1 = md5(&format!("{user}:{}:{password}", get("realm")));
    let ha2 = md5(&format!("{method}:{uri}"));
    let expected = if get("qop").is_empty() {
        md5(&format!("{ha1}:{}:{ha2}", get("nonce")))
    } else {
        let (nonce, nc, cnonce) = (get("nonce"), get("nc"), get("cnonce"));
        md5(&format!("{ha1}:{nonce}:{nc}:{cnonce}:{}:{ha2}", get("qop")))
    };
    let told: Vec<String> = parameters
        .iter()
        .map(|(name, value)| match name.as_str() {
            "cnonce" => "cnonce={random}".to_owned(),
            "response" if *value == expected => "response={right}".to_owned(),
            "uri" => format!("uri={}", numbers(value, names)),
            _ => format!("{name}={value}"),
        })
        .collect();
    told.join(", ")
}

fn md5(text: &str) -> String {
    let digest = Md5::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn header(message: &str, name: &str) -> String {
    message
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}
