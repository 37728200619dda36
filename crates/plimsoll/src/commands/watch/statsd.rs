//! StatsD: readings sent, and what other programs send received.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use cadence::{BufferedUdpMetricSink, Counted, Gauged, StatsdClient};
use plimsoll_model::host::{Change, Metric, MetricKind, Reading, Series};
use plimsoll_probe::statsd::Received;

use crate::exit::Stop;

/// The largest datagram that is received.
const DATAGRAM_BYTES_MAX: usize = 64 * 1024;
/// The most datagrams that are taken for one reading.
const DATAGRAMS_MAX: usize = 100_000;

/// Sends gauges as they are and counters as what they grew by.
pub(super) struct Sender(StatsdClient);

impl Sender {
    /// Sends to `to`, under `plimsoll.HOST`.
    pub(super) fn start(to: SocketAddr, host: &str) -> Result<Self, Stop> {
        let cannot = |error: String| Stop::CannotRun(format!("--statsd {to}: {error}"));
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).map_err(|error| cannot(error.to_string()))?;
        socket.set_nonblocking(true).map_err(|error| cannot(error.to_string()))?;
        // Several lines in each datagram.
        let sink =
            BufferedUdpMetricSink::from(to, socket).map_err(|error| cannot(error.to_string()))?;
        Ok(Self(StatsdClient::from_sink(&format!("plimsoll.{}", clean(host)), sink)))
    }

    /// Sends one interval. UDP promises nothing: what is lost is lost.
    pub(super) fn send(&mut self, change: &Change<'_>) {
        let gauges = change.after().samples.iter();
        for sample in gauges.filter(|sample| sample.series.metric.kind() == MetricKind::Gauge) {
            let _ = self.0.gauge(&name(&sample.series), sample.value);
        }
        for metric in Metric::ALL.iter().filter(|metric| metric.kind() == MetricKind::Counter) {
            for (series, per_s) in change.rates(*metric, &[]) {
                let grown = (per_s * change.seconds()).round() as i64;
                if grown > 0 {
                    let _ = self.0.count(&name(series), grown);
                }
            }
        }
        let _ = self.0.flush();
    }
}

/// `network_bytes_total.eth0.receive`.
fn name(series: &Series) -> String {
    let labels = series.labels.iter().map(|(_, value)| format!(".{}", clean(value)));
    format!("{}{}", series.metric.name(), labels.collect::<String>())
}

/// StatsD names know letters, digits, `_`, `-` and `.`, which parts them.
fn clean(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// A socket whose datagrams are read together with the host.
pub(super) struct Receiver {
    socket: UdpSocket,
    address: SocketAddr,
    received: Received,
}

impl Receiver {
    /// Listens at `at`.
    pub(super) fn start(at: SocketAddr) -> Result<Self, Stop> {
        let cannot = |error: io::Error| {
            Stop::CannotRun(format!("--statsd-listen: cannot listen on {at}: {error}"))
        };
        let socket = UdpSocket::bind(at).map_err(cannot)?;
        socket.set_nonblocking(true).map_err(cannot)?;
        let address = socket.local_addr().map_err(cannot)?;
        Ok(Self { socket, address, received: Received::default() })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds what has arrived to `reading`.
    pub(super) fn add_to(&mut self, reading: &mut Reading) {
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        for _ in 0..DATAGRAMS_MAX {
            let Ok(length) = self.socket.recv(&mut datagram) else { break };
            self.received.add(&datagram[..length]);
        }
        self.received.add_to(reading);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;
    use plimsoll_model::host::Label;

    use super::*;

    fn reading(second: u64, opens: f64) -> Reading {
        let at = Nanos::from_secs(second);
        let mut reading = Reading { begin: at, end: at, ..Reading::default() };
        reading.add(Metric::TcpEstablished, &[], 7.0);
        reading.add(Metric::TcpOpens, &[(Label::Direction, "passive")], opens);
        reading.sort();
        reading
    }

    #[test]
    fn what_is_sent_can_be_received() {
        let mut receiver = Receiver::start("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut sender = Sender::start(receiver.address(), "proxy 1").unwrap();
        let (before, after) = (reading(1, 100.0), reading(3, 150.0));
        sender.send(&Change::new(&before, &after));
        // Loopback delivers within the call that sends.
        let mut received = Reading::default();
        receiver.add_to(&mut received);
        let gauge = [(Label::Name, "plimsoll.proxy_1.tcp_established")];
        assert_eq!(received.sum(Metric::StatsdGauge, &gauge), Some(7.0));
        let count = [(Label::Name, "plimsoll.proxy_1.tcp_opens_total.passive")];
        assert_eq!(received.sum(Metric::StatsdCount, &count), Some(50.0));
    }
}
