//! Messages in a file that Wireshark, tshark, tcpdump and sngrep open: pcapng
//! (draft-ietf-opsawg-pcapng), packets of IP.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sip_msg::Transport;
use sip_worker::Direction;

use super::packet::Packets;
use super::{Seen, blotted};

/// How large a file may grow unless it is said otherwise. Then it is kept as `FILE.1`, whose
/// place that of before has had, and another is begun.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const COMMENT: u16 = 1;
/// LINKTYPE_RAW: each packet begins with its header of IP. All interfaces have it: libpcap
/// reads no file with several.
const RAW: u16 = 101;
/// The longest packet.
const SNAP_BYTES: u32 = 65_535;

/// An interface for each transport, so that what was under TLS can be told from what was not.
const INTERFACES: [(Transport, &str); 5] = [
    (Transport::Udp, "datagrams"),
    (Transport::Tcp, "streams; handshakes are not shown"),
    (Transport::Tls, "decrypted, shown as datagrams"),
    (Transport::Ws, "out of their frames, shown as datagrams"),
    (
        Transport::Wss,
        "decrypted and out of their frames, shown as datagrams",
    ),
];

/// A file that is written.
pub(crate) struct PcapFile {
    path: PathBuf,
    bytes_max: u64,
    written: u64,
    /// Messages left out that no packet says yet.
    left_out: u64,
    to: BufWriter<File>,
    packets: Packets,
    blocks: Vec<u8>,
}

impl PcapFile {
    /// Makes the file, mode 0600. One that is there already is kept as `FILE.1`, if both are
    /// files of messages.
    pub(crate) fn create(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let mut file = Self {
            to: BufWriter::new(begin(path)?),
            path: path.to_owned(),
            bytes_max,
            written: 0,
            left_out: 0,
            packets: Packets::default(),
            blocks: Vec::new(),
        };
        file.write_header()?;
        Ok(file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many messages were left out that no packet says.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Writes a message, its secrets blotted out, before which so many were left out. One that
    /// had no way to go is in no packet.
    pub(crate) fn write(&mut self, seen: &Seen, left_out: u64) -> io::Result<()> {
        self.left_out += left_out;
        let Some(local) = seen.local else {
            return Ok(());
        };
        self.blocks.clear();
        let message = blotted(&seen.bytes);
        for packet in self.packets.of(seen, local, &message) {
            let mut comments = Vec::new();
            let left_out = std::mem::take(&mut self.left_out);
            if left_out > 0 {
                comments.push(format!("{left_out} messages before this one were left out"));
            }
            if !matches!(seen.transport, Transport::Udp | Transport::Tcp) {
                let transport = seen.transport.uri_name();
                comments.push(format!("by {transport}, shown as a datagram"));
            }
            if packet.is_cut {
                comments.push(format!("cut: the message has {} bytes", message.len()));
            }
            packet_block(seen, &packet.bytes, &comments, &mut self.blocks);
        }
        let len = self.blocks.len() as u64;
        if self.written + len > self.bytes_max {
            self.to.flush()?;
            self.to = BufWriter::new(begin(&self.path)?);
            self.write_header()?;
        }
        self.written += len;
        self.to.write_all(&self.blocks)
    }

    /// Gives to the disk what was written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn write_header(&mut self) -> io::Result<()> {
        let header = header();
        self.written = header.len() as u64;
        self.to.write_all(&header)?;
        self.to.flush()
    }
}

/// A new file, for its owner alone, in the place of one that is kept as another.
fn begin(path: &Path) -> io::Result<File> {
    can_be_begun(path)?;
    if path.symlink_metadata().is_ok() {
        std::fs::rename(path, kept(path))?;
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Where a file is kept that another takes the place of.
fn kept(path: &Path) -> PathBuf {
    let mut kept = path.as_os_str().to_owned();
    kept.push(".1");
    kept.into()
}

/// Whether what stands there may be moved out of the way, and what it takes the place of may go.
pub(super) fn can_be_begun(path: &Path) -> io::Result<()> {
    may_be_replaced(path)?;
    may_be_replaced(&kept(path))
}

/// Whether nothing is there, or a file of messages, or an empty one: a name may be mistyped.
fn may_be_replaced(path: &Path) -> io::Result<()> {
    let in_the_way = |what: &str| {
        let why = format!("{} is there, and {what}", path.display());
        Err(io::Error::new(ErrorKind::AlreadyExists, why))
    };
    match path.symlink_metadata() {
        Err(_) => return Ok(()),
        // A device or a link, which is not followed.
        Ok(there) if !there.is_file() => return in_the_way("no plain file"),
        Ok(_) => {}
    }
    let mut magic = Vec::new();
    let file = File::open(path).map_err(|error| {
        let why = format!("{} is there and cannot be read: {error}", path.display());
        io::Error::new(error.kind(), why)
    })?;
    file.take(4).read_to_end(&mut magic)?;
    if magic.is_empty() || magic == SECTION.to_le_bytes() {
        Ok(())
    } else {
        in_the_way("no file of messages (pcapng)")
    }
}

/// The beginning of a file.
fn header() -> Vec<u8> {
    let mut out = Vec::new();
    let mut section = Vec::new();
    section.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
    section.extend_from_slice(&1_u16.to_le_bytes());
    section.extend_from_slice(&0_u16.to_le_bytes());
    // The length of the section is not known yet.
    section.extend_from_slice(&u64::MAX.to_le_bytes());
    option(
        4,
        concat!("signet ", env!("CARGO_PKG_VERSION")),
        &mut section,
    );
    end_of_options(&mut section);
    block(SECTION, &section, &mut out);
    for (transport, what) in INTERFACES {
        let mut interface = Vec::new();
        interface.extend_from_slice(&RAW.to_le_bytes());
        interface.extend_from_slice(&0_u16.to_le_bytes());
        interface.extend_from_slice(&SNAP_BYTES.to_le_bytes());
        option(2, transport.uri_name(), &mut interface);
        option(3, what, &mut interface);
        end_of_options(&mut interface);
        block(INTERFACE, &interface, &mut out);
    }
    out
}

/// An enhanced packet block. Times are in microseconds, which is the default.
fn packet_block(seen: &Seen, packet: &[u8], comments: &[String], out: &mut Vec<u8>) {
    let is_its = |(transport, _): &(Transport, &str)| *transport == seen.transport;
    let interface = INTERFACES.iter().position(is_its).unwrap_or(0);
    let len = u32::try_from(packet.len()).unwrap_or(SNAP_BYTES);
    let mut body = Vec::with_capacity(packet.len() + 64);
    for word in [
        u32::try_from(interface).unwrap_or(0),
        (seen.at_unix_us >> 32) as u32,
        (seen.at_unix_us & 0xffff_ffff) as u32,
        len,
        len,
    ] {
        body.extend_from_slice(&word.to_le_bytes());
    }
    body.extend_from_slice(packet);
    pad(&mut body);
    for comment in comments {
        option(COMMENT, comment, &mut body);
    }
    let flags: u32 = match seen.direction {
        Direction::In => 1,
        Direction::Out => 2,
    };
    body.extend_from_slice(&2_u16.to_le_bytes());
    body.extend_from_slice(&4_u16.to_le_bytes());
    body.extend_from_slice(&flags.to_le_bytes());
    end_of_options(&mut body);
    block(PACKET, &body, out);
}

fn block(kind: u32, body: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(12 + body.len()).unwrap_or(0).to_le_bytes();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&len);
    out.extend_from_slice(body);
    out.extend_from_slice(&len);
}

fn option(code: u16, value: &str, out: &mut Vec<u8>) {
    let len = u16::try_from(value.len()).unwrap_or(0);
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(value.as_bytes().get(..usize::from(len)).unwrap_or_default());
    pad(out);
}

fn end_of_options(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 4]);
}

/// To a multiple of four; all that comes before is one.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::testing::TempDir;

    fn seen(bytes: &[u8]) -> Seen {
        Seen {
            at_unix_us: 1_795_219_200_000_042,
            direction: Direction::In,
            transport: Transport::Udp,
            local: Some("192.0.2.1:5060".parse().unwrap()),
            remote: "192.0.2.2:5060".parse().unwrap(),
            bytes: bytes.to_vec(),
        }
    }

    /// The kinds of the blocks, each of which is as long as it says twice.
    fn kinds(file: &Path) -> Vec<u32> {
        let bytes = std::fs::read(file).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut at, mut kinds) = (0, Vec::new());
        while at < bytes.len() {
            let len = word(at + 4) as usize;
            assert!(len.is_multiple_of(4) && word(at + len - 4) as usize == len);
            kinds.push(word(at));
            at += len;
        }
        kinds
    }

    #[test]
    fn two_files_are_all_that_is_kept_and_nobody_else_reads_them() {
        let folder = TempDir::new("pcap");
        let path = folder.path().join("t.pcapng");
        let before = folder.path().join("t.pcapng.1");
        let mut file = PcapFile::create(&path, 8_192).unwrap();
        for _ in 0..100 {
            file.write(&seen(&[b'x'; 1_000]), 0).unwrap();
        }
        file.flush().unwrap();
        for path in [&path, &before] {
            let about = std::fs::metadata(path).unwrap();
            assert_eq!(about.mode() & 0o777, 0o600);
            assert!(about.len() <= 8_192);
            let kinds = kinds(path);
            assert_eq!(kinds[..6], [SECTION, 1, 1, 1, 1, 1]);
            assert!(kinds.len() > 6 && kinds[6..].iter().all(|kind| *kind == PACKET));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        // What an earlier run has written is kept as well.
        let last = std::fs::read(&path).unwrap();
        drop(PcapFile::create(&path, 8_192).unwrap());
        assert_eq!(std::fs::read(&before).unwrap(), last);
    }

    #[test]
    fn what_is_no_file_of_messages_stays_where_it_is() {
        let folder = TempDir::new("pcap-other");
        let at = |name: &str| folder.path().join(name);
        for (there, may) in [("", true), ("[log]\n", false), ("\n\r", false)] {
            for name in ["t", "t.1"] {
                std::fs::write(at(name), there).unwrap();
                let made = PcapFile::create(&at("t"), 8_192);
                assert_eq!(made.is_ok(), may, "{name} {there:?}");
                if let Err(error) = made {
                    let told = error.to_string();
                    let file = at(name).display().to_string();
                    assert!(
                        told.starts_with(&format!("{file} is there, and no ")),
                        "{told}"
                    );
                    assert_eq!(std::fs::read_to_string(at(name)).unwrap(), there);
                }
                for name in ["t", "t.1"] {
                    let _ = std::fs::remove_file(at(name));
                }
            }
        }
    }

    #[test]
    fn no_link_is_followed() {
        let folder = TempDir::new("pcap-link");
        let (path, other) = (folder.path().join("t"), folder.path().join("other"));
        std::fs::write(&other, "mine").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(PcapFile::create(&path, 8_192).is_err());
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
    }

    #[test]
    fn secrets_are_in_no_file() {
        let folder = TempDir::new("pcap-secrets");
        let path = folder.path().join("t");
        let mut file = PcapFile::create(&path, 8_192).unwrap();
        let message = b"REGISTER sip:a SIP/2.0\r\nAuthorization: Digest response=\"0123\"\r\n\r\n";
        file.write(&seen(message), 7).unwrap();
        file.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        assert!(has(b"response=\"****\"") && !has(b"0123"));
        assert!(has(b"7 messages before this one were left out"));
    }

    #[test]
    fn what_was_left_out_is_said_before_the_next_message_that_is_there() {
        let folder = TempDir::new("pcap-left-out");
        let path = folder.path().join("t");
        let mut file = PcapFile::create(&path, 8_192).unwrap();
        let of_no_way = Seen {
            local: None,
            ..seen(b"x")
        };
        file.write(&of_no_way, 3).unwrap();
        file.write(&of_no_way, 0).unwrap();
        assert_eq!(file.left_out(), 3);
        file.write(&seen(b"y"), 4).unwrap();
        file.write(&seen(b"z"), 0).unwrap();
        assert_eq!(file.left_out(), 0);
        file.flush().unwrap();
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(text.contains("7 messages before this one were left out"));
        assert_eq!(text.matches("were left out").count(), 1);
    }
}
