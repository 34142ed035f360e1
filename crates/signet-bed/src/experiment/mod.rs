//! Experiments: what is to be measured, of which servers, and what is to be drawn and said.
//!
//! An [`Experiment`] is what a file says. Its cases for one of the two forms are what is run;
//! a record of a run keeps the file's text, from which page and findings are made.

mod answer;
mod at;
mod case;
mod check;
mod cross_check;
mod drawing;
mod expand;
mod expected;
mod figures;
mod file;
mod finding;
mod found;
mod fragment;
mod library;
mod noise;
mod pairs;
mod pick;
mod prices;
mod published;
mod settings;

pub use at::At;
pub use case::{
    Agents, Authentication, Case, Connection, Flow, Load, Resumption, Role, Security, Setting,
    Suite, Transport,
};
pub use check::SYSTEMS;
pub use cross_check::{Checked, CheckedRow, DrawnOut, Outside};
pub use drawing::{Drawing, DrawingKind, RATE};
pub(crate) use figures::resolution;
pub use figures::{COMPONENTS, Words, in_words, is_of_profile, number, value};
pub(crate) use file::SPREAD_MAX;
pub use file::{Axis, AxisValue, Experiment, Form, LoadRule, NotFor, Paper, PeakRule, Plan};
pub use finding::{Answer, By, CommonRates, CrossCheck, Finding, Interval, Verdict};
pub(crate) use found::{
    Found, Least, RESOLUTION, UNDER_WAY_MAX, counted, found, geometric_mean, least, median,
};
pub use fragment::{AgentsFragment, Fragment, SecurityFragment};
pub use library::SHIPPED;
pub(crate) use noise::Noise;
pub use pick::{Pick, Places};
pub use prices::{
    Packets, PriceFigure, PriceFinding, PricePick, PricesExperiment, PricesPlan, SHIPPED_PRICES,
    Tunnels,
};
pub use published::Published;
