//! The price of whole tunnels between two network namespaces: what they carry, what they add to a
//! round trip, and what they take of a core.

mod driver;
mod kind;
mod link;
mod openvpn;
mod page;
pub mod probe;
mod record;
mod run;
mod strongswan;
mod stunnel;
mod text;
mod visit;
mod wireguard;
mod xfrm;

pub use kind::{TUNNELS, Tunnel, among, choose};
pub use page::render;
pub(crate) use page::{HEAD, charts, rows};
pub use record::{FORMAT, TunnelRecord, TunnelResult, VERSION, figure, read, write};
pub use run::{Ended, Task, run};
pub use text::told;
