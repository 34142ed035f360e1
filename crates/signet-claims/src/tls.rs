//! What a stranger can send to the server's side of TLS.

use std::sync::OnceLock;

use sip_tls::testing::{TestCa, TlsAccept};
use sip_tls::{ServerTls, ServerTlsConfig};

/// Bytes that a client that proved nothing may make the server keep, or send.
const KEPT_MAX: usize = 96 * 1024;
const SENT_MAX: usize = 64 * 1024;

/// Whatever comes to a listener before a handshake is done leads to an answer, to
/// the end, or to a wait for more with a bounded memory of what came; never to a
/// session; and where it leads does not depend on how the stream was cut. The
/// first byte says where to cut.
///
/// An alert before the end is the library's affair: for a handshake message that
/// is said to be longer than it takes, it has none.
pub fn tls_hello(data: &[u8]) {
    static SERVER: OnceLock<std::sync::Arc<ServerTls>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let (chain, key) = TestCa::new().issue(&["example.org"]);
        let config = ServerTlsConfig::new()
            .pair_pem(chain.as_bytes(), key.as_bytes())
            .expect("a certificate");
        std::sync::Arc::new(config.build().expect("what a listener shows"))
    });
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    let cut = stream.len() * usize::from(*cut) / 255;
    let whole = run(server, &[stream]);
    let (front, back) = stream.split_at(cut);
    assert_eq!(whole, run(server, &[front, back]), "cut at {cut}");
}

/// Whether it failed.
fn run(server: &std::sync::Arc<ServerTls>, pieces: &[&[u8]]) -> bool {
    let mut accept = TlsAccept::new(server, ([192, 0, 2, 9], 40_000).into());
    for piece in pieces {
        let result = accept.take(piece);
        assert!(
            accept.sent().len() <= SENT_MAX,
            "{} bytes sent",
            accept.sent().len()
        );
        assert!(!accept.is_established(), "a session without a key");
        assert!(accept.data().is_empty(), "data without a key");
        if result.is_err() {
            return true;
        }
        assert!(
            accept.kept_bytes() <= KEPT_MAX,
            "{} bytes kept",
            accept.kept_bytes()
        );
    }
    false
}
