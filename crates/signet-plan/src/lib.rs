#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod check;
pub mod demand;
pub mod drive;
pub mod erlang;
pub mod event;
pub mod fit;
pub mod machine;
pub mod mixtures;
mod page;
pub mod plan;
pub mod profile;
pub mod rates;
pub mod saving;
#[cfg(test)]
mod testing;
mod text;
mod widen;

pub use demand::Demand;
pub use page::page;
pub use plan::{Plan, Refusal, plan};
pub use profile::Profile;
pub use text::text;
pub use widen::Widening;
