//! The host's clocks, as numbers.

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec for the duration of the call; libc's wrapper uses the
    // vDSO, so a monotonic read costs about 20 ns and no system call.
    let code = unsafe { libc::clock_gettime(clock, &raw mut now) };
    debug_assert_eq!(code, 0, "the clocks read here exist on every Linux");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the nanoseconds on CLOCK_MONOTONIC: the same clock for every process of this host.
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Returns an identifier of the CLOCK_MONOTONIC that [`monotonic_ns`] reads: the same number for all processes of a
/// kernel since it was booted; 0 if the kernel does not report it.
pub fn monotonic_clock() -> u32 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // FNV-1a.
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    if boot.is_empty() { 0 } else { boot.iter().fold(0x811C_9DC5, mix).max(1) }
}

/// Returns the nanoseconds on CLOCK_REALTIME since 1970; it is set now and then.
pub fn realtime_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

/// Returns the CPU time of the calling thread, user and system, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the seconds since 1970, UTC.
pub fn unix_seconds() -> u64 {
    realtime_ns() / 1_000_000_000
}

/// Returns the CPU time of this process so far, all threads, in nanoseconds: (user, system).
pub fn process_cpu_ns() -> (u64, u64) {
    // SAFETY: a zeroed rusage is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_forward() {
        let before = (monotonic_ns(), thread_cpu_ns());
        let burnt: u64 = (0..100_000u64).map(std::hint::black_box).sum();
        assert!(burnt > 0);
        assert!(monotonic_ns() > before.0);
        assert!(thread_cpu_ns() > before.1);
        assert!(unix_seconds() > 1_700_000_000);
        assert!(monotonic_clock() > 0);
        assert_eq!(monotonic_clock(), monotonic_clock());
    }
}
