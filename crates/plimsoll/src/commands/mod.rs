//! One file per command: what it plans, what it starts, and what it hands over.

pub(crate) mod agent;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod hold;
mod isolation;
pub(crate) mod k8s;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod pod;
mod printed;
mod repeated;
pub(crate) mod report;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod sweep;
mod tried;
pub(crate) mod tune;
mod tune_proxy;
pub(crate) mod watch;
