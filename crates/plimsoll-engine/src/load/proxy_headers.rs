//! Headers of the PROXY protocol: which client each connection is said to come from.

use plimsoll_model::pace::Shard;
use plimsoll_model::plan::LoadPlan;
use plimsoll_proto::proxy_header;
use plimsoll_sys::Errno;

use super::conns::Conns;

/// Numbers the connections of one worker so that no two of the load have the same number.
pub(super) struct ProxyHeaders {
    next: u64,
    workers: u64,
}

impl ProxyHeaders {
    /// Creates the headers of the worker that makes `shard` of the load.
    pub(super) fn new(shard: Shard) -> Self {
        Self { next: shard.index.into(), workers: shard.of.max(1).into() }
    }

    /// Returns the header of the connection that was just made; empty if the plan wants none.
    pub(super) fn next(
        &mut self,
        plan: &LoadPlan,
        conns: &Conns,
        index: u32,
    ) -> Result<Vec<u8>, Errno> {
        let mut header = Vec::new();
        let Some(proxy) = &plan.proxy else { return Ok(header) };
        let (mut source, destination) = (conns.local_address(index)?, conns.peer_address(index)?);
        if let Some(range) = &proxy.sources {
            source.set_ip(range.nth(self.next));
        }
        let id = format!("{}{:x}", proxy.id_prefix, self.next);
        self.next += self.workers;
        proxy_header::write_header(&mut header, source, destination, &id);
        Ok(header)
    }
}
