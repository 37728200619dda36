//! Answers of `doctor`.

use serde_json::Value;

/// Returns the limits that would stop the connections, by the JSON object on standard output, and how many fit.
pub fn stops(json: &[u8], shown: &dyn std::fmt::Debug) -> (Vec<String>, u64) {
    let doctor: Value =
        serde_json::from_slice(json).unwrap_or_else(|error| panic!("{error}: {shown:?}"));
    let limits = doctor["limits"].as_array().expect("doctor answers").iter();
    let names = limits
        .filter(|limit| limit["ok"] == false && limit["effect"] == "stops")
        .map(|limit| limit["name"].as_str().expect("doctor answers").to_owned());
    (names.collect(), doctor["fits"].as_u64().expect("doctor answers"))
}
