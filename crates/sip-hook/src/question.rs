//! What is asked about a request.

use std::hash::Hasher;
use std::net::IpAddr;

use serde_json::{Value, json};

/// What a request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An INVITE.
    Call,
    /// A REGISTER for this server's registrar.
    Registration,
    /// A MESSAGE.
    Message,
    /// A SUBSCRIBE.
    Subscription,
}

impl Kind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Registration => "registration",
            Self::Message => "message",
            Self::Subscription => "subscription",
        }
    }

    /// The method of such requests.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Call => "INVITE",
            Self::Registration => "REGISTER",
            Self::Message => "MESSAGE",
            Self::Subscription => "SUBSCRIBE",
        }
    }
}

/// A request, as far as its fate may depend on it. The texts are printable ASCII: whoever asks
/// writes every other byte in a form of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What it begins.
    pub kind: Kind,
    /// The URI in From, without a password; empty where it cannot be read.
    pub from: Box<str>,
    /// The same of To.
    pub to: Box<str>,
    /// The Request-URI that counts.
    pub request_uri: Box<str>,
    /// The number in it, as the routing tables read it; empty for none.
    pub number: Box<str>,
    /// The URI of the first Route that leads elsewhere; empty for none.
    pub route: Box<str>,
    /// The user who proved himself, with his realm; empty for none.
    pub user: Box<str>,
    /// Why the request was let in.
    pub class: &'static str,
    /// Where it came from.
    pub source: IpAddr,
    /// The port there.
    pub source_port: u16,
    /// By which transport.
    pub transport: &'static str,
    /// The Call-ID.
    pub call_id: Box<str>,
}

impl Question {
    /// As it is sent, under that number.
    pub(crate) fn to_json(&self, id: u64) -> Value {
        let or_null = |text: &str| match text.is_empty() {
            true => Value::Null,
            false => Value::from(text),
        };
        json!({
            "id": id,
            "kind": self.kind.name(),
            "method": self.kind.method(),
            "from": &*self.from,
            "to": &*self.to,
            "request_uri": &*self.request_uri,
            "number": or_null(&self.number),
            "route": or_null(&self.route),
            "user": or_null(&self.user),
            "class": self.class,
            "source": self.source.to_string(),
            "source_port": self.source_port,
            "transport": self.transport,
            "call_id": &*self.call_id,
        })
    }
}

/// A part of a question that answers may be remembered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Field {
    From,
    To,
    RequestUri,
    Number,
    Route,
    User,
    Class,
    Source,
    Transport,
}

impl Field {
    /// Writes what a question has there, so that no two questions read alike that are not.
    pub(crate) fn write(self, question: &Question, hasher: &mut impl Hasher) {
        let mut text = |text: &str| {
            hasher.write_u64(text.len() as u64);
            hasher.write(text.as_bytes());
        };
        match self {
            Self::From => text(&question.from),
            Self::To => text(&question.to),
            Self::RequestUri => text(&question.request_uri),
            Self::Number => text(&question.number),
            Self::Route => text(&question.route),
            Self::User => text(&question.user),
            Self::Class => text(question.class),
            Self::Source => text(&question.source.to_string()),
            Self::Transport => text(question.transport),
        }
    }
}

#[cfg(test)]
pub(crate) fn a_call(user: &str, request_uri: &str) -> Question {
    Question {
        kind: Kind::Call,
        from: format!("sip:{user}").into(),
        to: request_uri.into(),
        request_uri: request_uri.into(),
        number: Box::default(),
        route: Box::default(),
        user: user.into(),
        class: "user",
        source: IpAddr::from([192, 0, 2, 1]),
        source_port: 5060,
        transport: "udp",
        call_id: "call".into(),
    }
}
