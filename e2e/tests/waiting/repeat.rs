//! `--repeat`: whole searches, one after another.

use std::path::Path;

use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use e2e::summary::Summary;
use e2e::wait;

/// Met by every load up to the cap, on a busy machine, too.
const SHORT: [&str; 6] = ["--min", "200", "--max", "400", "--slo", "p99<3s,errors<1%"];
const OUTPUT: [&str; 7] = ["--mode", "quick", "--out", "run", "--json", "out.json", "--no-ui"];

fn numbers(summary: &Summary) -> Vec<u64> {
    let searches = summary.at("repeat.searches").as_array().expect("a list");
    searches.iter().map(|search| search["number"].as_u64().expect("a number")).collect()
}

fn archived(folder: &Path, number: u32) -> bool {
    folder.join(format!("run/search-{number}/summary.json")).is_file()
}

#[test]
fn each_search_is_archived_and_shown() {
    let serve = Serve::plain();
    let flags = ["find", "rate", serve.url(), "--repeat", "2"];
    let finished = Plimsoll::new([&flags[..], &SHORT, &OUTPUT].concat()).run();
    let summary = finished.written(0);
    assert_eq!(numbers(&summary), [1, 2]);
    // No load up to the cap was too much, so that there is no interval to count.
    assert_eq!((summary.number("repeat.used"), summary.number("find.lower")), (0.0, 400.0));
    assert!(archived(&finished.folder(), 1) && archived(&finished.folder(), 2));
    assert!(finished.stdout.contains("at least 400/s in each search"), "{}", finished.stdout);
    let run = finished.folder().join("run");
    let again = Plimsoll::new(["report", &run.display().to_string()]).run();
    assert_eq!(again.stdout, finished.stdout);
}

#[test]
fn an_interrupt_leaves_the_searches_so_far() {
    let serve = Serve::plain();
    let flags = ["find", "rate", serve.url(), "--repeat", "9", "--budget", "30s"];
    let running = Plimsoll::new([&flags[..], &SHORT, &OUTPUT].concat()).start();
    // Step by step: on a busy host a search takes longer than a wait may.
    for file in ["search-1/trials.jsonl", "search-1/summary.json", "search-2/manifest.json"] {
        let file = running.folder().join("run").join(file);
        let is_written = || std::fs::metadata(&file).is_ok_and(|file| file.len() > 0);
        wait::until("the second search begins", || is_written().then_some(()));
    }
    running.signal("INT");
    let summary = running.finish().written(130);
    assert_eq!(numbers(&summary), [1, 2]);
    assert_eq!(summary.at("partial"), true);
    let second = &summary.at("repeat.searches")[1];
    assert_eq!(second["exit_code"], 130);
}

#[test]
fn a_laboratory_may_be_started_afresh_for_each() {
    let flags = ["lab", "--sut", "embedded", "--repeat", "2", "--fresh-sut"];
    let finished = Plimsoll::new([&flags[..], &SHORT, &OUTPUT].concat()).run();
    let summary = finished.written(0);
    assert_eq!(numbers(&summary), [1, 2]);
    assert_eq!(summary.at("repeat.fresh_sut"), true);
    finished.assert_no_scratch();
}
