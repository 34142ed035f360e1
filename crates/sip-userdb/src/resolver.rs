//! What the name of a store stands for.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::thread;

use tokio::sync::watch;

/// The addresses, or why there are none.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

/// How a name is resolved; it may block.
type Ask = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// Resolves one name, each time anew. The system's resolver blocks, for as long as its servers say
/// nothing, and cannot be called back. So it has a thread that nobody waits for at his end, and
/// however many ask at the same time there is one.
#[derive(Clone)]
pub(crate) struct Resolver {
    host: Rc<str>,
    port: u16,
    ask: Ask,
    under_way: Rc<RefCell<Option<watch::Receiver<Option<Found>>>>>,
}

impl Resolver {
    /// By the system's resolver.
    pub(crate) fn new(host: &str, port: u16) -> Self {
        Self::by(host, port, |host, port| {
            Ok((host, port).to_socket_addrs()?.collect())
        })
    }

    /// By another.
    pub(crate) fn by(host: &str, port: u16, ask: Ask) -> Self {
        Self {
            host: host.into(),
            port,
            ask,
            under_way: Rc::default(),
        }
    }

    /// The addresses. Who asks bounds the time that he waits.
    ///
    /// # Errors
    /// What the resolver says, or that there is no thread for it.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.host.parse() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let mut answer = self.answer()?;
        let found = match answer.wait_for(Option::is_some).await {
            Ok(found) => found.clone(),
            Err(_) => None,
        };
        match found {
            Some(Ok(addresses)) => Ok(addresses),
            Some(Err((kind, why))) => Err(io::Error::new(kind, why)),
            None => Err(io::Error::other("the resolver ended without an answer")),
        }
    }

    /// The answer that is under way, or else that to a question put now.
    fn answer(&self) -> io::Result<watch::Receiver<Option<Found>>> {
        let mut under_way = self.under_way.borrow_mut();
        if let Some(answer) = under_way.as_ref()
            && answer.borrow().is_none()
            && answer.has_changed().is_ok()
        {
            return Ok(answer.clone());
        }
        let (sender, answer) = watch::channel(None);
        let (host, port, ask) = (String::from(&*self.host), self.port, self.ask);
        thread::Builder::new()
            .name("resolver".to_owned())
            .spawn(move || {
                let found = ask(&host, port).map_err(|error| (error.kind(), error.to_string()));
                // Who asked may have gone away.
                let _ = sender.send(Some(found));
            })?;
        *under_way = Some(answer.clone());
        Ok(answer)
    }
}

impl fmt::Display for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    use super::*;

    /// How often it was asked, and whether it may answer.
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    static MAY_ANSWER: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

    fn slow(_: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        ASKED.fetch_add(1, Ordering::SeqCst);
        let (may, told) = &MAY_ANSWER;
        let _may = told.wait_while(may.lock().unwrap(), |may| !*may).unwrap();
        Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))])
    }

    /// A test that waited for the resolver, here or at the end of the runtime, would not end.
    #[test]
    fn a_resolver_that_says_nothing_is_asked_once_and_holds_nobody() {
        let runtime = || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap()
        };
        let resolver = Resolver::by("db.example.com", 5_432, slow);
        let first = runtime();
        first.block_on(async {
            for _ in 0..100 {
                let asked = tokio::time::timeout(Duration::from_millis(1), resolver.addresses());
                assert!(asked.await.is_err());
            }
        });
        drop(first);
        while ASKED.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
        let (may, told) = &MAY_ANSWER;
        *may.lock().unwrap() = true;
        told.notify_all();
        let second = runtime();
        let found = second.block_on(resolver.addresses()).unwrap();
        assert_eq!(found, [SocketAddr::from((Ipv4Addr::LOCALHOST, 5_432))]);
        // It may have moved since.
        second.block_on(resolver.addresses()).unwrap();
        assert!(ASKED.load(Ordering::SeqCst) >= 2);
    }

    #[test]
    fn what_the_resolver_says_against_it_is_told() {
        let resolver = Resolver::by("nowhere.example", 1, |_, _| {
            Err(io::Error::new(io::ErrorKind::NotFound, "no such name"))
        });
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        for _ in 0..2 {
            let error = runtime.block_on(resolver.addresses()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert_eq!(error.to_string(), "no such name");
        }
    }
}
