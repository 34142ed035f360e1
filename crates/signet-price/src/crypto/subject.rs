//! Everything that `price crypto` measures, by name.

use std::collections::BTreeMap;

use ipsec::primitive::Provider;
use ipsec::{Association, Auth, Cipher, Esp, Keys, Mode, SetupError, Transform, Unavailable};
use signet_bed::Error;

use super::packet::{Version, packet};
use super::work::{
    Authenticate, Decrypt, Encrypt, Open, Receive, Receiver, Seal, Send, Sender, fault,
};
use crate::record::Item;
use crate::timing::{Job, Work};

/// What AH stands in front of, in the tables of Niedermayer 2006.
const BUNDLED: [Cipher; 5] = [
    Cipher::Aes128Cbc,
    Cipher::Aes192Cbc,
    Cipher::Blowfish128Cbc,
    Cipher::Blowfish192Cbc,
    Cipher::TripleDesCbc,
];

/// Something that has a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Packets that ESP, AH or both protect, the former in the latter.
    Packet {
        esp: Option<Esp>,
        ah: Option<Auth>,
        is_tunnel: bool,
        version: Version,
    },
    /// A cipher without a packet.
    Cipher(Cipher),
    /// An authentication without a packet.
    Auth(Auth),
}

impl Subject {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let ciphers = Cipher::ALL
            .into_iter()
            .filter(|cipher| *cipher != Cipher::Null);
        let esps = Esp::all().map(|esp| (Some(esp), None));
        let ahs = Auth::ALL.into_iter().map(|auth| (None, Some(auth)));
        let bundles = BUNDLED.into_iter().flat_map(|cipher| {
            let esp = Esp::new(cipher, None).ok();
            Auth::ALL.into_iter().map(move |auth| (esp, Some(auth)))
        });
        let packets = esps.chain(ahs).chain(bundles).flat_map(|(esp, ah)| {
            [false, true].into_iter().flat_map(move |is_tunnel| {
                Version::ALL.into_iter().map(move |version| Self::Packet {
                    esp,
                    ah,
                    is_tunnel,
                    version,
                })
            })
        });
        let primitives = ciphers
            .map(Self::Cipher)
            .chain(Auth::ALL.into_iter().map(Self::Auth));
        primitives.chain(packets)
    }

    pub(super) fn is_primitive(&self) -> bool {
        self.primitive().is_some()
    }

    /// The name of a bare primitive.
    pub(super) fn primitive(&self) -> Option<&'static str> {
        match self {
            Self::Packet { .. } => None,
            Self::Cipher(cipher) => Some(cipher.name()),
            Self::Auth(auth) => Some(auth.name()),
        }
    }

    pub(super) fn cipher(&self) -> Option<Cipher> {
        match self {
            Self::Packet { esp, .. } => esp.map(Esp::cipher),
            Self::Cipher(cipher) => Some(*cipher),
            Self::Auth(_) => None,
        }
    }

    /// What authenticates, but for AEADs.
    pub(super) fn auths(&self) -> Vec<Auth> {
        match self {
            Self::Packet { esp, ah, .. } => {
                esp.and_then(Esp::auth).into_iter().chain(*ah).collect()
            }
            Self::Cipher(_) => Vec::new(),
            Self::Auth(auth) => vec![*auth],
        }
    }

    fn family(&self) -> &'static str {
        match self {
            Self::Packet {
                esp: Some(_),
                ah: Some(_),
                ..
            } => "esp+ah",
            Self::Packet { esp: Some(_), .. } => "esp",
            Self::Packet { .. } => "ah",
            Self::Cipher(_) | Self::Auth(_) => "primitive",
        }
    }

    fn algorithms(&self) -> Vec<&'static str> {
        let auths = self.auths().into_iter().map(Auth::name);
        self.cipher()
            .map(Cipher::name)
            .into_iter()
            .chain(auths)
            .collect()
    }

    fn labels(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Packet {
                is_tunnel, version, ..
            } => {
                let mode = if *is_tunnel { "tunnel" } else { "transport" };
                vec![("mode", mode), ("outer", version.name())]
            }
            Self::Cipher(_) | Self::Auth(_) => Vec::new(),
        }
    }

    pub(super) fn name(&self) -> String {
        let labels = self.labels().into_iter().map(|(_, value)| value);
        let parts: Vec<&str> = [self.family()]
            .into_iter()
            .chain(labels)
            .chain(self.algorithms())
            .collect();
        parts.join("/")
    }

    fn item(&self, provider: Provider, operation: &str) -> Item {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Item {
            name: self.name(),
            family: self.family().to_owned(),
            algorithms: self.algorithms().into_iter().map(str::to_owned).collect(),
            labels: self
                .labels()
                .into_iter()
                .map(owned)
                .collect::<BTreeMap<_, _>>(),
            provider: provider.name().to_owned(),
            operation: operation.to_owned(),
            ..Item::default()
        }
    }

    /// Its work in all sizes, each way; the inner error is that the provider lacks something.
    pub(super) fn jobs(
        &self,
        provider: Provider,
        sizes_bytes: &[u64],
    ) -> Result<Result<Vec<Job>, Unavailable>, Error> {
        let mut jobs = Vec::new();
        for &size_bytes in sizes_bytes {
            let size_bytes = self.worked_on_bytes(size_bytes);
            let works = match self.works(provider, size_bytes) {
                Ok(works) => works,
                Err(Failed::Unavailable(why)) => return Ok(Err(why)),
                Err(Failed::Fault(error)) => return Err(error),
            };
            jobs.extend(works.into_iter().map(|(operation, work)| Job {
                item: self.item(provider, operation),
                size_bytes,
                work,
            }));
        }
        Ok(Ok(jobs))
    }

    /// A bare block cipher works on whole blocks.
    fn worked_on_bytes(&self, size_bytes: u64) -> u64 {
        match self {
            Self::Cipher(cipher) => size_bytes.next_multiple_of(cipher.block_bytes() as u64),
            Self::Packet { .. } | Self::Auth(_) => size_bytes,
        }
    }

    fn works(&self, provider: Provider, size_bytes: u64) -> Result<Works, Failed> {
        let bytes = size_bytes as usize;
        match *self {
            Self::Cipher(cipher) if cipher.is_aead() => {
                let key = octets(cipher.key_bytes());
                let (one, other) = (provider.aead(cipher, &key)?, provider.aead(cipher, &key)?);
                Ok(vec![
                    ("encrypt", boxed(Seal::new(one, bytes))),
                    ("decrypt", boxed(Open::new(other, bytes)?)),
                ])
            }
            Self::Cipher(cipher) => {
                let (key, iv) = (octets(cipher.key_bytes()), octets(cipher.iv_bytes()));
                let (one, other) = (provider.cbc(cipher, &key)?, provider.cbc(cipher, &key)?);
                Ok(vec![
                    ("encrypt", boxed(Encrypt::new(one, iv.clone(), bytes))),
                    ("decrypt", boxed(Decrypt::new(other, iv, bytes))),
                ])
            }
            Self::Auth(auth) => {
                let mac = provider.mac(auth, &octets(auth.key_bytes()))?;
                let work = Authenticate::new(mac, auth.icv_bytes(), bytes);
                Ok(vec![("authenticate", boxed(work))])
            }
            Self::Packet { version, .. } => {
                let plain = packet(version, size_bytes);
                let name = self.name();
                // Each way has a pair of its own: the numbers of one are not the other's.
                let (mut sender, mut receiver) = self.pair(provider)?;
                verify(&name, &mut sender, &mut receiver, &plain)?;
                let (opposite, receiver) = self.pair(provider)?;
                Ok(vec![
                    ("send", boxed(Send::new(sender, plain.clone(), &name))),
                    (
                        "receive",
                        boxed(Receive::new(opposite, receiver, plain, &name)),
                    ),
                ])
            }
        }
    }

    /// Both ends; ESP in its mode, and AH in transport mode around it where there are both.
    fn pair(&self, provider: Provider) -> Result<(Sender, Receiver), Failed> {
        let Self::Packet {
            esp,
            ah,
            is_tunnel,
            version,
        } = *self
        else {
            return Err(Failed::Fault(fault(&self.name(), "it has no packets")));
        };
        let mode = if is_tunnel {
            Mode::Tunnel(version.tunnel())
        } else {
            Mode::Transport
        };
        let first = match (esp, ah) {
            (Some(esp), _) => Transform::Esp(esp),
            (None, Some(auth)) => Transform::Ah(auth),
            (None, None) => return Err(Failed::Fault(fault(&self.name(), "it has no transform"))),
        };
        let second = esp.and(ah).map(Transform::Ah);
        let ends = |transform: Transform, mode: Mode, spi: u32| {
            let association = Association {
                spi,
                transform,
                mode,
                is_extended: false,
                provider,
            };
            let keys = keys(transform);
            let sender = association.outbound(&keys, [7; 16])?;
            Ok::<_, Failed>((sender, association.inbound(&keys)?))
        };
        let (out, into) = ends(first, mode, 0x1001)?;
        match second {
            Some(transform) => {
                let (out_second, into_second) = ends(transform, Mode::Transport, 0x1002)?;
                Ok((
                    Sender::new(out, Some(out_second)),
                    Receiver::new(into_second, Some(into)),
                ))
            }
            None => Ok((Sender::new(out, None), Receiver::new(into, None))),
        }
    }
}

type Works = Vec<(&'static str, Box<dyn Work>)>;

fn boxed(work: impl Work + 'static) -> Box<dyn Work> {
    Box::new(work)
}

enum Failed {
    Unavailable(Unavailable),
    Fault(Error),
}

impl From<SetupError> for Failed {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Unavailable(why) => Self::Unavailable(why),
            other => Self::Fault(fault("an association", &other.to_string())),
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Fault(error)
    }
}

fn keys(transform: Transform) -> Keys {
    match transform {
        Transform::Esp(esp) => {
            let cipher = esp.cipher();
            Keys::new(
                &octets(cipher.key_bytes() + cipher.salt_bytes()),
                &octets(esp.auth().map_or(0, Auth::key_bytes)),
            )
        }
        Transform::Ah(auth) => Keys::new(&[], &octets(auth.key_bytes())),
    }
}

/// A key to measure with; what it is does not change what it costs.
fn octets(bytes: usize) -> Vec<u8> {
    (1..=bytes)
        .map(|nth| (nth.wrapping_mul(73)) as u8)
        .collect()
}

/// Nothing is priced that its receiver would not take.
fn verify(
    name: &str,
    sender: &mut Sender,
    receiver: &mut Receiver,
    plain: &[u8],
) -> Result<(), Error> {
    let mut sealed = Vec::new();
    sender
        .seal(plain, &mut sealed)
        .map_err(|error| fault(name, &error.to_string()))?;
    let opened = receiver
        .open(&mut sealed)
        .map_err(|error| fault(name, &error.to_string()))?;
    if opened.packet() == plain {
        Ok(())
    } else {
        Err(fault(name, "a packet came back as another"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::SIZE_BYTES_MAX;

    #[test]
    fn names_are_each_ones_own() {
        let names: Vec<String> = Subject::all().map(|subject| subject.name()).collect();
        let unique: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        // 34 transforms of ESP, 3 of AH, 15 of both, in 2 modes over 2 versions; 13 primitives.
        assert_eq!(names.len(), (34 + 3 + 15) * 4 + 13);
    }

    #[test]
    fn the_largest_and_the_smallest_packet_come_back() {
        for subject in Subject::all() {
            for provider in Provider::ALL {
                if let Ok(jobs) = subject.jobs(*provider, &[1, SIZE_BYTES_MAX]).unwrap() {
                    for mut job in jobs {
                        job.work.prepare(2).unwrap();
                        job.work.run(2).unwrap();
                    }
                }
            }
        }
    }
}
