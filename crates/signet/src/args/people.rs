//! What an operator says of names and people.

use clap::{Args, Subcommand};
use signet_serve::admin::UserChanges;

#[derive(Debug, Subcommand)]
pub(crate) enum AliasCommand {
    /// Point a name or number at one or more targets; they ring together, or in order of q
    ///
    /// A running server has applied it when the command returns. What would lead back to itself is
    /// refused.
    Add {
        /// sales, sales@example.com or +4930123456
        name: String,
        /// alice, alice@example.net, +4930123456 or sip:bob@example.net; bob;q=0.5 rings after those with more
        #[arg(required = true)]
        targets: Vec<String>,
    },
    /// Remove a name or number, or one of its targets
    Remove {
        /// sales, sales@example.com or +4930123456
        name: String,
        /// The target; all of them if left out
        target: Option<String>,
    },
    /// List names and numbers, and where each leads
    List,
}

#[derive(Debug, Args)]
pub(crate) struct UserChangeOptions {
    /// How far they may call: none, internal, national, international or premium
    #[arg(long, value_name = "HOW-FAR")]
    permissions: Option<String>,
    /// The [[user_group]] that they are in
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// The number that their calls to the outside show
    #[arg(long, value_name = "NUMBER")]
    caller_id: Option<String>,
    /// How many outgoing calls they may have at once; 0 for no limit
    #[arg(long, value_name = "N")]
    calls_max: Option<String>,
    /// Where all calls to them go: a name, a number or a URI
    #[arg(long, value_name = "TO")]
    forward_always: Option<String>,
    /// Where calls go while their phones are busy
    #[arg(long, value_name = "TO")]
    forward_busy: Option<String>,
    /// Where calls go that are not answered, or when no phone is registered
    #[arg(long, value_name = "TO")]
    forward_no_answer: Option<String>,
    /// How long their phones ring before that
    #[arg(long, value_name = "SECONDS")]
    no_answer_s: Option<String>,
}

impl From<UserChangeOptions> for UserChanges {
    fn from(options: UserChangeOptions) -> Self {
        Self {
            permissions: options.permissions,
            group: options.group,
            caller_id: options.caller_id,
            calls_max: options.calls_max,
            forward_always: options.forward_always,
            forward_busy: options.forward_busy,
            forward_no_answer: options.forward_no_answer,
            no_answer_s: options.no_answer_s,
        }
    }
}
