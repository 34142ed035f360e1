//! Servers that do what a test says, and what no good server does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// A listener of this machine; each connection is given to `script` in a thread of its own,
/// with its number. The connection is closed when the script ends.
pub fn serve(script: impl Fn(Peer, usize) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = Arc::new(script);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let peer = Peer(BufReader::new(stream.unwrap()));
            let script = Arc::clone(&script);
            std::thread::spawn(move || script(peer, number));
        }
    });
    port
}

/// The client at the other end.
pub struct Peer(BufReader<TcpStream>);

impl Peer {
    /// Sends bytes; a client that has closed is no failure of the script.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// Waits until the client closes, and says nothing more.
    pub fn stay_silent(&mut self) {
        let _ = std::io::copy(&mut self.0, &mut std::io::sink());
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }

    fn exact(&mut self, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// One command of RESP.
    pub fn command(&mut self) -> Option<Vec<Vec<u8>>> {
        let count: usize = self.line()?.strip_prefix('*')?.parse().ok()?;
        (0..count)
            .map(|_| {
                let len: usize = self.line()?.strip_prefix('$')?.parse().ok()?;
                let mut bytes = self.exact(len + 2)?;
                bytes.truncate(len);
                Some(bytes)
            })
            .collect()
    }

    /// One message of LDAP: its id and what follows.
    pub fn ldap(&mut self) -> Option<(u32, Vec<u8>)> {
        let head = self.exact(2)?;
        let len = match head[1] {
            short @ 0..0x80 => usize::from(short),
            long => {
                let bytes = self.exact(usize::from(long & 0x7f))?;
                bytes.iter().fold(0, |sum, &b| sum << 8 | usize::from(b))
            }
        };
        let content = self.exact(len)?;
        let id_len = usize::from(content[1]);
        let id = &content[2..2 + id_len];
        let id = id.iter().fold(0, |sum, &b| sum << 8 | u32::from(b));
        Some((id, content[2 + id_len..].to_vec()))
    }

    /// One request of HTTP: its head and its body.
    pub fn http(&mut self) -> Option<(String, Vec<u8>)> {
        let mut head = String::new();
        let mut len = 0;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                len = value.trim().parse().ok()?;
            }
            head += &line;
            head += "\n";
        }
        Some((head, self.exact(len)?))
    }
}
