//! `signet price`: the command line, turned into what the libraries are told.

mod crypto;

use std::io::Write;

use clap::Subcommand;

use crypto::{CryptoOptions, ReportOptions};

#[derive(Debug, Subcommand)]
pub(crate) enum PriceCommand {
    /// Measure what AH and ESP cost a packet, bare primitives beside, and what TLS, digest and
    /// S/MIME cost SIP
    ///
    /// Each packet is built, protected, checked and opened in user space, on one core. The table
    /// shows sending in transport mode over IPv4; --all, --json and --page have everything.
    /// Measure where nothing else runs.
    Crypto(CryptoOptions),
    /// Draw the page of prices anew
    Report(ReportOptions),
}

/// Runs it; gives the exit code.
pub(crate) fn run(command: &PriceCommand) -> u8 {
    let (verb, done) = match command {
        PriceCommand::Crypto(options) => ("crypto", options.run().map_err(|e| e.to_string())),
        PriceCommand::Report(options) => ("report", options.run().map_err(|e| e.to_string())),
    };
    // A reader who has gone, as `head` does, needs no more of it.
    match done {
        Ok(told) => {
            let _ = std::io::stdout().write_all(told.as_bytes());
            0
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "signet price {verb}: {error}");
            1
        }
    }
}
