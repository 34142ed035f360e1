//! What goes between the shard and the media engines: questions, datagrams and answers.

use sip_media::{Ask, Change, Failure};

use crate::{Environment, Sockets, Worker};

impl<E: Environment> Worker<E> {
    /// Asks an engine for the shard, or tells one that a call is over.
    pub(crate) fn ask_engine(&mut self, park: Option<sip_engine::ParkId>, ask: Box<Ask>) {
        let waiter = park.map(|park| park.0);
        self.parts.media.ask(self.now.mono_ms, waiter, ask);
    }

    /// Does what is due at the engines.
    pub(crate) fn look_after_engines(&mut self) {
        let due_ms = self.parts.media.next_deadline_ms();
        if due_ms.is_some_and(|due_ms| due_ms <= self.now.mono_ms) {
            self.parts.media.handle_timers(self.now.mono_ms);
        }
    }

    /// Gives the shard what engines have answered.
    pub(crate) fn take_media(&mut self) {
        while let Some(answered) = self.parts.media.poll_answer() {
            self.is_dirty = true;
            if let Err(Failure::Refused(words)) = &answered.result {
                tracing::debug!(words = &**words, "a media engine refuses what it is asked");
            }
            let (shard, out) = (&mut self.parts.shard, &mut self.outputs);
            shard.handle_media(self.now, answered, out);
        }
    }

    /// Sends what is for the engines, and tells what has become of them.
    pub(crate) fn send_to_engines(&mut self, sockets: &mut E::Sockets) {
        while let Some(sent) = self.parts.media.poll_transmit() {
            sockets.send_to_engine(sent.to, &sent.bytes);
        }
        while let Some(change) = self.parts.media.poll_change() {
            self.is_dirty = true;
            log(change);
        }
    }

    /// The settings have changed, and so perhaps the engines.
    pub(crate) fn reload_engines(&mut self, sockets: &mut E::Sockets) {
        let media = self.parts.shard.settings().media.clone();
        let config = media.map(|media| media.client.clone()).unwrap_or_default();
        sockets.keep_engines(&config.engines);
        // By the time of the turn before: this one has not begun to wait.
        self.parts.media.reload(self.now.mono_ms, config);
    }
}

/// A line for each change of an engine; whichever worker finds it out tells it.
fn log(change: Change) {
    let address = change.address;
    match change.why {
        Some(why) => tracing::warn!(
            engine = %address,
            why = why.name(),
            "a media engine is gone: {}; `signet media` shows it",
            why.text()
        ),
        None => tracing::info!(engine = %address, "a media engine is used again"),
    }
}
