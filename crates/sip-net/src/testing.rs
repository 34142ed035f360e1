//! For tests: a DNS server and a WebSocket client of our own, and certificates
//! made on the spot.
//! What cannot be done here ends the test: these are the only functions of the
//! crate that panic.
#![allow(clippy::expect_used)]

mod accept;
mod websocket;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SanType, date_time_ymd,
};

pub use accept::TlsAccept;
pub use websocket::{Received, WebSocketClient, upgrade_request};

/// One resource record that [`DnsServer`] serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An address (A or AAAA).
    Addr(IpAddr),
    /// RFC 2782: priority, weight, port, target.
    Srv(u16, u16, u16, String),
    /// RFC 3403: order, preference, flags, services, replacement.
    Naptr(u16, u16, String, String, String),
    /// An alias.
    Cname(String),
}

/// A DNS server on 127.0.0.1 that answers from a table. It ends when dropped.
#[derive(Debug)]
pub struct DnsServer {
    addr: SocketAddr,
    shared: Arc<DnsShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct DnsShared {
    ends: AtomicBool,
    silent: AtomicBool,
    questions: AtomicU64,
}

impl DnsServer {
    /// Serves `records`: pairs of a name without its final dot and a record.
    pub fn start(records: Vec<(String, Record)>) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let addr = socket.local_addr()?;
        let shared = Arc::new(DnsShared::default());
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || serve(&socket, &records, &shared)
        });
        Ok(Self {
            addr,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many questions it was asked.
    pub fn question_count(&self) -> u64 {
        self.shared.questions.load(Ordering::Relaxed)
    }

    /// Whether it leaves questions without an answer from now on.
    pub fn set_silent(&self, silent: bool) {
        self.shared.silent.store(silent, Ordering::Relaxed);
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        // A datagram wakes it up.
        if let Ok(socket) = UdpSocket::bind("127.0.0.1:0") {
            let _ = socket.send_to(&[], self.addr);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A private certificate authority.
pub struct TestCa {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Default for TestCa {
    fn default() -> Self {
        Self::new()
    }
}

impl TestCa {
    /// Makes one.
    pub fn new() -> Self {
        Self::named("Test CA")
    }

    /// Makes one with this common name.
    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a root certificate");
        Self { issuer }
    }

    /// Its certificate, in PEM.
    pub fn root_pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate for these names: DNS names, addresses, or URIs
    /// that begin with `sip:` or `sips:`. Gives chain and key, in PEM.
    pub fn issue(&self, names: &[&str]) -> (String, String) {
        self.issue_between(names, 2020, 2099)
    }

    /// The same with a key of this kind.
    pub fn issue_with(&self, names: &[&str], kind: KeyKind) -> (String, String) {
        self.issue_from(&params(names, 2020, 2099), &kind.generate())
    }

    /// The same for a certificate that is valid from the beginning of one year
    /// to that of another.
    pub fn issue_between(&self, names: &[&str], from_year: i32, to_year: i32) -> (String, String) {
        self.issue_from(
            &params(names, from_year, to_year),
            &KeyKind::P256.generate(),
        )
    }

    /// A certificate with every field as the caller wants it.
    pub fn issue_from(&self, params: &CertificateParams, key: &KeyPair) -> (String, String) {
        let certificate = params.signed_by(key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// A list of the certificates that it revoked, by their serial numbers, in PEM.
    pub fn revoke(&self, serials: &[u64]) -> String {
        let day = date_time_ymd(2024, 1, 1);
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: day,
            reason_code: None,
            invalidity_date: None,
        };
        CertificateRevocationListParams {
            this_update: day,
            next_update: date_time_ymd(2099, 1, 1),
            crl_number: 1u64.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        }
        .signed_by(&self.issuer)
        .expect("a revocation list")
        .pem()
        .expect("a revocation list in PEM")
    }

    /// What signs with its key.
    pub fn issuer(&self) -> &CertifiedIssuer<'static, KeyPair> {
        &self.issuer
    }
}

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// RSA with 2,048 bits.
    Rsa2048,
    /// Ed25519.
    Ed25519,
}

impl KeyKind {
    /// Makes a key of this kind.
    pub fn generate(self) -> KeyPair {
        match self {
            Self::P256 => KeyPair::generate(),
            Self::P384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
            Self::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
            Self::Rsa2048 => {
                KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)
            }
        }
        .expect("a key")
    }
}

/// The fields of an ordinary certificate for these names.
pub fn params(names: &[&str], from_year: i32, to_year: i32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names.iter().map(|name| subject(name)).collect();
    params
        .distinguished_name
        .push(DnType::CommonName, "Test certificate");
    params.not_before = date_time_ymd(from_year, 1, 1);
    params.not_after = date_time_ymd(to_year, 1, 1);
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}

impl std::fmt::Debug for TestCa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestCa").finish_non_exhaustive()
    }
}

fn subject(name: &str) -> SanType {
    let text = || Ia5String::try_from(name).expect("an ASCII name");
    match name.parse::<IpAddr>() {
        Ok(ip) => SanType::IpAddress(ip),
        Err(_) if name.starts_with("sip:") || name.starts_with("sips:") => SanType::URI(text()),
        Err(_) => SanType::DnsName(text()),
    }
}

const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_SOA: u16 = 6;
const TYPE_AAAA: u16 = 28;
const TYPE_SRV: u16 = 33;
const TYPE_NAPTR: u16 = 35;
const CLASS_IN: u16 = 1;
/// Seconds for which an answer holds.
const TTL_S: u32 = 60;
/// Aliases followed.
const CNAMES_MAX: usize = 8;

fn serve(socket: &UdpSocket, records: &[(String, Record)], shared: &DnsShared) {
    let mut buffer = [0; 2_048];
    while !shared.ends.load(Ordering::Relaxed) {
        let Ok((len, client)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        if let Some(question) = buffer.get(..len)
            && let Some(answer) = answer(question, records)
        {
            shared.questions.fetch_add(1, Ordering::Relaxed);
            if !shared.silent.load(Ordering::Relaxed) {
                let _ = socket.send_to(&answer, client);
            }
        }
    }
}

/// The answer to a question, if it is one.
fn answer(question: &[u8], records: &[(String, Record)]) -> Option<Vec<u8>> {
    let (mut name, end) = read_name(question, 12)?;
    let kind = u16::from_be_bytes(question.get(end..end + 2)?.try_into().ok()?);
    let mut body = Vec::new();
    let mut count = 0u16;
    let mut known = false;
    for _ in 0..CNAMES_MAX {
        let mut alias = None;
        for (_, record) in records
            .iter()
            .filter(|(owner, _)| owner.eq_ignore_ascii_case(&name))
        {
            known = true;
            let (record_kind, data) = encode(record);
            if record_kind == kind || record_kind == TYPE_CNAME {
                count += 1;
                write_name(&mut body, &name);
                body.extend_from_slice(&record_kind.to_be_bytes());
                body.extend_from_slice(&CLASS_IN.to_be_bytes());
                body.extend_from_slice(&TTL_S.to_be_bytes());
                body.extend_from_slice(&u16::try_from(data.len()).ok()?.to_be_bytes());
                body.extend_from_slice(&data);
            }
            if let Record::Cname(target) = record {
                alias = Some(target.clone());
            }
        }
        match alias {
            Some(target) if kind != TYPE_CNAME => name = target,
            _ => break,
        }
    }
    let mut out = question.get(..2)?.to_vec();
    // An answer with authority, recursion available; NXDOMAIN for no such name.
    out.extend_from_slice(&[0x85, if known { 0x80 } else { 0x83 }]);
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(&count.to_be_bytes());
    // Authority: an SOA record lets a client remember that there is nothing.
    out.extend_from_slice(&[0, u8::from(count == 0), 0, 0]);
    out.extend_from_slice(question.get(12..end + 4)?);
    out.extend_from_slice(&body);
    if count == 0 {
        write_name(&mut out, &name);
        out.extend_from_slice(&TYPE_SOA.to_be_bytes());
        out.extend_from_slice(&CLASS_IN.to_be_bytes());
        out.extend_from_slice(&TTL_S.to_be_bytes());
        // Two empty names, then serial, refresh, retry, expire and minimum.
        out.extend_from_slice(&22u16.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        for number in [1, TTL_S, TTL_S, TTL_S, TTL_S] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
    Some(out)
}

/// The type and the data of a record.
fn encode(record: &Record) -> (u16, Vec<u8>) {
    let mut data = Vec::new();
    let kind = match record {
        Record::Addr(IpAddr::V4(ip)) => {
            data.extend_from_slice(&ip.octets());
            TYPE_A
        }
        Record::Addr(IpAddr::V6(ip)) => {
            data.extend_from_slice(&ip.octets());
            TYPE_AAAA
        }
        Record::Srv(priority, weight, port, target) => {
            for number in [priority, weight, port] {
                data.extend_from_slice(&number.to_be_bytes());
            }
            write_name(&mut data, target);
            TYPE_SRV
        }
        Record::Naptr(order, preference, flags, services, replacement) => {
            for number in [order, preference] {
                data.extend_from_slice(&number.to_be_bytes());
            }
            for text in [flags.as_str(), services, ""] {
                data.push(u8::try_from(text.len()).expect("a short text"));
                data.extend_from_slice(text.as_bytes());
            }
            write_name(&mut data, replacement);
            TYPE_NAPTR
        }
        Record::Cname(target) => {
            write_name(&mut data, target);
            TYPE_CNAME
        }
    };
    (kind, data)
}

fn read_name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    loop {
        let len = usize::from(*message.get(at)?);
        at += 1;
        if len == 0 {
            return Some((name, at));
        }
        let label = message.get(at..at + len)?;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(std::str::from_utf8(label).ok()?);
        at += len;
    }
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        out.push(u8::try_from(label.len()).expect("a short label"));
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
}
