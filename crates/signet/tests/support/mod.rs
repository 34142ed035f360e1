//! A real `signet serve` for a test, on ports of its own, ended with the test.
#![allow(dead_code, unreachable_pub)]

pub mod browser;
pub mod caller;
pub mod command;
pub mod figures;
pub mod gateway;
pub mod hook;
pub mod namespace;
pub mod openssl;
pub mod phone;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sip_net::testing::uninterrupted;

/// The program under test.
pub fn signet() -> &'static str {
    env!("CARGO_BIN_EXE_signet")
}

/// A folder that goes with this value.
pub struct TestDir {
    path: PathBuf,
}

impl TestDir {
    /// A new, empty folder below the target directory.
    pub fn new(name: &str) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A child that ends with this value.
pub struct Running {
    pub child: Child,
}

impl Running {
    /// Starts a program, its output to `log`.
    pub fn start(program: &str, arguments: &[&str], log: &Path) -> Self {
        let out = fs::File::create(log).unwrap();
        let err = out.try_clone().unwrap();
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {program}: {e}"));
        Self { child }
    }

    /// Waits for the end; the exit code, or `None` when it did not come in time.
    pub fn wait(&mut self, limit: Duration) -> Option<i32> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status.code().unwrap_or(-1));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// Sends a signal by its name (`-TERM`, `-KILL`, `-HUP`).
    pub fn signal(&self, name: &str) {
        let _ = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running server.
pub struct Server {
    pub process: Running,
    pub data: PathBuf,
    pub udp: SocketAddr,
    pub tcp: SocketAddr,
    pub tls: Option<SocketAddr>,
    pub log: PathBuf,
}

impl Server {
    /// Starts `signet serve` on free ports of 127.0.0.1 with further arguments
    /// and waits until it answers.
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        let port = free_port();
        Self::start_at(folder, port, arguments)
    }

    /// The same with a port for UDP and TCP; TLS gets the next one.
    pub fn start_at(folder: &Path, port: u16, arguments: &[&str]) -> Self {
        let data = folder.join("data");
        let log = folder.join("signet.log");
        let data_text = data.display().to_string();
        let listen = [
            format!("udp:127.0.0.1:{port}"),
            format!("tcp:127.0.0.1:{port}"),
            format!("tls:127.0.0.1:{}", port + 1),
        ];
        let mut words = vec!["serve", "--data", &data_text];
        for address in &listen {
            words.extend(["--listen", address]);
        }
        words.extend(arguments);
        let process = Running::start(signet(), &words, &log);
        let server = Self {
            process,
            data,
            udp: SocketAddr::from(([127, 0, 0, 1], port)),
            tcp: SocketAddr::from(([127, 0, 0, 1], port)),
            tls: Some(SocketAddr::from(([127, 0, 0, 1], port + 1))),
            log,
        };
        server.wait_ready();
        server
    }

    /// Starts `signet serve --config` and waits until UDP at `udp` answers.
    pub fn start_with_config(folder: &Path, config: &str, udp: SocketAddr) -> Self {
        let path = folder.join("signet.toml");
        fs::write(&path, config).unwrap();
        let log = folder.join("signet.log");
        let process = Running::start(
            signet(),
            &["serve", "--config", &path.display().to_string()],
            &log,
        );
        let server = Self {
            process,
            data: folder.join("data"),
            udp,
            tcp: udp,
            tls: None,
            log,
        };
        server.wait_ready();
        server
    }

    fn wait_ready(&self) {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            if self.answers_options() {
                return;
            }
        }
        panic!(
            "the server did not answer within 20 s; its log:\n{}",
            fs::read_to_string(&self.log).unwrap_or_default()
        );
    }

    /// Whether an OPTIONS to the server itself is answered within 100 ms.
    pub fn answers_options(&self) -> bool {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let request = options(
            &socket.local_addr().unwrap().to_string(),
            "UDP",
            &self.udp.to_string(),
        );
        if socket.send_to(request.as_bytes(), self.udp).is_err() {
            std::thread::sleep(Duration::from_millis(50));
            return false;
        }
        let mut answer = [0; 65_535];
        match uninterrupted(|| socket.recv(&mut answer)) {
            Ok(n) => answer[..n].starts_with(b"SIP/2.0 "),
            Err(_) => {
                std::thread::sleep(Duration::from_millis(20));
                false
            }
        }
    }

    /// Adds a user through the command line.
    pub fn add_user(&self, name: &str, domain: &str, password: &str) {
        add_user(&self.data, name, domain, password);
    }
}

/// `signet user add`, the password on standard input.
pub fn add_user(data: &Path, name: &str, domain: &str, password: &str) {
    let mut child = Command::new(signet())
        .args([
            "user",
            "add",
            name,
            "--domain",
            domain,
            "--password-stdin",
            "--data",
        ])
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(format!("{password}\n").as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "signet user add: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// An OPTIONS request for the server itself.
pub fn options(local: &str, transport: &str, to: &str) -> String {
    let unique = unique();
    format!(
        "OPTIONS sip:{to} SIP/2.0\r\nVia: SIP/2.0/{transport} {local};branch=z9hG4bK{unique}\r\nMax-Forwards: 70\r\n\
         From: <sip:test@{local}>;tag=t{unique}\r\nTo: <sip:{to}>\r\nCall-ID: {unique}@test\r\nCSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// A number that this process gives out once.
pub fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!(
        "{}x{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A port that is free on 127.0.0.1 for UDP and TCP, and so is the one after it.
pub fn free_port() -> u16 {
    sip_net::testing::free_ports(2)
}

/// A phone's datagram socket, whose port no server that runs has for connections: a contact that
/// leads to a listener of the server's own is refused, whatever its transport.
pub fn phone_socket(ip: &str) -> UdpSocket {
    for _ in 0..100 {
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        if TcpListener::bind(socket.local_addr().unwrap()).is_ok() {
            return socket;
        }
    }
    panic!("all ports of {ip} are listened at");
}

/// Waits until a program takes datagrams or connections at that port, whatever its address; `log`
/// is what it says meanwhile.
pub fn wait_for_port(port: u16, log: &Path) {
    wait_for_entry(&format!(":{port:04X}"), log);
}

/// The same of an address of IPv4 with its port, where others have that port too.
pub fn wait_for_place(place: &str, log: &Path) {
    let place: SocketAddrV4 = place.parse().unwrap();
    let (ip, port) = (u32::from_ne_bytes(place.ip().octets()), place.port());
    wait_for_entry(&format!("{ip:08X}:{port:04X}"), log);
}

/// Waits until the kernel's tables have a socket whose local address ends so. They are read, and
/// nothing is tried: who tries to bind takes the port from whom he waits for.
fn wait_for_entry(place: &str, log: &Path) {
    let is_there = |table: &str, state: &str| {
        let table = fs::read_to_string(table).unwrap();
        table.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let local = columns.next().unwrap_or_default();
            let of_line = columns.nth(1).unwrap_or_default();
            local.ends_with(place) && of_line.ends_with(state)
        })
    };
    let until = Instant::now() + Duration::from_secs(60);
    // The states of proc(5): of UDP all count, of TCP that which listens.
    while !(is_there("/proc/net/udp", "") || is_there("/proc/net/tcp", "0A")) {
        let told = fs::read_to_string(log).unwrap_or_default();
        assert!(Instant::now() < until, "nobody is at {place}: {told}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends one datagram from a new socket; the answers within `wait`.
pub fn exchange_udp(to: SocketAddr, bytes: &[u8], wait: Duration) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(bytes, to).unwrap();
    receive_all(&socket, wait)
}

/// Sends one datagram from a new socket; the first answer, which must come.
pub fn ask_udp(to: SocketAddr, bytes: &[u8]) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    socket.send_to(bytes, to).unwrap();
    let mut answer = [0; 65_535];
    let length = uninterrupted(|| socket.recv(&mut answer)).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// Everything that arrives at `socket` until it is silent for `wait`.
pub fn receive_all(socket: &UdpSocket, wait: Duration) -> Vec<Vec<u8>> {
    socket.set_read_timeout(Some(wait)).unwrap();
    let mut found = Vec::new();
    let mut buffer = [0; 65_535];
    while let Ok(n) = uninterrupted(|| socket.recv(&mut buffer)) {
        found.push(buffer[..n].to_vec());
    }
    found
}

/// Sends bytes over a new connection; what comes back until silence or close,
/// and whether the server closed.
pub fn exchange_tcp(to: SocketAddr, bytes: &[u8], wait: Duration) -> (Vec<u8>, bool) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(bytes).unwrap();
    stream.set_read_timeout(Some(wait)).unwrap();
    let mut found = Vec::new();
    let mut buffer = [0; 65_535];
    loop {
        match uninterrupted(|| stream.read(&mut buffer)) {
            Ok(0) => return (found, true),
            Ok(n) => found.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return (found, true),
            Err(_) => return (found, false),
        }
    }
}

/// A test that cannot run fails, unless whoever runs it allows it to be skipped.
pub fn skip(why: &str) {
    let is_allowed = std::env::var_os("SIGNET_MAY_SKIP").is_some_and(|value| value == "1");
    assert!(is_allowed, "{why}; SIGNET_MAY_SKIP=1 skips such tests");
    eprintln!("skipped: {why}");
}

/// Whether a program is there; see [`skip`]. `make test` installs what is missing.
pub fn have(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|o| o.status.success());
    if !found {
        skip(&format!(
            "{program} is not installed (`make tools` installs it)"
        ));
    }
    found
}

const INSIDE: &str = "SIGNET_TEST_INSIDE_NAMESPACE";

/// The address of the interface that is not the loopback, in a namespace.
pub const ADDRESS: &str = "10.77.0.1";

/// Runs a test of the calling file in a network namespace of its own, from
/// which nothing can leave: a loopback and a pair of virtual interfaces. The
/// test binary runs itself again there with the test's name.
pub fn in_namespace(test: &str, body: impl FnOnce()) {
    let prepare = format!(
        "ip link set lo up && ip link add ve0 type veth peer name ve1 && ip addr add {ADDRESS}/24 dev ve0 && \
         ip link set ve0 up && ip link set ve1 up"
    );
    if std::env::var_os(INSIDE).is_some() || have("ip") {
        inside("-rn", &prepare, test, body);
    }
}

/// Runs a test of the calling file where [`small_disk`] is a disk of 600 KiB.
pub fn with_small_disk(test: &str, body: impl FnOnce()) {
    let at = small_disk();
    fs::create_dir_all(&at).unwrap();
    let prepare = format!(
        "mount -t tmpfs -o size=600k,mode=700 tmpfs '{}'",
        at.display()
    );
    inside("-rm", &prepare, test, body);
}

/// Where the small disk is.
pub fn small_disk() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("small-disk")
}

fn inside(namespaces: &str, prepare: &str, test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        body();
        return;
    }
    if !have("unshare") {
        return;
    }
    let probe = Command::new("unshare").args([namespaces, "true"]).status();
    if !probe.is_ok_and(|s| s.success()) {
        skip("this user may not make a namespace (kernel.unprivileged_userns_clone)");
        return;
    }
    let script = format!("{prepare} && exec \"$0\" --exact {test} --nocapture --test-threads 1");
    let output = Command::new("unshare")
        .args([namespaces, "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("1 passed"),
        "the test did not run inside: {text}"
    );
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
}
