//! MQTT on the server: acknowledgements that are delayed hold nothing else up, and are not lost.

use plimsoll_model::target::{MqttVersion, Publish, Qos, Subscription};
use plimsoll_proto::mqtt;

use super::*;

#[test]
fn what_was_published_before_the_end_of_the_stream_is_acknowledged() {
    let acknowledgement_delay = Nanos::from_millis(100);
    let mut plan = ServePlan { acknowledgement_delay, ..plan() };
    plan.listeners[0].spoken = Spoken::Mqtt;
    let (server, address) = serve(&plan);
    let mut client = Client::connect(address);
    let mut bytes = Vec::new();
    let says = mqtt::Connect { client_id: "a", keep_alive_s: 60, ..mqtt::Connect::default() };
    mqtt::connect(&mut bytes, MqttVersion::V3_1_1, &says);
    let publish = Publish { topic: "t".to_owned(), qos: Qos::AtLeastOnce, retain: false };
    for _ in 0..20 {
        mqtt::publish(&mut bytes, MqttVersion::V3_1_1, &publish, b"payload");
    }
    mqtt::pingreq(&mut bytes);
    client.send(&bytes);
    client.0.shutdown(Shutdown::Write).unwrap();
    // The answer to the ping, which was sent last, does not wait for the acknowledgements.
    assert_eq!(client.bytes(6), b"\x20\x02\0\0\xD0\0");
    assert_eq!(client.bytes(80), b"\x40\x02\0\x01".repeat(20));
    assert_eq!(client.0.read(&mut [0]).unwrap(), 0);
    assert_eq!(until(&server, |counters| counters.conns_open == 0).messages, 20);
}

#[test]
fn a_publisher_gets_what_it_wants_less_the_faults_that_were_asked_for() {
    let delivery_faults = DeliveryFaults { lose_every: 4, repeat_every: 3 };
    let mut plan = ServePlan { delivery_faults, threads: 1, ..plan() };
    plan.listeners[0].spoken = Spoken::Mqtt;
    let (server, address) = serve(&plan);
    let mut client = Client::connect(address);
    let mut bytes = Vec::new();
    let says = mqtt::Connect { client_id: "a", keep_alive_s: 60, ..mqtt::Connect::default() };
    mqtt::connect(&mut bytes, MqttVersion::V3_1_1, &says);
    let wants = Subscription { filter: "t".to_owned(), qos: Qos::AtLeastOnce };
    mqtt::subscribe(&mut bytes, MqttVersion::V3_1_1, &wants);
    let publish = Publish { topic: "t".to_owned(), qos: Qos::AtLeastOnce, retain: false };
    for payload in 1..=12 {
        mqtt::publish(&mut bytes, MqttVersion::V3_1_1, &publish, &[payload]);
    }
    client.send(&bytes);
    assert_eq!(client.bytes(9), b"\x20\x02\0\0\x90\x03\0\x01\x01");
    let mut id = 0;
    for payload in 1..=12 {
        assert_eq!(client.bytes(4), b"\x40\x02\0\x01", "{payload}");
        // A message that is left out has an identifier, too.
        id += 1;
        let copies = match (payload % 4, payload % 3) {
            (0, _) => 0,
            (_, 0) => 2,
            (_, _) => 1,
        };
        for copy in 0..copies {
            id += copy;
            assert_eq!(client.bytes(8), [0x32, 6, 0, 1, b't', 0, id, payload]);
        }
    }
    let counters = until(&server, |counters| counters.messages == 12);
    assert_eq!((counters.deliveries, counters.deliveries_lost), (9, 3));
    assert_eq!(counters.deliveries_repeated, 3);
}
