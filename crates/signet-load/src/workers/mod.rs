//! Several generators under one command: a controller cuts a load into parts, lets a
//! worker on each of several machines drive one, all from the same moment on, and puts
//! together what they found out.
//!
//! ```text
//! controller                      worker
//!   hello              ->
//!                      <-   hello, or refused
//!   job                ->                      a part of the load
//!                      <-   accepted, or refused
//!                      <-   tick, tick, ...    agents are brought up
//!                      <-   prepared
//!   ping               ->                      until the clocks' distance is known
//!                      <-   pong
//!   start              ->                      at a time of the worker's clock
//!                      <-   tick, second, ...
//!                      <-   done               the result of the part
//! ```
//!
//! `wire` has these messages, `session` their order, `cut` the parts, `clocks` the
//! distance of two clocks and `merge` what becomes of the results: none of them does
//! any I/O. `link`, `token`, `member`, `controller` and `worker` do.
//!
//! A worker does what a controller asks for, and that is to load a server: whoever
//! could ask it could attack anybody. Why only the right one can, and to whom, is in
//! `docs/decisions/0140-who-may-use-a-worker.md`.

mod address;
mod allowed;
mod clocks;
mod controller;
pub(crate) mod cut;
mod link;
mod member;
pub(crate) mod merge;
mod session;
mod token;
mod wire;
mod worker;

pub use address::Address;
pub use allowed::Allowed;
pub use controller::Fleet;
pub(crate) use controller::{Gathered, Part, gather};
pub(crate) use worker::serve;
pub use worker::{ControlledBy, WorkerOptions};
