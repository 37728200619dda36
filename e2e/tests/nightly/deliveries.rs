//! Searches for a rate of deliveries.

use std::time::Duration;

use e2e::certificate::Certificate;
use e2e::mosquitto::Mosquitto;
use e2e::plimsoll::Finished;
use e2e::serve::Serve;

use crate::{alone, client};

const PATIENCE: Duration = Duration::from_secs(300);

fn search(url: &str, flags: &[&str]) -> Finished {
    let own = ["find", "deliveries", url, "--mode", "quick", "--no-ui", "--json", "-"];
    client(&[&own[..], flags].concat()).start().finish_within(PATIENCE)
}

#[test]
#[ignore = "takes a minute"]
fn mosquitto_delivers_to_many() {
    let _alone = alone();
    let broker = Mosquitto::start(&Certificate::new());
    let url = format!("mqtt://{}", broker.plain);
    let fan_out = ["--topic", "news", "--subscribe", "news", "--connections", "20"];
    let finished = search(&url, &[&fan_out[..], &["--min", "500", "--max", "4k"]].concat());
    let summary = finished.summary(0);
    assert_eq!(summary.text("find.axis"), "deliveries");
    let met = summary.number("find.lower");
    assert!((3_900.0..=4_000.0).contains(&met), "{summary:?}");
    assert_eq!(summary.count("scheduled"), summary.count("deliveries.expected"), "{summary:?}");
    assert_eq!(summary.count("deliveries.lost"), 0, "{summary:?}");
}

#[test]
#[ignore = "takes 20 s"]
fn a_broker_that_loses_more_than_the_goal_allows_fails_at_once() {
    let _alone = alone();
    let serve = Serve::start(&["--mqtt", "127.0.0.1:0", "--mqtt-lose-every", "20"], 1);
    let own = ["--topic", "own/%i", "--subscribe", "own/%i", "--connections", "10"];
    let finished =
        search(serve.url(), &[&own[..], &["--slo", "errors<1%", "--min", "200"]].concat());
    let summary = finished.summary(99);
    assert!(summary.count("error_classes.delivery-lost") > 0, "{summary:?}");
    assert_eq!(summary.text("find.outcome"), "fails-at-minimum", "{summary:?}");
}
