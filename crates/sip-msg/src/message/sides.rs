//! From and To of a request, read once: validation, the gate, tokens and routing
//! all ask for them, several times for each request.

use super::Message;
use crate::HostPort;
use crate::Uri;
use crate::header::name_addr::Tag;
use crate::header::{HeaderName, NameAddr};
use crate::uri::Scheme;

/// Where a part stands in the value of its header, which moves as one.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u16,
    end: u16,
}

/// Where the parts of an address stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    display: Part,
    uri: Part,
    params: Part,
    tag: Tag<Part>,
    scheme: Scheme,
    user: Option<Part>,
    password: Option<Part>,
    host: Part,
    port: Option<u16>,
    uri_params: Part,
    uri_headers: Part,
}

impl Message {
    /// Reads From and To again: after the message has changed.
    pub(super) fn read_sides(&mut self) {
        // A response goes on with what it has there: most are never asked for it.
        if self.is_request() {
            self.sides = [HeaderName::From, HeaderName::To].map(|name| self.read_side(name));
        }
    }

    fn read_side(&self, name: HeaderName) -> Option<Side> {
        let value = self.value(self.first_head(name)?);
        let address = NameAddr::parse(value)?;
        let uri = address.uri()?;
        // What is too long for that is read each time.
        if value.len() > usize::from(u16::MAX) {
            return None;
        }
        // All lie in the value but those that are empty, whose place does not matter.
        let part = |part: &[u8]| {
            let start = (part.as_ptr() as usize).wrapping_sub(value.as_ptr() as usize) as u16;
            Part {
                start,
                end: start.wrapping_add(part.len() as u16),
            }
        };
        Some(Side {
            display: part(address.display),
            uri: part(address.uri),
            params: part(address.params),
            tag: address.tag.map(part),
            scheme: uri.scheme,
            user: uri.user.map(part),
            password: uri.password.map(part),
            host: part(uri.host_port.host),
            port: uri.host_port.port,
            uri_params: part(uri.params),
            uri_headers: part(uri.headers),
        })
    }

    fn side(&self, name: HeaderName) -> Option<&Side> {
        let [from, to] = &self.sides;
        match name {
            HeaderName::From => from.as_ref(),
            HeaderName::To => to.as_ref(),
            _ => None,
        }
    }

    /// Whether From or To was read, and whether there is no tag in it, or a sound one.
    pub(super) fn is_known_sound(&self, name: HeaderName) -> bool {
        self.side(name).is_some_and(|side| match side.tag {
            Tag::None => true,
            Tag::One(tag) => tag.start < tag.end,
            Tag::Several => false,
        })
    }

    /// The tag in To, where there is one and no other.
    pub fn to_tag(&self) -> Option<&[u8]> {
        let [_, Some(to)] = &self.sides else {
            return self.to().ok()?.tag();
        };
        let Tag::One(tag) = to.tag else {
            return None;
        };
        let value = self.value(self.first_head(HeaderName::To)?);
        Some(crate::chars::part(value, tag.start.into(), tag.end.into()))
    }

    /// From or To as it was read; `None` where it is to be read now.
    pub(super) fn known_side(&self, name: HeaderName) -> Option<NameAddr<'_>> {
        let side = self.side(name)?;
        let value = self.value(self.first_head(name)?);
        let part = |part: Part| crate::chars::part(value, part.start.into(), part.end.into());
        let raw = part(side.uri);
        Some(NameAddr {
            display: part(side.display),
            uri: raw,
            params: part(side.params),
            tag: side.tag.map(part),
            parsed: Some(Uri {
                scheme: side.scheme,
                user: side.user.map(part),
                password: side.password.map(part),
                host_port: HostPort {
                    host: part(side.host),
                    port: side.port,
                },
                params: part(side.uri_params),
                headers: part(side.uri_headers),
                raw,
            }),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Limits;

    fn request(from: &str, to: &str) -> String {
        format!(
            "BYE sip:b@b.example SIP/2.0\r\nVia: SIP/2.0/UDP a.example;rport\r\n\
             From: {from}\r\nTo: {to}\r\nCall-ID: c\r\nCSeq: 7 BYE\r\n\r\n"
        )
    }

    #[test]
    fn what_is_known_is_what_stands_there() {
        let sides = [
            "sip:a@a.example;tag=1",
            "\"A, <B>\" <sips:a:p%20w@[2001:db8::1]:5071;transport=tcp;lr?Subject=x> ; x=y; tag = 1",
            "A <tel:+49-30-1;phone-context=example.org>;tag=1",
            "<urn:service:sos>",
            "<sip:a.example>;tag=1;TAG=2",
            "<sip:a@a.example>;tag",
        ];
        for from in sides {
            for to in sides {
                let text = request(from, to);
                let mut message = Message::default();
                message.fill(text.as_bytes(), &Limits::default()).unwrap();
                message.stamp_received(([198, 51, 100, 7], 4711).into());
                assert_eq!(message.to_tag(), message.to().unwrap().tag());
                for (name, text) in [(HeaderName::From, from), (HeaderName::To, to)] {
                    let known = message.known_side(name).expect("known");
                    let parsed = NameAddr::parse(text.as_bytes()).expect("well formed");
                    assert_eq!(format!("{:?}", known.uri()), format!("{:?}", parsed.uri()));
                    assert_eq!(message.is_known_sound(name), parsed.has_sound_tag());
                    let known = NameAddr {
                        parsed: None,
                        ..known
                    };
                    assert_eq!(format!("{known:?}"), format!("{parsed:?}"));
                }
            }
        }
    }

    #[test]
    fn none_is_left_over() {
        let mut message = Message::default();
        for other in [
            request("<>", "<"),
            "SIP/2.0 200 OK\r\nFrom: <\r\nTo: <>\r\n\r\n".into(),
            String::new(),
        ] {
            let sound = request("<sip:a@b>", "<sip:b@c>");
            let _ = message.fill(sound.as_bytes(), &Limits::default());
            assert!(message.from().is_ok() && message.to().is_ok());
            let _ = message.fill(other.as_bytes(), &Limits::default());
            assert!(message.from().is_err() && message.to().is_err(), "{other}");
        }
    }

    #[test]
    fn a_value_too_long_to_be_known_is_read_all_the_same() {
        let limits = Limits {
            message_bytes: 1 << 20,
            header_bytes: 1 << 20,
            ..Limits::default()
        };
        let from = format!("\"{}\" <sip:a@b>;tag=1", "x".repeat(70_000));
        let mut message = Message::default();
        let _ = message.fill(request(&from, "<sip:b@c>").as_bytes(), &limits);
        assert!(message.known_side(HeaderName::From).is_none());
        assert_eq!(message.from().unwrap().tag(), Some(&b"1"[..]));
    }
}
