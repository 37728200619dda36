//! Where figures go while a command runs, resolved.

use std::net::SocketAddr;
use std::time::Duration;

use plimsoll_report::live::Collector;

use super::Inputs;
use super::serve::statsd;
use crate::exit::Stop;
use crate::flags::publish::PublishFlags;
use crate::flags::values::ListenAt;

/// Default of `--metrics-linger`: four times Prometheus' own scrape interval of 15 s.
const LINGER_DEFAULT: Duration = Duration::from_secs(60);

/// Where figures go while a command runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PublishJob {
    /// Where scrapers are answered.
    pub(crate) prometheus: Option<SocketAddr>,
    /// For how long after the end at most.
    pub(crate) linger: Duration,
    /// Where StatsD goes.
    pub(crate) statsd: Option<SocketAddr>,
    /// Where OTLP goes.
    pub(crate) collector: Option<Collector>,
}

/// Resolves the flags.
pub(super) fn build(flags: &PublishFlags, inputs: &Inputs<'_>) -> Result<PublishJob, Stop> {
    let listen = |at: &ListenAt| listen_address(at, "--prometheus", inputs);
    Ok(PublishJob {
        prometheus: flags.prometheus.as_ref().map(listen).transpose()?,
        linger: flags.metrics_linger.map_or(LINGER_DEFAULT, Duration::from),
        statsd: flags.statsd.as_deref().map(|text| statsd(text, inputs)).transpose()?,
        collector: flags.otlp.clone(),
    })
}

/// The one address that `flag` names.
pub(super) fn listen_address(
    at: &ListenAt,
    flag: &str,
    inputs: &Inputs<'_>,
) -> Result<SocketAddr, Stop> {
    if at.first != at.last {
        return Err(Stop::usage(format_args!("{flag} takes one port"), "drop the range"));
    }
    Ok(SocketAddr::new(inputs.address_of(&at.host)?, at.first))
}
