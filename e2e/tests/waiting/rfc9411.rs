//! Cases of RFC 9411 that end before their target: what the report says of the server. `measuring/rfc9411.rs` has the
//! others.

use e2e::nginx::Nginx;
use e2e::plimsoll::Plimsoll;

fn find(flags: &[&str]) -> Plimsoll {
    Plimsoll::new([&["find", "rfc9411", "--sustain", "2s", "--json", "-"], flags].concat())
}

#[test]
fn a_server_that_fails_ends_the_case_at_step_1() {
    let nginx = Nginx::start(false, "location = /1000 { return 503; }");
    let url = format!("{}{{size}}", nginx.url("http"));
    let finished = find(&[&url, "--case", "7.2", "--target", "100", "--object-size", "1KB"]).run();
    let summary = finished.summary(99);
    let result = &summary.at("rfc9411.results").as_array().expect("a list")[0];
    let why = result["ending"]["unqualified"]["why"].as_str().expect("a reason");
    assert!(why.contains("F failed transactions"), "{why}");
    let iterations = result["iterations"].as_array().expect("a list");
    assert!(iterations.iter().all(|one| one["step"] == "initial"), "{result}");
    assert!(finished.stderr.contains("must not go on"), "{}", finished.stderr);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let closed = e2e::port::free();
    let url = format!("http://{closed}/{{size}}");
    let finished = find(&[&url, "--case", "7.2", "--object-size", "1KB"]).run();
    let summary = finished.summary(99);
    let result = &summary.at("rfc9411.results").as_array().expect("a list")[0];
    let why = result["ending"]["unqualified"]["why"].as_str().expect("a reason");
    assert!(why.contains("nothing was answered") && why.contains("connect-refused"), "{why}");
}

#[test]
fn answers_of_another_size_are_another_test() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    let finished = find(&[&url, "--case", "7.2", "--target", "100", "--object-size", "64KB"]).run();
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let line = finished.stderr.lines().last().unwrap_or_default();
    assert!(line.contains("asks for objects of 64 KB and the answers have"), "{line}");
}
