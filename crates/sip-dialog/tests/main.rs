//! User agents and their dialogs over wires without sockets. One program, so that what they share is
//! built once.

mod answers;
mod calls;
mod cancel;
mod catch_all;
mod common;
mod dialogs;
mod forks;
mod keeping;
mod refusals;
mod registration;
mod smime;
