//! The operator is told of gateways that are passed over, and of those that come back.

use std::net::SocketAddr;

use sip_engine::gateways::Change;
use sip_msg::Transport;

/// A line for each change of an address; whichever worker finds it out tells it.
pub(super) fn log(transport: Transport, addr: SocketAddr, name: &str, change: Change) {
    let transport = transport.uri_name();
    match change {
        Change::PassedOver(why) => tracing::warn!(
            gateway = name,
            address = %addr,
            transport,
            why = why.name(),
            "a gateway is passed over: {}; `signet gateways` shows it",
            why.text()
        ),
        Change::Returned => {
            tracing::info!(gateway = name, address = %addr, transport, "a gateway is used again");
        }
    }
}
