//! Which users have changed: `LISTEN signet_users`.
//!
//! A notification's payload is `{"user": "alice", "realm": "example.com"}`; an empty one, or
//! one that cannot be read, means that anything may have changed. So does a connection that
//! listens anew: what was announced before was missed. One that was lost means nothing yet:
//! while the database is away, what is remembered of users is all that there is.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sip_auth::Subject;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Config};

use super::login::{LoggedIn, fault, log_in};
use crate::Changed;
use crate::fault::Fault;
use crate::net::Connector;

/// The most changes that wait to be taken. Beyond it they become [`Changed::Everything`].
const WAITING_MAX: usize = 1_024;

/// How long after a connection the next is made: this at first, twice as long each time until
/// one has listened for as long as the longest pause.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Listens, from the first time that it is asked.
pub(crate) struct Listener {
    heard: Rc<Heard>,
    task: RefCell<Option<AbortHandle>>,
}

#[derive(Default)]
struct Heard {
    waiting: RefCell<VecDeque<Changed>>,
    something: Notify,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut() {
            task.abort();
        }
    }
}

impl Listener {
    /// Listens to nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            heard: Rc::default(),
            task: RefCell::default(),
        }
    }

    /// The next change. Dropping the future loses none.
    pub(crate) async fn next(&self, connector: &Connector, config: &Config) -> Changed {
        if self.task.borrow().is_none() {
            let (connector, config) = (connector.clone(), config.clone());
            let heard = Rc::clone(&self.heard);
            let task = tokio::task::spawn_local(keep_listening(connector, config, heard));
            *self.task.borrow_mut() = Some(task.abort_handle());
        }
        loop {
            if let Some(changed) = self.heard.waiting.borrow_mut().pop_front() {
                return changed;
            }
            self.heard.something.notified().await;
        }
    }
}

impl Heard {
    fn push(&self, changed: Changed) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= WAITING_MAX || changed == Changed::Everything {
            waiting.clear();
            waiting.push_back(Changed::Everything);
        } else {
            waiting.push_back(changed);
        }
        self.something.notify_one();
    }
}

/// Listens until it is ended. The log says once that it cannot, and again after it could.
async fn keep_listening(connector: Connector, config: Config, heard: Rc<Heard>) {
    let mut backoff = BACKOFF_MIN;
    let mut is_known_broken = false;
    loop {
        match listen(&connector, &config, &heard).await {
            Ok(lasted) => {
                is_known_broken = false;
                if lasted >= BACKOFF_MAX {
                    backoff = BACKOFF_MIN;
                }
            }
            Err(fault) if !is_known_broken => {
                is_known_broken = true;
                let why = fault.what();
                tracing::warn!(
                    "the PostgreSQL at {connector} announces no changes ({why}): changed users are \
                     known when what is kept of them expires"
                );
            }
            Err(_) => {}
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// Listens until the connection ends, and says how long; an error where it never did. A
/// hot standby, for one, lets us log in and has no LISTEN.
async fn listen(connector: &Connector, config: &Config, heard: &Heard) -> Result<Duration, Fault> {
    let LoggedIn {
        client,
        mut connection,
        ..
    } = log_in(connector, config).await?;
    let mut messages = pin!(async {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    heard.push(read(notification.payload()));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return fault(&error),
                None => return Fault::Unreachable("the store closed the connection".to_owned()),
            }
        }
    });
    // The connection moves while the answer is waited for.
    let begun = tokio::select! {
        ended = &mut messages => return Err(ended),
        begun = connector.in_time(async {
            let begun = client.batch_execute("LISTEN signet_users").await;
            begun.map_err(|error| fault(&error))
        }) => begun,
    };
    begun?;
    let began = Instant::now();
    heard.push(Changed::Everything);
    // The client is kept until then: without it the connection would end.
    let fault = messages.await;
    let why = fault.what();
    tracing::debug!("the PostgreSQL at {connector} no longer announces changes: {why}");
    Ok(began.elapsed())
}

fn read(payload: &str) -> Changed {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(payload) else {
        return Changed::Everything;
    };
    let text = |name: &str| value.get(name).and_then(serde_json::Value::as_str);
    match (text("user"), text("realm")) {
        (Some(user), Some(realm)) => Changed::User(Subject::new(user.as_bytes(), Arc::from(realm))),
        _ => Changed::Everything,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_cannot_be_read_means_everything() {
        let alice = Changed::User(Subject::new(b"alice", Arc::from("x.org")));
        assert_eq!(read(r#"{"user": "alice", "realm": "x.org"}"#), alice);
        for payload in [
            "",
            "{}",
            "alice",
            r#"{"user": "alice"}"#,
            r#"{"user": 1, "realm": ""}"#,
        ] {
            assert_eq!(read(payload), Changed::Everything, "{payload}");
        }
    }

    #[test]
    fn more_than_can_wait_is_everything() {
        let heard = Heard::default();
        let user =
            |n: usize| Changed::User(Subject::new(n.to_string().as_bytes(), Arc::from("x.org")));
        for n in 0..WAITING_MAX {
            heard.push(user(n));
        }
        assert_eq!(heard.waiting.borrow().len(), WAITING_MAX);
        heard.push(user(0));
        assert_eq!(*heard.waiting.borrow(), [Changed::Everything]);
        heard.push(user(1));
        assert_eq!(heard.waiting.borrow().len(), 2);
    }
}
