//! Keys and signals, from threads that wait for them.

use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, channel};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use sip_net::Waker;

/// What somebody wants of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// No more calls; a second time, no calls at all.
    Quit,
    /// The end, at once.
    Stop,
    /// The rate, by so many steps of `-rate_scale`.
    Faster(i32),
    /// No new calls for a while, or again.
    Pause,
    /// The screens, into their file.
    Dump,
    /// Another screen, from 1 to 9.
    Screen(u8),
}

/// A terminal that hands on each key at once, without showing it; as it was
/// when this is dropped.
pub struct Keyboard(Termios);

impl Keyboard {
    /// `None` where there is no terminal, or it does not want to.
    pub fn take() -> Option<Self> {
        let stdin = std::io::stdin();
        // One that another job has is not ours to change.
        if tcgetpgrp(&stdin).ok()? != getpgrp() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut keys = before.clone();
        keys.local_flags -= LocalFlags::ICANON | LocalFlags::ECHO;
        tcsetattr(&stdin, SetArg::TCSANOW, &keys).ok()?;
        Some(Self(before))
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // A terminal that is gone need not be as it was.
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &self.0);
    }
}

/// Blocks the signals that end a process, so that a thread can wait for them.
/// To be called before any other thread is started.
pub fn hold_signals() -> Option<SigSet> {
    let mut signals = SigSet::empty();
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ] {
        signals.add(signal);
    }
    signals.thread_block().ok().map(|()| signals)
}

/// Starts the threads.
pub(crate) fn listen(signals: Option<SigSet>, reads_keys: bool, waker: &Waker) -> Receiver<Wish> {
    let (sender, wishes) = channel();
    if let Some(signals) = signals {
        let (sender, waker) = (sender.clone(), waker.clone());
        spawn("signals", move || {
            wait_for_signals(&signals, &sender, &waker)
        });
    }
    if reads_keys {
        let waker = waker.clone();
        spawn("keys", move || read_keys(&sender, &waker));
    }
    wishes
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    // Without the thread the run goes on, and no key is read.
    let _ = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body);
}

fn wait_for_signals(signals: &SigSet, sender: &Sender<Wish>, waker: &Waker) {
    while let Ok(signal) = signals.wait() {
        let wish = match signal {
            // SIPp's only soft one. Whoever sends another, as `timeout` does, waits for the end.
            Signal::SIGUSR1 => Wish::Quit,
            Signal::SIGUSR2 => Wish::Dump,
            _ => Wish::Stop,
        };
        if sender.send(wish).is_err() {
            return;
        }
        waker.wake();
    }
}

fn read_keys(sender: &Sender<Wish>, waker: &Waker) {
    let mut key = [0];
    while let Ok(1) = std::io::stdin().read(&mut key) {
        let wish = match &key {
            b"q" => Wish::Quit,
            b"Q" => Wish::Stop,
            b"+" => Wish::Faster(1),
            b"-" => Wish::Faster(-1),
            b"*" => Wish::Faster(10),
            b"/" => Wish::Faster(-10),
            b"p" => Wish::Pause,
            b"s" => Wish::Dump,
            [digit @ b'1'..=b'9'] => Wish::Screen(digit - b'0'),
            _ => continue,
        };
        if sender.send(wish).is_err() {
            return;
        }
        waker.wake();
    }
}
