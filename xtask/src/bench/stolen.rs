//! What the hypervisor took from this machine while something ran: the noise behind every figure.

use std::fs;

/// The first line holds the sum over all CPUs, in ticks:
/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`.
const STAT: &str = "/proc/stat";
/// What guests used is in `user` already.
const FIELDS: usize = 8;
const STEAL: usize = 7;

/// The counters of CPU time as they stood, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuTime {
    stolen: u64,
    all: u64,
}

impl CpuTime {
    /// As it stands now; `None` where the kernel does not say.
    pub(crate) fn now() -> Option<Self> {
        Self::read(&fs::read_to_string(STAT).ok()?)
    }

    fn read(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = fields.take(FIELDS).map_while(|field| field.parse().ok()).collect();
        Some(Self { stolen: *ticks.get(STEAL)?, all: ticks.iter().sum() })
    }

    /// The share of all CPU time from `self` to `later` that went to other machines, 0.0 to 1.0.
    pub(crate) fn stolen_until(self, later: Self) -> f64 {
        let all = later.all.saturating_sub(self.all).max(1);
        later.stolen.saturating_sub(self.stolen) as f64 / all as f64
    }
}

/// The share that was stolen while `work` was done, 0.0 where the kernel does not say, and what the
/// work gave.
pub(crate) fn stolen_during<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = CpuTime::now();
    let done = work();
    let share = before.zip(CpuTime::now()).map(|(before, after)| before.stolen_until(after));
    (share.unwrap_or(0.0), done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_is_a_share_of_all_time() {
        let before = CpuTime::read("cpu  100 0 50 800 0 0 10 40 7 0\ncpu0 1 2\n").unwrap();
        assert_eq!(before, CpuTime { stolen: 40, all: 1_000 });
        let after = CpuTime::read("cpu  150 0 60 1600 0 0 10 180 9 0\n").unwrap();
        assert!((before.stolen_until(after) - 0.14).abs() < 1e-9);
        assert_eq!(after.stolen_until(before), 0.0);
    }

    #[test]
    fn kernels_that_do_not_say_give_nothing() {
        for text in ["", "intr 1 2\n", "cpu  1 2 3\n", "cpu  1 2 3 4 5 6 7 x\n"] {
            assert_eq!(CpuTime::read(text), None, "{text:?}");
        }
    }
}
