//! From the greeting to the server's first OK: TLS, and the proof of the password.
//!
//! A password leaves this machine in three forms. `mysql_native_password` and the short way
//! of `caching_sha2_password` send a proof for the server's challenge. The long way of
//! `caching_sha2_password` and `mysql_clear_password` send the password itself: under TLS or
//! over a socket of this machine, and in no other case. The server's RSA key, by which
//! it could be sent in plain text, is not asked for: whoever is between would give his own.

use std::io;

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::wire::{Garbled, Inbox, Reader, put_string, send};
use crate::Secret;
use crate::fault::{Fault, saying};
use crate::net::{Connector, Stream};

/// Capabilities, as both manuals number them.
mod capability {
    pub(super) const FOUND_ROWS: u32 = 1 << 1;
    pub(super) const LONG_FLAG: u32 = 1 << 2;
    pub(super) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(super) const PROTOCOL_41: u32 = 1 << 9;
    pub(super) const SSL: u32 = 1 << 11;
    pub(super) const TRANSACTIONS: u32 = 1 << 13;
    pub(super) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(super) const PLUGIN_AUTH: u32 = 1 << 19;
    pub(super) const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
    pub(super) const DEPRECATE_EOF: u32 = 1 << 24;
}

/// utf8mb4_general_ci, which every server has.
const CHARSET: u8 = 45;

/// What we say we take, in bytes.
const PACKET_MAX: u32 = 1 << 24;

/// The most packets in a log-in.
const STEPS_MAX: usize = 10;

/// Who logs in.
pub(crate) struct Account {
    pub(crate) user: String,
    pub(crate) password: Option<Secret>,
    pub(crate) database: String,
}

/// A connection whose server has said OK.
pub(crate) struct LoggedIn {
    pub(crate) stream: Stream,
    pub(crate) inbox: Inbox,
    /// Columns and rows are not followed by a packet that says so.
    pub(crate) deprecates_eof: bool,
}

/// What a server says first.
#[derive(Debug)]
struct Greeting {
    capabilities: u32,
    challenge: Vec<u8>,
    plugin: String,
}

/// Makes a connection and logs in.
pub(crate) async fn log_in(connector: &Connector, account: &Account) -> Result<LoggedIn, Fault> {
    let mut stream = connector.open().await?;
    let mut inbox = Inbox::default();
    let (number, payload) = inbox.packet(&mut stream).await?;
    let greeting = greeting(payload)?;
    let mut next = number.wrapping_add(1);
    let wanted = capability::FOUND_ROWS
        | capability::LONG_FLAG
        | capability::TRANSACTIONS
        | capability::DEPRECATE_EOF;
    let needed = capability::PROTOCOL_41
        | capability::SECURE_CONNECTION
        | capability::PLUGIN_AUTH
        | capability::PLUGIN_AUTH_LENENC
        | capability::CONNECT_WITH_DB;
    if greeting.capabilities & needed != needed {
        return Err(Fault::Refused(
            "the server is older than MySQL 5.6 and MariaDB 10.0".to_owned(),
        ));
    }
    let mut ours = greeting.capabilities & (wanted | needed);
    if connector.wants_tls() {
        if greeting.capabilities & capability::SSL == 0 {
            return Err(Fault::Unreachable(
                "the server has no TLS, and plain text is not used instead: set ssl_cert \
                 and ssl_key there, or tls = \"never\" here if the network is safe"
                    .to_owned(),
            ));
        }
        // What was sent before TLS could be anybody's.
        if !inbox.is_empty() {
            return Err(io::Error::from(Garbled).into());
        }
        ours |= capability::SSL;
        send(&mut stream, next, &preamble(ours)).await?;
        stream = connector.upgrade(stream).await?;
        next = next.wrapping_add(1);
    }
    send(&mut stream, next, &response(ours, &greeting, account)).await?;
    let mut authenticating = Authenticating {
        account,
        challenge: greeting.challenge,
        plugin: greeting.plugin,
        is_private: connector.is_private(),
    };
    for _ in 0..STEPS_MAX {
        let (number, payload) = inbox.packet(&mut stream).await?;
        match authenticating.answer(payload)? {
            Step::Done => {
                return Ok(LoggedIn {
                    stream,
                    inbox,
                    deprecates_eof: ours & capability::DEPRECATE_EOF != 0,
                });
            }
            Step::Wait => {}
            Step::Send(proof) => send(&mut stream, number.wrapping_add(1), &proof).await?,
        }
    }
    Err(Fault::Refused("the log-in does not end".to_owned()))
}

fn greeting(payload: &[u8]) -> Result<Greeting, Fault> {
    if payload.first() == Some(&0xff) {
        return Err(refusal(payload));
    }
    read_greeting(payload).map_err(|garbled| io::Error::from(garbled).into())
}

fn read_greeting(payload: &[u8]) -> Result<Greeting, Garbled> {
    let mut reader = Reader(payload);
    if reader.u8()? != 10 {
        return Err(Garbled);
    }
    reader.until_nul(); // the version
    reader.u32()?; // the thread
    let mut challenge = reader.bytes(8)?.to_vec();
    reader.u8()?;
    let low = reader.u16()?;
    reader.array::<3>()?; // character set and status
    let high = reader.u16()?;
    let length = usize::from(reader.u8()?);
    reader.array::<10>()?;
    // The rest of the challenge has at least 13 bytes, the last a NUL.
    let rest = reader.bytes(length.saturating_sub(8).max(13))?;
    challenge.extend(rest.iter().take(12));
    let plugin = String::from_utf8_lossy(reader.until_nul()).into_owned();
    Ok(Greeting {
        capabilities: u32::from(low) | u32::from(high) << 16,
        challenge,
        plugin,
    })
}

/// What both of our first packets begin with: all of the first of two, before TLS.
fn preamble(capabilities: u32) -> Vec<u8> {
    let mut packet = Vec::with_capacity(32);
    packet.extend(capabilities.to_le_bytes());
    packet.extend(PACKET_MAX.to_le_bytes());
    packet.push(CHARSET);
    packet.extend([0; 23]);
    packet
}

fn response(capabilities: u32, greeting: &Greeting, account: &Account) -> Vec<u8> {
    let mut packet = preamble(capabilities);
    packet.extend(account.user.bytes().filter(|&byte| byte != 0));
    packet.push(0);
    let password = password(account);
    // A server that wants another proof than its first asks again.
    let (plugin, proof) = match greeting.plugin.as_str() {
        "caching_sha2_password" => (
            "caching_sha2_password",
            sha2_proof(password, &greeting.challenge),
        ),
        _ => (
            "mysql_native_password",
            native_proof(password, &greeting.challenge),
        ),
    };
    put_string(&proof, &mut packet);
    packet.extend(account.database.bytes().filter(|&byte| byte != 0));
    packet.push(0);
    packet.extend(plugin.as_bytes());
    packet.push(0);
    packet
}

fn password(account: &Account) -> &[u8] {
    account
        .password
        .as_ref()
        .map(Secret::expose)
        .unwrap_or_default()
}

enum Step {
    Done,
    Wait,
    Send(zeroize::Zeroizing<Vec<u8>>),
}

struct Authenticating<'a> {
    account: &'a Account,
    challenge: Vec<u8>,
    plugin: String,
    is_private: bool,
}

impl Authenticating<'_> {
    /// What follows from a packet of the server's.
    fn answer(&mut self, payload: &[u8]) -> Result<Step, Fault> {
        let mut reader = Reader(payload);
        match reader.u8().map_err(io::Error::from)? {
            0x00 => Ok(Step::Done),
            0xff => Err(refusal(payload)),
            0xfe => {
                self.plugin = String::from_utf8_lossy(reader.until_nul()).into_owned();
                self.challenge = reader.until_nul().to_vec();
                self.proof()
            }
            // More about the way that is being gone.
            0x01 if self.plugin == "caching_sha2_password" => match reader.0 {
                [3] => Ok(Step::Wait),
                [4] => self.clear_text(),
                _ => Err(io::Error::from(Garbled).into()),
            },
            _ => Err(io::Error::from(Garbled).into()),
        }
    }

    fn proof(&self) -> Result<Step, Fault> {
        let password = password(self.account);
        let proof = match self.plugin.as_str() {
            "mysql_native_password" => native_proof(password, &self.challenge),
            "caching_sha2_password" => sha2_proof(password, &self.challenge),
            "mysql_clear_password" => return self.clear_text(),
            other => {
                return Err(Fault::Refused(format!(
                    "the server wants {} of {}, which is not spoken here: give that user \
                     mysql_native_password or caching_sha2_password",
                    saying(other.as_bytes()),
                    self.account.user,
                )));
            }
        };
        Ok(Step::Send(zeroize::Zeroizing::new(proof)))
    }

    fn clear_text(&self) -> Result<Step, Fault> {
        if !self.is_private {
            return Err(Fault::Refused(format!(
                "the server wants the password of {} itself, which is sent under TLS or over \
                 a socket (?socket=) only: set tls = \"always\"",
                self.account.user
            )));
        }
        let mut clear = zeroize::Zeroizing::new(password(self.account).to_vec());
        clear.push(0);
        Ok(Step::Send(clear))
    }
}

/// An ERR packet, as far as it is told.
pub(crate) fn refusal(payload: &[u8]) -> Fault {
    let mut reader = Reader(payload);
    let (Ok(_), Ok(code)) = (reader.u8(), reader.u16()) else {
        return Fault::Refused("the store refused and did not say why".to_owned());
    };
    let text = match reader.0.strip_prefix(b"#") {
        Some(rest) => rest.get(5..).unwrap_or_default(),
        None => reader.0,
    };
    let told = format!("the store says {code}: {}", saying(text));
    // This connection is of no use, and another may be: 1040 too many connections, 1047 a node of
    // Galera that is out of its cluster, 1053 and 1077 to 1079 shutdown, 1135 no thread for it,
    // 1203 and 1226 too many of this user's, 1243 and 1615 a statement that is prepared no more,
    // 1927 and 3169 killed, 4031 idle for too long. 1205 waited for a lock, 1213 was rolled back,
    // and 1317, 1969 and 3024 were cancelled, as by max_statement_time.
    match code {
        1040
        | 1047
        | 1053
        | 1077..=1079
        | 1135
        | 1203
        | 1226
        | 1243
        | 1615
        | 1927
        | 3169
        | 4031 => Fault::Unreachable(told),
        1205 | 1213 | 1317 | 1969 | 3024 => Fault::Cancelled(told),
        _ => Fault::Refused(told),
    }
}

fn hashed(algorithm: &'static Algorithm, parts: &[&[u8]]) -> Vec<u8> {
    let joined = zeroize::Zeroizing::new(parts.concat());
    digest(algorithm, &joined).as_ref().to_vec()
}

fn xor(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(a, b)| a ^ b).collect()
}

/// SHA1(password) xor SHA1(challenge, SHA1(SHA1(password))).
fn native_proof(password: &[u8], challenge: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let sha1 = |parts: &[&[u8]]| hashed(&SHA1_FOR_LEGACY_USE_ONLY, parts);
    let once = sha1(&[password]);
    let twice = sha1(&[&once]);
    xor(&once, &sha1(&[challenge, &twice]))
}

/// SHA256(password) xor SHA256(SHA256(SHA256(password)), challenge).
fn sha2_proof(password: &[u8], challenge: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let sha256 = |parts: &[&[u8]]| hashed(&SHA256, parts);
    let once = sha256(&[password]);
    let twice = sha256(&[&once]);
    xor(&once, &sha256(&[&twice, challenge]))
}

#[cfg(test)]
mod tests;
