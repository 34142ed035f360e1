//! A server with media engines that say what a test has them say.

use std::sync::Arc;

use sip_engine::refusal::Reason;
use sip_engine::settings::{MediaSettings, MediaUse, Settings};
use sip_engine::{Effect, ParkId};
use sip_media::{Answered, Ask, Command, EngineId, Failure, Given};
use sip_msg::{HeaderName, Transport};

use crate::common::*;

/// Where calls go to.
pub const NEXT: &str = "203.0.113.9:5070";
pub const URI: &str = "sip:bob@example.com";
pub const CONTACT: &str = "Contact: <sip:bob@203.0.113.9:5070>\r\n";
pub const UDP: Transport = Transport::Udp;
/// The engine that answers.
pub const ENGINE: EngineId = EngineId(0x0102_0304);

/// A session description of somebody.
pub fn sdp(who: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns={who}\r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\n\
         m=audio 4000 RTP/AVP 0\r\n"
    )
}

/// What an engine makes of it; longer, as it is in life.
pub fn led(who: &str) -> String {
    sdp(who).replace("10.0.0.1", "192.0.2.200") + "a=rtcp:4001\r\n"
}

/// Engines, and these rules for the listeners.
pub fn media(uses: MediaUse) -> MediaSettings {
    MediaSettings {
        listeners: vec![uses; 6],
        client: sip_media::Config {
            engines: vec![([127, 0, 0, 1], 2223).into()],
            ..sip_media::Config::default()
        },
        ..MediaSettings::default()
    }
}

/// All calls that go to that hop have an engine.
pub fn leading(next: Transport) -> Settings {
    Settings {
        media: Some(Arc::new(media(MediaUse::Always))),
        ..forwarding(next, NEXT)
    }
}

/// A text with a session description for its body.
pub fn with_sdp(text: &str, sdp: &str) -> String {
    let (head, _) = text.split_once("Content-Length:").unwrap();
    format!(
        "{head}Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}",
        sdp.len()
    )
}

/// A question to an engine.
#[derive(Debug)]
pub struct Asked {
    pub park: Option<ParkId>,
    pub ask: Box<Ask>,
}

impl Asked {
    pub fn command(&self) -> Command {
        self.ask.command
    }

    /// The tags of who offers and who answers.
    pub fn tags(&self) -> (&str, &str) {
        (
            std::str::from_utf8(&self.ask.from_tag).unwrap(),
            std::str::from_utf8(&self.ask.to_tag).unwrap(),
        )
    }

    pub fn sdp(&self) -> &str {
        std::str::from_utf8(&self.ask.sdp).unwrap()
    }
}

/// What was asked since, in its order.
pub fn all_asked(bed: &mut Bed) -> Vec<Asked> {
    let mut asked = Vec::new();
    let effects = std::mem::take(&mut bed.effects);
    for effect in effects {
        match effect {
            Effect::Media { park, ask } => asked.push(Asked { park, ask }),
            other => bed.effects.push(other),
        }
    }
    asked
}

/// The only question since.
#[track_caller]
pub fn asked(bed: &mut Bed) -> Asked {
    let mut all = all_asked(bed);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

/// An engine's answer; what is sent because of it.
#[track_caller]
pub fn answer(bed: &mut Bed, asked: Asked, result: Result<Given, Failure>) -> Vec<Sent> {
    let answered = Answered {
        waiter: asked.park.expect("somebody waits for it").0,
        ask: asked.ask,
        result,
    };
    bed.act(|shard, now, out| shard.handle_media(now, answered, out))
}

/// It gives that.
#[track_caller]
pub fn give(bed: &mut Bed, asked: Asked, sdp: &str) -> Vec<Sent> {
    let given = Given {
        engine: ENGINE,
        sdp: (!sdp.is_empty()).then(|| sdp.as_bytes().into()),
    };
    answer(bed, asked, Ok(given))
}

/// None is there.
#[track_caller]
pub fn fail(bed: &mut Bed, asked: Asked) -> Vec<Sent> {
    answer(bed, asked, Err(Failure::Gone))
}

/// Whether a request was refused for that reason with that status.
pub fn is_refused(bed: &Bed, status: u16, reason: Reason) -> bool {
    let counts = bed.shard.refusal_counts();
    let mut counts = counts.iter();
    counts.any(|(of, count)| (of.status, of.reason, count) == (Some(status), reason, 1))
}

/// Its body.
pub fn body(sent: &Sent) -> &str {
    std::str::from_utf8(sent.message.body()).unwrap()
}

/// That a message says this, with the length that it has.
#[track_caller]
pub fn assert_says(sent: &Sent, sdp: &str) {
    assert_eq!(body(sent), sdp, "{}", sent.text);
    let length = sdp.len().to_string();
    assert_eq!(sent.header(HeaderName::ContentLength), Some(length));
}

/// Somebody who got a request responds, with a session description if there is one.
pub fn respond(bed: &mut Bed, to: &Sent, status: u16, sdp: &str) -> Vec<Sent> {
    respond_as(bed, to, status, "b", sdp)
}

/// The same with that tag.
pub fn respond_as(bed: &mut Bed, to: &Sent, status: u16, tag: &str, sdp: &str) -> Vec<Sent> {
    let mut text = response(to, status, tag, CONTACT);
    if !sdp.is_empty() {
        text = with_sdp(&text, sdp);
    }
    bed.receive(&answering(to), &text)
}

/// An INVITE with an offer over that transport.
pub fn invite(transport: Transport) -> String {
    with_sdp(&request("INVITE", URI, transport).text(), &sdp("alice"))
}

/// Alice calls and the engine answers; the copy of the INVITE.
#[track_caller]
pub fn call(bed: &mut Bed, transport: Transport) -> Sent {
    let sent = bed.receive(&alice(transport), &invite(transport));
    assert_eq!(kinds(&sent), ["100"]);
    let asked = asked(bed);
    only(give(bed, asked, &led("alice")))
}

/// A call that was answered.
pub struct Call {
    /// What the callee got.
    pub invite: Sent,
    /// What the caller got.
    pub ok: Sent,
}

/// The same, and bob answers.
#[track_caller]
pub fn answered_call(bed: &mut Bed, transport: Transport) -> Call {
    let invite = call(bed, transport);
    let sent = respond(bed, &invite, 200, &sdp("bob"));
    assert!(sent.is_empty(), "{:?}", kinds(&sent));
    let asked = asked(bed);
    let ok = only(give(bed, asked, &led("bob")));
    Call { invite, ok }
}

impl Call {
    /// A request of the caller within the call.
    pub fn of_caller(&self, method: &str, transport: Transport) -> Request {
        let routes = self.ok.all(HeaderName::RecordRoute).into_iter().rev();
        let route: String = routes.map(|value| format!("Route: {value}\r\n")).collect();
        let uri = "sip:bob@203.0.113.9:5070";
        let mut within = request(method, uri, transport).with(&route);
        within.to = "<sip:bob@example.org>;tag=b".into();
        within.cseq = 2;
        within
    }

    /// A request of the callee within it.
    pub fn of_callee(&self, method: &str) -> Request {
        let routes = self.invite.all(HeaderName::RecordRoute).into_iter();
        let route: String = routes.map(|value| format!("Route: {value}\r\n")).collect();
        let to = &self.invite.to;
        let mut within = request(method, "sip:alice@198.51.100.1:5060", to.transport).with(&route);
        within.via = within.via.replace("198.51.100.1:5060", NEXT);
        within.from = "<sip:bob@example.org>;tag=b".into();
        within.to = "<sip:alice@example.com>;tag=a".into();
        within
    }
}
