//! Keep-alive of MQTT: brokers that end silent connections find none, and a broker that is silent loses its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use e2e::certificate::Certificate;
use e2e::mosquitto::Mosquitto;
use e2e::plimsoll::Plimsoll;

const CONNECT: u8 = 0x10;
const PUBLISH: u8 = 0x32;
const PINGREQ: u8 = 0xC0;
/// A client's packets are short here.
const LENGTH_BYTES: usize = 1;

/// A broker with a keep-alive.
#[derive(Clone, Copy)]
struct Broker {
    /// Server Keep Alive, s; `None`: that of CONNECT counts.
    stated_s: Option<u8>,
    /// Answers pings.
    is_alive: bool,
}

impl Broker {
    fn start(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || self.serve(stream));
            }
        });
        address
    }

    /// Until the client ends the connection, or nothing came from it for one and a half times the keep-alive.
    fn serve(self, mut stream: TcpStream) -> Option<()> {
        loop {
            let mut head = [0; 1 + LENGTH_BYTES];
            if stream.read_exact(&mut head).is_err() {
                // A client of version 5 is told why; where it has left this changes nothing.
                return stream.write_all(b"\xE0\x02\x8D\0").ok();
            }
            let mut content = vec![0; usize::from(head[1])];
            stream.read_exact(&mut content).ok()?;
            match head[0] {
                CONNECT => {
                    let asked_s = u64::from(content[9]);
                    let seconds = self.stated_s.map_or(asked_s, u64::from);
                    stream.set_read_timeout(Some(Duration::from_millis(seconds * 1_500))).ok()?;
                    let is_v5 = content[6] == 5;
                    match self.stated_s.filter(|_| is_v5) {
                        Some(seconds) => stream.write_all(&[0x20, 6, 0, 0, 3, 0x13, 0, seconds]),
                        None if is_v5 => stream.write_all(b"\x20\x03\0\0\0"),
                        None => stream.write_all(b"\x20\x02\0\0"),
                    }
                    .ok()?;
                }
                PUBLISH => {
                    let at = 2 + usize::from(content[1]);
                    stream.write_all(&[0x40, 2, content[at], content[at + 1]]).ok()?;
                }
                PINGREQ if self.is_alive => stream.write_all(b"\xD0\0").ok()?,
                _ => {}
            }
        }
    }
}

#[test]
fn a_load_pings_between_rare_publishes() {
    let by_itself = Broker { stated_s: None, is_alive: true }.start();
    let by_the_broker = Broker { stated_s: Some(1), is_alive: true }.start();
    for (broker, flags) in [
        (by_itself, &["--keep-alive", "1"][..]),
        (by_itself, &["--keep-alive", "1", "--mqtt-version", "3.1.1"]),
        (by_itself, &["--keep-alive", "1", "--inflight", "4"]),
        (by_the_broker, &[]),
        (by_the_broker, &["--keep-alive", "60", "--inflight", "4"]),
    ] {
        let pace = ["--rate", "0.5", "-d", "4s", "-c", "2", "--arrivals", "uniform"];
        let load = Plimsoll::load(&format!("mqtt://{broker}"), &[&pace[..], flags].concat());
        let finished = load.run();
        let summary = finished.summary(0);
        summary.assert_all_ok(2);
        // None was closed, and opened again.
        assert_eq!(summary.count("connections.opened"), 2, "{flags:?}: {summary:?}");
        assert_eq!(summary.count("connections.closed_by_peer"), 0, "{flags:?}: {summary:?}");
        let pings = summary.count("pings.sent");
        assert!(pings >= 4 && summary.count("pings.answered") >= pings - 2, "{summary:?}");
        let stated_s = u64::from(broker == by_the_broker);
        assert_eq!(summary.count("pings.server_keep_alive_s"), stated_s, "{summary:?}");
    }
}

#[test]
fn a_hold_obeys_the_keep_alive_of_the_broker() {
    let broker = Broker { stated_s: Some(1), is_alive: true }.start();
    let url = format!("mqtt://{broker}");
    let hold = ["hold", &url, "-c", "3", "--heartbeat", "10s", "--for", "3s"];
    let summary = Plimsoll::new([&hold[..], &["--no-ui", "--json", "-"]].concat()).run().summary(0);
    assert_eq!(summary.count("connections.opened"), 3, "{summary:?}");
    assert_eq!(summary.count("connections.held_end"), 3, "{summary:?}");
    assert!(summary.count("pings.sent") >= 6, "{summary:?}");
}

#[test]
fn a_broker_that_answers_no_ping_loses_its_connections() {
    let broker = Broker { stated_s: Some(1), is_alive: false }.start();
    let pace = ["--rate", "0.5", "-d", "4s", "-c", "2", "--arrivals", "uniform"];
    let load = Plimsoll::load(&format!("mqtt://{broker}"), &pace);
    let finished = load.run();
    let summary = finished.summary(0);
    assert!(summary.count("connections.lost_idle") >= 2, "{summary:?}");
    assert!(finished.stderr.contains("did not answer a PINGREQ"), "{}", finished.stderr);
}

#[test]
fn mosquitto_finds_no_client_silent() {
    let broker = Mosquitto::start_with("max_keepalive 10\n", &Certificate::new());
    let plain = format!("mqtt://{}", broker.plain);
    let tls = format!("mqtts://{}", broker.tls);
    for (url, version) in [(&plain, "5"), (&tls, "3.1.1"), (&tls, "5")] {
        let pace = ["--rate", "0.5", "-d", "4s", "-c", "2", "--arrivals", "uniform", "-k"];
        let said = ["--mqtt-version", version, "--keep-alive", "1"];
        let load = Plimsoll::load(url, &[&pace[..], &said].concat());
        let summary = load.run().summary(0);
        summary.assert_all_ok(2);
        assert_eq!(summary.count("connections.opened"), 2, "{summary:?}");
        assert!(summary.count("pings.answered") >= 2, "{summary:?}");
    }
    let log = broker.log();
    assert!(!log.contains("exceeded timeout"), "{log}");
    // What it states itself is shorter than what was asked for.
    let asked = ["--keep-alive", "60", "--rate", "0", "-n", "2", "-c", "1"];
    let summary = Plimsoll::load(&plain, &asked).run().summary(0);
    assert_eq!(summary.count("pings.server_keep_alive_s"), 10, "{summary:?}");
}
