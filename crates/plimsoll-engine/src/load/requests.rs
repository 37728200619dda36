//! The requests of a load, and whose turn it is.

use std::sync::Arc;

use plimsoll_model::pace::Shard;
use plimsoll_model::plan::LoadPlan;
use plimsoll_proto::http1::encode;

/// What a target needs to be sent.
pub(super) struct Request {
    pub(super) bytes: Arc<[u8]>,
    pub(super) destination: u32,
    /// The answer has no body.
    pub(super) head_method: bool,
}

/// The plan's targets as requests, by their indices.
pub(super) struct Requests {
    all: Vec<Request>,
    next: u32,
    step: u32,
}

impl Requests {
    /// For the worker that makes `shard` of the load. Targets are taken in turn; shards begin at
    /// different ones and step over each other's.
    pub(super) fn new(plan: &LoadPlan, shard: Shard) -> Self {
        let targets = plan.targets.iter().zip(&plan.target_destination);
        let all: Vec<_> = targets
            .map(|(target, destination)| Request {
                // A session's client ends it, so no request asks the server to.
                bytes: encode::request(target, plan.keepalive || plan.session.is_some()).into(),
                destination: *destination,
                head_method: target.method == "HEAD",
            })
            .collect();
        let count = all.len().max(1) as u32;
        let step = match shard.of % count {
            0 => 1,
            step => step,
        };
        Self { all, next: shard.index % count, step }
    }

    pub(super) fn get(&self, target: u32) -> &Request {
        &self.all[target as usize]
    }

    /// The target whose turn it is.
    pub(super) fn take(&mut self) -> u32 {
        let target = self.next;
        self.next = (target + self.step) % self.all.len() as u32;
        target
    }

    /// The target whose turn it is among those that go to `destination`.
    pub(super) fn take_for(&mut self, destination: u32) -> u32 {
        let target = self.take();
        self.first_for(destination, target)
    }

    /// `proposed` if it goes to `destination`, else the next target that does.
    pub(super) fn first_for(&self, destination: u32, proposed: u32) -> u32 {
        let targets = self.all.len() as u32;
        (0..targets)
            .map(|step| (proposed + step) % targets)
            .find(|target| self.get(*target).destination == destination)
            .unwrap_or(proposed)
    }

    /// The target after `target` that goes to the same destination.
    pub(super) fn after(&self, target: u32) -> u32 {
        let next = (target + 1) % self.all.len() as u32;
        self.first_for(self.get(target).destination, next)
    }
}
