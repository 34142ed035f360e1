//! How a run ends before or against its will.

/// SIPp's exit codes.
pub mod exit {
    /// Every call went through.
    pub const OK: u8 = 0;
    /// A call failed; also a scenario or a command line that is refused.
    pub const FAILED: u8 = 1;
    /// The scenario stopped the run at once; or the time was over, or somebody
    /// stopped it, before any call went through.
    pub const INTERNAL: u8 = 97;
    /// No calls here: the run goes on in the background, or something was only shown.
    pub const NO_CALLS: u8 = 99;
    /// -1 for SIPp.
    pub const FATAL: u8 = 255;
    /// -2 for SIPp: a socket could not be bound.
    pub const BIND: u8 = 254;
}

/// Why there is no run, and with which code it ends.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u8,
    pub(crate) what: String,
}

impl Refusal {
    /// A mistake in the command line, the scenario or its files.
    pub(crate) fn mistake(what: impl std::fmt::Display) -> Self {
        Self {
            code: exit::FAILED,
            what: what.to_string(),
        }
    }

    /// Something that the machine refused.
    pub(crate) fn fatal(what: impl std::fmt::Display) -> Self {
        Self {
            code: exit::FATAL,
            what: what.to_string(),
        }
    }
}
