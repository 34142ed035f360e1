//! What is timed: packets on their way out and in, and bare primitives.

use std::hint::black_box;

use ipsec::primitive::{Aead, Cbc, Mac, NONCE_BYTES, Refused, TAG_BYTES};
use ipsec::{Inbound, OpenError, Opened, Outbound, SealError};
use signet_bed::Error;

use crate::timing::Work;

/// Packets that wait to be opened; they stay within a core's first caches.
const WAITING_BYTES_MAX: usize = 32_768;
const WAITING_MIN: usize = 8;
const WAITING_MAX: usize = 256;

/// An error that no input can lead to.
pub(super) fn fault(name: &str, why: &str) -> Error {
    Error::new(
        format!("{name}: {why}"),
        "this is a fault of this program; report it with the command",
    )
}

/// One association, or one in another.
pub(super) struct Sender {
    first: Outbound,
    second: Option<Outbound>,
    between: Vec<u8>,
}

impl Sender {
    pub(super) fn new(first: Outbound, second: Option<Outbound>) -> Self {
        Self {
            first,
            second,
            between: Vec::new(),
        }
    }

    pub(super) fn seal(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        match &mut self.second {
            None => self.first.seal(packet, out),
            Some(second) => {
                self.first.seal(packet, &mut self.between)?;
                second.seal(&self.between, out)
            }
        }
    }
}

/// The other end of a [`Sender`].
pub(super) struct Receiver {
    first: Inbound,
    second: Option<Inbound>,
}

impl Receiver {
    pub(super) fn new(first: Inbound, second: Option<Inbound>) -> Self {
        Self { first, second }
    }

    pub(super) fn open<'a>(&mut self, packet: &'a mut [u8]) -> Result<Opened<'a>, OpenError> {
        let opened = self.first.open(packet)?;
        match &mut self.second {
            None => Ok(opened),
            Some(second) => second.open(opened.into_packet()),
        }
    }
}

pub(super) struct Send {
    sender: Sender,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    name: String,
}

impl Send {
    pub(super) fn new(sender: Sender, plain: Vec<u8>, name: &str) -> Self {
        Self {
            sender,
            plain,
            sealed: Vec::new(),
            name: name.to_owned(),
        }
    }
}

impl Work for Send {
    fn run(&mut self, times: u32) -> Result<(), Error> {
        for _ in 0..times {
            let sent = self.sender.seal(black_box(&self.plain), &mut self.sealed);
            sent.map_err(|error| fault(&self.name, &error.to_string()))?;
            black_box(&self.sealed);
        }
        Ok(())
    }
}

pub(super) struct Receive {
    sender: Sender,
    receiver: Receiver,
    plain: Vec<u8>,
    waiting: Vec<Vec<u8>>,
    name: String,
}

impl Receive {
    pub(super) fn new(sender: Sender, receiver: Receiver, plain: Vec<u8>, name: &str) -> Self {
        Self {
            sender,
            receiver,
            plain,
            waiting: Vec::new(),
            name: name.to_owned(),
        }
    }
}

impl Work for Receive {
    fn prepare(&mut self, times: u32) -> Result<(), Error> {
        self.waiting.resize_with(times as usize, Vec::new);
        for packet in &mut self.waiting {
            let sent = self.sender.seal(&self.plain, packet);
            sent.map_err(|error| fault(&self.name, &error.to_string()))?;
        }
        Ok(())
    }

    fn run(&mut self, times: u32) -> Result<(), Error> {
        for packet in self.waiting.iter_mut().take(times as usize) {
            let opened = self.receiver.open(black_box(packet));
            let opened = opened.map_err(|error| fault(&self.name, &error.to_string()))?;
            black_box(opened.packet());
        }
        Ok(())
    }

    fn batch_max(&self) -> u32 {
        waiting_max(self.plain.len())
    }
}

/// How many packets of a size may wait.
fn waiting_max(bytes: usize) -> u32 {
    (WAITING_BYTES_MAX / (bytes + 64)).clamp(WAITING_MIN, WAITING_MAX) as u32
}

fn refused(Refused: Refused) -> Error {
    fault("a bare primitive", "its provider refuses")
}

pub(super) struct Encrypt {
    cbc: Box<dyn Cbc>,
    iv: Vec<u8>,
    data: Vec<u8>,
}

impl Encrypt {
    pub(super) fn new(cbc: Box<dyn Cbc>, iv: Vec<u8>, bytes: usize) -> Self {
        Self {
            cbc,
            iv,
            data: vec![0x5a; bytes],
        }
    }
}

impl Work for Encrypt {
    fn run(&mut self, times: u32) -> Result<(), Error> {
        for _ in 0..times {
            self.cbc
                .encrypt(&self.iv, black_box(&mut self.data))
                .map_err(refused)?;
        }
        Ok(())
    }
}

pub(super) struct Decrypt(Encrypt);

impl Decrypt {
    pub(super) fn new(cbc: Box<dyn Cbc>, iv: Vec<u8>, bytes: usize) -> Self {
        Self(Encrypt::new(cbc, iv, bytes))
    }
}

impl Work for Decrypt {
    fn run(&mut self, times: u32) -> Result<(), Error> {
        for _ in 0..times {
            let Encrypt { cbc, iv, data } = &mut self.0;
            cbc.decrypt(iv, black_box(data)).map_err(refused)?;
        }
        Ok(())
    }
}

pub(super) struct Authenticate {
    mac: Box<dyn Mac>,
    icv: Vec<u8>,
    data: Vec<u8>,
}

impl Authenticate {
    pub(super) fn new(mac: Box<dyn Mac>, icv_bytes: usize, bytes: usize) -> Self {
        Self {
            mac,
            icv: vec![0; icv_bytes],
            data: vec![0x5a; bytes],
        }
    }
}

impl Work for Authenticate {
    fn run(&mut self, times: u32) -> Result<(), Error> {
        for _ in 0..times {
            self.mac
                .compute(&[black_box(&self.data)], &mut self.icv)
                .map_err(refused)?;
            black_box(&self.icv);
        }
        Ok(())
    }
}

/// What ESP authenticates beside the payload.
const AAD: [u8; 8] = [0, 0, 0x10, 1, 0, 0, 0, 1];

pub(super) struct Seal {
    aead: Box<dyn Aead>,
    number: u64,
    data: Vec<u8>,
    tag: [u8; TAG_BYTES],
}

impl Seal {
    pub(super) fn new(aead: Box<dyn Aead>, bytes: usize) -> Self {
        Self {
            aead,
            number: 0,
            data: vec![0x5a; bytes],
            tag: [0; TAG_BYTES],
        }
    }

    /// Seals what is there under the next nonce, and gives that.
    fn next(&mut self) -> Result<[u8; NONCE_BYTES], Error> {
        self.number += 1;
        let mut nonce = [0; NONCE_BYTES];
        let (_, counter) = nonce.split_at_mut(NONCE_BYTES - 8);
        counter.copy_from_slice(&self.number.to_be_bytes());
        let sealed = self
            .aead
            .seal(&nonce, &AAD, black_box(&mut self.data), &mut self.tag);
        sealed.map_err(refused)?;
        Ok(nonce)
    }
}

impl Work for Seal {
    fn run(&mut self, times: u32) -> Result<(), Error> {
        for _ in 0..times {
            self.next()?;
            black_box(&self.tag);
        }
        Ok(())
    }
}

pub(super) struct Open {
    aead: Box<dyn Aead>,
    nonce: [u8; NONCE_BYTES],
    sealed: Vec<u8>,
    tag: [u8; TAG_BYTES],
    waiting: Vec<Vec<u8>>,
}

impl Open {
    pub(super) fn new(aead: Box<dyn Aead>, bytes: usize) -> Result<Self, Error> {
        let mut seal = Seal::new(aead, bytes);
        let nonce = seal.next()?;
        Ok(Self {
            aead: seal.aead,
            nonce,
            sealed: seal.data,
            tag: seal.tag,
            waiting: Vec::new(),
        })
    }
}

impl Work for Open {
    fn prepare(&mut self, times: u32) -> Result<(), Error> {
        self.waiting.resize_with(times as usize, Vec::new);
        for data in &mut self.waiting {
            data.clone_from(&self.sealed);
        }
        Ok(())
    }

    fn run(&mut self, times: u32) -> Result<(), Error> {
        for data in self.waiting.iter_mut().take(times as usize) {
            let opened = self
                .aead
                .open(&self.nonce, &AAD, black_box(data), &self.tag);
            opened.map_err(refused)?;
        }
        Ok(())
    }

    fn batch_max(&self) -> u32 {
        waiting_max(self.sealed.len())
    }
}
