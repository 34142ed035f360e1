//! From bytes to messages (RFC 6455 5.4 to 5.8).

use super::frame::{CONTROL_BYTES_MAX, FIN, MASKED, Opcode, RESERVED, unmask};

#[cfg(test)]
mod tests;

/// Takes frames from one direction of a connection and puts messages together.
///
/// It keeps the parts of one message at most. What is not taken must be the
/// beginning of the next call's input.
#[derive(Debug)]
pub struct Reader {
    /// Whether frames must be masked: those of clients are, those of servers are not.
    masked: bool,
    /// Whether the message whose parts are being put together is text.
    begun: Option<bool>,
    parts: Vec<u8>,
}

/// What stood at the front of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Not yet a whole frame: read on.
    More,
    /// A frame.
    Frame {
        /// Its length in bytes.
        len: usize,
        /// What it brought.
        item: Item,
    },
}

/// What a frame brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A part of a message that goes on.
    Part,
    /// The whole of a message, or the rest of it: the message is in `payload`.
    Message,
    /// A ping: answer by a pong with what is in `payload`.
    Ping,
    /// A pong.
    Pong,
    /// The peer closes, with this code where it gave one: answer by a Close
    /// frame and send nothing more.
    Close(Option<u16>),
}

/// What is wrong with what a peer sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WebSocketFault {
    /// A bit of an extension that was not agreed on.
    Reserved,
    /// An opcode that means nothing.
    Opcode,
    /// A frame of a client without a mask, or of a server with one.
    Mask,
    /// A length that is not written as short as it could be.
    Length,
    /// A control frame that is too long or in parts.
    Control,
    /// A further part of nothing, or a message begun within another.
    Order,
    /// A Close frame whose code or reason is none.
    Close,
    /// A text that is not UTF-8.
    Utf8,
    /// A message past the bound.
    TooLarge,
}

impl WebSocketFault {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 9] = [
        Self::Reserved,
        Self::Opcode,
        Self::Mask,
        Self::Length,
        Self::Control,
        Self::Order,
        Self::Close,
        Self::Utf8,
        Self::TooLarge,
    ];

    /// The code of the Close frame that says so (RFC 6455 7.4.1).
    pub const fn code(self) -> u16 {
        match self {
            Self::Utf8 => 1007,
            Self::TooLarge => 1009,
            _ => 1002,
        }
    }

    /// The reason in that frame.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Reserved => "a reserved bit is set",
            Self::Opcode => "unknown opcode",
            Self::Mask => "frames of clients are masked, those of servers are not",
            Self::Length => "a length not in its shortest form",
            Self::Control => "control frames are whole and have 125 bytes at most",
            Self::Order => "a part without its message",
            Self::Close => "a close frame that means nothing",
            Self::Utf8 => "a text that is not UTF-8",
            Self::TooLarge => "the message is too large",
        }
    }

    /// Its name among figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Opcode => "opcode",
            Self::Mask => "mask",
            Self::Length => "length",
            Self::Control => "control",
            Self::Order => "order",
            Self::Close => "close",
            Self::Utf8 => "utf8",
            Self::TooLarge => "too_large",
        }
    }
}

/// A frame's head, checked.
struct Head {
    is_final: bool,
    opcode: Opcode,
    mask: Option<[u8; 4]>,
    len: usize,
    payload_len: usize,
}

impl Reader {
    /// For what a client sends.
    pub const fn of_server() -> Self {
        Self::new(true)
    }

    /// For what a server sends.
    pub const fn of_client() -> Self {
        Self::new(false)
    }

    const fn new(masked: bool) -> Self {
        Self {
            masked,
            begun: None,
            parts: Vec::new(),
        }
    }

    /// Whether a message was begun in parts and is not complete.
    pub const fn is_amid(&self) -> bool {
        self.begun.is_some()
    }

    /// Bytes kept of that message.
    pub const fn kept_bytes(&self) -> usize {
        self.parts.len()
    }

    /// Takes the frame at the front of `input`. Its payload, or the message that
    /// it completes, replaces what is in `payload`. After an error there is
    /// nothing to be had from the connection.
    pub fn next(
        &mut self,
        input: &[u8],
        message_bytes_max: usize,
        payload: &mut Vec<u8>,
    ) -> Result<Taken, WebSocketFault> {
        payload.clear();
        let Some(head) = self.head(input, message_bytes_max)? else {
            return Ok(Taken::More);
        };
        let len = head.len + head.payload_len;
        let Some(data) = input.get(head.len..len) else {
            return Ok(Taken::More);
        };
        let is_part = match head.opcode {
            Opcode::Continuation => true,
            Opcode::Text | Opcode::Binary => !head.is_final,
            _ => false,
        };
        let place = if is_part {
            &mut self.parts
        } else {
            &mut *payload
        };
        let start = place.len();
        place.extend_from_slice(data);
        if let Some(mask) = head.mask {
            unmask(mask, place.get_mut(start..).unwrap_or_default());
        }
        let item = match head.opcode {
            Opcode::Ping => Item::Ping,
            Opcode::Pong => Item::Pong,
            Opcode::Close => Item::Close(close_code(payload)?),
            Opcode::Text | Opcode::Binary | Opcode::Continuation => {
                let is_text = match head.opcode {
                    Opcode::Continuation => self.begun == Some(true),
                    opcode => opcode == Opcode::Text,
                };
                if !head.is_final {
                    self.begun = Some(is_text);
                    return Ok(Taken::Frame {
                        len,
                        item: Item::Part,
                    });
                }
                if is_part {
                    *payload = std::mem::take(&mut self.parts);
                    self.begun = None;
                }
                // RFC 6455 8.1: "When an endpoint is to interpret a byte stream
                // as UTF-8 but finds that the byte stream is not, in fact, a
                // valid UTF-8 stream, that endpoint MUST _Fail the WebSocket
                // Connection_."
                if is_text && std::str::from_utf8(payload).is_err() {
                    return Err(WebSocketFault::Utf8);
                }
                Item::Message
            }
        };
        Ok(Taken::Frame { len, item })
    }

    /// The head of the frame; `None` where it is not all there. A fault is
    /// found as soon as its byte is.
    fn head(&self, input: &[u8], message_bytes_max: usize) -> Result<Option<Head>, WebSocketFault> {
        let [first, rest @ ..] = input else {
            return Ok(None);
        };
        // RFC 6455 5.2: "MUST be 0 unless an extension is negotiated that
        // defines meanings for non-zero values."
        if first & RESERVED != 0 {
            return Err(WebSocketFault::Reserved);
        }
        let opcode = Opcode::of_bits(first & 0x0F).ok_or(WebSocketFault::Opcode)?;
        let is_final = first & FIN != 0;
        // RFC 6455 5.5: "All control frames MUST have a payload length of 125
        // bytes or less and MUST NOT be fragmented."
        if opcode.is_control() && !is_final {
            return Err(WebSocketFault::Control);
        }
        let is_beginning = matches!(opcode, Opcode::Text | Opcode::Binary);
        let is_stray = opcode == Opcode::Continuation && !self.is_amid();
        if is_stray || (is_beginning && self.is_amid()) {
            return Err(WebSocketFault::Order);
        }
        let [second, rest @ ..] = rest else {
            return Ok(None);
        };
        // RFC 6455 5.1: "The server MUST close the connection upon receiving a
        // frame that is not masked." and "A client MUST close a connection if it
        // detects a masked frame."
        if (second & MASKED != 0) != self.masked {
            return Err(WebSocketFault::Mask);
        }
        let (length_len, payload_len) = match second & !MASKED {
            126 => match rest.first_chunk() {
                Some(length) => (2, u64::from(u16::from_be_bytes(*length))),
                None => return Ok(None),
            },
            127 => match rest.first_chunk() {
                Some(length) => (8, u64::from_be_bytes(*length)),
                None => return Ok(None),
            },
            length => (0, u64::from(length)),
        };
        let is_short = match length_len {
            2 => payload_len > 125,
            8 => payload_len > 0xFFFF && payload_len >> 63 == 0,
            _ => true,
        };
        if !is_short {
            return Err(WebSocketFault::Length);
        }
        let payload_len = usize::try_from(payload_len).unwrap_or(usize::MAX);
        if opcode.is_control() {
            if payload_len > CONTROL_BYTES_MAX {
                return Err(WebSocketFault::Control);
            }
        } else if payload_len > message_bytes_max.saturating_sub(self.parts.len()) {
            return Err(WebSocketFault::TooLarge);
        }
        let mask = if self.masked {
            match rest.get(length_len..).and_then(<[u8]>::first_chunk) {
                Some(mask) => Some(*mask),
                None => return Ok(None),
            }
        } else {
            None
        };
        Ok(Some(Head {
            is_final,
            opcode,
            mask,
            len: 2 + length_len + mask.map_or(0, |mask| mask.len()),
            payload_len,
        }))
    }
}

/// The code in a Close frame (RFC 6455 5.5.1, 7.4).
fn close_code(payload: &[u8]) -> Result<Option<u16>, WebSocketFault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() {
            Ok(None)
        } else {
            Err(WebSocketFault::Close)
        };
    };
    let code = u16::from_be_bytes(*code);
    // RFC 6455 7.4.2: 0 to 999 are not used, 1000 to 2999 are for the protocol
    // itself, 3000 to 4999 for libraries and applications. RFC 6455 7.4.1: 1005,
    // 1006 and 1015 "MUST NOT be set as a status code in a Close control frame
    // by an endpoint."
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(WebSocketFault::Close);
    }
    if std::str::from_utf8(reason).is_err() {
        return Err(WebSocketFault::Utf8);
    }
    Ok(Some(code))
}
