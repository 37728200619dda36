//! Odd brokers, met by plimsoll, mosquitto's clients and paho. Where plimsoll alone says something else, the
//! corpus has an argument for it; an argument for nothing is a failure, too.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use e2e::plimsoll::Plimsoll;
use e2e::program;
use e2e::summary::Summary;

/// Packets, by the upper half of their first byte.
const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
const PUBREL: u8 = 6;
const SUBSCRIBE: u8 = 8;
const PINGREQ: u8 = 12;
/// Longest packet of a client.
const PACKET_BYTES_MAX: usize = 4_096;
/// CONNACK of a broker without oddities, in either version.
const ACCEPTED_3: &[u8] = b"\x20\x02\0\0";
const ACCEPTED_5: &[u8] = b"\x20\x03\0\0\0";

/// One odd broker, and what is asked of it.
struct Case {
    name: &'static str,
    version: Version,
    asks: Asks,
    /// Answers CONNECT, ...
    connack: &'static [u8],
    /// ... what is asked for, ...
    answer: &'static [u8],
    /// ... and PUBREL.
    pubcomp: &'static [u8],
    /// Outcome in plimsoll: `ok`, the class of its error, or `refused` for a plan that breaks a limit.
    plimsoll: &'static str,
    /// Why plimsoll alone says so.
    argued: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V3,
    V5,
}

/// The requests of a client behind CONNECT.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Publish(u8),
    Subscribe(u8),
}

use Asks::{Publish, Subscribe};
use Version::{V3, V5};

/// Returns a publish at QoS 1 to a broker that begins so.
const fn connects(name: &'static str, version: Version, connack: &'static [u8]) -> Case {
    let (answer, pubcomp) = (b"\x40\x02\0\x01", b"");
    Case { name, version, asks: Publish(1), connack, answer, pubcomp, plimsoll: "ok", argued: None }
}

/// Makes a case of a broker that accepts each client, and gives this answer.
const fn answers(name: &'static str, version: Version, asks: Asks, answer: &'static [u8]) -> Case {
    let connack = match version {
        V3 => ACCEPTED_3,
        V5 => ACCEPTED_5,
    };
    let pubcomp = b"\x70\x02\0\x01";
    Case { name, version, asks, connack, answer, pubcomp, plimsoll: "ok", argued: None }
}

impl Case {
    const fn is(self, plimsoll: &'static str) -> Self {
        Self { plimsoll, ..self }
    }

    const fn argued(self, why: &'static str) -> Self {
        Self { argued: Some(why), ..self }
    }

    const fn ends(self, pubcomp: &'static [u8]) -> Self {
        Self { pubcomp, ..self }
    }
}

const CASES: &[Case] = &[
    // ---- CONNACK
    connects("accepted, 3.1.1", V3, ACCEPTED_3),
    connects("accepted, 5", V5, ACCEPTED_5),
    connects("bad user name, 3.1.1", V3, b"\x20\x02\0\x04").is("mqtt-refused"),
    connects("not authorized, 3.1.1", V3, b"\x20\x02\0\x05").is("mqtt-refused"),
    connects("a code that 3.1.1 does not know", V3, b"\x20\x02\0\x63").is("mqtt-refused"),
    connects("not authorized, 5", V5, b"\x20\x03\0\x87\0").is("mqtt-refused"),
    connects("server busy", V5, b"\x20\x03\0\x89\0").is("mqtt-refused"),
    connects("a reason with a text", V5, b"\x20\x07\0\x87\x04\x1F\0\x01r").is("mqtt-refused"),
    connects("a broker of 3.1.1 refuses 5", V5, b"\x20\x02\0\x01").is("refused"),
    connects("a broker of 3.1.1 accepts 5", V5, ACCEPTED_3).is("refused"),
    connects("a session that nobody wanted", V5, b"\x20\x03\x01\0\0")
        .is("mqtt-malformed")
        .argued("MQTT-3.2.2-4: a client without a session must close"),
    connects("reserved flags", V5, b"\x20\x03\x02\0\0")
        .is("mqtt-malformed")
        .argued("MQTT-3.2.2-1: they must be 0"),
    connects("an unknown property", V5, b"\x20\x05\0\0\x02\x7F\0").is("mqtt-malformed"),
    connects("properties behind the packet", V5, b"\x20\x03\0\0\x05").is("mqtt-malformed"),
    connects("the same property twice", V5, b"\x20\x07\0\0\x04\x24\x01\x24\x01")
        .is("mqtt-malformed"),
    connects("receive maximum 0", V5, b"\x20\x06\0\0\x03\x21\0\0").is("mqtt-malformed"),
    connects("receive maximum 1", V5, b"\x20\x06\0\0\x03\x21\0\x01"),
    connects("maximum QoS 0", V5, b"\x20\x05\0\0\x02\x24\0").is("refused").argued(
        "MQTT-3.2.2-11: the others publish at another QoS than they were asked for, or break it",
    ),
    connects("maximum QoS 1", V5, b"\x20\x05\0\0\x02\x24\x01"),
    connects("maximum QoS 2", V5, b"\x20\x05\0\0\x02\x24\x02").is("mqtt-malformed"),
    connects("maximum packet size 5", V5, b"\x20\x08\0\0\x05\x27\0\0\0\x05")
        .is("refused")
        .argued("MQTT-3.2.2-15: a longer packet must not be sent"),
    connects("user properties", V5, b"\x20\x11\0\0\x0E\x26\0\x01k\0\x01v\x26\0\x01k\0\x01v"),
    connects("server keep-alive", V5, b"\x20\x06\0\0\x03\x13\0\x3C"),
    connects("nothing", V5, b"").is("timeout"),
    connects("one byte of three", V5, b"\x20\x01\0").is("mqtt-malformed"),
    connects("a length of five bytes", V5, b"\x20\xFF\xFF\xFF\xFF\x01").is("mqtt-malformed"),
    connects("HTTP", V5, b"HTTP/1.1 400 Bad Request\r\n\r\n").is("mqtt-malformed"),
    connects("PINGRESP first", V5, b"\xD0\0\x20\x03\0\0\0").is("mqtt-malformed"),
    connects("two of them", V5, b"\x20\x03\0\0\0\x20\x03\0\0\0")
        .is("mqtt-malformed")
        .argued("MQTT-3.2.0-2: there is one"),
    // ---- PUBACK
    answers("success with its reason", V5, Publish(1), b"\x40\x03\0\x01\0"),
    answers("nobody subscribes", V5, Publish(1), b"\x40\x03\0\x01\x10"),
    answers("quota exceeded", V5, Publish(1), b"\x40\x03\0\x01\x97")
        .is("mqtt-rejected")
        .argued("the broker has refused the message, and the others do not look at its reason"),
    answers("an unknown reason", V5, Publish(1), b"\x40\x03\0\x01\x01").is("mqtt-malformed"),
    answers("a text", V5, Publish(1), b"\x40\x08\0\x01\0\x04\x1F\0\x01r"),
    answers("properties too long", V5, Publish(1), b"\x40\x04\0\x01\0\x05").is("mqtt-malformed"),
    answers("a reason in 3.1.1", V3, Publish(1), b"\x40\x03\0\x01\0").is("mqtt-malformed"),
    answers("another identifier", V5, Publish(1), b"\x40\x02\0\x09").is("mqtt-malformed"),
    answers("identifier 0", V5, Publish(1), b"\x40\x02\0\0").is("mqtt-malformed"),
    answers("half an identifier", V5, Publish(1), b"\x40\x01\0").is("mqtt-malformed"),
    answers("reserved flags of PUBACK", V5, Publish(1), b"\x41\x02\0\x01")
        .is("mqtt-malformed")
        .argued("MQTT-2.1.3-1: they must be 0"),
    answers("PUBREC at QoS 1", V5, Publish(1), b"\x50\x02\0\x01").is("mqtt-malformed"),
    answers("AUTH", V5, Publish(1), b"\xF0\0").is("mqtt-malformed"),
    answers("a topic alias", V5, Publish(1), b"\x30\x07\0\x01a\x03\x23\0\x01\x40\x02\0\x01")
        .is("mqtt-malformed")
        .argued("MQTT-3.1.2-27: the client has announced none"),
    answers("a message meanwhile", V5, Publish(1), b"\x30\x05\0\x01a\0x\x40\x02\0\x01"),
    answers("DISCONNECT", V5, Publish(1), b"\xE0\x01\x8B").is("mqtt-disconnected"),
    answers("no acknowledgement", V5, Publish(1), b"").is("timeout"),
    // ---- PUBREC and PUBCOMP
    answers("exactly once", V5, Publish(2), b"\x50\x02\0\x01"),
    answers("PUBREC refuses", V5, Publish(2), b"\x50\x03\0\x01\x97")
        .is("mqtt-rejected")
        .argued("the broker has refused the message, and the others do not look at its reason"),
    answers("PUBACK at QoS 2", V5, Publish(2), b"\x40\x02\0\x01").is("mqtt-malformed"),
    answers("PUBCOMP of another", V5, Publish(2), b"\x50\x02\0\x01")
        .ends(b"\x70\x02\0\x09")
        .is("mqtt-malformed"),
    answers("no PUBCOMP", V3, Publish(2), b"\x50\x02\0\x01").ends(b"").is("timeout"),
    // ---- SUBACK
    answers("granted", V5, Subscribe(1), b"\x90\x04\0\x01\0\x01"),
    answers("granted, 3.1.1", V3, Subscribe(1), b"\x90\x03\0\x01\x01"),
    answers("granted less", V5, Subscribe(1), b"\x90\x04\0\x01\0\0")
        .is("refused")
        .argued("MQTT-3.8.4-8: messages would come at another QoS than that of the plan"),
    answers("denied, 5", V5, Subscribe(1), b"\x90\x04\0\x01\0\x87").is("mqtt-rejected"),
    answers("denied, 3.1.1", V3, Subscribe(1), b"\x90\x03\0\x01\x80").is("mqtt-rejected"),
    answers("an unknown code", V3, Subscribe(1), b"\x90\x03\0\x01\x03")
        .is("mqtt-malformed")
        .argued("MQTT-3.9.3-2: 3.1.1 reserves it"),
    answers("no code", V5, Subscribe(1), b"\x90\x03\0\x01\0").is("mqtt-malformed"),
];

/// Serves a case until the test program ends.
fn serve(case: &'static Case) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || meet(stream, case));
        }
    });
    address
}

/// Answers a client until it ends the connection.
fn meet(mut stream: TcpStream, case: &Case) -> Option<()> {
    loop {
        let kind = read_packet(&mut stream)? >> 4;
        let answer: &[u8] = match (kind, case.asks) {
            (CONNECT, _) => case.connack,
            (PUBLISH, Publish(_)) | (SUBSCRIBE, Subscribe(_)) => case.answer,
            // plimsoll publishes behind its subscription.
            (PUBLISH, Subscribe(_)) => b"\x40\x02\0\x01",
            (PUBREL, _) => case.pubcomp,
            (PINGREQ, _) => b"\xD0\0",
            _ => b"",
        };
        stream.write_all(answer).ok()?;
    }
}

/// Reads a packet; returns its first byte.
fn read_packet(stream: &mut TcpStream) -> Option<u8> {
    let mut byte = [0];
    stream.read_exact(&mut byte).ok()?;
    let (first, mut length, mut shift) = (byte[0], 0, 0);
    loop {
        stream.read_exact(&mut byte).ok()?;
        length |= usize::from(byte[0] & 0x7F) << shift;
        shift += 7;
        if byte[0] & 0x80 == 0 || shift > 21 {
            break;
        }
    }
    stream.read_exact(&mut vec![0; length.min(PACKET_BYTES_MAX)]).ok()?;
    Some(first)
}

/// Returns plimsoll's outcome of one publish.
fn plimsoll(case: &Case, broker: SocketAddr) -> String {
    let url = format!("mqtt://{broker}");
    let version = if case.version == V3 { "3.1.1" } else { "5" };
    let waits = ["--connect-timeout", "1s", "--deadline", "500ms", "--linger", "500ms"];
    let pace = ["--rate", "0", "-n", "1", "-c", "1", "--mqtt-version", version, "--topic", "a"];
    let qos = match case.asks {
        Publish(qos) | Subscribe(qos) => qos.to_string(),
    };
    let asks = match case.asks {
        Publish(_) => vec!["--qos", &qos],
        Subscribe(_) => vec!["--subscribe", "s", "--subscribe-qos", &qos],
    };
    let ran = Plimsoll::load(&url, &[&pace[..], &waits, &asks].concat()).run();
    if ran.code == Some(2) && ran.stderr.contains("plimsoll: the broker ") {
        return "refused".to_owned();
    }
    let summary = Summary::parse(&ran.stdout);
    let classes: Vec<_> = summary.counts("error_classes").into_keys().collect();
    if classes.is_empty() { "ok".to_owned() } else { classes.join(", ") }
}

fn is_ok(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().expect("an installed program can be run").success()
}

/// `timeout` ends a client that waits for ever: that is no success.
fn within_seconds(program: &str) -> Command {
    let mut command = Command::new(program::installed("timeout"));
    command.arg("3").arg(program::installed(program));
    command
}

fn mosquitto(case: &Case, broker: SocketAddr) -> bool {
    let version = if case.version == V3 { "311" } else { "5" };
    let (name, qos, rest) = match case.asks {
        Publish(qos) => ("mosquitto_pub", qos, &["-t", "a", "-m", "x"][..]),
        Subscribe(qos) => ("mosquitto_sub", qos, &["-t", "s", "-E"][..]),
    };
    let mut client = within_seconds(name);
    client.args(["-h", "127.0.0.1", "-p", &broker.port().to_string(), "-V", version]);
    is_ok(client.args(["-q", &qos.to_string(), "-i", "judge"]).args(rest))
}

fn paho(case: &Case, broker: SocketAddr) -> bool {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nightly/differential_paho.py");
    let version = if case.version == V3 { "4" } else { "5" };
    let (asks, qos) = match case.asks {
        Publish(qos) => ("publish", qos),
        Subscribe(qos) => ("subscribe", qos),
    };
    // Debian's, which has Debian's paho.
    let mut judge = Command::new("/usr/bin/python3");
    judge.args([script, &broker.port().to_string(), version, asks, &qos.to_string()]);
    is_ok(&mut judge)
}

#[test]
#[ignore = "minutes"]
fn plimsoll_takes_what_other_clients_of_mqtt_take() {
    let mut faults = Vec::new();
    for case in CASES {
        let broker = serve(case);
        let ours = plimsoll(case, broker);
        let others = [mosquitto(case, broker), paho(case, broker)];
        println!("{}: {ours}, mosquitto {}, paho {}", case.name, others[0], others[1]);
        let is_alone = others.iter().all(|other| *other != (ours == "ok"));
        if ours != case.plimsoll {
            faults.push(format!("{}: {ours} instead of {}", case.name, case.plimsoll));
        }
        match (case.argued, is_alone) {
            (None, true) => faults.push(format!("{}: plimsoll alone says {ours}", case.name)),
            (Some(why), false) => {
                faults.push(format!("{}: not alone, and argued: {why}", case.name));
            }
            _ => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
