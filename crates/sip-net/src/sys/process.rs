//! Cores, CPU time and limits.

use std::io;
use std::mem;
use std::time::Duration;

use super::check;

/// Binds the calling thread to one core.
pub fn pin_thread(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: `cpu_set_t` is an array of integers, for which zero is a value;
    // CPU_SET stays inside it because `core` is below CPU_SETSIZE; the call
    // reads as many bytes as the set has and 0 is the calling thread.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, mem::size_of::<libc::cpu_set_t>(), &set)
    };
    check(result).map(|_| ())
}

/// The CPU time that the calling thread has used.
pub fn thread_cpu_time() -> io::Result<Duration> {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU time that this process has used, user and system.
pub fn process_cpu_time() -> io::Result<Duration> {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The CPU time that another process has used, user and system, ended threads
/// included.
pub fn cpu_time_of(pid: u32) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut id: libc::clockid_t = 0;
    // SAFETY: `id` is a valid place for the answer during the call.
    let result = unsafe { libc::clock_getcpuclockid(pid, &mut id) };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    clock(id)
}

/// Raises the limit of open files to the hard limit; gives the limit that holds.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the answer during the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is valid and only read.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    }
    Ok(limit.rlim_cur)
}

fn clock(id: libc::clockid_t) -> io::Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer during the call.
    check(unsafe { libc::clock_gettime(id, &mut time) })?;
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Ok(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_uses_cpu_time_and_so_does_its_process() {
        let thread = thread_cpu_time().unwrap();
        let process = process_cpu_time().unwrap();
        let mut sum = 0u64;
        while thread_cpu_time().unwrap() == thread {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(process_cpu_time().unwrap() > process);
        assert!(cpu_time_of(std::process::id()).unwrap() > process);
        assert!(cpu_time_of(u32::MAX).is_err());
    }

    #[test]
    fn a_thread_is_pinned_to_a_core_that_there_is() {
        std::thread::spawn(|| {
            assert!(pin_thread(0).is_ok());
            assert!(pin_thread(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_limit() {
        let raised = raise_open_files().unwrap();
        assert!(raised > 0);
        assert_eq!(raise_open_files().unwrap(), raised);
    }
}
