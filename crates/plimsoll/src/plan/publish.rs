//! Publishing of figures while a command runs, resolved.

use std::net::SocketAddr;
use std::time::Duration;

use plimsoll_report::live::Collector;

use super::live::LiveJob;
use super::serve::statsd;
use super::{Inputs, live};
use crate::exit::{Result, Stop};
use crate::flags::publish::PublishFlags;
use crate::flags::shared::OutputFlags;
use crate::flags::values::ListenAt;

/// Default of `--metrics-linger`: four times Prometheus' own scrape interval of 15 s.
const LINGER_DEFAULT: Duration = Duration::from_secs(60);

/// Publishing of figures while a command runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PublishJob {
    /// Place of the page.
    pub(crate) live: Option<LiveJob>,
    /// Listener for scrapers.
    pub(crate) prometheus: Option<MetricsJob>,
    /// For how long after the end at most.
    pub(crate) linger: Duration,
    /// Receiver of StatsD.
    pub(crate) statsd: Option<SocketAddr>,
    /// Receiver of OTLP.
    pub(crate) collector: Option<Collector>,
    /// CPUs of the thread that does it; any, where there are none.
    pub(crate) cpus: Vec<u32>,
}

/// The listener for scrapers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetricsJob {
    pub(crate) address: SocketAddr,
    /// The host as it was typed: scrapers may ask for it.
    pub(crate) name: String,
}

impl PublishJob {
    /// Reports whether figures go anywhere.
    pub(crate) const fn is_asked(&self) -> bool {
        self.live.is_some()
            || self.prometheus.is_some()
            || self.statsd.is_some()
            || self.collector.is_some()
    }
}

/// Resolves the flags of a command that has a page.
pub(super) fn of_output(flags: &OutputFlags, inputs: &Inputs) -> Result<PublishJob> {
    let live = flags.live.as_ref().map(|at| live::build(at, inputs)).transpose()?;
    Ok(PublishJob { live, ..build(&flags.publish, inputs)? })
}

/// Resolves the flags of one that has none.
pub(super) fn build(flags: &PublishFlags, inputs: &Inputs) -> Result<PublishJob> {
    let listen = |at: &ListenAt| {
        let address = listen_address(at, "--prometheus", inputs)?;
        Ok::<_, Stop>(MetricsJob { address, name: at.host.clone() })
    };
    Ok(PublishJob {
        live: None,
        prometheus: flags.prometheus.as_ref().map(listen).transpose()?,
        linger: flags.metrics_linger.map_or(LINGER_DEFAULT, Duration::from),
        statsd: flags.statsd.as_deref().map(|text| statsd(text, inputs)).transpose()?,
        collector: flags.otlp.clone(),
        cpus: Vec::new(),
    })
}

/// Returns the one address that `flag` names.
pub(super) fn listen_address(at: &ListenAt, flag: &str, inputs: &Inputs) -> Result<SocketAddr> {
    refuse_if!(at.first != at.last; "{flag} takes one port"; "drop the range");
    Ok(SocketAddr::new(inputs.address_of(&at.host)?, at.first))
}
