//! What carries the lines: TLS over TCP, or the input and output of a program.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustls::{
    ClientConnection, ConnectionCommon, ServerConfig, ServerConnection, SideData, StreamOwned,
};

use super::token::Token;
use super::wire::{self, Lines};

/// How long a connection, its handshake or a line that is written may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lines of a program that wait to be read.
const LINES_MAX: usize = 64;

/// One end of a conversation.
pub(super) trait Link {
    /// Writes a line.
    fn send(&mut self, line: &[u8]) -> Result<(), String>;

    /// The next line, if it comes so soon.
    fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, String>;
}

/// Says something.
pub(super) fn say<T: serde::Serialize>(link: &mut dyn Link, message: &T) -> Result<(), String> {
    link.send(&wire::line(message)?)
}

/// A connection with TLS.
pub(super) struct TlsLink<S> {
    stream: S,
    /// The same socket, to say how long it may wait.
    socket: TcpStream,
    lines: Lines,
}

type ClientStream = StreamOwned<ClientConnection, TcpStream>;
type ServerStream = StreamOwned<ServerConnection, TcpStream>;

/// Connects to a worker and proves to have the token, as it must.
pub(super) fn connect(at: &str, token: &Token) -> Result<TlsLink<ClientStream>, String> {
    let addr = at
        .to_socket_addrs()
        .map_err(|error| format!("it has no address: {error}"))?
        .next()
        .ok_or("it has no address")?;
    let socket = TcpStream::connect_timeout(&addr, PATIENCE)
        .map_err(|error| format!("cannot connect to {addr}: {error}"))?;
    let (config, name) = token.client()?;
    let tls = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
    let mut link = TlsLink::new(
        StreamOwned::new(tls, socket.try_clone().map_err(text)?),
        socket,
    )?;
    let ClientStream { conn, sock, .. } = &mut link.stream;
    shake_hands(conn, sock)?;
    Ok(link)
}

/// Accepts a controller that has the token.
pub(super) fn accept(
    socket: TcpStream,
    config: Arc<ServerConfig>,
) -> Result<TlsLink<ServerStream>, String> {
    let tls = ServerConnection::new(config).map_err(|error| error.to_string())?;
    let mut link = TlsLink::new(
        StreamOwned::new(tls, socket.try_clone().map_err(text)?),
        socket,
    )?;
    let ServerStream { conn, sock, .. } = &mut link.stream;
    shake_hands(conn, sock)?;
    Ok(link)
}

/// Does a handshake within its time: a byte now and then keeps nobody busy for longer.
fn shake_hands<D: SideData>(
    conn: &mut ConnectionCommon<D>,
    socket: &mut TcpStream,
) -> Result<(), String> {
    let failed = |why: String| format!("no handshake: {why}; both sides must have the same token");
    let until = Instant::now() + PATIENCE;
    loop {
        while conn.wants_write() {
            conn.write_tls(socket)
                .map_err(|error| failed(text(error)))?;
        }
        if !conn.is_handshaking() {
            return Ok(());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(failed("it takes too long".to_owned()));
        }
        socket.set_read_timeout(Some(left)).map_err(text)?;
        match conn.read_tls(socket) {
            Ok(0) => return Err(failed("the connection was closed".to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if is_timeout(&error) => continue,
            Err(error) => return Err(failed(text(error))),
        }
        if let Err(error) = conn.process_new_packets() {
            // The alert, as far as the socket takes it.
            let _ = conn.write_tls(socket);
            return Err(failed(error.to_string()));
        }
    }
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

impl<S: Read + Write> TlsLink<S> {
    fn new(stream: S, socket: TcpStream) -> Result<Self, String> {
        socket.set_nodelay(true).map_err(text)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        socket.set_write_timeout(Some(PATIENCE)).map_err(text)?;
        Ok(Self {
            stream,
            socket,
            lines: Lines::default(),
        })
    }
}

impl<S: Read + Write> Link for TlsLink<S> {
    fn send(&mut self, line: &[u8]) -> Result<(), String> {
        self.stream
            .write_all(line)
            .and_then(|()| self.stream.flush())
            .map_err(|error| format!("it does not read: {error}"))
    }

    fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, String> {
        let until = Instant::now() + patience;
        let mut buffer = [0; 16_384];
        loop {
            if let Some(line) = self.lines.next()? {
                return Ok(Some(line));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let left = left.max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(left)).map_err(text)?;
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(len) => self.lines.push(buffer.get(..len).unwrap_or_default()),
                Err(error) if is_timeout(&error) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("the connection broke: {error}")),
            }
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The lines of a program, or of whoever started this one.
pub(super) struct PipeLink {
    lines: Receiver<Result<Vec<u8>, String>>,
    writer: Box<dyn Write + Send>,
    /// The program; it ends with this value.
    child: Option<Child>,
}

impl PipeLink {
    /// Whoever started this program.
    pub(super) fn own() -> Self {
        Self::new(
            Box::new(std::io::stdin()),
            Box::new(std::io::stdout()),
            None,
        )
    }

    /// A worker that `ssh` starts on a host, as who may log in there. What it complains
    /// about is seen here.
    pub(super) fn ssh(ssh: &str, host: &str) -> Result<Self, String> {
        let mut child = Command::new(ssh)
            .args(["-oBatchMode=yes", "-T", "--", host])
            .args(["signet", "load", "worker", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run {ssh}: {error}"))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Self::new(Box::new(output), Box::new(input), Some(child)))
            }
            _ => Err(format!("{ssh} has no input and output")),
        }
    }

    fn new(
        reader: Box<dyn Read + Send>,
        writer: Box<dyn Write + Send>,
        child: Option<Child>,
    ) -> Self {
        let (tell, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || read_all(reader, &tell));
        Self {
            lines,
            writer,
            child,
        }
    }
}

fn read_all(mut reader: Box<dyn Read + Send>, tell: &SyncSender<Result<Vec<u8>, String>>) {
    let mut lines = Lines::default();
    let mut buffer = [0; 16_384];
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(0) => Err("it ended".to_owned()),
            Ok(len) => {
                lines.push(buffer.get(..len).unwrap_or_default());
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        loop {
            match lines.next() {
                Ok(None) => break,
                Ok(Some(line)) => {
                    if tell.send(Ok(line)).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return;
                }
            }
        }
        if let Err(error) = read {
            let _ = tell.send(Err(error));
            return;
        }
    }
}

impl Link for PipeLink {
    fn send(&mut self, line: &[u8]) -> Result<(), String> {
        self.writer
            .write_all(line)
            .and_then(|()| self.writer.flush())
            .map_err(|error| format!("it does not read: {error}"))
    }

    fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, String> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => line.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("it ended".to_owned()),
        }
    }
}

impl Drop for PipeLink {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It ends by itself when its input does; this is for one that hangs.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
