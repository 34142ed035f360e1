//! How calls end, whoever began them.

use crate::call::State;
use crate::event::{CallKey, Cause, Event};
use crate::slots::Key;
use crate::user_agents::UserAgents;
use invariant::broken;

impl UserAgents {
    /// A call that was not established: tells, and forgets it.
    pub(crate) fn fail_call(&mut self, key: Key, cause: Cause) {
        self.push(Event::Failed {
            call: CallKey(key),
            cause,
        });
        self.drop_call(key);
    }

    /// A call that was established: tells, and forgets it, or keeps what 2xx
    /// of forks may yet need.
    pub(crate) fn end_call(&mut self, key: Key, cause: Cause) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("only a call in the table ends");
        };
        if call.state == State::Over {
            return;
        }
        call.state = State::Over;
        let timer = std::mem::take(&mut call.timer);
        let is_fork = call.is_fork;
        let invite_client = call.invite_client;
        let tag = call.tag;
        self.wheel.cancel(timer);
        if !is_fork {
            self.push(Event::Ended {
                call: CallKey(key),
                cause,
            });
        }
        // RFC 3261 13.2.2.4: "The UAC core considers the INVITE transaction completed 64*T1 seconds after
        // the reception of the first 2xx response."
        let lingers = if is_fork {
            let parent = self.calls.at(tag.slot());
            parent.is_some_and(|parent| parent.tag == tag && parent.invite_client.is_some())
        } else {
            invite_client.is_some()
        };
        if lingers && self.config.linger {
            return;
        }
        if let Some(client) = invite_client {
            self.transactions.release_client(client);
        }
        self.drop_call(key);
    }

    /// The transaction of our INVITE is over.
    pub(crate) fn forget_invite_client(&mut self, key: Key) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("the call of an INVITE was found just before");
        };
        call.invite_client = None;
        let is_over = call.state == State::Over;
        let forks = std::mem::take(&mut call.forks);
        for &(_, fork) in &forks {
            if self
                .calls
                .get(fork)
                .is_some_and(|fork| fork.state == State::Over)
            {
                self.drop_call(fork);
            }
        }
        if is_over {
            self.drop_call(key);
        } else if let Some(call) = self.calls.get_mut(key) {
            // Requests within a fork's dialog find it through these.
            call.forks = forks;
        } else {
            broken!("forks go without the call that they belong to");
        }
    }

    /// Forgets a call without a word.
    pub(crate) fn drop_call(&mut self, key: Key) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("only a call in the table is dropped");
        };
        let (next, previous, agent) = (call.next, call.previous, call.agent);
        let timer = std::mem::take(&mut call.timer);
        let invite = call.invite.take();
        let invite_hash = call.invite_hash;
        self.wheel.cancel(timer);
        self.directory.remove_invite(invite_hash, key);
        if let Some(invite) = invite {
            self.pool.recycle(invite);
        }
        if let Some(call) = self.calls.neighbour_mut(next) {
            call.previous = previous;
        }
        if let Some(call) = self.calls.neighbour_mut(previous) {
            call.next = next;
        } else if let Some(agent) = agent.and_then(|agent| self.agents.get_mut(agent)) {
            agent.first_call = next;
        } else {
            broken!("a call has an agent, which stays as long as it");
        }
        self.calls.remove(key);
    }
}
