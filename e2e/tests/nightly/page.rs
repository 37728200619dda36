//! Pages of reports on every screen, on paper and without scripts: of short runs of each command, of a real search
//! with its bounds, of hours, of hundreds of trials, of several runs over each other. People look at the screenshots.

use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::browser::{Browser, ReportFile, Screen, Theme, content};
use e2e::haproxy::Haproxy;
use e2e::plimsoll::Plimsoll;
use e2e::runs;
use e2e::runs::Run;

use crate::alone;

const SCREENS: [Screen; 4] = [
    Screen { theme: Theme::Light, width: 1_600 },
    Screen { theme: Theme::Light, width: 400 },
    Screen { theme: Theme::Dark, width: 1_600 },
    Screen { theme: Theme::Dark, width: 400 },
];
/// The search's own budget is shorter.
const SEARCH_PATIENCE: Duration = Duration::from_secs(340);
/// A page is drawn so often to say how long that takes.
const DRAWINGS: usize = 7;
/// The longest that drawing may take, ms.
const DRAWN_WITHIN_MS: f64 = 1_000.0;

fn output() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages-nightly")
}

/// A search that ends with bounds, a cause and a safe load, in two to three minutes.
fn search_with_bounds() -> Run {
    let rules = "    rate-limit sessions 450\n    \
                 http-request return status 200 content-type text/plain string pong";
    let haproxy = Haproxy::start("", rules, "");
    let (url, socket) =
        (haproxy.url("http"), format!("haproxy:{}", haproxy.stats_socket().display()));
    let flags = ["find", "rate", &url, "--no-keepalive", "--mode", "quick", "--out", "run"];
    let bounds = ["--min", "210", "--max", "500", "--watch", &socket, "--no-ui"];
    let running = Plimsoll::new([&flags[..], &bounds].concat()).start();
    Run::of_finished("bounds", &running.finish_within(SEARCH_PATIENCE))
}

fn stretched(runs: &[Run]) -> Vec<Run> {
    let named = |name: &str| runs.iter().find(|run| run.name == name).expect("a run of each");
    let (search, load) = (named("find-rate"), named("load"));
    vec![
        search.with_trials("300-trials", 300),
        search.with_trials("3-trials", 3),
        load.hostile("hostile"),
        load.lasting("half-an-hour", 1_800, 3),
        load.lasting("three-hours", 10_800, 1),
    ]
}

#[test]
#[ignore = "takes 6 minutes"]
fn every_page_is_right_on_every_screen() {
    let _alone = alone();
    let mut runs = runs::each();
    runs.extend(stretched(&runs));
    runs.push(search_with_bounds());
    let browser = Browser::start();
    let output = output();
    let mut wrong = Vec::new();
    for run in &runs {
        let path = run.html("report.html");
        let page = ReportFile { path: &path, name: run.name, output: &output };
        for screen in SCREENS {
            wrong.extend(page.check_all_on(&browser, screen, run));
        }
        wrong.extend(look_otherwise(&page, &browser));
        if ["3-trials", "300-trials", "bounds"].contains(&run.name) {
            wrong.extend(content::misplaced(&page.show(&browser, SCREENS[0]), run));
        }
        let drawn_ms = drawing_ms(&page, &browser);
        println!("{:<16} drawn in {drawn_ms:.0} ms", run.name);
        if drawn_ms > DRAWN_WITHIN_MS {
            wrong.push(format!("{}: drawn in {drawn_ms:.0} ms", run.name));
        }
    }
    for (name, run, others) in overlays(&runs) {
        let path = run.html_with(&others, "over.html");
        let page = ReportFile { path: &path, name, output: &output };
        for screen in SCREENS {
            wrong.extend(page.check_on(&browser, screen));
        }
        wrong.extend(look_otherwise(&page, &browser));
    }
    println!("screenshots: {}", output.display());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn look_otherwise(page: &ReportFile<'_>, browser: &Browser) -> Vec<String> {
    let mut wrong = page.check_narrow(browser);
    wrong.extend(page.check_print(browser));
    wrong.extend(page.check_without_scripts(browser));
    wrong
}

/// Two loads, and four searches: the most that a chart has lines for.
fn overlays(runs: &[Run]) -> [(&'static str, &Run, Vec<&Run>); 2] {
    let named = |name: &str| runs.iter().find(|run| run.name == name).expect("a run of each");
    let searches = ["find-rate", "300-trials", "3-trials"].map(named).to_vec();
    [
        ("two-loads", named("load"), vec![named("half-an-hour")]),
        ("four-searches", named("bounds"), searches),
    ]
}

/// Median time from the beginning of the navigation to the last chart, ms.
fn drawing_ms(page: &ReportFile<'_>, browser: &Browser) -> f64 {
    let drawn_at = |_| {
        let shown = page.show(browser, SCREENS[0]);
        shown.evaluate("window.drawnAt").as_f64().expect("the page says when it is drawn")
    };
    let mut times: Vec<f64> = (0..DRAWINGS).map(drawn_at).collect();
    times.sort_by(f64::total_cmp);
    times[DRAWINGS / 2]
}
