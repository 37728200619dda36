//! Limits of this process: descriptors and memory.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises this process's descriptor limit to the hard limit; returns what it is then.
pub fn raise_descriptor_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        // "Unlimited" is refused by the kernel above fs.nr_open, whose default is 1,048,576.
        limit.current = limit.maximum.or(Some(1_048_576));
        // A refusal leaves the old limit, which the next line reads.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(1_048_576)
}

/// Returns the resident bytes of this process; 0 if /proc is not readable.
pub fn resident_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok())
        .map_or(0, |pages| pages * page_size())
}

fn page_size() -> u64 {
    // SAFETY: sysconf with a valid name only returns a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_readable() {
        assert!(raise_descriptor_limit() >= 64);
        assert!(resident_bytes() > 100_000);
    }
}
