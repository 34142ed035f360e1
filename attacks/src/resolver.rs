//! A name server with few names: `gw.test` is the gateway, whatever ends in
//! `slow.test` is never answered, and nothing else exists.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A name server that lives as long as this value.
pub(crate) struct Resolver {
    pub(crate) local: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Resolver {
    /// Starts it; the gateway is at `address`.
    pub(crate) fn start(address: Ipv4Addr) -> Result<Self, String> {
        let socket = UdpSocket::bind("127.0.5.3:0").map_err(|e| e.to_string())?;
        let local = socket.local_addr().map_err(|e| e.to_string())?;
        let _ = socket.set_read_timeout(Some(Duration::from_millis(50)));
        let ends = Arc::new(AtomicBool::new(false));
        let copy = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 1_500];
            while !copy.load(Ordering::Relaxed) {
                let Ok((n, from)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                let question = buffer.get(..n).unwrap_or_default();
                if let Some(answer) = answer(question, address) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Ok(Self {
            local,
            ends,
            thread: Some(thread),
        })
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The answer to one question (RFC 1035 4.1); `None` where there is none.
fn answer(question: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let (mut at, mut name) = (12, String::new());
    loop {
        let len = usize::from(*question.get(at)?);
        let label = question.get(at + 1..at + 1 + len)?;
        at += 1 + len;
        if len == 0 {
            break;
        }
        name.push_str(&String::from_utf8_lossy(label).to_lowercase());
        name.push('.');
    }
    let kind = question.get(at..at + 2)?;
    let asked = question.get(12..at + 4)?;
    if name.ends_with("slow.test.") {
        return None;
    }
    let exists = name.ends_with("gw.test.");
    let has_address = name == "gw.test." && kind == [0, 1];
    let mut out = question.get(..2)?.to_vec();
    // A response with recursion; 3 says that there is no such name.
    out.extend([0x81, if exists { 0x80 } else { 0x83 }]);
    out.extend([0, 1, 0, u8::from(has_address), 0, 0, 0, 0]);
    out.extend(asked);
    if has_address {
        // The name of the question, A, IN, a minute, four bytes.
        out.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        out.extend(address.octets());
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_kinds_of_names() {
        let ask = |name: &str| {
            let mut bytes = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            for label in name.split('.') {
                bytes.push(u8::try_from(label.len()).unwrap());
                bytes.extend(label.bytes());
            }
            bytes.extend([0, 0, 1, 0, 1]);
            answer(&bytes, Ipv4Addr::new(127, 0, 3, 1))
        };
        assert!(ask("gw.test").unwrap().ends_with(&[127, 0, 3, 1]));
        assert_eq!(ask("x.invalid").unwrap().get(3), Some(&0x83));
        assert!(ask("n1.slow.test").is_none());
    }
}
