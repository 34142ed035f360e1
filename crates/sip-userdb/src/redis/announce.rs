//! What Redis says has changed, over a connection of its own (pub/sub).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use sip_auth::Subject;
use sip_lookup::BatchFailure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::resp::{self, Reply};
use super::{Login, key, unexpected};
use crate::Changed;
use crate::names::ABSENT_USER;
use crate::net::Stream;

/// The channel on which changed users are published, each as its key without the prefix;
/// anything else says that any may have changed.
pub(super) const CHANNEL: &[u8] = b"signet:users";

/// Announcements that nobody has taken yet; more become one for all users.
const QUEUE_MAX: usize = 1_024;

/// The most bytes of an announcement that is not whole.
const INPUT_MAX: usize = 64 << 10;

/// How long after a connection the next is made: this at first, twice as long each time until
/// one has listened for a while.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
const STEADY: Duration = Duration::from_secs(1);

/// Announcements that wait to be taken.
#[derive(Default)]
pub(super) struct Announcements {
    queue: RefCell<VecDeque<Changed>>,
    came: Notify,
}

impl Announcements {
    /// The next one.
    pub(super) async fn next(&self) -> Changed {
        loop {
            if let Some(changed) = self.queue.borrow_mut().pop_front() {
                return changed;
            }
            self.came.notified().await;
        }
    }

    fn push(&self, changed: Changed) {
        let mut queue = self.queue.borrow_mut();
        if changed == Changed::Everything || queue.len() >= QUEUE_MAX {
            // It says all that waits and more.
            queue.clear();
            queue.push_back(Changed::Everything);
        } else {
            queue.push_back(changed);
        }
        self.came.notify_one();
    }
}

/// Listens until it is ended. After each subscription, the first too, it announces
/// everything: what was published before has not been heard.
pub(super) async fn listen(
    login: Rc<Login>,
    with_keyspace_events: bool,
    announcements: Rc<Announcements>,
) {
    let mut pause = RETRY_MIN;
    let mut is_known_broken = false;
    loop {
        match subscribe(&login, with_keyspace_events).await {
            Ok((stream, input)) => {
                let began = Instant::now();
                is_known_broken = false;
                announcements.push(Changed::Everything);
                let why = receive(stream, input, &announcements).await;
                if began.elapsed() >= STEADY {
                    pause = RETRY_MIN;
                }
                tracing::debug!("{login} no longer announces changes: {why}");
            }
            Err(why) if !is_known_broken => {
                is_known_broken = true;
                tracing::warn!(
                    "{login} announces no changes ({}): changed users are known when what is \
                     kept of them expires",
                    text_of(&why)
                );
            }
            Err(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

/// Connects and subscribes; what has come meanwhile is in the input.
///
/// Somebody whom nobody knows is asked for first. A server that loads its data, or has lost its
/// master, takes subscriptions and answers no question: what is remembered of users is all that
/// there is then, and must not be thrown away for what may have been missed.
async fn subscribe(
    login: &Login,
    with_keyspace_events: bool,
) -> Result<(Stream, Vec<u8>), BatchFailure> {
    let mut stream = login.begin().await?;
    let mut commands = Vec::new();
    let nobody = Subject::new(ABSENT_USER.as_bytes(), "".into());
    resp::write(&[b"MGET", &key::of(&nobody)], &mut commands);
    resp::write(&[b"SUBSCRIBE", CHANNEL], &mut commands);
    let mut confirmations = 1;
    if with_keyspace_events {
        // The channel of an event ends with its key.
        let mut pattern = keyspace_prefix(login.database);
        pattern.extend_from_slice(key::PREFIX);
        pattern.push(b'*');
        resp::write(&[b"PSUBSCRIBE", &pattern], &mut commands);
        confirmations += 1;
    }
    let gone = |error: std::io::Error| BatchFailure::Unreachable(error.to_string());
    stream.write_all(&commands).await.map_err(gone)?;
    stream.flush().await.map_err(gone)?;
    let mut input = Vec::new();
    let patience = login.connector.timeout();
    let mut answer = async || {
        tokio::time::timeout(patience, next(&mut stream, &mut input))
            .await
            .map_err(|_| BatchFailure::TimedOut)?
            .map_err(BatchFailure::Unreachable)
    };
    match answer().await? {
        Reply::Array(Some(_)) => {}
        reply => return Err(unexpected("MGET", reply)),
    }
    while confirmations > 0 {
        match answer().await? {
            Reply::Error(error) => return Err(BatchFailure::Refused(error)),
            // Announcements between two confirmations are covered by what follows them.
            Reply::Array(Some(items)) => match items.first() {
                Some(Reply::Bulk(Some(kind))) if kind.ends_with(b"subscribe") => {
                    confirmations -= 1;
                }
                _ => {}
            },
            _ => return Err(BatchFailure::Refused("no answer to SUBSCRIBE".to_owned())),
        }
    }
    Ok((stream, input))
}

/// Takes announcements until the connection ends; says why.
async fn receive(mut stream: Stream, mut input: Vec<u8>, announcements: &Announcements) -> String {
    loop {
        match next(&mut stream, &mut input).await {
            Ok(reply) => {
                if let Some(changed) = read(&reply) {
                    announcements.push(changed);
                }
            }
            Err(why) => return why,
        }
    }
}

/// What a push says has changed.
fn read(push: &Reply) -> Option<Changed> {
    let Reply::Array(Some(items)) = push else {
        return Some(Changed::Everything);
    };
    let mut strings = items.iter().map(|item| match item {
        Reply::Bulk(Some(bytes)) => bytes.as_slice(),
        _ => b"",
    });
    let subject = match (strings.next()?, strings.next()?, strings.next()?) {
        (b"message", CHANNEL, name) => key::read_name(name),
        (b"pmessage", _, channel) => {
            let at = channel.iter().position(|&byte| byte == b':')?;
            key::read(channel.get(at + 1..)?)
        }
        // Confirmations.
        _ => return None,
    };
    Some(subject.map_or(Changed::Everything, Changed::User))
}

fn keyspace_prefix(database: u32) -> Vec<u8> {
    format!("__keyspace@{database}__:").into_bytes()
}

/// The next reply.
async fn next(stream: &mut Stream, input: &mut Vec<u8>) -> Result<Reply, String> {
    loop {
        if let Some((reply, len)) = resp::read(input)? {
            input.drain(..len);
            return Ok(reply);
        }
        if input.len() > INPUT_MAX {
            return Err(format!("more than {INPUT_MAX} bytes in one announcement"));
        }
        match stream.read_buf(input).await {
            Ok(0) => return Err("the store closed the connection".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn text_of(failure: &BatchFailure) -> &str {
    match failure {
        BatchFailure::Unreachable(why)
        | BatchFailure::LogInRefused(why)
        | BatchFailure::Refused(why)
        | BatchFailure::Ended(why)
        | BatchFailure::Unusable(why)
        | BatchFailure::Cancelled(why) => why,
        BatchFailure::TimedOut => "no answer in time",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use zeroize::Zeroizing;

    fn push(parts: &[&[u8]]) -> Reply {
        Reply::Array(Some(
            parts
                .iter()
                .map(|part| Reply::Bulk(Some(Zeroizing::new(part.to_vec()))))
                .collect(),
        ))
    }

    #[test]
    fn announcements_name_a_user_or_everything() {
        let alice = Some(Changed::User(Subject::new(b"alice", "a.org".into())));
        assert_eq!(read(&push(&[b"message", CHANNEL, b"a.org:alice"])), alice);
        let event: &[&[u8]] = &[
            b"pmessage",
            b"__keyspace@0__:signet:user:*",
            b"__keyspace@0__:signet:user:a.org:alice",
            b"set",
        ];
        assert_eq!(read(&push(event)), alice);
        for unclear in [
            push(&[b"message", CHANNEL, b"*"]),
            push(&[b"message", CHANNEL, b""]),
            Reply::Integer(1),
        ] {
            assert_eq!(read(&unclear), Some(Changed::Everything));
        }
        assert_eq!(read(&push(&[b"subscribe", CHANNEL, b""])), None);
    }

    #[tokio::test]
    async fn what_nobody_takes_becomes_one_for_all() {
        let announcements = Announcements::default();
        let user = |n: usize| Changed::User(Subject::new(n.to_string().as_bytes(), "a.org".into()));
        for n in 0..QUEUE_MAX {
            announcements.push(user(n));
        }
        assert_eq!(announcements.next().await, user(0));
        announcements.push(user(1));
        announcements.push(user(2));
        assert_eq!(announcements.next().await, Changed::Everything);
        assert!(announcements.queue.borrow().is_empty());
    }
}
