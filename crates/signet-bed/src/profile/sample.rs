//! What `perf script -F comm,tid,pid,time,period,ip,sym,dso` writes.
//!
//! A sample is a line with the thread and, for each frame from the innermost on, a line that
//! begins with a tab; an empty line ends it. Without stacks the one frame may stand in the
//! first line.

use std::io::{self, BufRead, Read};

/// What stands where `perf` knows no symbol and no file.
pub(crate) const UNKNOWN: &str = "[unknown]";

const LINE_BYTES_MAX: u64 = 65_536;
const FRAMES_MAX: usize = 128;
const NAME_BYTES_MAX: usize = 512;

/// A place in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Of the kernel the address; of other files the offset in the file.
    pub(crate) address: u64,
    pub(crate) symbol: String,
    /// The file without its folder.
    pub(crate) image: String,
    /// The file with its folder.
    pub(crate) path: String,
}

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) thread: String,
    pub(crate) pid: u32,
    /// CPU time that it stands for.
    pub(crate) period_ns: u64,
    /// From the innermost on; empty where there was nothing to walk.
    pub(crate) frames: Vec<Frame>,
}

/// Samples out of a text, one after the other.
pub(crate) struct Samples<R> {
    reader: R,
    line: Vec<u8>,
    /// Lines that are neither.
    pub(crate) odd_lines: u64,
}

impl<R: BufRead> Samples<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            line: Vec::new(),
            odd_lines: 0,
        }
    }

    /// The next sample; `None` at the end.
    ///
    /// # Errors
    /// Those of the reader.
    pub(crate) fn next(&mut self) -> io::Result<Option<Sample>> {
        let mut open: Option<Sample> = None;
        while self.read_line()? {
            let text = String::from_utf8_lossy(&self.line);
            let text = text.trim_end();
            if text.is_empty() {
                match open {
                    Some(sample) => return Ok(Some(sample)),
                    None => continue,
                }
            }
            if let (Some(sample), Some(frame)) = (&mut open, text.strip_prefix('\t')) {
                match parse_frame(frame) {
                    // What perf writes where a walk ends.
                    Some(frame) if frame.address == u64::MAX => {}
                    Some(frame) if sample.frames.len() < FRAMES_MAX => sample.frames.push(frame),
                    Some(_) => {}
                    None => self.odd_lines += 1,
                }
                continue;
            }
            match parse_header(text) {
                // The one frame is in the line: the sample is whole.
                Some(sample) if open.is_none() && !sample.frames.is_empty() => {
                    return Ok(Some(sample));
                }
                Some(sample) if open.is_none() => open = Some(sample),
                _ => self.odd_lines += 1,
            }
        }
        Ok(open)
    }

    /// Reads a line into `self.line`, at most so much of it; `false` at the end.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut limited = self.reader.by_ref().take(LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(false);
        }
        let mut is_whole = self.line.last() == Some(&b'\n');
        while !is_whole {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let end = buffer.iter().position(|&byte| byte == b'\n');
            is_whole = end.is_some();
            let count = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(count);
        }
        Ok(true)
    }
}

/// `worker-0  1234/1236  84650.291119:    1001001 `, with a frame or without. A thread's name
/// may hold anything, so the numbers are looked for.
fn parse_header(text: &str) -> Option<Sample> {
    text.match_indices('/').find_map(|(slash, _)| {
        let (before, after) = (text.get(..slash)?, text.get(slash + 1..)?);
        let pid_at = before
            .rfind(|letter: char| !letter.is_ascii_digit())
            .map_or(0, |at| {
                at + before[at..].chars().next().map_or(1, char::len_utf8)
            });
        let (name, pid) = before.split_at_checked(pid_at)?;
        let is_apart = name.is_empty() || name.ends_with(char::is_whitespace);
        let pid = pid.parse().ok().filter(|_| is_apart)?;
        let (tid, rest) = after.split_once(char::is_whitespace)?;
        tid.parse::<u32>().ok()?;
        let (time, rest) = rest.trim_start().split_once(':')?;
        let (seconds, fraction) = time.split_once('.')?;
        let is_time = [seconds, fraction].iter().all(|part| is_number(part));
        let rest = rest.trim_start();
        let (period, frame) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let period_ns = period.parse().ok().filter(|_| is_time)?;
        Some(Sample {
            thread: shorten(name.trim()),
            pid,
            period_ns,
            frames: parse_frame(frame).into_iter().collect(),
        })
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `   55d0c0ffee00 std::function<void (int)>::operator()(int) const (/usr/lib/libx.so)`.
fn parse_frame(text: &str) -> Option<Frame> {
    let text = text.trim();
    let (address, rest) = text.split_once(' ').unwrap_or((text, ""));
    let address = u64::from_str_radix(address, 16).ok()?;
    let rest = rest.trim();
    // A symbol may hold brackets; the file's is the last that begins as files do.
    let opening = [" (/", " ([", " (inlined)"]
        .iter()
        .filter_map(|opening| rest.rfind(opening))
        .max()
        .or_else(|| rest.rfind(" ("));
    let (symbol, path) = match opening {
        Some(at) => {
            let path = rest.get(at + 2..).unwrap_or("");
            (
                rest.get(..at).unwrap_or(""),
                path.strip_suffix(')').unwrap_or(path),
            )
        }
        None => (rest, UNKNOWN),
    };
    Some(Frame {
        address,
        symbol: symbol_name(symbol),
        image: image_name(path, address),
        path: path.to_owned(),
    })
}

/// A file's name without its folder, so that a result does not tell of a machine's folders.
/// What has a kernel's address is the kernel's.
fn image_name(path: &str, address: u64) -> String {
    const KERNEL_FROM: u64 = 1 << 63;
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    if address >= KERNEL_FROM && !name.starts_with("[kernel") {
        return shorten(&format!("[kernel {}]", name.trim_matches(['[', ']'])));
    }
    match name {
        "" => UNKNOWN.to_owned(),
        _ if path.starts_with("//anon") => "[anon]".to_owned(),
        _ => shorten(name),
    }
}

/// A function's name without the compiler's hash and the library's version.
fn symbol_name(symbol: &str) -> String {
    const HASH: &str = "::h";
    let symbol = symbol.trim();
    if symbol.is_empty() {
        return UNKNOWN.to_owned();
    }
    let is_c = !symbol.contains([':', '<', ' ']);
    let symbol = match symbol.split_once('@') {
        Some((name, _)) if is_c && !name.is_empty() => name,
        _ => symbol,
    };
    let without_hash = symbol
        .rsplit_once(HASH)
        .filter(|(_, hash)| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    shorten(without_hash.map_or(symbol, |(name, _)| name))
}

fn shorten(name: &str) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }
    let mut end = NAME_BYTES_MAX;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or("").to_owned()
}

impl Sample {
    /// The innermost frame. A frame that was inlined has the file of the one around it.
    pub(crate) fn leaf(&self) -> Option<Frame> {
        let leaf = self.frames.first()?;
        if leaf.image != "inlined" {
            return Some(leaf.clone());
        }
        let around = self.frames.iter().find(|frame| frame.image != "inlined")?;
        Some(Frame {
            address: leaf.address,
            symbol: leaf.symbol.clone(),
            image: around.image.clone(),
            path: around.path.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
