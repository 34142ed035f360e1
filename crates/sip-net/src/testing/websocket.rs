//! A WebSocket client that waits for what it wants to read.
#![allow(clippy::panic)]

use std::io::{Read, Write};

use super::uninterrupted;
use crate::ws::{Item, Opcode, Reader, Taken, write_close, write_frame, write_message};

/// A client at one end of a stream that blocks.
#[derive(Debug)]
pub struct WebSocketClient<S> {
    /// The stream.
    pub stream: S,
    reader: Reader,
    unread: Vec<u8>,
    mask: u32,
}

/// What a server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message, and whether it came as text.
    Message(Vec<u8>, bool),
    /// A ping.
    Ping(Vec<u8>),
    /// A pong.
    Pong,
    /// A Close frame with its code.
    Close(Option<u16>),
    /// The end of the stream, or that nothing came for as long as the stream
    /// is told to wait.
    End,
}

/// A request to open a WebSocket for SIP, with further header lines, each with
/// its line end.
pub fn upgrade_request(host: &str, path: &str, lines: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: sip\r\n{lines}\r\n"
    )
}

impl<S: Read + Write> WebSocketClient<S> {
    /// Opens a WebSocket by a request; an answer that is not 101 comes back whole.
    pub fn open(mut stream: S, request: &str) -> Result<Self, String> {
        stream
            .write_all(request.as_bytes())
            .expect("the request is sent");
        let mut answer = Vec::new();
        let mut buffer = [0; 4_096];
        let head_len = loop {
            if let Some(end) = answer.windows(4).position(|at| at == b"\r\n\r\n") {
                break end + 4;
            }
            match uninterrupted(|| stream.read(&mut buffer)) {
                Ok(len @ 1..) => answer.extend_from_slice(buffer.get(..len).unwrap_or_default()),
                _ => return Err(String::from_utf8_lossy(&answer).into_owned()),
            }
        };
        let unread = answer.split_off(head_len);
        let mut head = String::from_utf8_lossy(&answer).into_owned();
        if !head.starts_with("HTTP/1.1 101 ") {
            let _ = stream.read_to_end(&mut answer);
            head += &String::from_utf8_lossy(&unread);
            head += &String::from_utf8_lossy(answer.get(head_len..).unwrap_or_default());
            return Err(head);
        }
        let is_ours = head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n")
            && head.contains("Sec-WebSocket-Protocol: sip\r\n");
        assert!(is_ours, "{head}");
        Ok(Self {
            stream,
            reader: Reader::of_client(),
            unread,
            mask: 0x1234_5678,
        })
    }

    /// Sends a message in one frame.
    pub fn send(&mut self, message: &[u8]) {
        let mut frame = Vec::new();
        write_message(message, Some(self.next_mask()), &mut frame);
        self.send_bytes(&frame);
    }

    /// Sends a frame; `is_final` where it is the last of its message.
    pub fn send_frame(&mut self, opcode: Opcode, payload: &[u8], is_final: bool) {
        let mut frame = Vec::new();
        write_frame(opcode, payload, Some(self.next_mask()), &mut frame);
        if !is_final && let Some(first) = frame.first_mut() {
            *first &= 0x7F;
        }
        self.send_bytes(&frame);
    }

    /// Sends a Close frame.
    pub fn send_close(&mut self, code: u16) {
        let mut frame = Vec::new();
        write_close(code, "", Some(self.next_mask()), &mut frame);
        self.send_bytes(&frame);
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the frame is sent");
    }

    /// Waits for the next thing that the server sends.
    pub fn receive(&mut self) -> Received {
        let mut payload = Vec::new();
        let mut buffer = [0; 4_096];
        loop {
            let is_text = self.unread.first().is_some_and(|first| first & 0x0F == 1);
            let taken = self.reader.next(&self.unread, usize::MAX, &mut payload);
            match taken {
                Err(fault) => panic!("the server sent what makes no sense: {fault:?}"),
                Ok(Taken::Frame { len, item }) => {
                    self.unread.drain(..len);
                    match item {
                        Item::Part => {}
                        Item::Message => return Received::Message(payload, is_text),
                        Item::Ping => return Received::Ping(payload),
                        Item::Pong => return Received::Pong,
                        Item::Close(code) => return Received::Close(code),
                    }
                }
                Ok(Taken::More) => match uninterrupted(|| self.stream.read(&mut buffer)) {
                    Ok(len @ 1..) => {
                        let read = buffer.get(..len).unwrap_or_default();
                        self.unread.extend_from_slice(read);
                    }
                    _ => return Received::End,
                },
            }
        }
    }

    /// Waits for the next message and answers pings on the way.
    pub fn receive_message(&mut self) -> Vec<u8> {
        loop {
            match self.receive() {
                Received::Message(message, _) => return message,
                Received::Ping(payload) => self.send_frame(Opcode::Pong, &payload, true),
                Received::Pong => {}
                other => panic!("no message, but {other:?}"),
            }
        }
    }

    // Good enough for a server that only must find out that there is a mask.
    fn next_mask(&mut self) -> [u8; 4] {
        self.mask = self
            .mask
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        self.mask.to_be_bytes()
    }
}
