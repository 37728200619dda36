"""Publishes to, or subscribes at, 127.0.0.1:PORT by paho, and exits with 0 if the broker says that all is well.

PORT VERSION(4|5) publish|subscribe QOS
"""
import sys
import threading

import paho.mqtt.client as mqtt

port, version, asks, qos = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
done, outcome = threading.Event(), []


def end(is_ok):
    outcome.append(is_ok)
    done.set()


def failed(code):
    return getattr(code, "value", code) >= 0x80


def on_connect(client, _data, _flags, code, *_):
    if getattr(code, "value", code) != 0:
        return end(False)
    if asks == "publish":
        client.publish("a", "x", qos)
    else:
        client.subscribe("s", qos)


client = mqtt.Client("judge", protocol=version)
client.on_connect = on_connect
client.on_publish = lambda *_: end(True)
client.on_subscribe = lambda _c, _d, _id, codes, *_: end(not any(failed(code) for code in codes))
client.on_disconnect = lambda *_: end(False)
client.connect("127.0.0.1", port)
client.loop_start()
done.wait(3)
sys.exit(0 if outcome[:1] == [True] else 1)
