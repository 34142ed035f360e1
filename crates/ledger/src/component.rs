//! What CPU time is told for.

/// A part of the server that CPU time is told for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// System calls of the workers' sockets: receiving, sending, accepting, waiting.
    Kernel,
    /// Reading and writing SIP messages, transactions, routes, registrations; on a worker all
    /// that is no other component's.
    SipCore,
    /// Records of TLS opened and made.
    TlsRecords,
    /// Handshakes of TLS, on workers and on threads of their own.
    TlsHandshakes,
    /// Challenges made, digests and nonces checked.
    Authentication,
    /// Users looked up and registrations stored.
    Store,
    /// Names resolved.
    Resolver,
    /// The start, figures, reloads, the log of messages.
    Administration,
    /// Threads that are none of these.
    Other,
}

impl Component {
    /// How many there are.
    pub const COUNT: usize = 9;
    /// All of them, in the order of tables.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Kernel,
        Self::SipCore,
        Self::TlsRecords,
        Self::TlsHandshakes,
        Self::Authentication,
        Self::Store,
        Self::Resolver,
        Self::Administration,
        Self::Other,
    ];

    /// Its name among the figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::SipCore => "sip_core",
            Self::TlsRecords => "tls_records",
            Self::TlsHandshakes => "tls_handshakes",
            Self::Authentication => "authentication",
            Self::Store => "store",
            Self::Resolver => "resolver",
            Self::Administration => "administration",
            Self::Other => "other",
        }
    }
}

counters::counters! {
    /// CPU time by component.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CpuTimes {
        /// CPU time by the part of the server that used it.
        pub us: [u64; Component::COUNT] = counter("signet_cpu_microseconds_total", component: Component::ALL.map(Component::name)),
    }
}

impl CpuTimes {
    /// A component's, in microseconds.
    pub fn of(&self, component: Component) -> u64 {
        self.us.get(component as usize).copied().unwrap_or_default()
    }

    /// So many microseconds more are a component's.
    pub fn add(&mut self, component: Component, us: u64) {
        if let Some(sum) = self.us.get_mut(component as usize) {
            *sum += us;
        }
    }

    /// That of all components, in microseconds.
    pub fn sum(&self) -> u64 {
        self.us.iter().sum()
    }
}
