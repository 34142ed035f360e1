//! Experiments: what is to be measured, of which servers, and what is to be drawn and said.

mod case;

pub use case::{
    Agents, Authentication, Case, Connection, Flow, Load, Resumption, Role, Security, Setting,
    Suite, Transport,
};
