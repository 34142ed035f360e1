//! Packets of ours are opened by scapy's IPsec layer, and its packets by ours: every transform
//! in both modes over both versions of IP.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Case, cases, packet_v4, packet_v6};
use ipsec::{Auth, Cipher, Mode, Transform, Tunnel};

/// Debian's own, which sees Debian's python3-scapy.
const PYTHON: &str = "/usr/bin/python3";
const SCAPY: &str = "/usr/lib/python3/dist-packages/scapy/layers/ipsec.py";

fn hex(octets: &[u8]) -> String {
    if octets.is_empty() {
        return "-".to_owned();
    }
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn octets(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().collect();
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(octet).collect()
}

fn cipher_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Null => "NULL",
        Cipher::Aes128Cbc | Cipher::Aes192Cbc | Cipher::Aes256Cbc => "AES-CBC",
        Cipher::TripleDesCbc => "3DES",
        Cipher::DesCbc => "DES",
        Cipher::Blowfish128Cbc | Cipher::Blowfish192Cbc => "Blowfish",
        Cipher::Aes128Gcm | Cipher::Aes256Gcm => "AES-GCM",
        Cipher::ChaCha20Poly1305 => "CHACHA20-POLY1305",
    }
}

fn auth_name(auth: Option<Auth>) -> &'static str {
    match auth {
        None => "-",
        Some(Auth::HmacMd5_96) => "HMAC-MD5-96",
        Some(Auth::HmacSha1_96) => "HMAC-SHA1-96",
        Some(Auth::HmacSha256_128) => "SHA2-256-128",
    }
}

/// A case, a packet, and what the script is to be told of it.
struct Told {
    case: Case,
    packet: Vec<u8>,
    before: u64,
    line: String,
}

fn told(case: Case, packet: Vec<u8>, before: u64) -> Told {
    let (mut sender, _) = case.pair();
    sender.resume_after(before);
    let mut sealed = Vec::new();
    sender.seal(&packet, &mut sealed).unwrap();
    let number = before + 1;
    let upper = if case.association.is_extended {
        (number >> 32).to_string()
    } else {
        "-".to_owned()
    };
    let (protocol, cipher, auth) = match case.association.transform {
        Transform::Esp(esp) => ("esp", cipher_name(esp.cipher()), auth_name(esp.auth())),
        Transform::Ah(auth) => ("ah", "-", auth_name(Some(auth))),
    };
    let tunnel = match case.association.mode {
        Mode::Transport => "-",
        Mode::Tunnel(Tunnel::V4 { .. }) => "4",
        Mode::Tunnel(Tunnel::V6 { .. }) => "6",
    };
    let line = format!(
        "{protocol} {cipher} {} {auth} {} {tunnel} {} {} {upper} {} {}\n",
        hex(&case.cipher_key),
        hex(&case.auth_key),
        case.association.spi,
        number as u32,
        hex(&packet),
        hex(&sealed)
    );
    Told {
        case,
        packet,
        before,
        line,
    }
}

/// An extended number is authenticated there by AEADs and by AH alone.
fn has_extended(case: &Case) -> bool {
    match case.association.transform {
        Transform::Esp(esp) => esp.cipher().is_aead(),
        Transform::Ah(_) => true,
    }
}

fn all() -> Vec<Told> {
    let mut all = Vec::new();
    for case in cases() {
        for (nth, packet) in [packet_v4(61), packet_v6(1_400)].into_iter().enumerate() {
            all.push(told(case.clone(), packet.clone(), nth as u64 * 1_000));
            if has_extended(&case) {
                let mut extended = case.clone();
                extended.association.is_extended = true;
                all.push(told(extended, packet, (5 << 32) + 77));
            }
        }
    }
    all
}

#[test]
fn scapy_opens_ours_and_we_open_scapys() {
    if !Path::new(SCAPY).exists() {
        let may_skip = std::env::var("SIGNET_MAY_SKIP").is_ok_and(|value| value == "1");
        assert!(may_skip, "python3-scapy is not installed: type make tools");
        eprintln!("skipped: python3-scapy is not installed");
        return;
    }
    let all = all();
    // 34 transforms of ESP and 3 of AH, 3 modes, 2 packets, from at least one provider.
    assert!(all.len() >= 37 * 3 * 2, "{}", all.len());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/by_scapy.py");
    let mut scapy = Command::new(PYTHON)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = scapy.stdin.take().unwrap();
    let lines: String = all.iter().map(|told| told.line.as_str()).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = scapy.wait_with_output().unwrap();
    let written = writer.join().unwrap();
    assert!(
        output.status.success(),
        "the script failed; its error stands above"
    );
    written.unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), all.len());
    for (told, answer) in all.iter().zip(answers.lines()) {
        let (opened, made) = answer.split_once(' ').unwrap();
        assert_eq!(opened, hex(&told.packet), "scapy opens {:?}", told.case);
        let (_, mut receiver) = told.case.pair();
        receiver.resume_after(told.before);
        let mut made = octets(made);
        let opened = receiver.open(&mut made);
        let opened = opened.unwrap_or_else(|error| panic!("{:?}: {error}", told.case));
        assert_eq!(opened.packet(), told.packet, "we open {:?}", told.case);
    }
}
