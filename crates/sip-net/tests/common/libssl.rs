//! The other end in legacy tests: the OpenSSL that was built with weak
//! suites, driven by itself over a blocking socket.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use openssl::pkey::PKey;
use openssl::ssl::{
    HandshakeError, Ssl, SslContext, SslContextBuilder, SslMethod, SslOptions, SslSessionCacheMode,
    SslStream, SslVerifyMode, SslVersion,
};
use openssl::x509::X509;
use openssl::x509::store::X509StoreBuilder;
use sip_net::testing::uninterrupted;

const PATIENCE: Duration = Duration::from_secs(30);
pub const ANSWER: &[u8] = b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A socket that goes on where a halt of the machine has interrupted it: OpenSSL gives up.
#[derive(Debug)]
struct Uninterrupted(TcpStream);

impl Read for Uninterrupted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| self.0.read(buffer))
    }
}

impl Write for Uninterrupted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// What it saw of one connection.
#[derive(Debug)]
pub struct Visit {
    /// By its name at IANA.
    pub suite: String,
    pub resumed: bool,
    pub has_peer_certificate: bool,
    pub received: Vec<u8>,
}

/// A context for one suite (openssl's name), in TLS 1.2.
pub fn context(method: SslMethod, suite: &str) -> SslContextBuilder {
    let mut context = SslContext::builder(method).unwrap();
    context
        .set_min_proto_version(Some(SslVersion::TLS1_2))
        .unwrap();
    context
        .set_max_proto_version(Some(SslVersion::TLS1_2))
        .unwrap();
    context.set_cipher_list(suite).unwrap();
    context
}

/// Shows a chain (PEM).
pub fn show(context: &mut SslContextBuilder, (chain, key): &(String, String)) {
    let mut chain = X509::stack_from_pem(chain.as_bytes()).unwrap().into_iter();
    context.set_certificate(&chain.next().unwrap()).unwrap();
    for above in chain {
        context.add_extra_chain_cert(above).unwrap();
    }
    let key = PKey::private_key_from_pem(key.as_bytes()).unwrap();
    context.set_private_key(&key).unwrap();
}

/// Asks the peer for a certificate below this root (PEM).
pub fn ask(context: &mut SslContextBuilder, root: &str, mode: SslVerifyMode) {
    let mut store = X509StoreBuilder::new().unwrap();
    store
        .add_cert(X509::from_pem(root.as_bytes()).unwrap())
        .unwrap();
    context.set_cert_store(store.build());
    context.set_verify(mode);
}

/// Whether sessions resume by ticket, by id, or not at all.
pub fn resume(context: &mut SslContextBuilder, by_ticket: bool, by_id: bool) {
    if !by_ticket {
        context.set_options(SslOptions::NO_TICKET);
    }
    context.set_session_cache_mode(if by_id {
        SslSessionCacheMode::SERVER
    } else {
        SslSessionCacheMode::OFF
    });
    context.set_session_id_context(b"test").unwrap();
}

/// A connection on a thread: connects, sends `request`, waits for an answer.
/// Gives what it saw, or why it failed.
pub fn client(
    context: &SslContext,
    addr: SocketAddr,
    request: Vec<u8>,
) -> Receiver<Result<Visit, String>> {
    let mut ssl = Ssl::new(context).unwrap();
    ssl.set_hostname("example.com").unwrap();
    let (done, result) = channel();
    std::thread::spawn(move || {
        let socket = connect(addr);
        let visit = match ssl.connect(socket) {
            Ok(mut stream) => {
                let sent = stream
                    .write_all(&request)
                    .map_err(|error| error.to_string());
                let received = sent.and_then(|()| receive(&mut stream, ANSWER.len()));
                let visit = received.map(|received| look(&stream, received));
                let _ = stream.shutdown();
                visit
            }
            Err(error) => Err(error.to_string()),
        };
        let _ = done.send(visit);
    });
    result
}

/// A server on a thread: takes so many connections one after the other, and
/// answers one message of `len` bytes on each.
pub fn server(
    context: SslContext,
    connections: usize,
    len: usize,
) -> (SocketAddr, Receiver<Result<Visit, String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (done, result) = channel();
    std::thread::spawn(move || {
        for _ in 0..connections {
            let Ok((socket, _)) = listener.accept() else {
                return;
            };
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let visit = match Ssl::new(&context).unwrap().accept(Uninterrupted(socket)) {
                Ok(mut stream) => receive(&mut stream, len).map(|received| {
                    let _ = stream.write_all(ANSWER);
                    let visit = look(&stream, received);
                    // Until the client closes.
                    let _ = stream.read(&mut [0]);
                    let _ = stream.shutdown();
                    visit
                }),
                Err(HandshakeError::Failure(mid)) => Err(mid.error().to_string()),
                Err(error) => Err(error.to_string()),
            };
            let _ = done.send(visit);
        }
    });
    (addr, result)
}

fn connect(addr: SocketAddr) -> Uninterrupted {
    let socket = TcpStream::connect(addr).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    Uninterrupted(socket)
}

fn receive(stream: &mut SslStream<Uninterrupted>, len: usize) -> Result<Vec<u8>, String> {
    let mut received = vec![0; len];
    stream
        .read_exact(&mut received)
        .map_err(|error| error.to_string())?;
    Ok(received)
}

fn look(stream: &SslStream<Uninterrupted>, received: Vec<u8>) -> Visit {
    let ssl = stream.ssl();
    let suite = ssl.current_cipher().and_then(|suite| suite.standard_name());
    Visit {
        suite: suite.unwrap().to_owned(),
        resumed: ssl.session_reused(),
        has_peer_certificate: ssl.peer_certificate().is_some(),
        received,
    }
}
