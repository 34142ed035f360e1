//! Experiments of `kind = "prices"`: packets are priced, tunnels are measured, and what the paper
//! found is answered.

mod answer;
mod check;
mod page;
mod record;
mod run;

pub use answer::{Answer, answer};
pub use check::open;
pub use page::render;
pub use record::{FORMAT, PricesRecord, VERSION, read, report};
pub use run::{Ended, Task, estimate_s, run};
