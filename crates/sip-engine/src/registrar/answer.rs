//! The registrar's responses (step 8 of RFC 3261 10.3).

use std::hash::Hasher;

use sip_msg::write::reason_phrase;
use sip_msg::{HeaderName, Message, MessageWriter, ResponseWriter};
use siphasher::sip::SipHasher13;

use super::plan::{Refused, unsupported};
use super::{RegistrarContext, Registration, date};
use crate::location::Entry;
use crate::permit::Permit;
use crate::text::{hex16, write_decimal};

/// The Flow-Timer (RFC 5626 10): a phone shows itself at least so often. Over
/// UDP that is what keeps a NAT open.
const FLOW_TIMER_UDP_S: u64 = 25;
const FLOW_TIMER_STREAM_S: u64 = 120;

/// Writes the response to one REGISTER.
// RFC 3261 10.3: "Registrars MUST ignore the Record-Route header field if it is included in a REGISTER
// request.  Registrars MUST NOT include a Record-Route header field in any response to a REGISTER
// request." A response begins with copies of Via, From, To, Call-ID and CSeq, and of nothing else.
pub(super) struct Answer<'a> {
    pub(super) cx: &'a RegistrarContext<'a>,
    pub(super) registration: &'a Registration,
    pub(super) to_tag: [u8; 16],
}

/// A tag that is the same for the same request, so that an answer without a
/// transaction is repeated as it was.
pub(super) fn to_tag(key: &[u8; 16], request: &Message) -> [u8; 16] {
    let mut hasher = SipHasher13::new_with_key(key);
    hasher.write(request.call_id());
    hasher.write_u32(request.cseq().map_or(0, |cseq| cseq.number));
    hex16(hasher.finish())
}

impl Answer<'_> {
    /// 200 with all bindings.
    pub(super) fn write_ok(&self, entries: &[Entry], out: &mut Vec<u8>) {
        let request = &*self.registration.request;
        let mut writer = ResponseWriter::begin(out, request, 200, reason_phrase(200), &self.to_tag);
        // RFC 3261 10.3: "The registrar returns a 200 (OK) response.  The response MUST contain Contact
        // header field values enumerating all current bindings.  Each Contact value MUST feature an
        // "expires" parameter indicating its expiration interval chosen by the registrar."
        for entry in entries {
            writer.header_with("Contact", |out| self.write_contact(entry, out));
        }
        // RFC 3261 8.2.4: "Of course, the server MUST NOT apply extensions not listed in the Supported
        // header field in the request."
        if request.has_option(HeaderName::Supported, "path") {
            // RFC 3327 5.3: a phone that knows Path is shown the one that was kept.
            for field in request.fields_of(HeaderName::Path) {
                writer.field(request, &field);
            }
        }
        for route in &self.cx.settings.registrar.service_route {
            writer.header("Service-Route", route.as_bytes());
        }
        // RFC 3261 8.2.4: "A UAS that wishes to apply some extension when generating the response MUST NOT do
        // so unless support for that extension is indicated in the Supported header field in the request."
        if self.used_outbound(entries) && request.has_option(HeaderName::Supported, "outbound") {
            // RFC 5626 6: the phone learns by Require that its flow is kept.
            // RFC 3261 8.2.4: "The needed extension(s) MUST be included in a Require header field in the
            // response." and "Any extensions applied to a non-421 response MUST be listed in a Require
            // header field included in the response."
            writer.header("Require", b"outbound");
            let is_stream = self.registration.sender.flow.transport.is_reliable();
            writer.number(
                "Flow-Timer",
                if is_stream {
                    FLOW_TIMER_STREAM_S
                } else {
                    FLOW_TIMER_UDP_S
                },
            );
        }
        self.write_authentication_info(&mut writer);
        // RFC 3261 10.3: "The response SHOULD include a Date header field."
        writer.header_with("Date", |out| date::write_date(self.cx.now.unix_ms, out));
        self.finish(writer);
    }

    /// Whatever the refusal's answer is.
    pub(super) fn write_refusal(&self, refused: Refused, out: &mut Vec<u8>) {
        // RFC 3261 10.3: "A registrar MUST not generate 6xx responses."
        let line = refused.line();
        let (status, phrase) = (line.status(), line.phrase());
        let request = &*self.registration.request;
        let mut writer = ResponseWriter::begin(out, request, status, phrase, &self.to_tag);
        match refused {
            // RFC 3261 8.2.2.3: "The UAS MUST add an Unsupported header field, and list in it those options it
            // does not understand amongst those in the Require header field of the request."
            Refused::BadExtension => {
                // In one line: one for each would make the answer longer than the request.
                let tags: Vec<&[u8]> = unsupported(request).collect();
                writer.header("Unsupported", &tags.join(&b","[..]));
            }
            // RFC 3261 10.3: "This response MUST contain a Min-Expires header field that states the minimum
            // expiration interval the registrar is willing to honor."
            Refused::TooBrief => {
                writer.number(
                    "Min-Expires",
                    u64::from(self.cx.settings.registrar.expires_min_s),
                );
            }
            Refused::Unsaved | Refused::Busy | Refused::TableFull => {
                writer.number(
                    "Retry-After",
                    u64::from(self.cx.settings.bounds.retry_after_s),
                );
            }
            _ => {}
        }
        self.finish(writer);
    }

    fn write_contact(&self, entry: &Entry, out: &mut Vec<u8>) {
        let binding = &entry.binding;
        out.push(b'<');
        out.extend_from_slice(&binding.uri);
        out.push(b'>');
        if binding.q < 1_000 {
            out.extend_from_slice(b";q=0.");
            let digits = [binding.q / 100, binding.q / 10 % 10, binding.q % 10];
            out.extend(digits.map(|digit| b'0' + (digit % 10) as u8));
        }
        // Rounded up: the phone comes back in time, and a whole grant reads as granted.
        let left_ms = binding.expires_unix_ms.saturating_sub(self.cx.now.unix_ms);
        out.extend_from_slice(b";expires=");
        write_decimal(left_ms.div_ceil(1_000), out);
        if let Some(instance) = &binding.instance {
            out.extend_from_slice(b";+sip.instance=");
            out.extend_from_slice(instance);
        }
        if let Some(reg_id) = binding.reg_id {
            out.extend_from_slice(b";reg-id=");
            write_decimal(u64::from(reg_id), out);
        }
    }

    /// Whether this request made or kept a flow.
    fn used_outbound(&self, entries: &[Entry]) -> bool {
        let call_id = self.registration.request.call_id();
        let cseq = self.registration.request.cseq().map(|cseq| cseq.number);
        entries.iter().any(|entry| {
            let binding = &entry.binding;
            binding.reg_id.is_some() && *binding.call_id == *call_id && Ok(binding.cseq) == cseq
        })
    }

    fn write_authentication_info(&self, writer: &mut MessageWriter<'_>) {
        let Permit::Authenticated(user) = &self.registration.permit else {
            return;
        };
        let mut info = Vec::new();
        if user.write_authentication_info(&mut info) {
            writer.header(HeaderName::AuthenticationInfo.as_str(), &info);
        }
    }

    fn finish(&self, mut writer: MessageWriter<'_>) {
        let server = &self.cx.settings.server_header;
        if !server.is_empty() {
            writer.header("Server", server.as_bytes());
        }
        writer.finish(&[]);
    }
}
