//! The form of a frame (RFC 6455 5.2).

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// A further part of a message.
    Continuation,
    /// The beginning of a message in UTF-8.
    Text,
    /// The beginning of a message of any bytes.
    Binary,
    /// The end of the connection.
    Close,
    /// To be answered by a pong with the same payload.
    Ping,
    /// The answer to a ping, or a sign of life.
    Pong,
}

impl Opcode {
    pub(super) const fn of_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xA => Self::Pong,
            _ => return None,
        })
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xA,
        }
    }

    /// Whether the frame may stand among the parts of a message.
    pub(super) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The longest payload of a control frame (RFC 6455 5.5).
pub(super) const CONTROL_BYTES_MAX: usize = 125;
/// The final fragment, in the first byte.
pub(super) const FIN: u8 = 0x80;
/// Extensions, in the first byte. None is ever agreed on here.
pub(super) const RESERVED: u8 = 0x70;
/// A mask follows, in the second byte.
pub(super) const MASKED: u8 = 0x80;

/// What stands in front of an unmasked payload.
pub(crate) struct Prefix {
    bytes: [u8; 10],
    len: usize,
}

impl Prefix {
    /// Of a frame that is a whole message, or a control frame.
    pub(crate) fn new(opcode: Opcode, payload_len: usize) -> Self {
        let mut prefix = Self {
            bytes: [0; 10],
            len: 0,
        };
        prefix.put(&[FIN | opcode.bits()]);
        // RFC 6455 5.2: "Note that in all cases, the minimal number of bytes
        // MUST be used to encode the length".
        match payload_len {
            0..=125 => prefix.put(&[payload_len as u8]),
            126..=0xFFFF => {
                prefix.put(&[126]);
                prefix.put(&(payload_len as u16).to_be_bytes());
            }
            _ => {
                prefix.put(&[127]);
                prefix.put(&(payload_len as u64).to_be_bytes());
            }
        }
        prefix
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Appends a whole frame. A client masks it, with four bytes that nobody can
/// foresee; a server does not (RFC 6455 5.1).
pub fn write_frame(opcode: Opcode, payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(Prefix::new(opcode, payload.len()).bytes());
    let Some(mask) = mask else {
        out.extend_from_slice(payload);
        return;
    };
    if let Some(second) = out.get_mut(start + 1) {
        *second |= MASKED;
    }
    out.extend_from_slice(&mask);
    let at = out.len();
    out.extend_from_slice(payload);
    unmask(mask, out.get_mut(at..).unwrap_or_default());
}

/// Appends a SIP message as one frame.
pub fn write_message(message: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    write_frame(message_opcode(message), message, mask, out);
}

/// RFC 7118 4.2: what is UTF-8 from its first byte to its last may be a text;
/// any other message must be binary.
pub(crate) fn message_opcode(message: &[u8]) -> Opcode {
    if std::str::from_utf8(message).is_ok() {
        Opcode::Text
    } else {
        Opcode::Binary
    }
}

/// Appends a Close frame with a code (RFC 6455 7.4) and a reason, which is cut
/// to what fits.
pub fn write_close(code: u16, reason: &str, mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let mut payload = code.to_be_bytes().to_vec();
    let fits = |len: &usize| reason.is_char_boundary(*len);
    let len = (0..=reason.len().min(CONTROL_BYTES_MAX - 2))
        .rev()
        .find(fits);
    payload.extend_from_slice(
        reason
            .as_bytes()
            .get(..len.unwrap_or(0))
            .unwrap_or_default(),
    );
    write_frame(Opcode::Close, &payload, mask, out);
}

/// RFC 6455 5.3: "Octet i of the transformed data ("transformed-octet-i") is
/// the XOR of octet i of the original data ("original-octet-i") with octet at
/// index i modulo 4 of the masking key". It is its own inverse.
pub(super) fn unmask(mask: [u8; 4], payload: &mut [u8]) {
    let mut words = payload.chunks_exact_mut(4);
    for word in &mut words {
        for (byte, key) in word.iter_mut().zip(mask) {
            *byte ^= key;
        }
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(mask) {
        *byte ^= key;
    }
}
