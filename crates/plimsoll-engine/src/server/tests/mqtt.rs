//! MQTT on the server: acknowledgements that are delayed hold nothing else up, and are not lost.

use plimsoll_model::target::{MqttVersion, Publish, Qos};
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
