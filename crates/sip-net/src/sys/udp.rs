//! Datagrams in batches, with the addresses and the errors that the kernel
//! tells beside them.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::RawFd;
use std::ptr;
use std::time::Duration;

use super::{check, set_option};

/// Datagrams per system call.
pub(crate) const BATCH: usize = 64;
/// Datagrams asked for when few are expected.
const BATCH_MIN: usize = 8;
/// Room for the longest datagram, and 1,088 bytes more so that the beginnings
/// of the slots do not all fall into the same cache sets.
// RFC 3261 18.1.1: "However, implementations MUST be able to handle messages up to the maximum datagram
// packet size."
const STRIDE: usize = 65_536 + 1_088;
/// A datagram longer than this touches more than two pages of its slot.
const LONG: u32 = 8_192;
/// Room for the control messages of one datagram: a drop count (24 bytes), a time
/// (32 bytes) and a packet info (40 bytes at most); an error (16 + 16 + 28) where it is asked for.
const CONTROL: usize = 128;

/// Has the kernel note the time at which each datagram comes, or not.
pub(crate) fn set_stamps(fd: RawFd, is_on: bool) -> io::Result<()> {
    let on = libc::c_int::from(is_on);
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, on)
}

/// Control messages, aligned as the kernel wants them.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// A datagram as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    /// The whole of it.
    pub(crate) bytes: &'a [u8],
    /// The sender.
    pub(crate) remote: SocketAddr,
    /// The address that it was sent to, where the socket asks for it.
    pub(crate) local: Option<IpAddr>,
    /// How many datagrams the kernel has dropped on this socket so far.
    pub(crate) drops: Option<u32>,
    /// When it came, where the socket asks for it: the time since 1970.
    pub(crate) came: Option<Duration>,
}

/// Where up to [`BATCH`] datagrams are received. The room is asked for once
/// and zeroed by the kernel when it is touched: what is never used costs nothing.
pub(crate) struct RecvBatch {
    bytes: Vec<u8>,
    names: Box<[libc::sockaddr_storage; BATCH]>,
    controls: Box<[Control; BATCH]>,
    vectors: Box<[libc::iovec; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
    asked: usize,
    received: usize,
    /// Whether a datagram came that is longer than usual since the last trim, and
    /// whether any did since the room was asked for.
    was_long: bool,
    is_stretched: bool,
}

// SAFETY: the pointers in `vectors` and `headers` are set anew before each
// system call and read by nothing else, so the struct may change threads.
unsafe impl Send for RecvBatch {}

impl RecvBatch {
    pub(crate) fn new() -> Self {
        // SAFETY: these are plain C structures; all zeroes is a value of each
        // (null pointers with lengths of zero).
        unsafe {
            Self {
                bytes: Vec::new(),
                names: Box::new(mem::zeroed()),
                controls: Box::new([Control([0; CONTROL]); BATCH]),
                vectors: Box::new(mem::zeroed()),
                headers: Box::new(mem::zeroed()),
                asked: BATCH_MIN,
                received: 0,
                was_long: false,
                is_stretched: false,
            }
        }
    }

    /// Receives what is there, without waiting. Gives the number of datagrams
    /// and whether there may be more.
    pub(crate) fn receive(&mut self, fd: RawFd) -> io::Result<(usize, bool)> {
        // Few headers are prepared while few datagrams come.
        let asked = (self.received * 2).clamp(BATCH_MIN, BATCH);
        self.asked = asked;
        self.received = 0;
        if self.bytes.is_empty() {
            self.bytes = vec![0; BATCH * STRIDE];
        }
        let slots = self.bytes.chunks_exact_mut(STRIDE);
        let parts = self
            .names
            .iter_mut()
            .zip(self.controls.iter_mut())
            .zip(self.vectors.iter_mut());
        for (((header, slot), ((name, control), vector)), _) in
            self.headers.iter_mut().zip(slots).zip(parts).zip(0..asked)
        {
            vector.iov_base = slot.as_mut_ptr().cast();
            vector.iov_len = 65_536;
            let header = &mut header.msg_hdr;
            header.msg_name = ptr::from_mut(name).cast();
            header.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL;
            header.msg_flags = 0;
        }
        // SAFETY: the first `asked` headers were just set to point at a name,
        // a control buffer, a vector and a slot each, of the lengths given and
        // all owned by `self`, which is borrowed exclusively during the call.
        let result = unsafe {
            libc::recvmmsg(
                fd,
                self.headers.as_mut_ptr(),
                asked as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        self.received = usize::try_from(check(result)?).unwrap_or(0).min(asked);
        let headers = self.headers.iter().take(self.received);
        let is_long = headers.clone().any(|header| header.msg_len > LONG);
        self.was_long |= is_long;
        self.is_stretched |= is_long;
        Ok((self.received, self.received == asked))
    }

    /// Gives the room back where long datagrams have filled it with pages and
    /// none has come since the last call.
    pub(crate) fn trim(&mut self) {
        if self.is_stretched && !std::mem::take(&mut self.was_long) {
            self.bytes = Vec::new();
            self.received = 0;
            self.is_stretched = false;
        }
    }

    /// The `index`th datagram of the last [`RecvBatch::receive`].
    pub(crate) fn get(&self, index: usize) -> Option<Received<'_>> {
        if index >= self.received {
            return None;
        }
        let header = self.headers.get(index)?;
        let len = (header.msg_len as usize).min(65_536);
        let start = index * STRIDE;
        let bytes = self.bytes.get(start..start + len)?;
        let remote = read_addr(self.names.get(index)?)?;
        let mut received = Received {
            bytes,
            remote,
            local: None,
            drops: None,
            came: None,
        };
        if header.msg_hdr.msg_controllen > 0 {
            let control = self.controls.get(index)?;
            each_control(
                &control.0,
                header.msg_hdr.msg_controllen,
                |level, kind, data| match (level, kind) {
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                        received.drops = array(data, 0).map(u32::from_ne_bytes);
                    }
                    // timespec: seconds, nanoseconds.
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let seconds = array(data, 0).map(u64::from_ne_bytes);
                        let nanos = array(data, 8).map(u64::from_ne_bytes);
                        received.came = seconds
                            .zip(nanos)
                            .map(|(s, ns)| Duration::from_secs(s) + Duration::from_nanos(ns));
                    }
                    // in_pktinfo: interface, address of this host, destination.
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        received.local = array(data, 8).map(|octets: [u8; 4]| IpAddr::from(octets));
                    }
                    // in6_pktinfo: destination, interface.
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        received.local =
                            array(data, 0).map(|octets: [u8; 16]| IpAddr::from(octets));
                    }
                    _ => {}
                },
            );
        }
        Some(received)
    }
}

/// A datagram to be sent: `bytes[start..end]` of the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) remote: SocketAddr,
    /// The address to send from, where the kernel is not to choose it.
    pub(crate) source: Option<IpAddr>,
    /// The owner's.
    pub(crate) cookie: u64,
}

/// The headers with which up to [`BATCH`] datagrams are sent.
pub(crate) struct SendBatch {
    names: Box<[libc::sockaddr_storage; BATCH]>,
    controls: Box<[Control; BATCH]>,
    vectors: Box<[libc::iovec; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
}

// SAFETY: as for `RecvBatch`: no pointer is kept beyond the call it is made for.
unsafe impl Send for SendBatch {}

impl SendBatch {
    pub(crate) fn new() -> Self {
        // SAFETY: as in `RecvBatch::new`.
        unsafe {
            Self {
                names: Box::new(mem::zeroed()),
                controls: Box::new([Control([0; CONTROL]); BATCH]),
                vectors: Box::new(mem::zeroed()),
                headers: Box::new(mem::zeroed()),
            }
        }
    }

    /// Sends the first of `items`, up to [`BATCH`], without waiting. Gives how
    /// many were sent; an error is that of the first.
    pub(crate) fn send(
        &mut self,
        fd: RawFd,
        bytes: &[u8],
        items: &[Outgoing],
    ) -> io::Result<usize> {
        let mut count = 0;
        let parts = self
            .names
            .iter_mut()
            .zip(self.controls.iter_mut())
            .zip(self.vectors.iter_mut());
        for ((header, ((name, control), vector)), item) in
            self.headers.iter_mut().zip(parts).zip(items)
        {
            let payload = bytes.get(item.start..item.end).unwrap_or_default();
            vector.iov_base = payload.as_ptr().cast_mut().cast();
            vector.iov_len = payload.len();
            let header = &mut header.msg_hdr;
            header.msg_name = ptr::from_mut(name).cast();
            header.msg_namelen = write_addr(item.remote, name);
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_controllen = item
                .source
                .map_or(0, |source| write_source(source, control));
            header.msg_control = if header.msg_controllen == 0 {
                ptr::null_mut()
            } else {
                control.0.as_mut_ptr().cast()
            };
            header.msg_flags = 0;
            count += 1;
        }
        // SAFETY: the first `count` headers were just set to point at names,
        // controls and vectors of `self` and at parts of `bytes`, all of which
        // outlive the call; the kernel only reads them, and writes `msg_len`
        // into the headers, which are borrowed exclusively.
        let result = unsafe {
            libc::sendmmsg(
                fd,
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        Ok(usize::try_from(check(result)?).unwrap_or(0))
    }
}

/// An error that came back for a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedError {
    /// Where the datagram was sent to.
    pub(crate) remote: SocketAddr,
    /// How much of the datagram came back.
    pub(crate) quoted_len: usize,
    /// What an ICMP message said; `None` where this host's own kernel did.
    pub(crate) icmp: Option<Icmp>,
}

/// The type and the code of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Icmp {
    V4(u8, u8),
    V6(u8, u8),
}

/// Takes one error from the socket's error queue, the quoted beginning of the
/// datagram into `quoted`. `None` when there is none.
pub(crate) fn receive_error(fd: RawFd, quoted: &mut [u8]) -> io::Result<Option<QueuedError>> {
    let mut control = Control([0; CONTROL]);
    // SAFETY: plain C structures, as above.
    let (mut name, mut header): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let mut vector = libc::iovec {
        iov_base: quoted.as_mut_ptr().cast(),
        iov_len: quoted.len(),
    };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header.msg_iov = &mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL;
    // SAFETY: the header points at the locals above and at `quoted`, with
    // their lengths; all are valid and exclusively ours during the call.
    let len = unsafe { libc::recvmsg(fd, &mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    let Ok(len) = usize::try_from(len) else {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock {
            Ok(None)
        } else {
            Err(error)
        };
    };
    let Some(remote) = read_addr(&name) else {
        return Ok(None);
    };
    let mut icmp = None;
    each_control(&control.0, header.msg_controllen, |level, kind, data| {
        let is_error = matches!(
            (level, kind),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        );
        // sock_extended_err: errno (4 bytes), origin, type, code, ...
        if is_error && let Some([origin, kind, code]) = array(data, 4) {
            icmp = match origin {
                libc::SO_EE_ORIGIN_ICMP => Some(Icmp::V4(kind, code)),
                libc::SO_EE_ORIGIN_ICMP6 => Some(Icmp::V6(kind, code)),
                _ => None,
            };
        }
    });
    Ok(Some(QueuedError {
        remote,
        quoted_len: len.min(quoted.len()),
        icmp,
    }))
}

/// Asks for drop counts and ICMP errors, and for local addresses where the
/// socket has none of its own.
pub(crate) fn set_udp_options(fd: RawFd, local: IpAddr) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    let (level, errors, info) = match local {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVERR, libc::IP_PKTINFO),
        IpAddr::V6(_) => (
            libc::IPPROTO_IPV6,
            libc::IPV6_RECVERR,
            libc::IPV6_RECVPKTINFO,
        ),
    };
    set_option(fd, level, errors, 1)?;
    if local.is_unspecified() {
        set_option(fd, level, info, 1)?;
    }
    Ok(())
}

/// Reads the address that the kernel wrote.
fn read_addr(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: a sockaddr_storage is larger than a sockaddr_in and
            // aligned for it; every bit pattern is a value of it.
            let name = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for a sockaddr_in6.
            let name = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(name.sin6_port), 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Writes an address for the kernel; gives its length.
fn write_addr(addr: SocketAddr, name: &mut libc::sockaddr_storage) -> libc::socklen_t {
    match addr {
        SocketAddr::V4(addr) => {
            // SAFETY: as in `read_addr`.
            let name = unsafe { &mut *ptr::from_mut(name).cast::<libc::sockaddr_in>() };
            name.sin_family = libc::AF_INET as libc::sa_family_t;
            name.sin_port = addr.port().to_be();
            name.sin_addr.s_addr = u32::from_ne_bytes(addr.ip().octets());
            mem::size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(addr) => {
            // SAFETY: as in `read_addr`.
            let name = unsafe { &mut *ptr::from_mut(name).cast::<libc::sockaddr_in6>() };
            name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            name.sin6_port = addr.port().to_be();
            name.sin6_flowinfo = 0;
            name.sin6_addr.s6_addr = addr.ip().octets();
            name.sin6_scope_id = addr.scope_id();
            mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}

/// The length of a control message's header.
const CONTROL_HEADER: usize = mem::size_of::<libc::cmsghdr>();

/// Walks the control messages in `control[..len]`: level, type, data.
fn each_control(
    control: &[u8; CONTROL],
    len: usize,
    mut visit: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) {
    let mut rest = control.get(..len).unwrap_or_default();
    while let (Some(size), Some(level), Some(kind)) =
        (array(rest, 0), array(rest, 8), array(rest, 12))
    {
        let size = usize::from_ne_bytes(size);
        let Some(data) = rest.get(CONTROL_HEADER..size) else {
            return;
        };
        visit(
            libc::c_int::from_ne_bytes(level),
            libc::c_int::from_ne_bytes(kind),
            data,
        );
        rest = rest.get(size.next_multiple_of(8)..).unwrap_or_default();
    }
}

/// Writes the control message that names the address to send from; gives the
/// length of the control messages.
fn write_source(source: IpAddr, control: &mut Control) -> usize {
    let mut info = [0; 20];
    let (level, kind, len) = match source {
        IpAddr::V4(ip) => {
            // in_pktinfo: interface (0: by route), source, destination (ignored).
            info[4..8].copy_from_slice(&ip.octets());
            (libc::IPPROTO_IP, libc::IP_PKTINFO, 12)
        }
        IpAddr::V6(ip) => {
            info[..16].copy_from_slice(&ip.octets());
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20)
        }
    };
    let size = CONTROL_HEADER + len;
    control.0[..8].copy_from_slice(&size.to_ne_bytes());
    control.0[8..12].copy_from_slice(&level.to_ne_bytes());
    control.0[12..16].copy_from_slice(&kind.to_ne_bytes());
    control.0[CONTROL_HEADER..CONTROL_HEADER + 20].copy_from_slice(&info);
    size.next_multiple_of(8)
}

/// `N` bytes of `data` from `at` on.
fn array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at + N)?.try_into().ok()
}

// The control messages are read and written by offset, as 64-bit Linux lays them out.
const _: () = assert!(CONTROL_HEADER == 16 && mem::size_of::<usize>() == 8);
