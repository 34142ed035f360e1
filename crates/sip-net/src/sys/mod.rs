//! System calls that the standard library does not make. The only place in the
//! project with `unsafe`, but for one call of OpenSSL's in a build with
//! `legacy-tls`; each block bears its argument.
#![allow(unsafe_code)]

mod filter;
mod process;
mod udp;

pub use filter::Shed;
pub(crate) use filter::{clear_shed, set_shed};
pub use process::{cpu_time_of, pin_thread, process_cpu_time, raise_open_files, thread_cpu_time};
pub(crate) use udp::{
    Icmp, Outgoing, RecvBatch, SendBatch, receive_error, set_stamps, set_udp_options,
};

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// Lets the kernel choose the port of a bound socket only when it connects,
/// so that a source address has 28,000 ports per peer and not in all.
pub(crate) fn set_bind_address_no_port(fd: RawFd) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Asks for this much room in a socket's receive buffer and in its send
/// buffer. A process with CAP_NET_ADMIN gets it; another gets as much as
/// `net.core.rmem_max` and `wmem_max` allow, which is no error.
pub(crate) fn set_buffer_bytes(fd: RawFd, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    for (force, ask) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        if set_option(fd, libc::SOL_SOCKET, force, bytes).is_err() {
            let _ = set_option(fd, libc::SOL_SOCKET, ask, bytes);
        }
    }
}

/// The number of an interface of this machine.
pub(crate) fn interface_index(name: &str) -> Option<u32> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: the pointer is to a text that ends with a NUL and outlives the call, which only
    // reads it.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// The bytes that a stream has for us.
pub(crate) fn unread_bytes(fd: RawFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one `int` to where the pointer points, which is one that outlives
    // the call. A bad descriptor is answered by an error.
    check(unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// The columns and rows of a terminal; `None` where it is none, or does not say.
pub fn terminal_size(terminal: impl AsFd) -> Option<(u16, u16)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let fd = terminal.as_fd().as_raw_fd();
    // SAFETY: TIOCGWINSZ writes one `winsize` to where the pointer points, which is one that
    // outlives the call. What is no terminal is answered by an error.
    check(unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) }).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Sets an option whose value is an `int`.
fn set_option(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`, which outlives the
    // call; the kernel only reads it. A bad descriptor is answered by an error.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    check(result).map(|_| ())
}

/// The error of a call that answered -1.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_terminal_has_no_size() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(terminal_size(&file), None);
    }
}
