//! Security associations: one way each, a sender and a receiver.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::algorithm::Transform;
use crate::error::{OpenError, SealError, SetupError};
use crate::framing::{Begun, Number};
use crate::ip::{self, PacketError, protocol};
use crate::iv::IvSource;
use crate::keys::Keys;
use crate::primitive::Provider;
use crate::replay::ReplayWindow;
use crate::{ah, esp};

/// What both sides of an association agree on, but for the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association {
    /// Its name in each packet, from 256 on.
    pub spi: u32,
    /// What is done to packets.
    pub transform: Transform,
    /// What of a packet is covered.
    pub mode: Mode,
    /// Whether sequence numbers have 64 bits (RFC 4303 2.2.1).
    pub is_extended: bool,
    /// Whose algorithms do it.
    pub provider: Provider,
}

/// What of a packet is covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// What the packet carries.
    Transport,
    /// The whole packet, in another one between these two.
    Tunnel(Tunnel),
}

/// The ends of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tunnel {
    /// Of IPv4.
    V4 {
        /// The sender.
        from: Ipv4Addr,
        /// The receiver.
        to: Ipv4Addr,
    },
    /// Of IPv6.
    V6 {
        /// The sender.
        from: Ipv6Addr,
        /// The receiver.
        to: Ipv6Addr,
    },
}

enum Engine {
    Esp(esp::Engine),
    Ah(ah::Engine),
}

impl Association {
    /// The sender's side. `iv_secret` and the number of a packet are what IVs of CBC are made of;
    /// it must be as unknown as the keys, and another one for each association. Who goes on with
    /// the same keys after a restart says where: [`Outbound::resume_after`].
    ///
    /// # Errors
    /// An SPI or a key that cannot be.
    pub fn outbound(&self, keys: &Keys, iv_secret: [u8; 16]) -> Result<Outbound, SetupError> {
        Ok(Outbound {
            association: *self,
            sequence: 0,
            ivs: IvSource::new(iv_secret),
            engine: self.engine(keys)?,
        })
    }

    /// The receiver's side.
    ///
    /// # Errors
    /// As [`Association::outbound`].
    pub fn inbound(&self, keys: &Keys) -> Result<Inbound, SetupError> {
        Ok(Inbound {
            association: *self,
            window: ReplayWindow::new(self.is_extended),
            engine: self.engine(keys)?,
        })
    }

    fn engine(&self, keys: &Keys) -> Result<Engine, SetupError> {
        // RFC 4303 2.1: "values in the range 1 through 255 are reserved", and 0 is for local use.
        if self.spi < 256 {
            return Err(SetupError::ReservedSpi(self.spi));
        }
        Ok(match self.transform {
            Transform::Esp(esp) => {
                Engine::Esp(esp::Engine::new(esp, self.spi, keys, self.provider)?)
            }
            Transform::Ah(auth) => {
                Engine::Ah(ah::Engine::new(auth, self.spi, keys, self.provider)?)
            }
        })
    }

    fn protocol(&self) -> u8 {
        match self.transform {
            Transform::Esp(_) => protocol::ESP,
            Transform::Ah(_) => protocol::AH,
        }
    }
}

/// The sender's side of an association.
pub struct Outbound {
    association: Association,
    /// The last number that was used.
    sequence: u64,
    ivs: IvSource,
    engine: Engine,
}

impl Outbound {
    /// Protects an IP packet; `out` holds what is to be sent, and nothing where it fails.
    ///
    /// # Errors
    /// What is wrong with the packet, or that the association is used up.
    pub fn seal(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        out.clear();
        let number = self.next_number()?;
        // RFC 4106 3.1: an IV of GCM never comes twice under a key; the number does not.
        let counted = number.whole.to_be_bytes();
        let drawn;
        let iv: &[u8] = match &self.engine {
            Engine::Ah(_) => &[],
            Engine::Esp(engine) => {
                let cipher = engine.transform().cipher();
                match cipher.iv_bytes() {
                    0 => &[],
                    _ if cipher.is_aead() => &counted,
                    bytes => {
                        drawn = self.ivs.of(number.whole);
                        drawn.get(..bytes).unwrap_or(&[])
                    }
                }
            }
        };
        self.seal_numbered(packet, number, iv, out)
    }

    /// Protects a packet with an IV that the caller has chosen: for test vectors. A caller who
    /// chooses one twice gives his packets away.
    ///
    /// # Errors
    /// As [`Outbound::seal`], and an IV of another length.
    pub fn seal_with_iv(
        &mut self,
        packet: &[u8],
        iv: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        out.clear();
        let wanted = match &self.engine {
            Engine::Ah(_) => 0,
            Engine::Esp(engine) => engine.transform().cipher().iv_bytes(),
        };
        if iv.len() != wanted {
            return Err(SealError::IvLength);
        }
        let number = self.next_number()?;
        self.seal_numbered(packet, number, iv, out)
    }

    /// Goes on behind `sequence`, as after a restart with the same keys, and never further back
    /// than it is: IVs are made of numbers. RFC 4106 3.1: "For a given key, the IV MUST NOT repeat."
    pub fn resume_after(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// RFC 4303 3.3.3: "the sender MUST NOT send a packet on an SA if doing so would cause the
    /// sequence number to cycle."
    fn next_number(&mut self) -> Result<Number, SealError> {
        let is_extended = self.association.is_extended;
        let last = if is_extended {
            u64::MAX
        } else {
            u64::from(u32::MAX)
        };
        if self.sequence >= last {
            return Err(SealError::Exhausted);
        }
        self.sequence += 1;
        Ok(Number {
            whole: self.sequence,
            is_extended,
        })
    }

    fn seal_numbered(
        &mut self,
        packet: &[u8],
        number: Number,
        iv: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let begun = begin(&self.association, packet, number, out)?;
        let sealed = match &mut self.engine {
            Engine::Esp(engine) => engine.seal(&begun, number, iv, out),
            Engine::Ah(engine) => engine.seal(&begun, number, out),
        };
        if sealed.is_err() {
            out.clear();
        }
        sealed
    }
}

/// Writes the header that is sent in the clear.
fn begin<'a>(
    association: &Association,
    packet: &'a [u8],
    number: Number,
    out: &mut Vec<u8>,
) -> Result<Begun<'a>, SealError> {
    let protocol = association.protocol();
    match association.mode {
        Mode::Transport => {
            let head = ip::insertion(packet)?;
            // RFC 4303 2.6: with this next header ESP is a dummy.
            let is_esp = matches!(association.transform, Transform::Esp(_));
            if is_esp && head.next == protocol::NOTHING {
                return Err(SealError::CarriesNothing);
            }
            let payload = packet.get(head.bytes..head.total_bytes);
            out.extend_from_slice(packet.get(..head.bytes).unwrap_or(&[]));
            if let Some(next) = out.get_mut(head.next_at) {
                *next = protocol;
            }
            Ok(Begun {
                is_v6: head.is_v6,
                next: head.next,
                payload: payload.ok_or(PacketError::Truncated)?,
            })
        }
        Mode::Tunnel(tunnel) => {
            let next = match packet.first().map(|first| first >> 4) {
                Some(4) => protocol::IPV4,
                Some(6) => protocol::IPV6,
                Some(_) => return Err(PacketError::Version.into()),
                None => return Err(PacketError::Truncated.into()),
            };
            let bytes = ip::inner(packet, next).ok_or(PacketError::Truncated)?;
            let payload = packet.get(..bytes).ok_or(PacketError::Truncated)?;
            let is_v6 = match tunnel {
                Tunnel::V4 { from, to } => {
                    let id = number.low() as u16;
                    out.extend_from_slice(&ip::outer_v4(from, to, protocol, payload, id));
                    false
                }
                Tunnel::V6 { from, to } => {
                    out.extend_from_slice(&ip::outer_v6(from, to, protocol, payload));
                    true
                }
            };
            Ok(Begun {
                is_v6,
                next,
                payload,
            })
        }
    }
}

/// A packet that its receiver's side opened; nothing else makes one.
#[derive(Debug)]
pub struct Opened<'a> {
    packet: &'a mut [u8],
    sequence: u64,
    is_authenticated: bool,
}

impl<'a> Opened<'a> {
    /// The IP packet, as it was before it was protected; out of a tunnel with the congestion that
    /// the outer one met.
    pub fn packet(&self) -> &[u8] {
        self.packet
    }

    /// The same, to be opened further: by the next association of a bundle.
    pub fn into_packet(self) -> &'a mut [u8] {
        self.packet
    }

    /// Its number; what the sender claims where it is not authenticated.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether it is the sender's, and comes for the first time. RFC 4303 2.2: without integrity
    /// there is no protection against replay either.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }
}

/// The receiver's side of an association.
pub struct Inbound {
    association: Association,
    window: ReplayWindow,
    engine: Engine,
}

impl Inbound {
    /// Checks and opens a packet in place. What `packet` holds after a failure is of no use.
    ///
    /// # Errors
    /// Why it is not opened.
    pub fn open<'a>(&mut self, packet: &'a mut [u8]) -> Result<Opened<'a>, OpenError> {
        let head = ip::arrival(packet, self.association.protocol())?;
        let packet = packet
            .get_mut(..head.total_bytes)
            .ok_or(OpenError::Length)?;
        let outer_class = ip::class_of(packet);
        let front = packet.get(head.bytes..).ok_or(OpenError::Length)?;
        let front = match self.engine {
            Engine::Esp(_) => front,
            // Next header, length and two reserved octets come first.
            Engine::Ah(_) => front.get(4..).ok_or(OpenError::Length)?,
        };
        let spi = word(front, 0)?;
        if spi != self.association.spi {
            return Err(OpenError::WrongSpi(spi));
        }
        let is_authenticated = match &self.engine {
            Engine::Esp(engine) => engine.transform().is_authenticated(),
            Engine::Ah(_) => true,
        };
        let number = Number {
            whole: self.window.whole(word(front, 4)?)?,
            is_extended: self.association.is_extended,
        };
        if is_authenticated {
            self.window.check(number.whole)?;
        }
        let (payload, next) = match &mut self.engine {
            Engine::Esp(engine) => engine.open(packet, &head, number)?,
            Engine::Ah(engine) => engine.open(packet, &head, number)?,
        };
        if is_authenticated {
            self.window.accept(number.whole);
        }
        // RFC 4303 2.6: "a receiver MUST be prepared to discard such packets". AH knows no dummies:
        // there it is a packet of IPv6 that carries nothing.
        if next == protocol::NOTHING && matches!(self.engine, Engine::Esp(_)) {
            return Err(OpenError::Dummy);
        }
        let packet = match self.association.mode {
            Mode::Tunnel(_) => {
                let inner = packet.get_mut(payload).ok_or(OpenError::Length)?;
                let bytes = ip::inner(inner, next).ok_or(OpenError::Inner)?;
                let inner = inner.get_mut(..bytes).ok_or(OpenError::Inner)?;
                ip::tell_congestion(outer_class, inner);
                inner
            }
            Mode::Transport => {
                // The header moves to the payload, being the shorter of the two.
                let start = payload
                    .start
                    .checked_sub(head.bytes)
                    .ok_or(OpenError::Length)?;
                packet.copy_within(..head.bytes, start);
                let packet = packet
                    .get_mut(start..payload.end)
                    .ok_or(OpenError::Length)?;
                if let Some(place) = packet.get_mut(head.next_at) {
                    *place = next;
                }
                let bytes = packet.len();
                ip::finish(packet, head.is_v6, bytes).ok_or(OpenError::Length)?;
                packet
            }
        };
        Ok(Opened {
            packet,
            sequence: number.whole,
            is_authenticated,
        })
    }

    /// Goes on as if everything up to `sequence` had been received; nothing where more was, or
    /// what came already would be taken again.
    pub fn resume_after(&mut self, sequence: u64) {
        if sequence >= self.window.highest() {
            self.window = ReplayWindow::after(sequence, self.association.is_extended);
        }
    }
}

fn word(packet: &[u8], at: usize) -> Result<u32, OpenError> {
    let word = packet.get(at..).and_then(|from| from.first_chunk::<4>());
    word.map(|word| u32::from_be_bytes(*word))
        .ok_or(OpenError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Auth, Cipher, Esp};

    /// RFC 4303 2.6: "a receiver MUST be prepared to discard such packets".
    #[test]
    fn a_dummy_is_no_packet() {
        let esp = Esp::new(Cipher::Aes128Cbc, Some(Auth::HmacSha1_96)).unwrap();
        let association = Association {
            spi: 256,
            transform: Transform::Esp(esp),
            mode: Mode::Transport,
            is_extended: false,
            provider: Provider::RustCrypto,
        };
        let keys = Keys::new(&[1; 16], &[2; 20]);
        let mut sender = association.outbound(&keys, [3; 16]).unwrap();
        let number = sender.next_number().unwrap();
        let packet = [
            0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0x66, 0xd3, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4,
        ];
        let mut out = Vec::new();
        let begun = begin(&association, &packet, number, &mut out).unwrap();
        let dummy = Begun {
            next: protocol::NOTHING,
            ..begun
        };
        let Engine::Esp(engine) = &mut sender.engine else {
            panic!("it is ESP");
        };
        engine.seal(&dummy, number, &[5; 16], &mut out).unwrap();
        let mut receiver = association.inbound(&keys).unwrap();
        assert_eq!(receiver.open(&mut out).unwrap_err(), OpenError::Dummy);
    }
}
