//! The page of a run of each command, in a browser. `nightly/page.rs` looks at more of each.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::browser::{Browser, ReportFile, Screen, Theme, content};
use e2e::pictures::chart;
use e2e::runs;
use e2e::runs::Run;

const WIDE: Screen = Screen { theme: Theme::Light, width: 1_600 };
const PHONE: Screen = Screen { theme: Theme::Dark, width: 400 };
/// Runs whose pages have, together, every chart there is.
const ON_PHONE: [&str; 5] = ["load", "300-trials", "find-connections", "compare", "rfc9411"];

/// Returns the directory for screenshots, for people to look at.
fn output() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages")
}

fn named<'a>(runs: &'a [Run], name: &str) -> &'a Run {
    runs.iter().find(|run| run.name == name).expect("a run of each command")
}

/// Those of a run's files that are not the page: drawn once more, it is the same, and so is the one that a search and a
/// laboratory leave in their archive.
fn redrawn_otherwise(run: &Run, page: &Path) -> Option<String> {
    let drawn = fs::read(page).expect("a file");
    let own = run.archive().join("report.html");
    let mut others = vec![run.html("again.html")];
    others.extend(own.is_file().then_some(own));
    let other = others.into_iter().find(|other| fs::read(other).ok().as_ref() != Some(&drawn));
    other.map(|other| format!("{}: {} is not what is drawn", run.name, other.display()))
}

#[test]
fn each_command_draws_a_page_that_is_right() {
    let mut runs = runs::each();
    let search = named(&runs, "find-rate");
    let (many, three) = (search.with_trials("300-trials", 300), search.with_trials("3-trials", 3));
    let hostile = named(&runs, "load").hostile("hostile");
    runs.extend([many, three, hostile]);
    let browser = Browser::start();
    let output = output();
    let mut wrong = Vec::new();
    for run in &runs {
        let path = run.html("report.html");
        let page = ReportFile { path: &path, name: run.name, output: &output };
        wrong.extend(page.check_all_on(&browser, WIDE, run));
        if ON_PHONE.contains(&run.name) {
            wrong.extend(page.check_on(&browser, PHONE));
            wrong.extend(page.check_widths(&browser));
        }
        if ["load", "300-trials"].contains(&run.name) {
            wrong.extend(page.check_narrow(&browser));
            wrong.extend(page.check_print(&browser));
            wrong.extend(page.check_without_scripts(&browser));
        }
        if run.name == "hostile" {
            wrong.extend(content::executed(&page.show(&browser, WIDE)));
        }
        wrong.extend(redrawn_otherwise(run, &path));
    }
    // A page says nothing of another run's trials.
    let many = named(&runs, "300-trials").html("report.html");
    let many = ReportFile { path: &many, name: "300-trials", output: &output };
    let page = many.show(&browser, WIDE);
    wrong.extend(content::misplaced(&page, named(&runs, "300-trials")));
    assert!(content::differs(&page, named(&runs, "3-trials")).len() > 3);
    assert!(!content::misplaced(&page, named(&runs, "find-rate")).is_empty());
    assert!(wrong.is_empty(), "{wrong:#?}\nscreenshots: {}", output.display());
}

/// The chart of a README stands alone: it names no colour of the page's, and a browser shows it as a picture.
#[test]
fn a_chart_becomes_a_picture() {
    let browser = Browser::start();
    let run = runs::find_rate();
    let path = run.html("report.html");
    let report = ReportFile { path: &path, name: "find-rate", output: &output() };
    let page = report.show(&browser, WIDE);
    let drawn = chart::svg(&page, "tipping", "Load < limit & more", "a run of a test");
    assert!(!drawn.contains("var("), "{drawn}");
    let picture = output().join("load-line.svg");
    fs::create_dir_all(output()).expect("the output folder is writable");
    fs::write(&picture, &drawn).expect("the output folder is writable");
    page.load_file(&picture);
    let root = "document.documentElement";
    assert_eq!(page.evaluate(&format!("{root}.nodeName")), "svg");
    let texts =
        page.texts(&format!("[...{root}.querySelectorAll('text')].map((one) => one.textContent)"));
    for text in ["Load < limit & more", "a run of a test", "offered load, requests/s"] {
        assert!(
            texts.iter().any(|found| found.starts_with(text)),
            "{text:?} is not among {texts:?}"
        );
    }
}
