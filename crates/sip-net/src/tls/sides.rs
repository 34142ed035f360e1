//! What the handshakes of a listener are made from, by where a client comes from.

use std::net::IpAddr;
use std::sync::Arc;

use super::TlsError;
use super::server::{ClientAuth, ServerSide, ServerTlsConfig};

/// A network whose clients are asked otherwise than all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientsOf {
    pub(super) addr: IpAddr,
    pub(super) prefix_len: u8,
    pub(super) auth: ClientAuth,
}

impl ClientsOf {
    fn has(&self, ip: IpAddr) -> bool {
        fn front(bits: u128, width: u32, len: u8) -> u128 {
            bits.checked_shr(width.saturating_sub(u32::from(len)))
                .unwrap_or(0)
        }
        let same = |width, a: u128, b: u128| {
            front(a, width, self.prefix_len) == front(b, width, self.prefix_len)
        };
        match (self.addr.to_canonical(), ip.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                same(32, u128::from(a.to_bits()), u128::from(b.to_bits()))
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => same(128, a.to_bits(), b.to_bits()),
            _ => false,
        }
    }
}

/// One side for each way in which clients are asked. All have the same keys of
/// tickets and the same memory of sessions, but no session of one resumes with
/// another.
pub(super) struct Sides {
    usual: Arc<ServerSide>,
    others: Vec<(ClientsOf, Arc<ServerSide>)>,
}

impl Sides {
    pub(super) fn new(settings: &ServerTlsConfig, before: Option<&Self>) -> Result<Self, TlsError> {
        let before = before.map(|before| &*before.usual);
        let usual = Arc::new(ServerSide::new(settings, settings.auth(), before)?);
        let mut made = vec![(settings.auth(), Arc::clone(&usual))];
        let mut others = Vec::new();
        for clients in settings.clients_of() {
            let auth = clients.auth;
            let side = match made.iter().find(|(asks, _)| *asks == auth) {
                Some((_, side)) => Arc::clone(side),
                None => {
                    let side = Arc::new(ServerSide::new(settings, auth, Some(&usual))?);
                    made.push((auth, Arc::clone(&side)));
                    side
                }
            };
            others.push((*clients, side));
        }
        Ok(Self { usual, others })
    }

    /// For a client that comes from here: the first network that it is in counts.
    pub(super) fn of(&self, ip: IpAddr) -> &Arc<ServerSide> {
        let other = self.others.iter().find(|(clients, _)| clients.has(ip));
        other.map_or(&self.usual, |(_, side)| side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        for (network, prefix_len, ip, has) in [
            ("192.0.2.0", 24, "192.0.2.255", true),
            ("192.0.2.0", 24, "192.0.3.0", false),
            ("192.0.2.77", 24, "192.0.2.1", true),
            ("192.0.2.1", 32, "192.0.2.1", true),
            ("192.0.2.1", 32, "192.0.2.2", false),
            ("0.0.0.0", 0, "203.0.113.9", true),
            ("0.0.0.0", 0, "2001:db8::1", false),
            ("192.0.2.0", 24, "::ffff:192.0.2.9", true),
            ("2001:db8::", 32, "2001:db8:ffff::1", true),
            ("2001:db8::", 32, "2001:db9::1", false),
            ("2001:db8::1", 128, "2001:db8::1", true),
            ("::", 0, "2001:db8::1", true),
            ("::", 0, "192.0.2.1", false),
        ] {
            let clients = ClientsOf {
                addr: network.parse().unwrap(),
                prefix_len,
                auth: ClientAuth::Off,
            };
            assert_eq!(
                clients.has(ip.parse().unwrap()),
                has,
                "{network}/{prefix_len} {ip}"
            );
        }
    }
}
