//! Experiments: what is to be measured, of which servers, and what is to be drawn and said.
//!
//! An [`Experiment`] is what a file says. Its cases for one of the two forms are what is run;
//! a record of a run keeps the file's text, from which page and findings are made.

mod at;
mod case;
mod drawing;
mod experiment;
mod finding;
mod fragment;
mod pick;
mod published;

pub use at::At;
pub use case::{
    Agents, Authentication, Case, Connection, Flow, Load, Resumption, Role, Security, Setting,
    Suite, Transport,
};
pub use drawing::{Drawing, DrawingKind, RATE};
pub use experiment::{
    Axis, AxisValue, Experiment, Form, LoadRule, NotFor, Paper, PeakRule, Plan,
};
pub use finding::{Answer, By, CrossCheck, Finding, Interval, Verdict};
pub use fragment::{AgentsFragment, Fragment, SecurityFragment};
pub use pick::{Pick, Places};
pub use published::Published;
