//! Session timers (RFC 4028), as far as a proxy has to do with them: it may ask for one, and it
//! may take a session to be over whose timer ran out.

use sip_msg::{HeaderName, Message, Method};

use crate::settings::Settings;

/// The least that may be asked for (RFC 4028 4).
pub(super) const MIN_SE_S: u32 = 90;
/// The most that is believed: a timer of years is none.
const EXPIRES_MAX_S: u32 = 30 * 86_400;

/// What this server remembers of the session timer in a request that it forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedTimer {
    /// Session-Expires in the copy, in seconds.
    pub(crate) expires_s: u32,
    /// Whether this server wrote it there.
    pub(crate) is_added: bool,
}

impl AskedTimer {
    /// The timer of a request, if the operator wants calls to have one and the caller can
    /// keep it.
    // RFC 4028 8.1: a proxy may write Session-Expires into a request that has none. It is done
    // only where Supported has `timer`: otherwise nobody but the callee could refresh.
    pub(crate) fn of(settings: &Settings, request: &Message) -> Option<Self> {
        let wanted_s = settings.records.session_expires_s;
        if wanted_s == 0
            || !settings.proxy.record_route
            || !matches!(request.method(), Method::Invite | Method::Update)
            || !request.has_option(HeaderName::Supported, "timer")
        {
            return None;
        }
        if let Some(expires_s) = expires_s(request) {
            return Some(Self {
                expires_s,
                is_added: false,
            });
        }
        // What cannot be read is not doubled.
        if request.first_named("Session-Expires").is_some() {
            return None;
        }
        // RFC 4028 8.1: not below the Min-SE of the request.
        let min_s = request.first_named("Min-SE");
        let min_s = min_s.and_then(|field| seconds(field.value)).unwrap_or(0);
        Some(Self {
            expires_s: wanted_s.max(min_s).max(MIN_SE_S),
            is_added: true,
        })
    }

    /// What this server has to write into a 2xx; `None` where the callee has said it.
    // RFC 4028 8.2: a 2xx without Session-Expires comes from a callee that has no timers. Where
    // the caller has, the proxy must write in the value that it remembers, with the caller as
    // refresher, and must require `timer`.
    pub(crate) fn missing_in(self, response: &Message) -> Option<u32> {
        let is_missing = matches!(response.status(), 200..=299)
            && matches!(response.method(), Method::Invite | Method::Update)
            && response.first_named("Session-Expires").is_none();
        is_missing.then_some(self.expires_s)
    }
}

/// Session-Expires of a message, in seconds; `None` where it is absent or means nothing.
pub(crate) fn expires_s(message: &Message) -> Option<u32> {
    let field = message.first_named("Session-Expires")?;
    seconds(field.value).filter(|seconds| (1..=EXPIRES_MAX_S).contains(seconds))
}

/// `delta-seconds *(SEMI params)`.
fn seconds(value: &[u8]) -> Option<u32> {
    let number = value.split(|byte| *byte == b';').next()?.trim_ascii();
    str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::RecordSettings;
    use crate::testing::{parse, request};

    const WANTED_S: u32 = 1_800;

    fn settings(session_expires_s: u32) -> Settings {
        Settings {
            records: RecordSettings {
                is_on: true,
                session_expires_s,
            },
            ..Settings::default()
        }
    }

    fn invite(lines: &str) -> Message {
        let alice = "<sip:a@example.org>;tag=a";
        let text = request(
            "INVITE",
            "sip:b@example.org",
            alice,
            "<sip:b@example.org>",
            lines,
        );
        parse(text.as_bytes())
    }

    #[test]
    fn a_timer_is_asked_for_where_nobody_did_and_the_caller_can_keep_it() {
        for (lines, asked) in [
            ("", None),
            ("Supported: 100rel\r\n", None),
            ("Supported: 100rel, timer\r\n", Some((WANTED_S, true))),
            ("k: timer\r\nMin-SE: 3600\r\n", Some((3_600, true))),
            ("k: timer\r\nx: 600 ;refresher=uac\r\n", Some((600, false))),
            ("k: timer\r\nSession-Expires: soon\r\n", None),
        ] {
            let found = AskedTimer::of(&settings(WANTED_S), &invite(lines));
            let found = found.map(|timer| (timer.expires_s, timer.is_added));
            assert_eq!(found, asked, "{lines}");
            assert_eq!(AskedTimer::of(&settings(0), &invite(lines)), None);
        }
        let timer = AskedTimer::of(&settings(1), &invite("k: timer\r\n"));
        assert_eq!(timer.map(|timer| timer.expires_s), Some(MIN_SE_S));
    }

    #[test]
    fn what_the_callee_leaves_out_is_written_for_the_caller() {
        let timer = AskedTimer {
            expires_s: 1_800,
            is_added: true,
        };
        let response = |status: u16, method: &str, lines: &str| {
            parse(
                format!(
                    "SIP/2.0 {status} X\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
                     To: <sip:b@b>;tag=2\r\nCall-ID: c\r\nCSeq: 1 {method}\r\n{lines}Content-Length: 0\r\n\r\n"
                )
                .as_bytes(),
            )
        };
        assert_eq!(timer.missing_in(&response(200, "INVITE", "")), Some(1_800));
        assert_eq!(timer.missing_in(&response(200, "UPDATE", "")), Some(1_800));
        assert_eq!(timer.missing_in(&response(200, "BYE", "")), None);
        assert_eq!(timer.missing_in(&response(180, "INVITE", "")), None);
        assert_eq!(timer.missing_in(&response(422, "INVITE", "")), None);
        let agreed = "Session-Expires: 600;refresher=uas\r\n";
        assert_eq!(timer.missing_in(&response(200, "INVITE", agreed)), None);
        assert_eq!(expires_s(&response(200, "INVITE", agreed)), Some(600));
        assert_eq!(expires_s(&response(200, "INVITE", "x: 0\r\n")), None);
    }
}
