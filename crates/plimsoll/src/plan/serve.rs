//! `plimsoll serve` into a job.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;

use plimsoll_model::Nanos;
use plimsoll_model::plan::{DeliveryFaults, Listener, ServePlan, Spoken};

use super::Inputs;
use super::tls::identity;
use crate::exit::Result;
use crate::flags::ServeFlags;
use crate::flags::values::{ListenAt, Processes};

/// Default listener of `serve`.
const LISTENER_DEFAULT: Listener = Listener {
    address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
    tls: false,
    spoken: Spoken::Http,
};

/// Most listening sockets; each needs a descriptor in every process.
const LISTENERS_MAX: usize = 4096;

/// StatsD's registered port.
const STATSD_PORT: u16 = 8125;

/// Checks and resolves the flags of `serve` into the plan of each process; without `identity`, TLS listeners need one
/// made for them.
pub(crate) fn build(flags: &ServeFlags, inputs: &mut Inputs) -> Result<ServePlan> {
    let over_tls = [&flags.https, &flags.mqtts, &flags.tcp_tls];
    refuse_if!(over_tls.iter().all(|listeners| listeners.is_empty()) && flags.cert.is_some();
        "--cert is for --https, --mqtts and --tcp-tls, and there is none"; "add --https 8443");
    if flags.mqtt.is_empty() && flags.mqtts.is_empty() {
        let of_mqtt = [
            (flags.mqtt_delay > Nanos::ZERO, "--mqtt-delay"),
            (flags.mqtt_lose_every.is_some(), "--mqtt-lose-every"),
            (flags.mqtt_repeat_every.is_some(), "--mqtt-repeat-every"),
        ];
        if let Some((_, flag)) = of_mqtt.iter().find(|(is_given, _)| *is_given) {
            refuse!("{flag} is for --mqtt and --mqtts"; "add --mqtt 1883");
        }
    }
    if let (Some(_), Processes::Exactly(_)) = (flags.connections, flags.processes) {
        refuse!("--connections sizes --processes auto, and --processes sets their number";
            "drop one of them");
    }
    let mut listeners = Vec::new();
    for (ranges, spoken) in [
        (&flags.http, (false, Spoken::Http)),
        (&flags.https, (true, Spoken::Http)),
        (&flags.mqtt, (false, Spoken::Mqtt)),
        (&flags.mqtts, (true, Spoken::Mqtt)),
        (&flags.tcp, (false, Spoken::Echo)),
        (&flags.tcp_tls, (true, Spoken::Echo)),
    ] {
        for range in ranges {
            listen(range, spoken, inputs, &mut listeners)?;
        }
    }
    if listeners.is_empty() {
        listeners.push(LISTENER_DEFAULT);
    }
    let processes = match flags.processes {
        Processes::Exactly(count) => count,
        Processes::Auto => 1,
    };
    Ok(ServePlan {
        listeners,
        identity: identity(flags.cert.as_ref(), flags.key.as_ref())?,
        ticket_key: None,
        threads: flags.threads.unwrap_or_else(|| inputs.threads_default(processes)),
        cpus: Vec::new(),
        tls_state: flags.tls_state.into(),
        statsd: flags.statsd.as_deref().map(|text| statsd(text, inputs)).transpose()?,
        seed: flags.seed,
        request_timeout: flags.request_timeout,
        idle_timeout: flags.idle_timeout,
        acknowledgement_delay: flags.mqtt_delay,
        receive_maximum: flags.mqtt_receive_maximum.get(),
        delivery_faults: DeliveryFaults {
            lose_every: flags.mqtt_lose_every.map_or(0, NonZeroU32::get),
            repeat_every: flags.mqtt_repeat_every.map_or(0, NonZeroU32::get),
        },
        accept_proxy: flags.accept_proxy,
    })
}

fn listen(
    range: &ListenAt,
    (tls, spoken): (bool, Spoken),
    inputs: &Inputs,
    listeners: &mut Vec<Listener>,
) -> Result<()> {
    let ports = range.first..=range.last;
    refuse_if!(listeners.len() + ports.len() > LISTENERS_MAX;
        "more than {LISTENERS_MAX} ports to listen on"; "narrow the ranges");
    // A name may have several addresses; one of them is listened on, IPv4 where there is one.
    let found = inputs.address_of(&range.host)?;
    for port in ports {
        let address = SocketAddr::new(found, port);
        let taken = |other: &Listener| port != 0 && other.address == address;
        refuse_if!(listeners.iter().any(taken); "{address} is given twice"; "drop one of them");
        listeners.push(Listener { address, tls, spoken });
    }
    Ok(())
}

/// Returns the address that `--statsd` names.
pub(super) fn statsd(text: &str, inputs: &Inputs) -> Result<SocketAddr> {
    let refuse =
        || usage!("--statsd {text:?} is not HOST:PORT"; "write it like --statsd 127.0.0.1:8125");
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let (host, port) = match text.split_once(':') {
        None => (text, STATSD_PORT),
        Some((host, port)) => (host, port.parse::<u16>().map_err(|_| refuse())?),
    };
    if host.is_empty() || port == 0 || host.contains('/') {
        return Err(refuse());
    }
    let host = inputs.address_of(host)?;
    Ok(SocketAddr::new(host, port))
}
