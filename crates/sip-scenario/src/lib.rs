#![doc = include_str!("../README.md")]
//!
//! # Where it follows SIPp into its corners
//! The verdicts must be SIPp's, so its matching is kept as it is (3.6.1, as
//! observed from outside):
//! - a message belongs to the step at which the call stands or, past optional
//!   ones, to a later one; else to one of the optional ones just before, or to
//!   any earlier one with `optional="global"`. The call goes on behind that
//!   step, also where that means going back; but an optional one whose `next` is not
//!   followed, or leads to the first step, leaves the call where it stands, its pause too;
//! - a response without `response_txn` belongs to any method of a request that
//!   stands before it in the file;
//! - over UDP only the message received just before the last one sent is
//!   known as a retransmission, byte for byte, and answered by that last one;
//! - what is sent again goes on until a response, an ACK, PRACK, CANCEL or BYE
//!   comes that is expected behind it; until then nothing else is sent. After a
//!   provisional response to what is no INVITE it goes on every T2;
//! - the number 0 counts as unset, and prints as nothing; as the number of a line it is
//!   the first one all the same;
//! - a request received raises `[cseq]`, and the next one sent counts on from it;
//! - what the file holds besides is passed over: attributes without a meaning, text
//!   between elements, an `<action>` that does not come first. Each is a warning;
//! - `[last_*]` in the actions of a `<recv>` is still the message before, and `<index>` and
//!   `[branch]` in a text are of the step at which the call stands: the branch is that of the
//!   step before it;
//! - what `check_it` finds wrong in a `<recv>` or `<recvCmd>` fails the call when it is
//!   over, and not before; in any other step it only leaves out the rest of the actions;
//! - the actions of a `<send>` look at the message that was sent;
//! - a variable that holds a number or the outcome of a test is an empty text for
//!   `<strcmp>`, `<trim>` and `search_in="var"`, whatever a message shows of it;
//! - `[peer_tag_param]` is the tag of the last response that had one;
//! - the `timeout` that runs is that of the step at which the call stands, else
//!   `-recv_timeout`; that of a later step begins when the call stands there;
//! - what a `<pause>` says besides where to go on is done when it begins;
//! - a call that stands at a `<timewait>` is over: a closed connection does not fail it.
//!
//! # Where it does not
//! `<setdest>` takes addresses and no names but that of the remote host, and works over UDP.
//! `[file]` is read once. AKA is refused. `closecon`, `insert`,
//! `replace`, `pauserestore`, `<init>` and the label `_unexp.main` are refused.
//! `[authentication]` answers with the algorithms of `sip-auth`, so SHA-256
//! works and a challenge without a usable algorithm ends the run with the reason.
//! `stop_call` fails the call wherever it stands; SIPp forgets it outside of a
//! `<recv>`. A `<jump>` in a `<recv>` that is not optional jumps, where SIPp goes on behind
//! it. A `<recv>` that takes too long and has `ontimeout` ends what is being sent again,
//! which SIPp goes on with at the label. A call that sends without waiting leaves others their turn
//! after 64 messages. The carriage return of a line end in an injection file is no part of
//! its last field. Where an INVITE within a dialog fails and the call is aborted,
//! both ACK and BYE are sent; SIPp leaves out the ACK. A text ends after 65,535 bytes. A PING that is answered leaves its call alone; SIPp loses it.
#![forbid(unsafe_code)]

mod calendar;
mod calls;
mod compile;
mod distribution;
mod inject;
pub mod posix;
mod problem;
mod program;
mod random;
mod scan;
mod settings;
mod stats;
mod template;
mod value;
mod xml;

pub use calendar::Moment;
pub use calls::{CallPath, Calls, Event, NoCall, Outputs, SendFailure};
pub use compile::{CompileOptions, ReadFile};
pub use inject::{InjectionFile, Order};
pub use problem::Problem;
pub use program::{Program, Role, StepKind, StepLabel, Twin};
pub use settings::{Behaviors, Settings};
pub use stats::{Classes, Counter, Spread, Stats, StepCounts};
