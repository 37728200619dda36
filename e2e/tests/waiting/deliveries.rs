//! MQTT deliveries of what a load publishes itself: each is counted, whatever becomes of it.

use e2e::certificate::Certificate;
use e2e::mosquitto::Mosquitto;
use e2e::plimsoll::{Plimsoll, undisturbed};
use e2e::serve::Serve;
use e2e::summary::Summary;

/// Returns the deliveries that were expected, lost, duplicated and reordered.
fn counts(summary: &Summary) -> [u64; 4] {
    ["expected", "lost", "duplicated", "reordered"]
        .map(|name| summary.count(&format!("deliveries.{name}")))
}

#[test]
fn what_a_broker_loses_and_repeats_is_counted_exactly() {
    let faults = ["--mqtt-lose-every", "1000", "--mqtt-repeat-every", "700", "--mqtt-delay", "2ms"];
    for qos in ["0", "1", "2"] {
        // One thread counts all of them.
        let listens = ["--mqtt", "127.0.0.1:0", "--processes", "1", "--threads", "1"];
        let serve = Serve::start(&[&listens[..], &faults].concat(), 1);
        let topics = ["--topic", "own/%i", "--subscribe", "own/+", "--subscribe-qos", qos];
        let pace = ["--rate", "0", "-n", "5000", "-c", "1", "--linger", "1s"];
        let wants = ["--inflight", "20", "--qos", if qos == "0" { "1" } else { qos }];
        let load = Plimsoll::load(serve.url(), &[&topics[..], &pace, &wants].concat());
        let summary = load.run().summary(0);
        summary.assert_all_ok(5_000);
        assert_eq!(counts(&summary), [5_000, 5, 7, 0], "QoS {qos}: {summary:?}");
        assert_eq!(summary.count("deliveries.delivered"), 4_995, "QoS {qos}: {summary:?}");
        assert_eq!(summary.count("deliveries.timed"), 4_995, "QoS {qos}: {summary:?}");
    }
}

#[test]
fn mosquitto_delivers_everything_once_at_every_quality() {
    let broker = Mosquitto::start(&Certificate::new());
    let (plain, tls) = (format!("mqtt://{}", broker.plain), format!("mqtts://{}", broker.tls));
    for (url, qos, subscribed, version) in [
        (&plain, "0", "0", "3.1.1"),
        (&plain, "1", "1", "5"),
        (&tls, "2", "2", "5"),
        (&plain, "2", "0", "5"),
        (&tls, "1", "2", "3.1.1"),
    ] {
        for (filter, each) in [("d/%i", 1), ("d/+", 4), ("$share/group/d/#", 1)] {
            let topics = ["--topic", "d/%i", "--subscribe", filter, "--subscribe-qos", subscribed];
            let pace = ["--rate", "0", "-n", "300", "-c", "4", "-k"];
            let said = ["--qos", qos, "--mqtt-version", version];
            let summary =
                Plimsoll::load(url, &[&topics[..], &pace, &said].concat()).run().summary(0);
            summary.assert_all_ok(300);
            let told = format!("{filter} at QoS {qos} and {subscribed}: {summary:?}");
            assert_eq!(counts(&summary), [300 * each, 0, 0, 0], "{told}");
            assert_eq!(summary.count("deliveries.foreign"), 0, "{told}");
        }
    }
    // What others have left there is told from what the load publishes.
    let topics = ["--topic", "kept/%i", "--subscribe", "kept/#", "--retain"];
    let pace = ["--rate", "0", "-n", "30", "-c", "3"];
    for foreign in [0, 9] {
        let summary = Plimsoll::load(&plain, &[&topics[..], &pace].concat()).run().summary(0);
        assert_eq!(counts(&summary), [90, 0, 0, 0], "{summary:?}");
        assert_eq!(summary.count("deliveries.foreign"), foreign, "{summary:?}");
    }
}

#[test]
fn a_search_for_deliveries_reaches_a_broker_at_a_unix_socket() {
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let path = folder.path().join("socket").display().to_string();
    let _broker = Mosquitto::start_with(&format!("listener 0 {path}\n"), &Certificate::new());
    let topics = ["--topic", "d", "--subscribe", "d", "-c", "3"];
    let search = ["--mode", "quick", "--min", "20", "--max", "30", "--slo", "p99<2s,errors<1%"];
    let shared = ["--unix-socket", &path, "--json", "-", "--no-ui", "mqtt://nowhere.invalid"];
    let line = [&["find", "deliveries"][..], &topics, &search, &shared].concat();
    let summary = undisturbed(|| Plimsoll::new(&line).run()).summary(0);
    assert_eq!(summary.at("settings.load.unix_socket").as_bool(), Some(true));
    assert!(summary.count("deliveries.expected") > 0, "{summary:?}");
    assert_eq!(summary.count("deliveries.lost"), 0, "{summary:?}");
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let refused = |arguments: &[&str], what: &str| {
        let load = ["load", "mqtt://127.0.0.1:1", "--topic", "a/%i", "--subscribe", "a/#"];
        let finished = Plimsoll::new([&load[..], arguments].concat()).run();
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(finished.stderr.contains(what), "{}", finished.stderr);
    };
    refused(&["--data", "short"], "a stamp of 32 bytes");
    refused(&["-c", "3000"], "9,000,000 subscribers in all");
}
