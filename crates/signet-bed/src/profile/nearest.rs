//! The nearest exported function before an address, for files whose other names were taken
//! away.
//!
//! A library of a distribution names what it exports and nothing else. What lies between two
//! exported functions is mostly of the same source file or folder as the one before, since
//! linkers keep the order of files: so `~BN_mod_exp_mont` tells big numbers from ciphers.
//! It is a hint, and counts as unknown.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

const FILES_MAX: usize = 256;
const TABLE_BYTES_MAX: u64 = 64 << 20;
const HEADERS_MAX: usize = 4_096;

/// Files that were read, by path.
#[derive(Debug, Default)]
pub(crate) struct Nearest {
    files: HashMap<String, Exports>,
}

/// Exported functions of a file, by offset.
#[derive(Debug, Default, PartialEq, Eq)]
struct Exports(Vec<(u64, String)>);

impl Nearest {
    /// `~NAME` for an offset in the file that a process has mapped from there; none where the
    /// file cannot be read or exports nothing before it.
    pub(crate) fn name(&mut self, pid: u32, path: &str, offset: u64) -> Option<String> {
        if !path.starts_with('/') || path.starts_with("//") {
            return None;
        }
        if self.files.len() >= FILES_MAX && !self.files.contains_key(path) {
            return None;
        }
        let exports = self.files.entry(path.to_owned()).or_insert_with(|| {
            // The process may live in another tree of files; it may be gone too.
            File::open(format!("/proc/{pid}/root{path}"))
                .or_else(|_| File::open(path))
                .ok()
                .and_then(|file| Exports::read(&file))
                .unwrap_or_default()
        });
        exports.before(offset).map(|name| format!("~{name}"))
    }
}

impl Exports {
    fn before(&self, offset: u64) -> Option<&str> {
        let after = self.0.partition_point(|(at, _)| *at <= offset);
        self.0
            .get(after.checked_sub(1)?)
            .map(|(_, name)| name.as_str())
    }

    /// Reads the table of exported names of a 64-bit little-endian ELF file.
    fn read(file: &impl ReadAt) -> Option<Self> {
        const DYNAMIC_SYMBOLS: u32 = 11;
        const LOADED: u32 = 1;
        let head = file.bytes(0, 64)?;
        if head.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let segments = table(file, u64_at(&head, 32)?, &head, 54)?;
        let sections = table(file, u64_at(&head, 40)?, &head, 58)?;
        let symbols = sections
            .iter()
            .find(|section| u32_at(section, 4) == Some(DYNAMIC_SYMBOLS))?;
        let link = usize::try_from(u32_at(symbols, 40)?).ok()?;
        let names = contents(file, sections.get(link)?)?;
        // Where segments lie in memory and in the file.
        let loaded: Vec<(u64, u64, u64)> = segments
            .iter()
            .filter(|segment| u32_at(segment, 0) == Some(LOADED))
            .filter_map(|s| Some((u64_at(s, 16)?, u64_at(s, 8)?, u64_at(s, 32)?)))
            .collect();
        let mut found: Vec<(u64, String)> = contents(file, symbols)?
            .chunks_exact(24)
            .filter_map(|symbol| {
                let address = function(symbol)?;
                let (from, offset, _) = loaded.iter().find(|(from, _, bytes)| {
                    address.checked_sub(*from).is_some_and(|at| at < *bytes)
                })?;
                let name_at = usize::try_from(u32_at(symbol, 0)?).ok()?;
                let name = names.get(name_at..)?;
                let end = name.iter().position(|&byte| byte == 0)?;
                let name = String::from_utf8_lossy(name.get(..end)?).into_owned();
                Some(((address - from).checked_add(*offset)?, name))
            })
            .collect();
        found.sort_unstable();
        Some(Self(found))
    }
}

/// The address of a symbol, if it is a function of this file.
fn function(symbol: &[u8]) -> Option<u64> {
    const FUNCTION: u8 = 2;
    const CHOSEN_AT_START: u8 = 10;
    let kind = symbol.get(4)? & 0xf;
    let section = u16_at(symbol, 6)?;
    let address = u64_at(symbol, 8)?;
    (matches!(kind, FUNCTION | CHOSEN_AT_START) && section != 0).then_some(address)
}

/// The entries of a table of headers whose entry size and count stand in the file's head.
fn table(file: &impl ReadAt, at: u64, head: &[u8], size_at: usize) -> Option<Vec<Vec<u8>>> {
    const ENTRY_BYTES_MIN: usize = 56;
    let size = usize::from(u16_at(head, size_at)?);
    let count = usize::from(u16_at(head, size_at + 2)?);
    if size < ENTRY_BYTES_MIN || count > HEADERS_MAX {
        return None;
    }
    let bytes = file.bytes(at, (size * count) as u64)?;
    Some(bytes.chunks_exact(size).map(<[u8]>::to_vec).collect())
}

fn contents(file: &impl ReadAt, section: &[u8]) -> Option<Vec<u8>> {
    file.bytes(u64_at(section, 24)?, u64_at(section, 32)?)
}

trait ReadAt {
    /// So many bytes from there, if they are there and not too many.
    fn bytes(&self, at: u64, count: u64) -> Option<Vec<u8>>;
}

impl ReadAt for File {
    fn bytes(&self, at: u64, count: u64) -> Option<Vec<u8>> {
        // A size that is made up must not be taken from memory.
        let is_there = at.checked_add(count)? <= self.metadata().ok()?.len();
        if !is_there || count > TABLE_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(count).ok()?];
        self.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ReadAt for Vec<u8> {
        fn bytes(&self, at: u64, count: u64) -> Option<Vec<u8>> {
            let from = usize::try_from(at).ok()?;
            let to = from.checked_add(usize::try_from(count).ok()?)?;
            self.get(from..to).map(<[u8]>::to_vec)
        }
    }

    fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
        if file.len() < at + bytes.len() {
            file.resize(at + bytes.len(), 0);
        }
        file[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// One segment at 0x2000 that stands at 0x100 in the file, with two functions, one thing
    /// that is none, and one that is elsewhere.
    fn library() -> Vec<u8> {
        let mut file = Vec::new();
        put(&mut file, 0, b"\x7fELF\x02\x01\x01");
        put(&mut file, 32, &64_u64.to_le_bytes());
        put(&mut file, 40, &120_u64.to_le_bytes());
        for (at, value) in [(54, 56_u16), (56, 1), (58, 64), (60, 3)] {
            put(&mut file, at, &value.to_le_bytes());
        }
        put(&mut file, 64, &1_u32.to_le_bytes());
        for (at, value) in [(8, 0x100_u64), (16, 0x2_000), (32, 0x1_000)] {
            put(&mut file, 64 + at, &value.to_le_bytes());
        }
        let names = b"\0first\0second\0thing\0away\0";
        let (symbols_at, names_at) = (400_u64, 600_u64);
        let dynamic = 120 + 64;
        put(&mut file, dynamic + 4, &11_u32.to_le_bytes());
        put(&mut file, dynamic + 24, &symbols_at.to_le_bytes());
        put(&mut file, dynamic + 32, &96_u64.to_le_bytes());
        put(&mut file, dynamic + 40, &2_u32.to_le_bytes());
        let strings = 120 + 128;
        put(&mut file, strings + 24, &names_at.to_le_bytes());
        put(&mut file, strings + 32, &(names.len() as u64).to_le_bytes());
        put(&mut file, names_at as usize, names);
        let symbols = [
            (7_u32, 2_u8, 0x2_080_u64),
            (1, 2, 0x2_010),
            (14, 1, 0x2_020),
            (20, 2, 9),
        ];
        for (place, (name, kind, address)) in symbols.into_iter().enumerate() {
            let at = symbols_at as usize + place * 24;
            put(&mut file, at, &name.to_le_bytes());
            put(&mut file, at + 4, &[kind, 0, 5, 0]);
            put(&mut file, at + 8, &address.to_le_bytes());
        }
        file
    }

    #[test]
    fn the_one_before_by_offset_in_the_file() {
        let exports = Exports::read(&library()).unwrap();
        let before = |offset| exports.before(offset);
        assert_eq!(before(0x10f), None);
        assert_eq!(before(0x110), Some("first"));
        assert_eq!(before(0x17f), Some("first"));
        assert_eq!(before(0x180), Some("second"));
        assert_eq!(before(u64::MAX), Some("second"));
    }

    #[test]
    fn no_file_is_too_odd() {
        let whole = library();
        for length in 0..whole.len() {
            let _ = Exports::read(&whole[..length].to_vec());
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2_000 {
            let mut spoilt = whole.clone();
            for _ in 0..random.usize(1..8) {
                let at = random.usize(..spoilt.len());
                spoilt[at] = random.u8(..);
            }
            if let Some(exports) = Exports::read(&spoilt) {
                let _ = exports.before(random.u64(..));
            }
        }
    }

    #[test]
    fn a_library_of_this_machine() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps
            .lines()
            .filter_map(|line| line.split_ascii_whitespace().nth(5))
            .find(|path| path.contains("libc.so") || path.contains("ld-musl"));
        let path = path.expect("this program has a C library");
        let file = File::open(path).unwrap();
        let exports = Exports::read(&file).unwrap();
        assert!(exports.0.iter().any(|(_, name)| name == "malloc"));
    }

    #[test]
    fn what_is_no_file_has_no_names() {
        let mut nearest = Nearest::default();
        for path in ["[unknown]", "//anon", "/nowhere/lib.so", ""] {
            assert_eq!(nearest.name(1, path, 5), None, "{path}");
        }
    }
}
