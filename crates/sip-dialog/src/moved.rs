//! An agent that is reached elsewhere than before.

use crate::agent::Text;
use crate::event::AgentKey;
use crate::user_agents::UserAgents;
use invariant::broken;

impl UserAgents {
    /// Says that an agent is reached at another contact, and names itself otherwise in its
    /// Vias: its connection was opened anew. Where the contact before is bound, the next
    /// REGISTER removes it. False where nothing is changed, because the contact is no SIP URI.
    pub fn move_agent(&mut self, agent: AgentKey, contact: &str, sent_by: &str) -> bool {
        let (contact, sent_by) = (contact.as_bytes(), sent_by.as_bytes());
        let Some(found) = self.agents.get(agent.0) else {
            return false;
        };
        let before = found.text(Text::Contact);
        if before == contact && found.text(Text::SentBy) == sent_by {
            return true;
        }
        let Some(texts) = found.moved(contact, sent_by) else {
            return false;
        };
        let is_left = found.is_bound && found.left.is_none();
        let left: Option<Box<[u8]>> = is_left.then(|| before.into());
        self.directory
            .remove(&self.agents, agent.0.slot, &self.random);
        let Some(found) = self.agents.get_mut(agent.0) else {
            return broken!("the agent was found just before", false);
        };
        found.put(texts);
        let left = left.or(found.left.take());
        // Where it is back at what is bound, nothing is to be removed.
        found.left = left.filter(|left| **left != *contact);
        self.directory.add(&self.agents, agent.0.slot, &self.random);
        true
    }
}
