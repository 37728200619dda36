//! One file per command: what is started, in which order, and how it ends.

pub(crate) mod agent;
mod climb;
pub(crate) mod compare;
pub(crate) mod find;
pub(crate) mod hold;
pub(crate) mod lab;
pub(crate) mod load;
mod measurement;
mod observer;
mod reference;
pub(crate) mod report;
pub(crate) mod rfc9411;
mod search;
pub(crate) mod serve;
mod timers;
