//! What a worker that falls behind tells its sockets.

use super::{Net, Port};
use crate::sys::Shed;

impl Net {
    /// Messages received so far.
    pub fn counters_in(&self) -> u64 {
        self.shared.counters.messages_in()
    }

    /// Whether the last turn left nothing to read.
    pub fn is_drained(&self) -> bool {
        self.unfinished_reads.is_empty()
    }

    /// Whether it is to be known how long datagrams wait ([`Net::waiting_ms`]). It
    /// costs something for each of them.
    pub fn time_datagrams(&mut self, is_on: bool) {
        for listener in &mut self.listeners {
            if let Port::Udp(port) = &mut listener.port {
                port.set_stamps(is_on);
            }
        }
    }

    /// How long the datagrams that were read last had waited, where only such are left
    /// to be read, and it is known.
    pub fn waiting_ms(&self) -> Option<u64> {
        let mut longest_ms = None;
        let mut behind = 0;
        for listener in &self.listeners {
            if let (true, Port::Udp(port)) = (listener.has_unfinished_read, &listener.port) {
                behind += 1;
                longest_ms = longest_ms.max(Some(port.waiting_ms()?));
            }
        }
        longest_ms.filter(|_| behind == self.unfinished_reads.len())
    }

    /// Lets the kernel drop a share of the requests that begin something, before
    /// they cost anything; `None` for no more. Only datagrams: what comes by a
    /// stream must be answered.
    pub fn shed(&mut self, shed: Option<Shed>) {
        for listener in &mut self.listeners {
            if let Port::Udp(port) = &mut listener.port {
                port.shed(shed.as_ref());
            }
        }
    }
}
