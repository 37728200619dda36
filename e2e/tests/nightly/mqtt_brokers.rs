//! Brokers of another make than mosquitto judge our MQTT client: mochi, written in Go.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use e2e::plimsoll::Plimsoll;
use e2e::process::Guarded;
use e2e::program;

use crate::alone;

const MOCHI: &str = "github.com/mochi-mqtt/server/v2@v2.7.9";
/// Prints its address, and serves until its input ends.
const BROKER: &str = "\
package main

import (
\t\"fmt\"
\t\"io\"
\t\"log/slog\"
\t\"os\"

\tmqtt \"github.com/mochi-mqtt/server/v2\"
\t\"github.com/mochi-mqtt/server/v2/hooks/auth\"
\t\"github.com/mochi-mqtt/server/v2/listeners\"
)

func check(err error) {
\tif err != nil {
\t\tpanic(err)
\t}
}

func main() {
\tsilent := slog.New(slog.NewTextHandler(io.Discard, nil))
\tserver := mqtt.New(&mqtt.Options{Logger: silent})
\tcheck(server.AddHook(new(auth.AllowHook), nil))
\ttcp := listeners.NewTCP(listeners.Config{ID: \"tcp\", Address: \"127.0.0.1:0\"})
\tcheck(server.AddListener(tcp))
\tcheck(server.Serve())
\tfmt.Println(tcp.Address())
\tio.Copy(io.Discard, os.Stdin)
}
";

/// Returns the broker as a program.
fn built() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mochi");
    fs::create_dir_all(&folder).expect("the target folder is writable");
    let broker = folder.join("broker");
    if broker.exists() {
        return broker;
    }
    fs::write(folder.join("main.go"), BROKER).expect("it is writable");
    for arguments in [
        &["mod", "init", "broker"][..],
        &["get", MOCHI],
        &["mod", "tidy"],
        &["build", "-o", "broker", "."],
    ] {
        let mut go = Command::new(program::installed("go"));
        go.current_dir(&folder).args(arguments).env("GOFLAGS", "").stdin(Stdio::null());
        let status = go.status().expect("an installed program can be run");
        // A module that was begun before is there.
        assert!(status.success() || arguments.contains(&"init"), "{go:?}: {status}");
    }
    broker
}

#[test]
#[ignore = "builds mochi with go"]
fn mochi_takes_what_our_client_says_and_delivers_it_once() {
    let _alone = alone();
    let mut command = Command::new(built());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut broker = Guarded::start(&mut command);
    let stdout = broker.child().stdout.take().expect("a pipe");
    let address: Vec<String> =
        BufReader::new(stdout).lines().take(1).collect::<io::Result<_>>().expect("an address");
    let url = format!("mqtt://{}", address[0]);
    for version in ["3.1.1", "5"] {
        for qos in ["0", "1", "2"] {
            for (filter, each) in [("d/%i", 1), ("d/+", 4), ("$share/group/d/#", 1)] {
                // mochi takes identifiers of both directions for the same: with version 5 it refuses publishes at
                // QoS 2 whose identifier one of its own has.
                let wanted = if (version, qos) == ("5", "2") { "0" } else { qos };
                let topics = ["--topic", "d/%i", "--subscribe", filter, "--subscribe-qos", wanted];
                let pace = ["--rate", "0", "-n", "500", "-c", "4", "--inflight", "8"];
                let pace = if qos == "0" { &pace[..6] } else { &pace };
                let said = ["--qos", qos, "--mqtt-version", version, "--no-ui", "--json", "-"];
                let load = ["load", &url];
                let all = [&load[..], &topics, pace, &said].concat();
                let summary = Plimsoll::new(all).run().summary(0);
                summary.assert_all_ok(500);
                let told = format!("{filter} in version {version} at QoS {qos}: {summary:?}");
                assert_eq!(summary.count("deliveries.expected"), 500 * each, "{told}");
                for fault in ["lost", "duplicated", "reordered", "foreign"] {
                    assert_eq!(summary.count(&format!("deliveries.{fault}")), 0, "{told}");
                }
            }
        }
    }
    let hold = ["hold", &url, "-c", "50", "--rate", "200", "--for", "3s", "--heartbeat", "1s"];
    let output = ["--keep-alive", "10", "--no-ui", "--json", "-"];
    let summary = Plimsoll::new([&hold[..], &output].concat()).run().summary(0);
    assert_eq!(summary.count("errors"), 0, "{summary:?}");
}
