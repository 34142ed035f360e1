//! Which commands may be given to an engine.

use super::Client;
use crate::Ask;

/// The longest datagram: what IPv4 carries behind its header and that of UDP.
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_507;
/// More than what a command says beside its texts and flags.
const COMMAND_BYTES: usize = 1_024;
/// More than what is written beside a flag.
const FLAG_BYTES: usize = 8;
/// The most streams of one session description. For each an engine opens up to four ports of some
/// thousands, and has half a kilobyte to tell at the end, in one datagram.
const STREAMS_MAX: usize = 16;

impl Client {
    /// Whether a command may be given to an engine. One call is not to have all of its ports, nor
    /// replies that no datagram carries.
    pub(super) fn is_fit(&self, ask: &Ask) -> bool {
        let flags = self.config.flags.iter().map(|flag| flag.len() + FLAG_BYTES);
        let length = ask.held_bytes() + COMMAND_BYTES + flags.sum::<usize>();
        ask.sdp.len() <= self.config.sdp_bytes_max
            && length <= DATAGRAM_BYTES_MAX
            && streams(&ask.sdp) <= STREAMS_MAX
    }
}

/// The streams of a session description, as its writer says: an engine opens two ports or four
/// for each, and tells of each when the call ends.
// RFC 8866 5.14: "m=<media> <port>/<number of ports> <proto> <fmt> ..."
fn streams(sdp: &[u8]) -> usize {
    let lines = sdp.split(|byte| matches!(byte, b'\n' | b'\r'));
    let lines = lines.filter_map(|line| line.strip_prefix(b"m="));
    let counts = lines.map(|line| {
        let port = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let count = port.splitn(2, |byte| *byte == b'/').nth(1);
        let digits = count.unwrap_or_default().iter();
        let digits = digits.take_while(|byte| byte.is_ascii_digit());
        let count = digits.fold(0_usize, |sum, digit| {
            sum.saturating_mul(10)
                .saturating_add(usize::from(digit - b'0'))
        });
        count.max(1)
    });
    counts.fold(0, usize::saturating_add)
}
