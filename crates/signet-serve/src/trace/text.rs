//! Messages for a terminal.

use std::io::{self, Write};

use sip_worker::Direction;

use super::{Seen, masked};
use crate::admin::written;

/// Writes a message with its time and way, and before it how many were left out.
pub(crate) fn write(seen: &Seen, left_out: u64, to: &mut impl Write) -> io::Result<()> {
    if left_out > 0 {
        writeln!(
            to,
            "-- {left_out} messages left out: they come faster than they are shown"
        )?;
    }
    let at = written(seen.at_unix_us / 1_000);
    let at = at.strip_suffix('Z').unwrap_or(&at);
    let at_us = seen.at_unix_us % 1_000;
    let transport = seen.transport.uri_name();
    let (len, remote) = (seen.bytes.len(), seen.remote);
    match (seen.direction, seen.local) {
        (Direction::In, Some(local)) => writeln!(
            to,
            "{at}{at_us:03}Z <- {transport} {remote} > {local} ({len} bytes)"
        ),
        (Direction::Out, Some(local)) => writeln!(
            to,
            "{at}{at_us:03}Z -> {transport} {local} > {remote} ({len} bytes)"
        ),
        (_, None) => writeln!(
            to,
            "{at}{at_us:03}Z -> {transport} no way to {remote} ({len} bytes)"
        ),
    }?;
    for line in masked(&seen.bytes).lines() {
        writeln!(to, "   {line}")?;
    }
    Ok(())
}
