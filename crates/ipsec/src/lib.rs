#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod ah;
mod algorithm;
mod association;
mod error;
mod esp;
mod framing;
mod ip;
mod iv;
mod keys;
mod mutable;
pub mod primitive;
pub mod replay;

pub use algorithm::{Auth, Cipher, Esp, Impossible, Transform};
pub use association::{Association, Inbound, Mode, Opened, Outbound, Tunnel};
pub use error::{OpenError, SealError, SetupError};
pub use ip::{BYTES_MAX, PacketError};
pub use keys::Keys;
pub use primitive::{Provider, Unavailable};
