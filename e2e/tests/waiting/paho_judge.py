# paho judges `plimsoll serve --mqtt` at the port that is named: both versions, each quality of service.
import sys
import threading

import paho.mqtt.client as mqtt

MESSAGES = 40


def codes(granted):
    return [code if isinstance(code, int) else code.value for code in granted]


for version in (mqtt.MQTTv311, mqtt.MQTTv5):
    for qos in (0, 1, 2):
        what = 'version %d, QoS %d' % (version, qos)
        got, granted, given_up = [], [], []
        is_granted, has_all, has_left = (threading.Event() for _ in range(3))

        def on_message(client, data, message):
            got.append((message.topic, message.payload, message.qos))
            if len(got) == MESSAGES:
                has_all.set()

        def on_subscribe(client, data, mid, answer, properties=None):
            granted.extend(codes(answer))
            is_granted.set()

        def on_unsubscribe(client, data, mid, properties=None, answer=None):
            has_left.set()

        client = mqtt.Client('paho-%d-%d' % (version, qos), protocol=version)
        client.on_message = on_message
        client.on_subscribe = on_subscribe
        client.on_unsubscribe = on_unsubscribe
        client.connect('127.0.0.1', int(sys.argv[1]), 30)
        client.loop_start()
        client.subscribe([('a/+', qos), ('b/#', 1)])
        assert is_granted.wait(10) and granted == [qos, 1], (what, granted)
        sent = [('a/%d' % n, bytes([n]) * (n * n * 50), qos) for n in range(MESSAGES)]
        for publish in [client.publish(*message) for message in sent]:
            publish.wait_for_publish(10)
            assert publish.is_published(), what
        assert has_all.wait(10), (what, len(got))
        assert got == sent, (what, [(topic, len(payload), qos) for topic, payload, qos in got])
        client.unsubscribe('a/+')
        assert has_left.wait(10), what
        client.publish('a/1', b'nobody', 1).wait_for_publish(10)
        assert len(got) == MESSAGES, what
        assert client.is_connected(), what
        client.disconnect()
        client.loop_stop()
