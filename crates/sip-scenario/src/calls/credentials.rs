//! `[authentication]`: answers to challenges.

use std::ops::Range;

use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_msg::header::AuthParams;
use sip_msg::{Limits, Message};

use crate::scan;
use crate::template::{Login, Template};

use super::Core;
use super::call::Call;
use super::render::NO_MESSAGE;

/// How the keyword begins, in the field of an injection file too.
const KEYWORD: &[u8] = b"[authentication";

/// A challenge, and the answers that it was given.
#[derive(Debug)]
pub(super) struct Challenge {
    response: Vec<u8>,
    /// User, password, and what was answered with them.
    answered: Option<(String, String, ClientAuth, Attempt)>,
}

impl Challenge {
    /// Keeps the challenge in a response.
    pub(super) fn new(response: &[u8]) -> Self {
        Self {
            response: response.to_vec(),
            answered: None,
        }
    }

    /// Appends the headers with the credentials for a request.
    fn write(
        &mut self,
        user: &str,
        password: &str,
        request: RequestParts<'_>,
        cnonce: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let is_known = self
            .answered
            .as_ref()
            .is_some_and(|(u, p, _, _)| u == user && p == password);
        if !is_known {
            let mut message = Message::default();
            message
                .fill(&self.response, &Limits::default())
                .map_err(|error| format!("the challenge cannot be read: {error}"))?;
            let mut client = ClientAuth::new();
            for name in [&b"WWW-Authenticate"[..], b"Proxy-Authenticate"] {
                for (_, value) in scan::headers(&self.response, name) {
                    let realm = AuthParams::parse(value).and_then(|p| p.get("realm"));
                    let realm: Vec<u8> = realm.map(|r| r.bytes().collect()).unwrap_or_default();
                    client.add(&String::from_utf8_lossy(&realm), user, password);
                }
            }
            let mut attempt = Attempt::default();
            client
                .handle_challenge(&mut attempt, &message)
                .map_err(|error| error.to_string())?;
            self.answered = Some((user.to_owned(), password.to_owned(), client, attempt));
        }
        if let Some((_, _, client, attempt)) = &mut self.answered {
            client.write_credentials(attempt, request, cnonce, out);
        }
        Ok(())
    }
}

/// Where an `[authentication ...]` stands in a field that was written from `from` on. What else is
/// in a message may be a peer's, and a keyword there is none.
pub(super) fn injected(out: &[u8], from: usize) -> Option<Range<usize>> {
    let field = out.get(from..)?;
    let found = memchr::memmem::find(field, KEYWORD)?;
    let len = memchr::memchr(b']', field.get(found..)?)?;
    Some(from + found..from + found + len + 1)
}

impl Core {
    /// Puts credentials at `at` into the message that begins at `start`.
    pub(super) fn insert_credentials(
        &mut self,
        call: &mut Call,
        start: usize,
        at: usize,
        login: &Login,
        out: &mut Vec<u8>,
    ) {
        let mut text = |template: &Option<Template>| {
            let template = template.as_ref()?;
            let mut value = Vec::new();
            self.render(call, template, NO_MESSAGE, &mut value);
            Some(String::from_utf8_lossy(&value).into_owned())
        };
        let (user, password) = (text(&login.user), text(&login.password));
        self.insert(call, start, at, user, password, out);
    }

    /// Puts credentials in the place of an `[authentication ...]` that an injection file brought.
    pub(super) fn insert_injected_credentials(
        &mut self,
        call: &mut Call,
        start: usize,
        keyword: Range<usize>,
        out: &mut Vec<u8>,
    ) {
        let parameters = keyword.start + KEYWORD.len()..keyword.end.saturating_sub(1);
        let text = String::from_utf8_lossy(out.get(parameters).unwrap_or_default()).into_owned();
        let find = |name: &str| {
            text.split_whitespace().find_map(|part| {
                let value = part.strip_prefix(name)?.strip_prefix('=')?;
                Some(value.trim_matches('"').to_owned())
            })
        };
        let (user, password) = (find("username"), find("password"));
        let at = keyword.start;
        out.drain(keyword);
        self.insert(call, start, at, user, password, out);
    }

    fn insert(
        &mut self,
        call: &mut Call,
        start: usize,
        at: usize,
        user: Option<String>,
        password: Option<String>,
        out: &mut Vec<u8>,
    ) {
        let user = user.or_else(|| self.settings.auth_user.clone());
        let user =
            user.unwrap_or_else(|| String::from_utf8_lossy(&self.settings.service).into_owned());
        let password = password.unwrap_or_else(|| self.settings.auth_password.clone());
        let uri = match (&self.settings.auth_uri, self.settings.remote) {
            (Some(uri), _) => format!("sip:{uri}"),
            (None, Some(remote)) => format!("sip:{remote}"),
            (None, None) => format!("sip:{}", call.target.remote),
        };
        let cnonce = self.random.next();
        let Some(mut challenge) = call.challenge.take() else {
            self.complaint = Some(
                "[authentication] before a challenge was received: \
                give the <recv> of the 401 or 407 auth=\"true\""
                    .to_owned(),
            );
            return;
        };
        let message = out.get(start..).unwrap_or_default();
        let method_len = memchr::memchr(b' ', message).unwrap_or(0);
        let request = RequestParts {
            method: message.get(..method_len).unwrap_or_default(),
            uri: uri.as_bytes(),
            body: scan::body(message),
        };
        let mut lines = Vec::new();
        let written = challenge.write(&user, &password, request, cnonce, &mut lines);
        call.challenge = Some(challenge);
        match written {
            Ok(()) => {
                // The message has a line end of its own behind the keyword.
                let lines = lines.strip_suffix(b"\r\n").unwrap_or(&lines);
                out.splice(at..at, lines.iter().copied());
            }
            Err(why) => self.complaint = Some(why),
        }
    }
}
