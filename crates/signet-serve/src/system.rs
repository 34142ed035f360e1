//! What is asked of the machine.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::unistd::Pid;

use crate::Error;

/// Raises the number of files that may be open to the most that is allowed,
/// and returns it.
pub(crate) fn raise_open_files() -> Result<u64, Error> {
    let failed = |error: nix::Error| {
        Error::new(
            format!("cannot raise the limit of open files: {error}"),
            "raise it in the shell: ulimit -n 65536",
        )
    };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(failed)?;
    }
    Ok(hard)
}

/// Keeps this thread on the `nth` of the cores that the process may use.
pub(crate) fn pin_to_core(nth: usize) -> Result<(), Error> {
    let failed = |error: nix::Error| {
        Error::new(
            format!("cannot pin a worker to a core: {error}"),
            "drop --pin, or `pin = true`",
        )
    };
    let this_thread = Pid::from_raw(0);
    let allowed = sched_getaffinity(this_thread).map_err(failed)?;
    let cores: Vec<usize> = (0..CpuSet::count())
        .filter(|core| allowed.is_set(*core).unwrap_or(false))
        .collect();
    let Some(core) = cores.get(nth % cores.len().max(1)) else {
        return Ok(());
    };
    let mut one = CpuSet::new();
    one.set(*core).map_err(failed)?;
    sched_setaffinity(this_thread, &one).map_err(failed)
}

/// The CPU time of this process, in microseconds.
pub(crate) fn cpu_us() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return 0;
    };
    let cpu = usage.user_time() + usage.system_time();
    let (seconds, us) = (u64::try_from(cpu.tv_sec()), u64::try_from(cpu.tv_usec()));
    seconds.unwrap_or(0) * 1_000_000 + us.unwrap_or(0)
}

/// The memory of this process that is in use; 0 where /proc does not say.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1_024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_raised_to_the_hard_one() {
        let hard = raise_open_files().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        while cpu_us() == 0 {}
        assert!(resident_bytes() > 1 << 16, "{}", resident_bytes());
    }

    #[test]
    fn a_thread_is_pinned_to_one_core() {
        std::thread::spawn(|| {
            pin_to_core(1).unwrap();
            let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
            assert_eq!(
                (0..CpuSet::count())
                    .filter(|core| allowed.is_set(*core).unwrap())
                    .count(),
                1
            );
        })
        .join()
        .unwrap();
    }
}
