//! Which messages are shown: `signet trace`, and the options of `signet serve`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use signet_serve::config::Network;
use signet_serve::trace::Filter;
use signet_serve::{Error, TraceOverrides, admin};

use crate::args::InstanceArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct TraceOptions {
    #[command(flatten)]
    place: InstanceArgs,
    /// Only those of a user: alice or alice@example.com
    #[arg(long)]
    user: Option<String>,
    /// Only those to and from an address or network: 192.0.2.7, 192.0.2.0/24
    #[arg(long, value_name = "NETWORK")]
    address: Option<Network>,
    /// Only those of a call: the beginning of its Call-ID
    #[arg(long, value_name = "CALL-ID")]
    call: Option<String>,
    /// Write them to a file for Wireshark, in place of text; at 64 MiB it is kept as FILE.1
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// How long; until Ctrl-C if left out
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
}

impl TraceOptions {
    pub(crate) fn run(self) -> Result<(), Error> {
        let what = admin::Tracing {
            filter: Filter {
                user: self.user,
                address: self.address,
                call: self.call,
            },
            pcap: self.pcap,
            for_s: self.seconds,
        };
        admin::trace(&self.place.into(), &what)
    }
}

/// What `signet serve` shows from its start.
#[derive(Debug, ClapArgs)]
pub(crate) struct TraceFlags {
    /// Print whole messages, secrets masked
    #[arg(long)]
    trace_sip: bool,
    /// Write whole messages, secrets blotted out, to a file for Wireshark; at 64 MiB it is kept as FILE.1
    #[arg(long, value_name = "FILE")]
    trace_pcap: Option<PathBuf>,
    /// Only messages of a user: alice or alice@example.com
    #[arg(long, value_name = "USER")]
    trace_user: Option<String>,
    /// Only messages to and from an address or network
    #[arg(long, value_name = "NETWORK")]
    trace_address: Option<Network>,
    /// Only messages of a call: the beginning of its Call-ID
    #[arg(long, value_name = "CALL-ID")]
    trace_call: Option<String>,
}

impl From<TraceFlags> for TraceOverrides {
    fn from(flags: TraceFlags) -> Self {
        Self {
            sip: flags.trace_sip,
            pcap: flags.trace_pcap,
            filter: Filter {
                user: flags.trace_user,
                address: flags.trace_address,
                call: flags.trace_call,
            },
        }
    }
}
