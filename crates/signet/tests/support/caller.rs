//! A caller over UDP: INVITE, ACK and BYE through the server.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::openssl::PATIENCE;
use super::unique;

/// One call.
pub struct Caller {
    socket: UdpSocket,
    server: SocketAddr,
    to: String,
    call_id: String,
    /// The To, the route set and the remote target, once it was answered.
    dialog: Option<(String, Vec<String>, String)>,
}

impl Caller {
    /// A call to `to` (`sip:bob@elsewhere.example`) that has not begun.
    pub fn new(server: SocketAddr, to: &str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let timeout = Some(Duration::from_millis(200));
        socket.set_read_timeout(timeout).unwrap();
        Self {
            socket,
            server,
            to: to.to_owned(),
            call_id: unique(),
            dialog: None,
        }
    }

    /// Sends the INVITE; the status of its final response. A success is
    /// acknowledged by [`Caller::ack`].
    pub fn invite(&mut self) -> u16 {
        self.send("INVITE", 1);
        let answer = self.final_response("INVITE");
        let status = status_of(&answer);
        if status < 300 {
            let header = |name: &str| {
                let found = answer.lines().find_map(|line| line.strip_prefix(name));
                found.unwrap().to_owned()
            };
            let contact = header("Contact: ");
            let target = contact.trim_matches(['<', '>']).to_owned();
            let mut routes: Vec<String> = answer
                .lines()
                .filter_map(|line| line.strip_prefix("Record-Route: "))
                .map(str::to_owned)
                .collect();
            routes.reverse();
            self.dialog = Some((header("To: "), routes, target));
        }
        status
    }

    pub fn ack(&self) {
        self.send("ACK", 1);
    }

    /// Sends the BYE; the status of its final response.
    pub fn bye(&self) -> u16 {
        self.send("BYE", 2);
        status_of(&self.final_response("BYE"))
    }

    fn send(&self, method: &str, cseq: u32) {
        let local = self.socket.local_addr().unwrap();
        let (call_id, branch) = (&self.call_id, unique());
        let (to, routes, target) = match &self.dialog {
            Some((to, routes, target)) => (to.clone(), &routes[..], target),
            None => (format!("<{}>", self.to), &[][..], &self.to),
        };
        let routes: String = routes
            .iter()
            .map(|route| format!("Route: {route}\r\n"))
            .collect();
        let request = format!(
            "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{branch}\r\n\
             {routes}Max-Forwards: 70\r\nFrom: <sip:alice@{local}>;tag=a\r\nTo: {to}\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq} {method}\r\nContact: <sip:alice@{local}>\r\n\
             Content-Length: 0\r\n\r\n"
        );
        self.socket
            .send_to(request.as_bytes(), self.server)
            .unwrap();
    }

    fn final_response(&self, method: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut buffer = [0; 65_535];
        loop {
            assert!(Instant::now() < until, "no final response to {method}");
            let Ok(length) = self.socket.recv(&mut buffer) else {
                continue;
            };
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let is_for_it = text
                .lines()
                .any(|line| line.starts_with("CSeq:") && line.ends_with(method));
            if is_for_it && text.starts_with("SIP/2.0") && status_of(&text) >= 200 {
                return text;
            }
        }
    }
}

fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}
