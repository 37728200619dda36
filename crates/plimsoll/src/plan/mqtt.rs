//! Settings of MQTT clients: `--topic`, `--qos`, `--users`, `--will-topic` and the like.
//!
//! [`plan`] returns the CONNECT settings of all clients, [`publish`] the settings of a PUBLISH. Topics and filters
//! are templates; `check_filled` fills them with the names of each client and refuses a result that MQTT does not
//! allow. If clients subscribe to topics that they publish to, the plan counts deliveries: at most 2^22 pairs of
//! publisher and subscriber, and a payload of at least one stamp. Errors in lists name the line. Start with [`plan`].

use std::collections::HashMap;
use std::num::NonZeroU16;

use plimsoll_model::Nanos;
use plimsoll_model::lines::Line;
use plimsoll_model::plan::{ClientIds, DeliveryPlan, LoadPlan, MqttPlan, Pacing};
use plimsoll_model::target::{
    Credentials, MqttVersion, Protocol, Publish, Qos, REMAINING_LENGTH_MAX, STAMP_BYTES,
    Subscription, Target, Will, foreign_placeholder, is_filter, is_topic,
};
use plimsoll_model::units::grouped;
use plimsoll_sys::clock;

use super::Inputs;
use super::list::List;
use super::parts::Parts;
use crate::exit::Result;
use crate::flags::mqtt::MqttFlags;
use crate::flags::values::InputFile;

const TOPIC_DEFAULT: &str = "plimsoll";
/// Bytes of a PUBLISH beside topic and payload, at most: topic length, packet identifier and an empty list of
/// properties.
const PUBLISH_HEAD_BYTES_MAX: usize = 2 + 2 + 1;
/// Bytes of the prefix of a client identifier, at most; the number of the connection follows it. Brokers must accept
/// identifiers of 23 bytes and may refuse longer ones (MQTT 3.1.1, 3.1.3.1).
const PREFIX_BYTES_MAX: usize = 64;
/// Bytes of an identifier, a name, a password or the message of a will, at most.
const TEXT_BYTES_MAX: usize = 65_535;
const NANOS_PER_S: u64 = Nanos::from_secs(1).0;
/// Pairs of a publisher and a subscriber, at most; the messages of each pair are counted, which needs about 200 MB.
const PAIRS_MAX: u64 = 1 << 22;

/// Returns the settings of a publish of this many bytes.
pub(super) fn publish(flags: &MqttFlags, payload_bytes: usize) -> Result<Publish> {
    let topic = flags.topic.clone().unwrap_or_else(|| TOPIC_DEFAULT.to_owned());
    check_topic("--topic", &topic)?;
    refuse_if!(PUBLISH_HEAD_BYTES_MAX + TEXT_BYTES_MAX + payload_bytes > REMAINING_LENGTH_MAX;
        "the payload is larger than MQTT allows"; "give less than 256 MiB less 64 KiB");
    Ok(Publish { topic, qos: flags.qos.unwrap_or_default(), retain: flags.retain })
}

fn check_topic(flag: &str, topic: &str) -> Result<()> {
    check_placeholders(flag, topic)?;
    refuse_if!(!is_topic(topic);
        "{flag} {topic:.80?} is not a topic to publish to";
        "give 1 to 65,535 bytes without # and +");
    Ok(())
}

fn check_placeholders(flag: &str, template: &str) -> Result<()> {
    if let Some(unknown) = foreign_placeholder(template) {
        refuse!("{flag} has {unknown}, which stands for nothing";
            "use %c (client identifier), %i (number of the connection), %u (user) or %% (percent sign)");
    }
    Ok(())
}

/// Returns the CONNECT settings of the clients of a load over this many connections; `None` if MQTT is not spoken.
pub(super) fn plan(
    targets: &[Target],
    parts: &Parts<'_>,
    connections: u64,
    inputs: &mut Inputs,
) -> Result<Option<MqttPlan>> {
    let (flags, pacing) = (&parts.to.request.mqtt, &parts.pacing);
    let Some(target) = targets.first().filter(|one| one.url.protocol == Protocol::Mqtt) else {
        return Ok(None);
    };
    let version = flags.mqtt_version.unwrap_or_default();
    refuse_if!(flags.session_expiry.is_some() && version != MqttVersion::V5;
        "MQTT 3.1.1 has no --session-expiry";
        "drop it; with --no-clean-start its sessions are kept");
    if let Some(filter) = &flags.subscribe {
        check_placeholders("--subscribe", filter)?;
        refuse_if!(!is_filter(filter);
            "--subscribe {filter:.80?} is not a topic filter";
            "give levels with / between them; + or # is a level of its own, # the last one");
    }
    let subscribe = flags.subscribe.clone().map(|filter| {
        let qos = flags.subscribe_qos.unwrap_or(Qos::AtMostOnce);
        Subscription { filter, qos }
    });
    let mut plan = MqttPlan {
        version,
        client_ids: client_ids(flags, connections, inputs)?,
        users: match &flags.users {
            Some(from) => users(from, version, inputs)?.into(),
            None => [].into(),
        },
        keep_alive_s: keep_alive_s(flags, pacing),
        resumes_session: flags.no_clean_start,
        session_expiry_s: flags.session_expiry,
        in_flight: in_flight(flags, target)?,
        will: will(flags)?,
        subscribe,
        deliveries: None,
    };
    check_filled(&plan, target, connections)?;
    let are_kept = !parts.pool.no_keepalive && parts.pool.requests_per_connection.is_none();
    if are_kept && !parts.to.only_connects && !matches!(pacing, Pacing::Hold(_)) {
        plan.deliveries = deliveries(&plan, target, connections)?;
    }
    Ok(Some(plan))
}

/// Returns the counting of deliveries; `None` if the load gets nothing of what it publishes.
fn deliveries(plan: &MqttPlan, target: &Target, connections: u64) -> Result<Option<DeliveryPlan>> {
    let Some(publish) = target.publish.as_ref().filter(|_| plan.subscribe.is_some()) else {
        return Ok(None);
    };
    let filters = plan.filters(connections);
    let matching = |number| filters.matching(&plan.filled(&publish.topic, number));
    let pairs = match publish.topic.contains('%') {
        true => (0..connections).map(matching).fold(0, u64::saturating_add),
        false => matching(0).saturating_mul(connections),
    };
    if pairs == 0 {
        return Ok(None);
    }
    refuse_if!(pairs > PAIRS_MAX;
        "what {} connections publish goes to {} subscribers in all, and at most {} can be distinguished",
            grouped(connections), grouped(pairs), grouped(PAIRS_MAX);
        "give fewer --connections, or a --topic and a --subscribe that fewer of them share, as with %i");
    refuse_if!(target.body.len() < STAMP_BYTES;
        "what is delivered here is counted by a stamp of {STAMP_BYTES} bytes at the payload's \
         beginning, and the payload has {}",
            target.body.len();
        "give --data or --body of {STAMP_BYTES} bytes or more");
    // Two runs that begin in the same second are of two processes.
    let run = (clock::unix_seconds() as u32).wrapping_mul(0x9E37_79B1) ^ std::process::id();
    Ok(Some(DeliveryPlan { run }))
}

/// Returns the number of subscriptions to which each publish of a load is delivered; all publishes must have the same.
pub(super) fn deliveries_each(plan: &LoadPlan) -> Result<u64> {
    let publish = plan.targets.first().and_then(|target| target.publish.as_ref());
    let counted = plan.mqtt.as_ref().filter(|mqtt| mqtt.deliveries.is_some());
    let (Some(publish), Some(mqtt)) = (publish, counted) else {
        refuse!("find deliveries needs a load that gets what it publishes";
            "give an mqtt:// URL and a --subscribe that --topic matches, such as --topic a/%i --subscribe 'a/#'");
    };
    let filters = mqtt.filters(plan.connections);
    let matching = |number| filters.matching(&mqtt.filled(&publish.topic, number));
    let (least, most) = match publish.topic.contains('%') {
        true => (0..plan.connections)
            .map(matching)
            .fold((u64::MAX, 0), |(least, most), each| (each.min(least), each.max(most))),
        false => (matching(0), matching(0)),
    };
    refuse_if!(least != most;
        "some connections publish to {} subscribers and others to {}, so that a rate of \
         deliveries is no rate of publishes",
            grouped(least), grouped(most);
        "give a --topic and a --subscribe that are alike for all of them");
    Ok(most)
}

fn in_flight(flags: &MqttFlags, target: &Target) -> Result<u16> {
    let in_flight = flags.inflight.map_or(1, NonZeroU16::get);
    let qos = target.publish.as_ref().map(|publish| publish.qos);
    refuse_if!(in_flight > 1 && qos == Some(Qos::AtMostOnce);
        "a publish at QoS 0 is never open: nothing acknowledges it";
        "drop --inflight, or give --qos 1 or 2");
    Ok(in_flight)
}

/// Returns the keep-alive of CONNECT. If heartbeats are further apart, connections ping between them.
fn keep_alive_s(flags: &MqttFlags, pacing: &Pacing) -> u16 {
    let beat_s = match pacing {
        Pacing::Hold(hold) => hold.heartbeat.map_or(0, |beat| beat.0.div_ceil(NANOS_PER_S)),
        Pacing::Open { .. } | Pacing::Closed { .. } => 0,
    };
    flags.keep_alive.unwrap_or_else(|| u16::try_from(beat_s).unwrap_or(u16::MAX))
}

fn client_ids(flags: &MqttFlags, connections: u64, inputs: &mut Inputs) -> Result<ClientIds> {
    let Some(from) = &flags.client_ids else {
        let own = || format!("plimsoll-{:x}-", std::process::id());
        let prefix = flags.client_id.clone().unwrap_or_else(own);
        refuse_if!(prefix.len() > PREFIX_BYTES_MAX || prefix.contains('\0');
            "--client-id is too long"; "give 64 bytes at most");
        return Ok(ClientIds::Prefix(prefix));
    };
    let list = List::read("--client-ids", from, "a client identifier", inputs)?;
    let (mut ids, mut known) = (Vec::new(), HashMap::new());
    for Line { number, text: id } in list.entries() {
        check_text(&list, number, id)?;
        if let Some(first) = known.insert(id, number) {
            return Err(list.wrong(
                number,
                format_args!("{id:.80?} is in line {first}, too"),
                "name each client once: a broker ends the first of two sessions of one name",
            ));
        }
        ids.push(id.to_owned());
    }
    if (ids.len() as u64) < connections {
        let (named, wanted) = (grouped(ids.len() as u64), grouped(connections));
        return Err(list.refused(
            format_args!("has {named} entries for {wanted} connections"),
            "add lines, or give fewer --connections",
        ));
    }
    Ok(ClientIds::Listed(ids.into()))
}

fn users(from: &InputFile, version: MqttVersion, inputs: &mut Inputs) -> Result<Vec<Credentials>> {
    let list = List::read("--users", from, "USER:PASSWORD or USER", inputs)?;
    let user = |Line { number, text }: Line<'_>| {
        let (name, password) =
            text.split_once(':').map_or((text, None), |(name, password)| (name, Some(password)));
        // MQTT 5 lets a password stand alone, as a token.
        let is_token = version == MqttVersion::V5 && password.is_some_and(|one| !one.is_empty());
        if name.is_empty() && !is_token {
            return Err(list.wrong(number, "no user name", "write USER:PASSWORD"));
        }
        // The line may be a password as a whole: it is not repeated.
        for text in [Some(name), password].into_iter().flatten() {
            check_text(&list, number, text)?;
        }
        Ok(Credentials { name: name.to_owned(), password: password.map(str::to_owned) })
    };
    list.entries().map(user).collect()
}

fn check_text(list: &List, line: usize, text: &str) -> Result<()> {
    match text.len() > TEXT_BYTES_MAX {
        true => {
            Err(list.wrong(line, "too long for a packet of MQTT", "write 65,535 bytes at most"))
        }
        false => Ok(()),
    }
}

fn will(flags: &MqttFlags) -> Result<Option<Will>> {
    let Some(topic) = flags.will_topic.clone() else { return Ok(None) };
    check_topic("--will-topic", &topic)?;
    let message = flags.will_message.clone().unwrap_or_default().into_bytes();
    refuse_if!(message.len() > TEXT_BYTES_MAX;
        "--will-message is too long"; "give 65,535 bytes at most");
    let qos = flags.will_qos.unwrap_or(Qos::AtMostOnce);
    let publish = Publish { topic, qos, retain: flags.will_retain };
    Ok(Some(Will { publish, message }))
}

/// Reports whether topics and filters are still such with the names of each client in them.
fn check_filled(plan: &MqttPlan, target: &Target, connections: u64) -> Result<()> {
    let topic = target.publish.as_ref().map(|publish| publish.topic.as_str());
    let will = plan.will.as_ref().map(|will| will.publish.topic.as_str());
    let all = [
        ("--topic", topic, is_topic as fn(&str) -> bool),
        ("--will-topic", will, is_topic),
        ("--subscribe", plan.subscribe.as_ref().map(|wanted| wanted.filter.as_str()), is_filter),
    ];
    // A prefix is the same for all; lists name each client and user.
    let last = match (&plan.client_ids, plan.users.is_empty()) {
        (ClientIds::Prefix(_), true) => 1,
        (ClientIds::Listed(ids), _) => connections.max(ids.len() as u64),
        (ClientIds::Prefix(_), false) => plan.users.len() as u64,
    };
    for (flag, template, is_valid) in all {
        let Some(template) = template.filter(|template| template.contains('%')) else { continue };
        let filled = |number| plan.filled(template, number);
        if let Some(wrong) = (0..last).map(filled).find(|filled| !is_valid(filled)) {
            refuse!("{flag} {template:.80?} becomes {wrong:.80?}, which MQTT does not allow";
                "take other placeholders, or other names of clients and users");
        }
    }
    Ok(())
}
