//! Observations beside a trial's tally: on the machines that made the load, on the SUT, on the
//! network between them. Each figure is optional, because a kernel, a container or a remote SUT
//! may not have it; what is missing is left out of the judgement, never guessed.

use serde::{Deserialize, Serialize};

use crate::{Nanos, Rate};

/// Everything that was observed over the measured window of one trial. Shares are 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    /// CLOCK_MONOTONIC of the coordinator when the load began.
    pub began: Option<Nanos>,
    /// The starts that were really made.
    pub arrivals: Option<ArrivalSpread>,
    /// Operations as the SUT counted them.
    pub peer: Option<PeerCounts>,
    /// Busy share of all CPUs of the busiest generating host, stolen time included.
    pub host_cpu: Option<f64>,
    /// Scheduling of the generating threads.
    pub scheduling: Option<Scheduling>,
    /// The generator's side of the network.
    pub network: Option<NetworkUse>,
    /// Segments sent again for each operation of the trials so far that the server did not feel.
    pub loss_unloaded: Option<f64>,
    /// `true` if a smaller pool, which was found too small, carried as much of this load: then the
    /// connections were not what was missing.
    pub pool_grown_in_vain: bool,
    /// The user has set how many connections there are.
    pub connections_are_fixed: bool,
    /// Rate that the generator alone reaches with the same profile against a null responder.
    pub reference: Option<Rate>,
    /// CPU time of the SUT's threads, if its processes are known and on this host.
    pub sut_cpu: Option<SutCpu>,
    /// Memory of the generating processes.
    pub memory: Option<MemoryUse>,
    /// First and second half of the window.
    pub halves: Option<[HalfWindow; 2]>,
    /// Operations that the SUT failed, second by second.
    pub failed_by_second: Option<SecondCounts>,
    /// Operations that were late at the deadline, failed or unsent, second by second.
    pub late_or_lost_by_second: Option<SecondCounts>,
    /// Longest gap between two samples of the SUT's own state.
    pub monitor_gap: Option<Nanos>,
    /// Share of the generator's CPUs that the SUT, with every backend in its path, may use, too;
    /// `None` when it is on another host.
    pub shared_cpus: Option<f64>,
}

/// The distance of the actual starts from the process they were drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrivalSpread {
    /// Share of the gaps between starts that were off by more than
    /// [`crate::starts::lag_tolerance`]. No distribution of gaps is further from the intended one
    /// than this, apart from differences within the tolerance.
    pub gap_distance: f64,
    /// Variance over mean of the counts in bins of 10 ms, less the schedule's own, plus 1: 1 is as intended.
    pub dispersion_10ms: f64,
    /// The dispersion in bins of 100 ms.
    pub dispersion_100ms: f64,
    /// Share of the starts that were made in a later bin of 10 ms than they were due in.
    pub displaced_10ms: f64,
    /// The displaced share of bins of 100 ms.
    pub displaced_100ms: f64,
}

/// Two counts of the same operations. Both sides cover the same stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerCounts {
    /// Operations that plimsoll sent: requests, or connections if nothing is sent on them.
    pub sent: u64,
    /// The ones among them that were answered: the SUT has received at least those. What was sent
    /// and not answered may still have been in a queue before it.
    pub answered: u64,
    /// Operations that the SUT has counted.
    pub received: u64,
}

/// CPU time that the kernel and the hypervisor took from the generating threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scheduling {
    /// Time that the worst worker thread was ready and did not run, over wall time.
    pub run_delay: Option<f64>,
    /// Mean length of such a wait.
    pub wait_mean: Option<Nanos>,
    /// CPU time stolen by the hypervisor, over the host's CPU time.
    pub steal: Option<f64>,
    /// Periods in which a cgroup throttled the processes.
    pub throttled_periods: Option<u64>,
}

/// Times for which all threads of the SUT ran, and were ready to run and did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SutCpu {
    /// On a CPU.
    pub ran: Nanos,
    /// The part of it in system calls and interrupts, if the kernel distinguishes them.
    pub system: Nanos,
    /// Ready, and not on a CPU: others had it.
    pub waited: Nanos,
}

/// The generator's side of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkUse {
    /// Packets dropped here by the interfaces towards the server, or by the softnet backlog.
    pub drops: u64,
    /// Segments that the load's own sockets retransmitted over those they sent; in the network namespaces of a
    /// laboratory, all sockets count.
    pub retransmits: f64,
    /// Segments that these sockets sent again.
    pub sent_again: u64,
    /// Load of the busiest interface over its line rate; `None` if it has none (loopback).
    pub link: Option<f64>,
}

/// Memory of the generating processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Resident memory over the lowest limit that applies (cgroup, address space, host).
    pub resident: f64,
    /// Share of wall time in which every task waited for memory (PSI `full`).
    pub stalled: f64,
}

/// Operations by the second in which they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondCounts {
    /// Seconds looked at.
    pub seconds: u32,
    /// Operations in them.
    pub sum: u64,
    /// The squares of the operations of each second, summed.
    pub squares: u64,
}

impl SecondCounts {
    /// Adds one second with `ops` operations.
    pub const fn add(&mut self, ops: u64) {
        self.seconds = self.seconds.saturating_add(1);
        self.sum = self.sum.saturating_add(ops);
        self.squares = self.squares.saturating_add(ops.saturating_mul(ops));
    }
}

/// One half of a trial's window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HalfWindow {
    /// Median corrected latency of the operations that ended in it.
    pub p50: Nanos,
    /// Answers per second.
    pub completed: Rate,
}
