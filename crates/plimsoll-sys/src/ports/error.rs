//! Why there is no port, with the counts that show it.

use std::net::SocketAddr;

/// The states of the (source, port) pairs of one shard and destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Pairs in all.
    pub pairs: u32,
    /// Never asked for yet.
    pub fresh: u32,
    /// Used before and free again.
    pub free: u32,
    /// Held by this load's connections.
    pub in_use: u32,
    /// In TIME_WAIT after a connection of this load.
    pub time_wait: u32,
    /// Refused once by the kernel: in TIME_WAIT after another program's connection, or in use. Tried
    /// again after a minute.
    pub refused: u32,
    /// Given up for the run: a local listener has the port, or it was refused twice.
    pub foreign: u32,
}

/// The obstacle to getting a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortShortage {
    /// Every pair is in use, in TIME_WAIT or foreign.
    Exhausted {
        /// Until the next pair leaves TIME_WAIT, ns; `None` when none is in it.
        ready_in_ns: Option<u64>,
    },
    /// The kernel refused too many pairs one after the other.
    Refused {
        /// Refusals since the last success.
        in_a_row: u32,
    },
}

/// No source port for a connection; this machine's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PortError {
    /// Remote address.
    pub remote: SocketAddr,
    /// Source addresses that may be used.
    pub sources: u32,
    /// Ports of each source address, over all shards.
    pub ports: u32,
    /// The obstacle.
    pub shortage: PortShortage,
    /// States of this shard's pairs.
    pub counts: PortCounts,
}

impl std::fmt::Display for PortError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { remote, sources, ports, counts, .. } = self;
        match self.shortage {
            PortShortage::Exhausted { .. } => write!(f, "no source port is left for {remote}")?,
            PortShortage::Refused { in_a_row } => {
                write!(f, "the kernel refused {in_a_row} source ports in a row for {remote}")?;
            }
        }
        write!(
            f,
            ": of {} pairs ({sources} source addresses x {ports} ports, this thread's part) {} are \
             in use, {} are in TIME_WAIT, {} were refused once, {} belong to other programs",
            counts.pairs, counts.in_use, counts.time_wait, counts.refused, counts.foreign,
        )?;
        if let PortShortage::Exhausted { ready_in_ns: Some(ns) } = self.shortage {
            write!(f, "; the next is free in {} s", ns.div_ceil(1_000_000_000))?;
        }
        // By the state that most of the missing pairs have in common.
        let PortCounts { in_use, time_wait, refused, foreign, .. } = *counts;
        let waiting = time_wait + refused;
        f.write_str(match self.shortage {
            PortShortage::Exhausted { .. } if in_use >= waiting.max(foreign) => {
                "; add addresses with --source, or: sysctl -w \
                 net.ipv4.ip_local_port_range=\"1024 65535\""
            }
            _ if waiting >= foreign => {
                "; wait a minute for the kernel to release them, or add addresses with --source"
            }
            _ => {
                "; end the programs that bound ports of net.ipv4.ip_local_port_range, or add \
                 addresses with --source"
            }
        })
    }
}
