//! Header names and typed values, a file each.

mod auth_params;
mod contact;
mod cseq;
pub(crate) mod list;
mod name;
pub(crate) mod name_addr;
mod number;
mod params;
mod via;

pub use auth_params::{AuthParam, AuthParams, AuthValue};
pub use contact::{Contact, ContactAddr};
pub use cseq::CSeq;
pub use list::{Elements, elements};
pub use name::HeaderName;
pub(crate) use name::compact_form;
pub use name_addr::NameAddr;
pub use number::{delta_seconds, q_thousandths};
pub use params::{Param, Params};
pub use via::Via;
