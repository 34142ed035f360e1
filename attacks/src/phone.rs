//! A user agent over UDP with an address of its own: it answers by itself what
//! comes to it, remembers it, and sends what it is told to.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::digest::{Account, Challenge};
use crate::wire::{Draft, MARK, Text, tag_of, uri_of};

/// How long an answer that must come may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
/// After so many requests without an answer the next is waited for no longer than this.
const SILENCES_MAX: u64 = 8;
const SHUT_OUT: Duration = Duration::from_millis(30);
/// Requests that are remembered whole; further ones are counted.
const REMEMBERED_MAX: usize = 20_000;

/// What somebody answers to a request, as bytes.
pub(crate) type Script = Arc<dyn Fn(&Text) -> Vec<Vec<u8>> + Send + Sync>;

/// What a phone does with an INVITE.
#[derive(Clone)]
pub(crate) enum Manner {
    /// 200 at once.
    Answers,
    /// 180, and 487 when it is cancelled.
    Rings,
    /// Nothing at all.
    Silent,
    /// What is written for it, to every request but ACK.
    Scripted(Script),
}

/// What a phone has seen.
#[derive(Default)]
struct Book {
    requests: Vec<Text>,
    responses: VecDeque<Text>,
    ringing: Vec<Text>,
}

struct Inner {
    socket: UdpSocket,
    contact: String,
    manner: Mutex<Manner>,
    book: Mutex<Book>,
    news: Condvar,
    received: AtomicU64,
    received_bytes: AtomicU64,
    /// Requests in a row that got no answer.
    silences: AtomicU64,
    ends: AtomicBool,
}

/// A user agent that lives as long as this value.
pub(crate) struct Phone {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
    /// Its address.
    pub(crate) local: SocketAddr,
}

/// Where a call has got to.
#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    /// The INVITE that was let in.
    pub(crate) invite: Draft,
    /// The other side's tag.
    pub(crate) to_tag: String,
    /// The caller's route set, first hop first.
    pub(crate) routes: Vec<String>,
    /// The other side's contact.
    pub(crate) target: String,
    cseq: u32,
}

impl Dialog {
    /// A request of the caller within the dialog.
    pub(crate) fn request(&mut self, method: &str) -> Draft {
        self.cseq += 1;
        let mut draft = self.ack();
        method.clone_into(&mut draft.method);
        draft.cseq = self.cseq;
        draft
    }

    /// The ACK to the 200.
    pub(crate) fn ack(&self) -> Draft {
        let mut draft = Draft::new("ACK", &self.invite.from, &self.invite.to);
        draft.uri.clone_from(&self.target);
        draft.from_tag.clone_from(&self.invite.from_tag);
        draft.to_tag = Some(self.to_tag.clone());
        draft.call_id.clone_from(&self.invite.call_id);
        draft.cseq = self.invite.cseq;
        draft.routes.clone_from(&self.routes);
        draft
    }

    /// The same dialog as the called side has it: what it received as INVITE.
    pub(crate) fn callees_request(&self, received: &Text) -> Draft {
        let mut draft = Draft::new("BYE", &self.invite.to, &self.invite.from);
        draft.uri = received
            .header("Contact")
            .map_or(String::new(), |c| uri_of(c).to_owned());
        draft.from_tag = Some(self.to_tag.clone());
        draft.to_tag.clone_from(&self.invite.from_tag);
        draft.call_id.clone_from(&self.invite.call_id);
        draft.cseq = 100;
        draft.routes = received.addresses("Record-Route");
        draft
    }
}

impl Phone {
    /// A phone at a free port of this address.
    pub(crate) fn start(address: IpAddr) -> Result<Self, String> {
        let at = SocketAddr::new(address, 0);
        let socket = UdpSocket::bind(at).map_err(|e| format!("cannot bind {at}: {e}"))?;
        let local = socket.local_addr().map_err(|e| e.to_string())?;
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .map_err(|e| e.to_string())?;
        let inner = Arc::new(Inner {
            socket,
            contact: format!("<sip:phone@{local}>"),
            manner: Mutex::new(Manner::Answers),
            book: Mutex::default(),
            news: Condvar::new(),
            received: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            silences: AtomicU64::new(0),
            ends: AtomicBool::new(false),
        });
        let copy = Arc::clone(&inner);
        let thread = std::thread::spawn(move || copy.run());
        Ok(Self {
            inner,
            thread: Some(thread),
            local,
        })
    }

    /// A phone at an IPv4 address.
    pub(crate) fn at(address: [u8; 4]) -> Result<Self, String> {
        Self::start(IpAddr::from(address))
    }

    /// Its Contact, brackets included.
    pub(crate) fn contact(&self) -> String {
        self.inner.contact.clone()
    }

    /// Says what to do with an INVITE.
    pub(crate) fn manner(&self, manner: Manner) {
        *lock(&self.inner.manner) = manner;
    }

    /// Answers every request but ACK with what this makes of it.
    pub(crate) fn script(&self, script: impl Fn(&Text) -> Vec<Vec<u8>> + Send + Sync + 'static) {
        self.manner(Manner::Scripted(Arc::new(script)));
    }

    /// Packets and bytes that came to it.
    pub(crate) fn received(&self) -> (u64, u64) {
        (
            self.inner.received.load(Ordering::Relaxed),
            self.inner.received_bytes.load(Ordering::Relaxed),
        )
    }

    /// The requests that came and fulfil a condition.
    pub(crate) fn seen(&self, wanted: impl Fn(&Text) -> bool) -> Vec<Text> {
        let book = lock(&self.inner.book);
        book.requests
            .iter()
            .filter(|r| wanted(r))
            .cloned()
            .collect()
    }

    /// How many requests of an attempt came, by the beginning of their mark.
    /// What is repeated counts once.
    pub(crate) fn marked(&self, mark: &str) -> u64 {
        let mut branches: Vec<String> = self
            .seen(|r| r.header(MARK).is_some_and(|m| m.starts_with(mark)))
            .iter()
            .map(|r| format!("{}{}", r.header("Via").unwrap_or(""), r.method()))
            .collect();
        branches.sort_unstable();
        branches.dedup();
        branches.len() as u64
    }

    /// Waits until a request comes that fulfils a condition.
    pub(crate) fn wait_for(&self, limit: Duration, wanted: impl Fn(&Text) -> bool) -> Option<Text> {
        let until = Instant::now() + limit;
        let mut book = lock(&self.inner.book);
        loop {
            if let Some(found) = book.requests.iter().find(|r| wanted(r)) {
                return Some(found.clone());
            }
            book = self.wait(book, until)?;
        }
    }

    fn wait<'a>(&self, book: MutexGuard<'a, Book>, until: Instant) -> Option<MutexGuard<'a, Book>> {
        let left = until.checked_duration_since(Instant::now())?;
        let waited = self.inner.news.wait_timeout(book, left);
        Some(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&self, to: SocketAddr, bytes: &[u8]) {
        let _ = self.inner.socket.send_to(bytes, to);
    }

    /// Sends a request once and expects nothing.
    pub(crate) fn send(&self, to: SocketAddr, draft: &Draft) {
        self.send_bytes(to, &draft.render(self.local, "UDP"));
    }

    /// Waits for a final response, or for any that fulfils a condition.
    pub(crate) fn response(
        &self,
        limit: Duration,
        draft: &Draft,
        wanted: impl Fn(u16) -> bool,
    ) -> Option<Text> {
        let until = Instant::now() + limit;
        let mut book = lock(&self.inner.book);
        loop {
            let fits = |r: &Text| r.answers(draft) && r.status().is_some_and(&wanted);
            if let Some(at) = book.responses.iter().position(fits) {
                return book.responses.remove(at);
            }
            book = self.wait(book, until)?;
        }
    }

    /// Sends a request as a client transaction does; its final response, with
    /// the ACK sent where it is a refusal of an INVITE. `None` after `limit`.
    ///
    /// Whoever gets no answer many times in a row is shut out, and waits no longer for each.
    pub(crate) fn ask_for(&self, limit: Duration, to: SocketAddr, draft: &Draft) -> Option<Text> {
        let silences = &self.inner.silences;
        let is_shut_out = limit < PATIENCE && silences.load(Ordering::Relaxed) >= SILENCES_MAX;
        let limit = if is_shut_out { SHUT_OUT } else { limit };
        let answer = self.ask_until(Instant::now() + limit, to, draft);
        match answer {
            Some(_) => silences.store(0, Ordering::Relaxed),
            None => {
                silences.fetch_add(1, Ordering::Relaxed);
            }
        }
        answer
    }

    fn ask_until(&self, until: Instant, to: SocketAddr, draft: &Draft) -> Option<Text> {
        let mut pause = Duration::from_millis(500);
        loop {
            self.send(to, draft);
            let left = until.checked_duration_since(Instant::now())?;
            if let Some(found) = self.response(left.min(pause), draft, |status| status >= 200) {
                if draft.method == "INVITE" && found.status() >= Some(300) {
                    self.send(to, &draft.hop_by_hop("ACK", found.header("To")));
                }
                return Some(found);
            }
            pause = (pause * 2).min(Duration::from_secs(4));
        }
    }

    /// The same with the usual patience; an error where nothing comes.
    pub(crate) fn ask(&self, to: SocketAddr, draft: &Draft) -> Result<Text, String> {
        self.ask_for(PATIENCE, to, draft)
            .ok_or_else(|| format!("no answer to {} {}", draft.method, draft.uri))
    }

    /// Sends a request, and again with credentials where it is challenged.
    /// What was sent last, and its final response.
    pub(crate) fn ask_as(
        &self,
        to: SocketAddr,
        draft: &Draft,
        account: &Account,
    ) -> Result<(Draft, Text), String> {
        let first = self.ask(to, draft)?;
        match authorize(draft, &first, account) {
            Some(next) => {
                let answer = self.ask(to, &next)?;
                Ok((next, answer))
            }
            None => Ok((draft.clone(), first)),
        }
    }

    /// Registers its own contact for a user of a domain.
    pub(crate) fn register(
        &self,
        to: SocketAddr,
        domain: &str,
        account: &Account,
    ) -> Result<(), String> {
        let aor = format!("sip:{}@{domain}", account.user);
        let draft = Draft::new("REGISTER", &aor, &aor)
            .uri(&format!("sip:{domain}"))
            .contact(&self.contact())
            .with("Expires", "3600");
        let (_, answer) = self.ask_as(to, &draft, account)?;
        match answer.status() {
            Some(200) => Ok(()),
            _ => Err(format!(
                "{} cannot register: {}",
                account.user, answer.start
            )),
        }
    }

    /// Calls somebody and acknowledges the answer.
    pub(crate) fn call(
        &self,
        to: SocketAddr,
        draft: &Draft,
        account: &Account,
    ) -> Result<Dialog, String> {
        let (invite, answer) = self.ask_as(to, draft, account)?;
        if answer.status() != Some(200) {
            return Err(format!("a call to {} got {}", draft.to, answer.start));
        }
        let mut routes = answer.addresses("Record-Route");
        routes.reverse();
        let dialog = Dialog {
            cseq: invite.cseq,
            invite,
            to_tag: answer.header("To").and_then(tag_of).unwrap_or_default(),
            routes,
            target: answer
                .header("Contact")
                .map_or(String::new(), |c| uri_of(c).to_owned()),
        };
        self.send(to, &dialog.ack());
        Ok(dialog)
    }

    /// An INVITE of its own to somebody, not yet sent.
    pub(crate) fn invite(&self, from: &str, to: &str) -> Draft {
        Draft::new("INVITE", from, to).contact(&self.contact())
    }
}

/// The request once more, with the answer to the first challenge that can be
/// answered; `None` where the response is no challenge.
pub(crate) fn authorize(draft: &Draft, response: &Text, account: &Account) -> Option<Draft> {
    let (asked, given) = match response.status() {
        Some(401) => ("WWW-Authenticate", "Authorization"),
        Some(407) => ("Proxy-Authenticate", "Proxy-Authorization"),
        _ => return None,
    };
    let challenge = response.all(asked).find_map(Challenge::read)?;
    let value = challenge.answer(account, &draft.method, &draft.uri, 1);
    Some(draft.again().with(given, &value))
}

impl Drop for Phone {
    fn drop(&mut self) {
        self.inner.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Inner {
    fn run(&self) {
        let mut buffer = vec![0; 65_535];
        while !self.ends.load(Ordering::Relaxed) {
            let Ok((n, from)) = self.socket.recv_from(&mut buffer) else {
                continue;
            };
            self.received.fetch_add(1, Ordering::Relaxed);
            self.received_bytes.fetch_add(n as u64, Ordering::Relaxed);
            let Some(mut text) = buffer.get(..n).and_then(Text::read) else {
                continue;
            };
            text.from = Some(from);
            let mut book = lock(&self.book);
            if text.status().is_some() {
                book.responses.push_back(text);
                if book.responses.len() > REMEMBERED_MAX {
                    book.responses.pop_front();
                }
            } else {
                if book.requests.len() < REMEMBERED_MAX {
                    book.requests.push(text.clone());
                }
                drop(book);
                // Whoever has its answer finds the request in the book.
                self.serve(&text, from);
            }
            self.news.notify_all();
        }
    }

    fn serve(&self, request: &Text, from: SocketAddr) {
        let manner = lock(&self.manner).clone();
        let say = |request: &Text, status: &str, tag: Option<&str>| {
            let bytes = request.answer(status, tag, Some(&self.contact));
            let _ = self.socket.send_to(&bytes, from);
        };
        match (request.method(), &manner) {
            ("ACK", _) | (_, Manner::Silent) => {}
            (_, Manner::Scripted(script)) => {
                for bytes in script(request) {
                    let _ = self.socket.send_to(&bytes, from);
                }
            }
            ("INVITE", Manner::Rings) => {
                say(request, "180 Ringing", Some("ringing"));
                let mut book = lock(&self.book);
                if book.ringing.len() < REMEMBERED_MAX {
                    book.ringing.push(request.clone());
                }
            }
            ("CANCEL", _) => {
                say(request, "200 OK", Some("ringing"));
                let mut book = lock(&self.book);
                let same = |r: &Text| r.header("Via") == request.header("Via");
                if let Some(at) = book.ringing.iter().position(same) {
                    say(
                        &book.ringing.remove(at),
                        "487 Request Terminated",
                        Some("ringing"),
                    );
                }
            }
            // A request that is repeated gets the same tag.
            _ => {
                let id = request.header("Call-ID").unwrap_or("");
                let tag: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
                say(request, "200 OK", Some(&format!("t{tag}")));
            }
        }
    }
}

/// Locks; a thread that panicked with the lock has left nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
