//! A run of an experiment: what is measured, one after the other, and kept.
//!
//! Each measurement has a server that has just started, on a core of its own; the record is
//! written after each, so that a run that is cut off goes on where it was.

mod bound;
mod checks;
mod edge;
mod estimate;
mod file;
mod hold;
mod leftover;
mod load;
mod machine;
mod order;
mod peak;
mod profiled;
mod scene;
mod session;
mod stop;
mod task;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use estimate::{Remaining, said};
pub use file::RecordFile;
pub use order::{Repeats, Step, is_of, steps};
pub use stop::Stop;
pub use task::{Choice, Lengths, Task};

use crate::Error;
use crate::system::Watched;
use session::Session;

/// The record in the folder of a run.
pub const RECORD: &str = "record.json";

/// How an experiment is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The program that is the server `signet`, the load, and the relay before the database.
    pub signet: PathBuf,
    /// What the order of cases is drawn from.
    pub seed: u64,
    /// The folder for record and logs.
    pub out: PathBuf,
    /// Whether to go on with the record that is there.
    pub is_resumed: bool,
    /// The first of its ports on 127.0.0.1.
    pub port: u16,
    /// A server by its address, and what its results are listed under, in the place of the
    /// task's systems.
    pub to: Option<(String, SocketAddr)>,
    /// Processes of that server.
    pub watched: Vec<Watched>,
    /// Whether stacks are drawn where CPU time is taken apart, in `flame/`.
    pub has_flame: bool,
    /// Whether the server has a namespace of the network of its own, which needs root.
    pub has_namespaces: bool,
    /// The command line, for the record.
    pub command: String,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All was measured, or there is a reason why not.
    Whole {
        /// What was not.
        missed: usize,
    },
    /// The end was asked for.
    Interrupted,
}

/// Runs an experiment, and says on the standard error what it does.
///
/// Call it from the main thread: what it starts ends with the thread that started it.
///
/// # Errors
/// What is missing, before anything is started; later, a record that cannot be written.
pub fn run(task: &Task, options: &Options) -> Result<Ended, Error> {
    let mut session = Session::open(task, options)?;
    let ended = session.measure_all();
    // What runs ends before the last word is said.
    let file = session.close();
    let path = file.path().display();
    match &ended {
        Ok(Ended::Whole { missed: 0 }) => say(&format!("all measured: {path}")),
        Ok(Ended::Whole { missed }) => say(&format!(
            "{path} has it all but {missed}, each with its reason"
        )),
        Ok(Ended::Interrupted) => say(&format!(
            "interrupted; what was measured is in {path}, and the same command with --resume goes on"
        )),
        Err(_) => {}
    }
    ended
}

/// A line for whoever looks on.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "signet bed: {line}");
}
