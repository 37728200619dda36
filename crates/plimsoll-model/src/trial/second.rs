//! The seconds of a trial: a host's speed changes within one.

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::observation::SutCpu;

/// One second of a trial's window; the last one may be cut short by its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialSecond {
    /// Operations that were sent in it.
    pub sent: u64,
    /// Operations that ended well in it, late ones included.
    pub ok: u64,
    /// Operations that were late at the strictest deadline, failed or unsent in it.
    pub bad: u64,
    /// CPU time of the SUT's threads in it, if its processes are known and on this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sut_cpu: Option<SutCpu>,
    /// CPU time that the yardstick's fixed piece of work took on the SUT's CPUs: the mean of its
    /// samples in this second; `None` if its processes are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yardstick: Option<Nanos>,
    /// Mean of the yardstick on the CPUs of the clients, if they are on this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_yardstick: Option<Nanos>,
}
