//! The checks of pages are checked: each passes on a sound page, and finds the one thing that is broken in it.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::browser::{Browser, Page, Screen, Theme, checks, paper};
use e2e::program;
use tempfile::TempDir;

const SOUND: &str = include_str!("sound.html");
const SCREEN: Screen = Screen { theme: Theme::Light, width: 400 };

/// The sound page with one thing replaced, shown.
struct Shown<'a> {
    page: Page<'a>,
    _folder: TempDir,
}

fn shown<'a>(browser: &'a Browser, replaced: &str, by: &str) -> Shown<'a> {
    assert!(SOUND.contains(replaced), "{replaced:?} is not in the page");
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let path = folder.path().join("page.html");
    fs::write(&path, SOUND.replacen(replaced, by, 1)).expect("an own folder is writable");
    let page = browser.page();
    page.show_on(SCREEN);
    page.load_file(&path);
    Shown { page, _folder: folder }
}

type Check = fn(&Page<'_>) -> Vec<String>;

/// Returns the load of each trial of the sound page, by which its marks stand where they do.
fn positions(page: &Page<'_>) -> Vec<String> {
    checks::positions(page, "tipping", &|number| {
        f64::from(u32::try_from(number).expect("1 or 2")) * 1_000.0 + 400.0
    })
}

const CHECKS: [(&str, Check); 9] = [
    ("charts", checks::charts),
    ("overlaps", checks::overlaps),
    ("positions", positions),
    ("width", checks::width),
    ("columns", checks::columns),
    ("contrasts", checks::contrasts),
    ("accessibility", checks::accessibility),
    ("keyboard", checks::keyboard),
    ("reports", |page| checks::reports(page, &["file://"])),
];

/// Broken pages, the check that finds each, and a part of its words.
const BROKEN: [(&str, &str, &str, &str); 32] = [
    // A chart that says too little.
    (">Latency against load<", "><", "charts", "no title"),
    ("corrected latency, ms (log)", "corrected latency (log)", "charts", "ends in no unit"),
    (">offered load, requests/s<", "><", "charts", "no title of x"),
    (">2,000<", "><", "charts", "1 ticks on x"),
    ("No operation failed.", "", "charts", "no drawing and no sentence"),
    ("<p class=\"nodata\">", "<p class=\"nodata\" hidden>", "charts", "no drawing and no sentence"),
    (
        "<table>",
        "<p class=\"nodata\">Nothing happened.</p><table>",
        "charts",
        "a drawing and a sentence",
    ),
    ("role=\"img\" aria-labelledby=\"title\"", "role=\"img\"", "charts", "no name"),
    // Axes and a grid are no picture.
    (
        "<g aria-hidden=\"true\" class=\"marks\">",
        "<g aria-hidden=\"true\" class=\"marks\" display=\"none\">",
        "charts",
        "empty",
    ),
    (
        "<g aria-hidden=\"true\" class=\"marks\">",
        "<g aria-hidden=\"true\" class=\"marks\" transform=\"translate(0 500)\">",
        "charts",
        "empty",
    ),
    ("cx=\"170\"", "cx=\"175\"", "positions", "trial 2 is at"),
    // Texts over each other, and outside.
    ("x=\"130\" y=\"98\"", "x=\"40\" y=\"98\"", "overlaps", "\"1,000\" and \"2,000\" overlap"),
    ("x=\"0\" y=\"80\"", "x=\"0\" y=\"36\"", "overlaps", "\"1\" and \"10\" overlap"),
    ("text-anchor=\"end\"", "", "overlaps", "leaves the drawing"),
    // Wider than the screen.
    ("width: 300px", "width: 420px", "width", "px wide on a screen of 400: p.wide"),
    // A column of text, and a drawing that was made for another screen.
    (".wide { width: 300px; }", ".chart { width: 60px; }", "columns", "a column of 60 px"),
    (
        "width=\"280\" height",
        "width=\"180\" height",
        "columns",
        "a drawing of 180 px in a place of",
    ),
    // Colours.
    ("color: #1a1d21", "color: #999999", "contrasts", "p.wide: rgb(153, 153, 153)"),
    ("fill=\"#c2410c\"", "fill=\"#ffb08c\"", "contrasts", "tipping: verdict-mark bad"),
    ("stroke=\"#1a1d21\"", "stroke=\"#cccccc\"", "contrasts", "tipping: "),
    (
        "class=\"axis-title y\"",
        "class=\"axis-title y\" fill=\"#aaaaaa\"",
        "contrasts",
        "tipping: text",
    ),
    ("stroke=\"#5b2bbf\"", "stroke=\"#d0c0ee\"", "contrasts", "tipping: legend, p99"),
    // Assistive technology.
    ("<html lang=\"en\">", "<html>", "accessibility", "html-has-lang"),
    ("<div id=\"status\"", "<img src=\"data:,\"><div id=\"status\"", "accessibility", "image-alt"),
    // The keyboard.
    ("tabindex=\"0\"", "", "keyboard", "Tab reaches []"),
    ("outline: 2px", "outline: 1px", "keyboard", "no ring"),
    ("trial ${at += 1}", "trial", "keyboard", "says the same"),
    // Errors and requests.
    ("let at = 0;", "let at = 0; console.warn('careful');", "reports", "careful"),
    ("let at = 0;", "let at = 0; nothing.at(all);", "reports", "nothing is not defined"),
    (
        "</main>",
        "</main><img alt=\"\" src=\"http://127.0.0.1:1/x.png\">",
        "reports",
        "a request leaves the page",
    ),
    (
        "<!-- policy -->",
        "<meta http-equiv=\"Content-Security-Policy\" content=\"style-src 'none'\">",
        "reports",
        "the policy stops: style-src-elem",
    ),
    (
        "<!-- policy -->",
        "<meta http-equiv=\"Content-Security-Policy\" content=\"script-src 'none'\">",
        "reports",
        "the policy stops: script-src-elem",
    ),
];

#[test]
fn each_check_finds_what_is_broken_and_nothing_else() {
    let browser = Browser::start();
    let sound = shown(&browser, "Sound", "Sound");
    for (name, check) in CHECKS {
        assert_eq!(check(&sound.page), [""; 0], "{name} on the sound page");
    }
    for (replaced, by, name, part) in BROKEN {
        let shown = shown(&browser, replaced, by);
        let (_, check) = CHECKS.iter().find(|(own, _)| *own == name).expect("a check");
        let found = check(&shown.page);
        assert!(found.iter().any(|what| what.contains(part)), "{by}: {name} says {found:#?}");
    }
}

#[test]
fn what_is_wrong_on_paper_is_found() {
    let browser = Browser::start();
    let printed = |replaced: &str, by: &str| {
        let shown = shown(&browser, replaced, by);
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let pdf = folder.path().join("page.pdf");
        fs::write(&pdf, shown.page.print()).expect("an own folder is writable");
        let titles = ["offered load, requests/s".to_owned()];
        let lacks = paper::lacks(&paper::sheets(&pdf), &titles);
        [lacks, paper::dark_sheets(&pdf)].concat()
    };
    assert_eq!(printed("Sound", "Sound"), [""; 0]);
    assert_eq!(
        printed("<svg role", "<svg style=\"display: none\" role"),
        ["no \"offered load, requests/s\""]
    );
    let empty = printed("</main>", "</main><div style=\"break-before: page\"><br></div>");
    assert_eq!(empty, ["sheet 2 has no text"]);
    let dark = printed("background: #ffffff", "background: #12161a");
    assert!(dark.len() == 1 && dark[0].starts_with("sheet 1 is dark"), "{dark:?}");
}

/// Returns the hexadecimal SHA-512 of a file.
fn sha512(path: &Path) -> String {
    let output = Command::new(program::installed("sha512sum")).arg(path).output();
    let output = output.expect("an installed program can be run").stdout;
    String::from_utf8_lossy(&output).split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn the_vendored_audit_is_unchanged_and_has_its_licence() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/axe");
    let list = fs::read_to_string(folder.join("VENDOR.toml")).expect("what is vendored");
    let value = |key: &str| {
        let line = list.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
        line.unwrap_or_else(|| panic!("no {key}")).trim_matches('"').to_owned()
    };
    assert_eq!(sha512(&folder.join(value("file"))), value("file_sha512"));
    let licence = fs::read_to_string(folder.join(value("licence_file"))).expect("a licence");
    assert!(licence.starts_with("Mozilla Public License, version 2.0"), "{licence}");
    assert_eq!(value("licence"), "MPL-2.0");
}
