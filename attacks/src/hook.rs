//! The program that a server asks about calls, by HTTP: it answers as a table does, and
//! remembers what it was asked. Its HTTP is a few lines: a request is a head, a length and
//! as many bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::phone::lock;

/// Questions that are remembered; further ones are answered alone.
const REMEMBERED_MAX: usize = 20_000;
/// A question is shorter than this, whatever a caller writes.
const BODY_BYTES_MAX: usize = 8 << 20;

/// A hook that lives as long as this value.
pub(crate) struct Hook {
    /// Its address.
    pub(crate) local: SocketAddr,
    book: Arc<Mutex<Book>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What it was asked.
#[derive(Default)]
struct Book {
    questions: Vec<Value>,
    /// What could not be read, and why.
    faults: Vec<String>,
}

impl Hook {
    /// Starts it at a port of this machine; `answer` is the table.
    pub(crate) fn start(answer: fn(&Value) -> Value) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
        let local = listener.local_addr().map_err(|e| e.to_string())?;
        listener.set_nonblocking(true).map_err(|e| e.to_string())?;
        let (book, ends) = (Arc::<Mutex<Book>>::default(), Arc::<AtomicBool>::default());
        let (the_book, the_ends) = (Arc::clone(&book), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            while !the_ends.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                };
                let (book, ends) = (Arc::clone(&the_book), Arc::clone(&the_ends));
                std::thread::spawn(move || {
                    // The server hung up, or this process ends: either way it is over.
                    let _ = serve(stream, &book, &ends, answer);
                });
            }
        });
        Ok(Self {
            local,
            book,
            ends,
            thread: Some(thread),
        })
    }

    /// The questions of one call.
    pub(crate) fn asked_of(&self, call_id: &str) -> Vec<Value> {
        let book = lock(&self.book);
        let mut asked: Vec<Value> = book.questions.clone();
        asked.retain(|q| q["call_id"] == call_id);
        asked
    }

    /// How many questions came, and what could not be read.
    pub(crate) fn seen(&self) -> (usize, Vec<String>) {
        let book = lock(&self.book);
        (book.questions.len(), book.faults.clone())
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves one connection until it ends.
fn serve(
    stream: TcpStream,
    book: &Mutex<Book>,
    ends: &AtomicBool,
    answer: fn(&Value) -> Value,
) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while !ends.load(Ordering::Relaxed) {
        let Some(body) = read_request(&mut reader)? else {
            return Ok(());
        };
        let asked: Value = match serde_json::from_slice(&body) {
            Ok(asked) => asked,
            Err(why) => {
                lock(book).faults.push(format!("a body is no JSON: {why}"));
                Value::Null
            }
        };
        let questions = asked["questions"].as_array().cloned().unwrap_or_default();
        let answers: Vec<Value> = questions
            .iter()
            .map(|question| {
                let mut said = answer(question);
                said["id"] = question["id"].clone();
                said
            })
            .collect();
        let mut kept = lock(book);
        if kept.questions.len() < REMEMBERED_MAX {
            kept.questions.extend(questions);
        }
        drop(kept);
        let body = json!({ "version": 1, "answers": answers }).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        writer.write_all(format!("{head}{body}").as_bytes())?;
    }
    Ok(())
}

/// The body of the next request; `None` at the end of the connection.
fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = 0;
    let mut is_first = true;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() && !is_first {
            break;
        }
        is_first = false;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length.min(BODY_BYTES_MAX)];
    reader.read_exact(&mut body)?;
    Ok(Some(body))
}
