//! The search against a server whose true capacity is known, and what limits it.

use std::path::Path;
use std::time::Duration;

use e2e::browser::{Browser, ReportFile, Screen, Theme, content};
use e2e::haproxy::Haproxy;
use e2e::plimsoll::{Finished, Plimsoll};
use e2e::runs::Run;

/// The search's own budget is shorter.
const SEARCH_PATIENCE: Duration = Duration::from_secs(280);
/// One search in five may err even on a quiet machine, and one that ends INVALID says nothing: so
/// the truth must be found by one of these. `nightly/capacity.rs` has more
/// servers.
const ATTEMPTS: usize = 3;
const TRUTH_PER_S: f64 = 450.0;
const CAUSE: [&str; 2] = ["rate-limit", "predicted"];

fn search(haproxy: &Haproxy) -> Finished {
    let (url, socket) =
        (haproxy.url("http"), format!("haproxy:{}", haproxy.stats_socket().display()));
    let flags = ["find", "rate", &url, "--no-keepalive", "--mode", "quick", "--json", "-"];
    let flags = [&flags[..], &["--out", "run"]].concat();
    // An upper bound close to the truth saves time; the loads below it are not at 450/s, and reach far enough for a
    // line through them.
    let bounds = ["--min", "210", "--max", "500", "--watch", &socket];
    let running = Plimsoll::new([&flags[..], &bounds].concat()).start();
    running.finish_within(SEARCH_PATIENCE)
}

/// The page of a search with bounds, a cause and a safe load.
fn assert_page_is_right(finished: &Finished) {
    let run = Run::of_finished("bounds", finished);
    let (path, output) = (run.html("report.html"), Path::new(env!("CARGO_TARGET_TMPDIR")));
    let file = ReportFile { path: &path, name: "bounds", output: &output.join("pages") };
    let browser = Browser::start();
    let wide = Screen { theme: Theme::Light, width: 1_600 };
    let mut wrong = file.check_all_on(&browser, wide, &run);
    wrong.extend(file.check_on(&browser, Screen { theme: Theme::Dark, width: 400 }));
    wrong.extend(content::misplaced(&file.show(&browser, wide), &run));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_limit_that_haproxy_was_given_is_found_and_named() {
    // HAProxy accepts 450 connections a second; the others wait.
    let rules = "    rate-limit sessions 450\n    \
                 http-request return status 200 content-type text/plain string pong";
    let haproxy = Haproxy::start("", rules, "");
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let finished = search(&haproxy);
        let Some(code @ (0 | 98 | 99)) = finished.code else {
            panic!("{:?}: {}", finished.code, finished.stderr);
        };
        // Irregular outcomes are objects with a reason.
        if !finished.stdout.contains(r#""outcome": "regular""#) {
            seen.push(format!("an irregular end with code {code}"));
            continue;
        }
        let summary = finished.summary(code);
        let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
        assert!(upper / lower <= 1.0501, "[{lower}, {upper}] is wider than 5 %");
        assert_eq!(summary.text("verdict"), "good");
        let first = &summary.at("causes")[0];
        let cause = [&first["cause"], &first["grade"]];
        if (lower..=upper).contains(&TRUTH_PER_S) && cause == CAUSE {
            return assert_page_is_right(&finished);
        }
        seen.push(format!("[{lower}, {upper}], {cause:?}"));
    }
    panic!("{TRUTH_PER_S} and its limit are in none of {seen:?}");
}
