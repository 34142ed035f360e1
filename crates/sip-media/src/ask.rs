//! What is asked of an engine, and how it is written.

use std::sync::Arc;

use crate::EngineId;
use crate::bencode::Writer;

/// The attribute by which an engine knows its own work.
const MARK: &[u8] = b"a=rtpengine";
/// Where its name begins.
const MARK_NAME_AT: usize = 2;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// To know which engine an offer would go to. No engine is asked.
    Choose,
    /// A session description that is offered, changed so that its media comes by the engine.
    Offer,
    /// The same of an answer.
    Answer,
    /// The end of a dialog, or of a branch that came to nothing.
    Delete,
}

/// Who receives media at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// A phone or a gateway: RTP as it is.
    #[default]
    Plain,
    /// A browser: ICE, DTLS-SRTP, and RTCP at the port of RTP (RFC 8834).
    Browser,
}

/// How a session description is changed on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Who has written it.
    pub from: Side,
    /// Who is to read it.
    pub to: Side,
    /// Whether its reader is reached by IPv6, and its writer by IPv4; `false` for the other way round,
    /// `None` where both are reached by one family.
    pub is_v6: Option<bool>,
    /// The engine's interfaces towards the two, by their names there.
    pub interfaces: Option<[Arc<str>; 2]>,
}

/// A command for an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What is wanted.
    pub command: Command,
    /// What the engine is to call the call; it begins with the Call-ID.
    pub call_id: Box<[u8]>,
    /// How many bytes of that choose the engine: those of the Call-ID, so that all commands about
    /// one Call-ID go to one engine.
    pub chosen_by: usize,
    /// The tag of whoever offers.
    pub from_tag: Box<[u8]>,
    /// The tag of whoever answers; empty while it is not known.
    pub to_tag: Box<[u8]>,
    /// What tells the branches of one offer apart; empty within a dialog.
    pub branch: Box<[u8]>,
    /// The session description.
    pub sdp: Box<[u8]>,
    /// How it is to be changed.
    pub shape: Shape,
    /// The engine that has the call; none where any will do.
    pub engine: Option<EngineId>,
}

impl Ask {
    /// A command about the call of that name and tag, and nothing else yet.
    pub fn new(command: Command, call_id: &[u8], from_tag: &[u8]) -> Self {
        Self {
            command,
            call_id: call_id.into(),
            chosen_by: call_id.len(),
            from_tag: from_tag.into(),
            to_tag: Box::default(),
            branch: Box::default(),
            sdp: Box::default(),
            shape: Shape::default(),
            engine: None,
        }
    }

    /// Takes a session description. By a mark in it an engine knows what it leads already, and
    /// leaves that as it is. It counts where a neighbour has written it: anybody else may have copied it out
    /// of another call, and would have his media led past the engine.
    pub fn describe(&mut self, sdp: &[u8], is_neighbours: bool) {
        self.sdp = sdp.into();
        if is_neighbours {
            return;
        }
        let marks = sdp.windows(MARK.len()).enumerate();
        for (at, _) in marks.filter(|(_, text)| *text == MARK) {
            if let Some(first) = self.sdp.get_mut(at + MARK_NAME_AT) {
                *first = b'x';
            }
        }
    }

    /// The memory that it holds.
    pub fn held_bytes(&self) -> usize {
        let texts = [
            &self.call_id,
            &self.from_tag,
            &self.to_tag,
            &self.branch,
            &self.sdp,
        ];
        size_of::<Self>() + texts.iter().map(|text| text.len()).sum::<usize>()
    }

    /// Appends the command as a dictionary; `flags` are the operator's own.
    pub(crate) fn write(&self, flags: &[Box<str>], out: &mut Vec<u8>) {
        Writer::new(out).dictionary(|of| {
            let command = match self.command {
                Command::Choose | Command::Offer => "offer",
                Command::Answer => "answer",
                Command::Delete => "delete",
            };
            of.entry("command", command.as_bytes());
            of.entry("call-id", &self.call_id);
            let is_of_branch = !self.branch.is_empty() && self.to_tag.is_empty();
            // An engine that does not know a branch goes by the tag, which is that of all branches:
            // where one of them ends there is to be none that it knows.
            let from_tag = match self.command {
                Command::Delete if is_of_branch => &self.branch,
                _ => &self.from_tag,
            };
            of.entry("from-tag", from_tag);
            if !self.to_tag.is_empty() {
                of.entry("to-tag", &self.to_tag);
            }
            if !self.branch.is_empty() {
                of.entry("via-branch", &self.branch);
            }
            match self.command {
                Command::Delete => {
                    // Nobody speaks any more: its ports are wanted for the next.
                    of.bytes(b"delete delay");
                    of.integer(0);
                }
                _ => self.write_session(flags, of),
            }
        });
    }

    fn write_session(&self, flags: &[Box<str>], of: &mut Writer<'_>) {
        let shape = &self.shape;
        let is_to_browser = shape.to == Side::Browser;
        let is_of_browser = shape.from == Side::Browser;
        of.entry("sdp", &self.sdp);
        // A browser writes no address but those of its candidates where it has not gathered them
        // all, or hides them. To a phone 0.0.0.0 is a call on hold (RFC 2543 B.5).
        let replaced = ["origin", "session-connection"].into_iter();
        let replaced = replaced.chain(is_of_browser.then_some("zero-address"));
        of.entries("replace", replaced);
        // A call that comes by here twice is led through the engine once.
        let own = ["loop-protect"].into_iter();
        let own = own.chain(is_of_browser.then_some("original-sendrecv"));
        let own = own.chain(is_to_browser.then_some("generate-mid"));
        of.entries("flags", own.chain(flags.iter().map(|flag| &**flag)));
        // A browser speaks to nobody without ICE (RFC 8834 4.1). For anybody else the engine is
        // where its description says, and no candidate leads around it.
        let ice = if is_to_browser { "force" } else { "remove" };
        of.entry("ICE", ice.as_bytes());
        if is_to_browser {
            // The one who can be reached waits; who is behind a translation begins.
            of.entry("DTLS", b"passive");
        }
        if self.command == Command::Answer {
            // The engine knows what was offered to whom, and answers in kind.
            return;
        }
        of.entries("supports", ["load limit"]);
        if is_of_browser || is_to_browser {
            // No browser knows its keys in a description (RFC 8827 6.5).
            of.entries("SDES", ["off"]);
        }
        if shape.from != shape.to {
            match shape.to {
                Side::Browser => {
                    of.entry("transport protocol", b"UDP/TLS/RTP/SAVPF");
                    of.entries("rtcp-mux", ["offer"]);
                }
                Side::Plain => {
                    of.entry("DTLS", b"off");
                    of.entry("transport protocol", b"RTP/AVP");
                    of.entries("rtcp-mux", ["demux"]);
                }
            }
        }
        if let Some(is_v6) = shape.is_v6 {
            of.entry("address family", if is_v6 { b"IP6" } else { b"IP4" });
        }
        if let Some([from, to]) = &shape.interfaces {
            of.entries("direction", [&**from, &**to]);
        }
    }
}

/// The command that only asks whether an engine is there.
pub(crate) fn write_ping(out: &mut Vec<u8>) {
    Writer::new(out).dictionary(|of| of.entry("command", b"ping"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bencode::{Value, read};

    fn written(ask: &Ask) -> Vec<(String, String)> {
        let mut text = Vec::new();
        ask.write(&["strict-source".into()], &mut text);
        let value = read(&text).unwrap();
        let shown = |value: &Value<'_>| match value {
            Value::Integer(number) => number.to_string(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::List(list) => {
                let list = list.iter().filter_map(Value::bytes);
                let list: Vec<_> = list.map(String::from_utf8_lossy).collect();
                list.join(" ")
            }
            Value::Dictionary(_) => panic!("none is in a command"),
        };
        let entries = value.dictionary().unwrap().iter();
        let entries = entries.map(|(key, value)| {
            let key = String::from_utf8_lossy(key).into_owned();
            (key, shown(value))
        });
        entries.collect()
    }

    fn of(entries: &[(String, String)], key: &str) -> Option<String> {
        let mut entries = entries.iter();
        let found = entries.find(|(own, _)| own == key);
        found.map(|(_, value)| value.clone())
    }

    fn ask(command: Command, from: Side, to: Side) -> Ask {
        let mut ask = Ask::new(command, b"call:1 e", b"tag");
        ask.sdp = b"v=0\r\n".as_slice().into();
        ask.shape = Shape {
            from,
            to,
            ..Shape::default()
        };
        ask
    }

    #[test]
    fn an_offer_is_shaped_by_who_reads_it() {
        use Side::{Browser, Plain};
        for (from, to, ice, protocol, mux, dtls) in [
            (Plain, Plain, "remove", None, None, None),
            (
                Plain,
                Browser,
                "force",
                Some("UDP/TLS/RTP/SAVPF"),
                Some("offer"),
                Some("passive"),
            ),
            (
                Browser,
                Plain,
                "remove",
                Some("RTP/AVP"),
                Some("demux"),
                Some("off"),
            ),
            (Browser, Browser, "force", None, None, Some("passive")),
        ] {
            let entries = written(&ask(Command::Offer, from, to));
            let what = format!("{from:?} {to:?}");
            assert_eq!(of(&entries, "ICE").as_deref(), Some(ice), "{what}");
            assert_eq!(
                of(&entries, "transport protocol").as_deref(),
                protocol,
                "{what}"
            );
            assert_eq!(of(&entries, "rtcp-mux").as_deref(), mux, "{what}");
            assert_eq!(of(&entries, "DTLS").as_deref(), dtls, "{what}");
            let has_browser = (from, to) != (Plain, Plain);
            let sdes = has_browser.then(|| "off".to_owned());
            assert_eq!(of(&entries, "SDES"), sdes, "{what}");
            let flags = of(&entries, "flags").unwrap();
            assert!(flags.starts_with("loop-protect"), "{flags}");
            assert!(flags.ends_with("strict-source"), "{flags}");
            assert_eq!(flags.contains("generate-mid"), to == Browser, "{what}");
            let keeps = flags.contains("original-sendrecv");
            assert_eq!(keeps, from == Browser, "{what}");
            let replaced = of(&entries, "replace").unwrap();
            assert!(replaced.starts_with("origin session-connection"), "{what}");
            assert_eq!(replaced.contains("zero-address"), from == Browser, "{what}");
            for (key, value) in [
                ("command", "offer"),
                ("call-id", "call:1 e"),
                ("from-tag", "tag"),
                ("sdp", "v=0\r\n"),
                ("supports", "load limit"),
            ] {
                assert_eq!(of(&entries, key).as_deref(), Some(value), "{what}");
            }
            for key in [
                "to-tag",
                "via-branch",
                "direction",
                "address family",
                "delete delay",
            ] {
                assert_eq!(of(&entries, key), None, "{what}");
            }
        }
    }

    #[test]
    fn an_answer_leaves_to_the_engine_what_was_offered() {
        let mut answer = ask(Command::Answer, Side::Plain, Side::Browser);
        answer.to_tag = b"other".as_slice().into();
        answer.branch = b"branch".as_slice().into();
        let entries = written(&answer);
        for key in [
            "transport protocol",
            "rtcp-mux",
            "SDES",
            "supports",
            "direction",
        ] {
            assert_eq!(of(&entries, key), None, "{key}");
        }
        for (key, value) in [
            ("command", "answer"),
            ("to-tag", "other"),
            ("via-branch", "branch"),
            ("ICE", "force"),
            ("DTLS", "passive"),
        ] {
            assert_eq!(of(&entries, key).as_deref(), Some(value), "{key}");
        }
    }

    #[test]
    fn a_branch_is_ended_by_its_own_name_alone() {
        let mut delete = ask(Command::Delete, Side::Plain, Side::Plain);
        delete.branch = b"branch".as_slice().into();
        let entries = written(&delete);
        for key in ["from-tag", "via-branch"] {
            assert_eq!(of(&entries, key).as_deref(), Some("branch"), "{key}");
        }
        assert_eq!(of(&entries, "to-tag"), None);
    }

    #[test]
    fn the_mark_of_an_engine_counts_from_neighbours_alone() {
        for (given, unmarked) in [
            ("v=0\r\na=rtpengine:1f\r\n", "v=0\r\na=xtpengine:1f\r\n"),
            (
                "a=rtpengine:1\n\ra=rtpengine:2a=rtpengine",
                "a=xtpengine:1\n\ra=xtpengine:2a=xtpengine",
            ),
            ("v=0\r\ns=a=rtpengin\r\n", "v=0\r\ns=a=rtpengin\r\n"),
            ("", ""),
        ] {
            let mut offer = ask(Command::Offer, Side::Plain, Side::Plain);
            offer.describe(given.as_bytes(), true);
            assert_eq!(&*offer.sdp, given.as_bytes());
            offer.describe(given.as_bytes(), false);
            assert_eq!(&*offer.sdp, unmarked.as_bytes());
        }
    }

    #[test]
    fn interfaces_and_the_family_are_told_with_an_offer() {
        let mut offer = ask(Command::Offer, Side::Plain, Side::Plain);
        offer.shape.interfaces = Some(["inside".into(), "outside".into()]);
        for (is_v6, family) in [
            (Some(true), Some("IP6")),
            (Some(false), Some("IP4")),
            (None, None),
        ] {
            offer.shape.is_v6 = is_v6;
            let entries = written(&offer);
            assert_eq!(of(&entries, "address family").as_deref(), family);
            assert_eq!(of(&entries, "direction").as_deref(), Some("inside outside"));
        }
    }

    #[test]
    fn a_delete_ends_at_once_and_has_no_session() {
        let mut delete = ask(Command::Delete, Side::Plain, Side::Plain);
        delete.to_tag = b"other".as_slice().into();
        let entries = written(&delete);
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        let wanted = ["command", "call-id", "from-tag", "to-tag", "delete delay"];
        assert_eq!(keys, wanted);
        assert_eq!(of(&entries, "delete delay").as_deref(), Some("0"));
    }
}
