//! A filter in the kernel for a UDP socket: what begins something is let
//! through in part, and the rest costs this process nothing.

use std::io;
use std::mem;
use std::os::fd::RawFd;

use super::check;

/// How much of what begins something passes a UDP socket: thresholds for random
/// numbers of 32 bits, which pass below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// INVITE, OPTIONS, MESSAGE, SUBSCRIBE and PUBLISH.
    pub calls: u32,
    /// REGISTER.
    pub registrations: u32,
}

// The instructions of a classic socket filter that are used here.
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IS_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IS_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Where a random number is read (`SKF_AD_OFF + SKF_AD_RANDOM`).
const RANDOM: u32 = (-0x1000_i32 + 56) as u32;
/// The filter sees the datagram from its UDP header on.
const PAYLOAD: u32 = 8;
/// How much of a datagram is kept.
const WHOLE: u32 = u32::MAX;

const fn step(code: u16, k: u32, if_true: u8, if_false: u8) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: if_true,
        jf: if_false,
        k,
    }
}

const fn word(text: [u8; 4]) -> u32 {
    u32::from_be_bytes(text)
}

fn program(shed: &Shed) -> [libc::sock_filter; 15] {
    // What is shorter than four bytes is no message, and ends here.
    [
        step(LOAD_WORD, PAYLOAD, 0, 0),
        step(IS_EQUAL, word(*b"INVI"), 6, 0),
        step(IS_EQUAL, word(*b"OPTI"), 5, 0),
        step(IS_EQUAL, word(*b"MESS"), 4, 0),
        step(IS_EQUAL, word(*b"SUBS"), 3, 0),
        step(IS_EQUAL, word(*b"PUBL"), 2, 0),
        step(IS_EQUAL, word(*b"REGI"), 4, 0),
        step(RETURN, WHOLE, 0, 0),
        step(LOAD_WORD, RANDOM, 0, 0),
        step(IS_AT_LEAST, shed.calls, 4, 0),
        step(RETURN, WHOLE, 0, 0),
        step(LOAD_WORD, RANDOM, 0, 0),
        step(IS_AT_LEAST, shed.registrations, 1, 0),
        step(RETURN, WHOLE, 0, 0),
        step(RETURN, 0, 0, 0),
    ]
}

/// Puts the filter before a UDP socket, in the place of the one that was there.
pub(crate) fn set_shed(fd: RawFd, shed: &Shed) -> io::Result<()> {
    let mut steps = program(shed);
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    let len = mem::size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `program`, which points at
    // `steps` with their number; both outlive the call, and the kernel copies
    // and checks them.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            len,
        )
    };
    check(result).map(|_| ())
}

/// Takes it away.
pub(crate) fn clear_shed(fd: RawFd) -> io::Result<()> {
    super::set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    use super::*;

    /// How many of 400 datagrams that begin so pass.
    fn passing(shed: &Shed, text: &str) -> usize {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        set_shed(receiver.as_raw_fd(), shed).unwrap();
        let to = receiver.local_addr().unwrap();
        let mut passed = 0;
        let mut bytes = [0; 64];
        for _ in 0..400 {
            sender.send_to(text.as_bytes(), to).unwrap();
            while receiver.recv(&mut bytes).is_ok() {
                passed += 1;
            }
        }
        clear_shed(receiver.as_raw_fd()).unwrap();
        sender.send_to(text.as_bytes(), to).unwrap();
        receiver.set_nonblocking(false).unwrap();
        assert_eq!(receiver.recv(&mut bytes).unwrap(), text.len());
        passed
    }

    #[test]
    fn the_kernel_drops_what_begins_and_nothing_else() {
        let shed = Shed {
            calls: 0,
            registrations: 1 << 31,
        };
        for text in ["INVITE sip:x", "OPTIONS sip:x", "MESSAGE sip:x"] {
            assert_eq!(passing(&shed, text), 0, "{text}");
        }
        // A coin is thrown 400 times: fewer than 40 heads come once in more than 10^60.
        let registers = passing(&shed, "REGISTER sip:x");
        assert!((40..360).contains(&registers), "{registers}");
        for text in ["ACK sip:x", "BYE sip:x", "SIP/2.0 200 OK", "CANCEL sip:x"] {
            assert_eq!(passing(&shed, text), 400, "{text}");
        }
    }
}
