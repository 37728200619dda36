//! MQTT: our client against mosquitto, mosquitto's clients against `plimsoll serve`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use e2e::certificate::Certificate;
use e2e::mosquitto::Mosquitto;
use e2e::plimsoll::Plimsoll;
use e2e::program;
use e2e::serve::Serve;

const TOPIC: &str = "e2e/load";

/// A client of mosquitto's at this address.
fn client(name: &str, port: u16, arguments: &[&str]) -> Child {
    let mut command = Command::new(program::installed(name));
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("an installed program can be run")
}

fn output(child: Child) -> Output {
    let output = child.wait_with_output().expect("it can be waited for");
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn mosquitto_receives_what_was_published_at_every_quality() {
    let broker = Mosquitto::start(&Certificate::new());
    let subscribe = ["-t", TOPIC, "-q", "2", "-C", "90", "-W", "30"];
    let subscriber = client("mosquitto_sub", broker.plain.port(), &subscribe);
    broker.wait_for("SUBACK", 1);
    for (url, qos, mqtt) in [
        (format!("mqtt://{}", broker.plain), "0", "3.1.1"),
        (format!("mqtt://{}", broker.plain), "1", "5"),
        (format!("mqtts://{}", broker.tls), "2", "3.1.1"),
    ] {
        let message =
            ["--topic", TOPIC, "--qos", qos, "--mqtt-version", mqtt, "--data", "a message"];
        let pace = ["--rate", "0", "-n", "30", "-c", "3", "-k"];
        let load = Plimsoll::load(&url, &[&message[..], &pace].concat());
        let finished = load.run();
        finished.summary(0).assert_all_ok(30);
    }
    let received = String::from_utf8(output(subscriber).stdout).expect("text");
    assert_eq!(received, "a message\n".repeat(90));
    // DISCONNECT, and not only a closed connection.
    broker.wait_for("Received DISCONNECT from plimsoll-", 9);
}

#[test]
fn several_publishes_are_open_at_once_and_no_more_than_the_broker_allows() {
    let broker = Mosquitto::start(&Certificate::new());
    let subscribe = ["-t", "window/#", "-q", "2", "-C", "800", "-W", "30"];
    let subscriber = client("mosquitto_sub", broker.plain.port(), &subscribe);
    broker.wait_for("SUBACK", 1);
    // In version 5 mosquitto lets 20 be open. It queues 1,000 for a subscriber that is slower, and drops others.
    for (url, qos) in
        [(format!("mqtt://{}", broker.plain), "1"), (format!("mqtts://{}", broker.tls), "2")]
    {
        let message = ["--topic", "window/%i", "--qos", qos, "--inflight", "50", "--data", "m"];
        let pace = ["--rate", "0", "-n", "400", "-c", "3", "-k"];
        let load = Plimsoll::load(&url, &[&message[..], &pace].concat());
        load.run().summary(0).assert_all_ok(400);
    }
    let received = String::from_utf8(output(subscriber).stdout).expect("text");
    assert_eq!(received, "m\n".repeat(800));
    // Topics have the numbers of connections, of which there are three.
    assert!(broker.log().contains("'window/2'") && !broker.log().contains("'window/3'"));

    let bounds = ["--mqtt-receive-maximum", "3", "--mqtt-delay", "1ms"];
    let serve = Serve::start(&[&["--mqtt", "127.0.0.1:0"][..], &bounds].concat(), 1);
    let url = serve.url();
    let asked = ["--inflight", "4", "--rate", "0", "-n", "300", "-c", "1"];
    Plimsoll::load(url, &asked).run().summary(0).assert_all_ok(300);
    // Version 3.1.1 is not told, and is disconnected.
    let untold = Plimsoll::load(url, &[&asked[..], &["--mqtt-version", "3.1.1"]].concat()).run();
    assert!(untold.summary(99).count("errors") > 0, "{untold:?}");
}

#[test]
fn mosquitto_holds_sessions_that_ping() {
    let broker = Mosquitto::start(&Certificate::new());
    let url = format!("mqtts://{}", broker.tls);
    let hold =
        ["hold", &url, "-k", "-c", "50", "--rate", "200", "--for", "2s", "--heartbeat", "1s"];
    // Longer than any other packet that a client is sent; retained, so that each session gets it.
    let message = "m".repeat(70_000);
    let publish = ["-r", "-q", "1", "-t", "e2e/pushed", "-m", &message];
    output(client("mosquitto_pub", broker.plain.port(), &publish));
    let subscribed = ["--subscribe", "e2e/+", "--no-ui", "--json", "-"];
    let summary = Plimsoll::new([&hold[..], &subscribed].concat()).run().summary(0);
    assert_eq!(summary.count("errors"), 0, "{summary:?}");
    assert_eq!(broker.log().matches("Sending PUBLISH to plimsoll-").count(), 50);
    assert!(broker.log().matches("Received PINGREQ").count() >= 100);
    assert!(broker.log().contains("(p2, c1, k1)") || broker.log().contains("(p5, c1, k1)"));
}

#[test]
fn mosquitto_knows_each_client_by_name_and_password() {
    let users = [("ann", "one"), ("bob", "two"), ("watcher", "three")];
    let broker = Mosquitto::start_for(&users, &Certificate::new());
    let url = format!("mqtt://{}", broker.plain);
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("an own folder is writable");
        path.display().to_string()
    };
    let (ids, named) = (file("ids", "d-0\nd-1\nd-2\n"), file("users", "ann:one\nbob:two\n"));
    let subscribe = ["-u", "watcher", "-P", "three", "-t", "fleet/#", "-v", "-C", "60", "-W", "30"];
    let subscriber = client("mosquitto_sub", broker.plain.port(), &subscribe);
    broker.wait_for("SUBACK", 1);
    let who = ["--client-ids", &ids, "--users", &named, "--topic", "fleet/%u/%c/%i"];
    let said =
        ["--no-clean-start", "--will-topic", "gone/%c", "--will-message", "bye", "--data", "m"];
    for version in ["5", "3.1.1"] {
        let pace = ["--mqtt-version", version, "--rate", "0", "-n", "30", "-c", "3"];
        Plimsoll::load(&url, &[&who[..], &said, &pace].concat()).run().summary(0).assert_all_ok(30);
    }
    let received = String::from_utf8(output(subscriber).stdout).expect("text");
    for topic in ["fleet/ann/d-0/0 m", "fleet/bob/d-1/1 m", "fleet/ann/d-2/2 m"] {
        assert!(received.lines().filter(|line| *line == topic).count() >= 2, "{topic}: {received}");
    }
    let log = broker.log();
    assert_eq!(log.matches("Will message specified (3 bytes) (r0, q0).").count(), 6, "{log}");
    assert!(log.contains("as d-1 (p5, c0, k0, u'bob')"), "{log}");
    // A session that is kept is found again, by the same client.
    let kept = ["--session-expiry", "60", "--rate", "0", "-n", "3", "-c", "3"];
    Plimsoll::load(&url, &[&who[..], &said, &kept].concat()).run().summary(0).assert_all_ok(3);

    let wrong = file("wrong", "ann:guessed\n");
    let refused = ["--users", &wrong, "--rate", "0", "-n", "3", "-c", "1"];
    let finished = Plimsoll::load(&url, &refused).run();
    assert_eq!(finished.code, Some(99), "{finished:?}");
    assert!(finished.stderr.contains("not authorized"), "{}", finished.stderr);
    assert!(!finished.stdout.contains("guessed") && !finished.stderr.contains("guessed"));
}

#[test]
fn a_laboratory_holds_sessions_behind_real_proxies() {
    let hold = ["lab", "hold", "-c", "40", "--rate", "100", "--for", "2s", "--heartbeat", "1s"];
    for (protocol, sut, url) in [
        ("mqtt", "haproxy", "mqtts://"),
        ("tcp", "haproxy", "tls://"),
        ("ws", "nginx", "wss://"),
        ("ws", "caddy", "wss://"),
    ] {
        let lab = ["--protocol", protocol, "--sut", sut, "--no-ui", "--json", "-"];
        let finished = Plimsoll::new([&hold[..], &lab].concat()).run();
        let summary = finished.summary(0);
        assert!(summary.text("target").contains(url), "{summary:?}");
        let operation = if protocol == "tcp" { "script" } else { "ping" };
        assert!(summary.text("settings.load.operation").contains(operation), "{summary:?}");
        assert_eq!(summary.count("errors"), 0, "{summary:?}");
        assert!(summary.count("ok") >= 80, "{summary:?}");
    }
    let topics = ["--topic", "d/%i", "--subscribe", "d/#"];
    let broker = ["--protocol", "mqtt", "--sut", "haproxy", "--broker", "mosquitto"];
    let lab = [&hold[..], &broker, &topics, &["--no-ui", "--json", "-"]].concat();
    let summary = Plimsoll::new(lab).run().summary(0);
    assert_eq!(summary.count("errors"), 0, "{summary:?}");
    assert!(summary.text("target").contains("before mosquitto 2."), "{summary:?}");
    let finished = Plimsoll::new(["lab", "--broker", "mosquitto"]).run();
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let finished = Plimsoll::new(["lab", "--protocol", "mqtt", "--sut", "nginx"]).run();
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.stderr.contains("use --sut embedded or haproxy"), "{}", finished.stderr);
}

#[test]
fn mosquittos_clients_are_served() {
    let serve = Serve::start(&["--mqtt", "127.0.0.1:0", "--mqtt-delay", "1ms"], 1);
    let port: u16 =
        serve.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    for qos in ["0", "1", "2"] {
        for version in ["311", "5"] {
            let publish = ["-V", version, "-q", qos, "-t", "a/b", "-m", "hello"];
            output(client("mosquitto_pub", port, &publish));
            // Ends once the subscription is granted.
            output(client("mosquitto_sub", port, &["-V", version, "-q", qos, "-t", "a/#", "-E"]));
        }
    }
    let url = format!("mqtt://127.0.0.1:{port}");
    for qos in ["0", "1", "2"] {
        let load = Plimsoll::load(&url, &["--qos", qos, "--rate", "0", "-n", "50", "-c", "5"]);
        let summary = load.run().summary(0);
        summary.assert_all_ok(50);
        let waited_ms = summary.number("latency_ms.uncorrected.p50");
        assert_eq!(waited_ms >= 1.0, qos != "0", "QoS {qos}: {waited_ms} ms");
    }
}

#[test]
fn paho_gets_back_what_it_publishes() {
    let serve = Serve::start(&["--mqtt", "127.0.0.1:0"], 1);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/waiting/paho_judge.py");
    // Debian's, which has Debian's paho; another one in PATH has not.
    let mut judge = Command::new("/usr/bin/python3");
    judge.args([script, &serve.address().port().to_string()]).stdin(Stdio::null());
    let output = judge.output().expect("python3 is installed with python3-paho-mqtt");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_packet_that_never_ends_does_not_keep_a_session() {
    let serve = Serve::start(&["--mqtt", "127.0.0.1:0"], 1);
    let address = serve.url().trim_start_matches("mqtt://").trim_end_matches('/').to_owned();
    let mut session = TcpStream::connect(address).expect("it accepts");
    session.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
    // Keep-alive of one second; then a publish of 10,000 bytes begins.
    session.write_all(b"\x10\x0D\0\x04MQTT\x04\x02\0\x01\0\x01a").expect("it is sent");
    session.write_all(b"\x30\x90\x4E\0\x01t").expect("it is sent");
    let (mut answer, mut ends) = ([0; 4], false);
    session.read_exact(&mut answer).expect("CONNACK");
    assert_eq!(answer, *b"\x20\x02\0\0");
    for _ in 0..400 {
        let written = session.write_all(b"x");
        // Paces the bytes, too.
        let read = session.read(&mut answer);
        ends = written.is_err() || read.is_ok_and(|bytes| bytes == 0);
        if ends {
            break;
        }
    }
    assert!(ends, "after 20 s it goes on");
}

#[test]
fn what_is_not_a_broker_is_told() {
    let serve = Serve::plain();
    let url = serve.url().replacen("http", "mqtt", 1);
    let load = Plimsoll::load(url.trim_end_matches('/'), &["--rate", "0", "-n", "3", "-c", "1"]);
    let finished = load.run();
    assert_eq!(finished.code, Some(99), "{finished:?}");
    assert!(finished.stderr.contains("as HTTP does"), "{}", finished.stderr);
    let refused = |arguments: &[&str], what: &str| {
        let finished = Plimsoll::new(arguments).run();
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(finished.stderr.contains(what), "{}", finished.stderr);
    };
    refused(&["load", "mqtt://127.0.0.1:1", "-H", "a: b"], "MQTT has no --header");
    refused(&["load", "mqtt://127.0.0.1:1", "--topic", "a/#"], "is not a topic to publish to");
    refused(
        &["hold", "mqtt://127.0.0.1:1", "-c", "1", "--subscribe", "#/a"],
        "is not a topic filter",
    );
    refused(&["load", "http://127.0.0.1:1", "--qos", "1"], "--qos is for MQTT");
}
