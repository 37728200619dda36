//! Checks of every page of a report. Each check returns its findings, one per line.
//!
//! Most checks take a [`Page`] that is drawn, evaluate a function of `checks.js` in it, and return a list of texts;
//! an empty list means that the page passed. The script measures the page (boxes, colours, focus), and this file
//! judges the numbers if a comparison is needed, as in [`contrasts`] and [`positions`]. [`accessibility`] runs
//! axe-core, and [`keyboard`] presses keys. A value of an unexpected form panics. Start with [`charts`].

use std::time::Duration;

use serde_json::Value;

use super::contrast;
use super::page::Page;
use super::pipe::Event;
use crate::wait;

/// Looks at the page from within.
const PROBE: &str = include_str!("checks.js");

/// axe-core, unchanged; `assets/axe/VENDOR.toml` says which.
const AXE: &str = include_str!("../../assets/axe/axe.min.js");

/// The rules that it checks.
const AXE_RULES: &str = r#"{ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations", "incomplete"] }"#;

/// More stops than any page has.
const TABS_MAX: usize = 400;

/// Returns the result of an expression in terms of checks.js.
fn probe(page: &Page<'_>, expression: &str) -> Value {
    page.evaluate(&format!("(() => {{ {PROBE}\nreturn {expression}; }})()"))
}

fn probed(page: &Page<'_>, expression: &str) -> Vec<String> {
    let value = probe(page, expression);
    let list = serde_json::from_value(value.clone());
    list.unwrap_or_else(|error| panic!("{expression} is no list of texts ({error}): {value}"))
}

/// Returns the browser's reports since the page was opened: errors and warnings, what the page's policy stopped, and
/// requests for anything but one of `allowed`, the beginnings of URLs.
pub fn reports(page: &Page<'_>, allowed: &[&str]) -> Vec<String> {
    let stopped = page.texts("window.stopped ?? []");
    let stopped = stopped.into_iter().map(|what| format!("the policy stops: {what}"));
    let events = page.take_events();
    stopped.chain(events.iter().filter_map(|event| complaint(event, allowed))).collect()
}

fn complaint(event: &Event, allowed: &[&str]) -> Option<String> {
    let values = &event.values;
    match event.name.as_str() {
        "Runtime.exceptionThrown" => Some(format!("exception: {}", values["exceptionDetails"])),
        "Runtime.consoleAPICalled" => {
            let is_bad = ["error", "warning", "assert"].iter().any(|kind| values["type"] == *kind);
            is_bad.then(|| format!("console: {}", values["args"]))
        }
        "Log.entryAdded" => {
            let entry = &values["entry"];
            let is_bad = ["error", "warning"].iter().any(|level| entry["level"] == *level);
            is_bad.then(|| format!("log: {} {}", entry["text"], entry["url"]))
        }
        "Network.requestWillBeSent" => {
            let url = values["request"]["url"].as_str().unwrap_or_default();
            let is_allowed =
                ["data:", "blob:"].iter().chain(allowed).any(|begin| url.starts_with(begin));
            (!is_allowed).then(|| format!("a request leaves the page: {url}"))
        }
        _ => None,
    }
}

/// Each figure has axes with titles, units and ticks, and something within them, or a sentence that says why not.
pub fn charts(page: &Page<'_>) -> Vec<String> {
    probed(page, "charts()")
}

/// No two texts of a drawing touch, and none leaves it.
pub fn overlaps(page: &Page<'_>) -> Vec<String> {
    probed(page, "overlaps()")
}

/// The page is no wider than the screen.
pub fn width(page: &Page<'_>) -> Vec<String> {
    probed(page, "width()")
}

/// No figure is a narrow column, and each drawing that stands alone is as wide as its place.
pub fn columns(page: &Page<'_>) -> Vec<String> {
    probed(page, "columns()")
}

/// Nothing that another width of the screen may spoil is wrong: no page is wider than it, no column narrow, no drawing gone
/// or not as wide as its place.
pub fn at_width(page: &Page<'_>) -> Vec<String> {
    probed(page, "atWidth()")
}

/// Texts have a contrast of 4.5, and marks one of 3.
pub fn contrasts(page: &Page<'_>) -> Vec<String> {
    let pairs: Vec<(String, String, String, f64)> =
        serde_json::from_value(probe(page, "colours()")).expect("what colours() gives");
    assert!(!pairs.is_empty(), "no colours on the page");
    let judge = |(what, colour, background, least): (String, String, String, f64)| {
        let Some(ratio) = contrast::ratio(&colour, &background) else {
            return Some(format!("{what}: {colour} on {background} cannot be compared"));
        };
        let is_bad = ratio < least;
        is_bad.then(|| format!("{what}: {colour} on {background} is {ratio:.2}, below {least}"))
    };
    pairs.into_iter().filter_map(judge).collect()
}

/// Returns the findings of axe-core by the rules of WCAG 2.2 A and AA; what it could not decide is printed.
pub fn accessibility(page: &Page<'_>) -> Vec<String> {
    let run = format!("{AXE}\n;axe.run(document, {AXE_RULES})");
    let found = page.evaluate(&run);
    let describe = |rule: &Value| {
        let nodes = rule["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let first = nodes.first().map(|node| node["html"].to_string()).unwrap_or_default();
        let shown: String = first.chars().take(160).collect();
        format!(
            "axe {} ({}), {} times: {} {shown}",
            rule["id"],
            rule["impact"],
            nodes.len(),
            rule["help"]
        )
    };
    let list = |name: &str| found[name].as_array().map(Vec::as_slice).unwrap_or_default();
    for rule in list("incomplete") {
        println!("undecided: {}", describe(rule));
    }
    list("violations").iter().map(describe).collect()
}

/// By the keyboard, each figure that is drawn is reached once and has a ring then; an arrow says something, and Escape
/// ends that.
pub fn keyboard(page: &Page<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut reached = Vec::new();
    for _ in 0..TABS_MAX {
        page.press("Tab");
        let focus = probe(page, "focused()");
        if focus.is_null() {
            break;
        }
        if focus["ring"].as_f64() < Some(2.0) {
            wrong.push(format!("no ring at {}", focus["what"]));
        }
        if let Some(figure) = focus["figure"].as_str() {
            if reached.is_empty() {
                wrong.extend(arrows(page, figure));
            }
            reached.push(figure.to_owned());
        }
    }
    let drawn = probed(page, "figures().filter((one) => drawings(one).length > 0).map(nameOf)");
    if drawn != reached {
        wrong.push(format!("figures are {drawn:?}, and Tab reaches {reached:?}"));
    }
    wrong
}

/// Time within which a page must read a point aloud: it does so twice a second at most.
const SAID_WITHIN: Duration = Duration::from_secs(5);
const STATUS: &str = "document.getElementById('status').textContent";

fn arrows(page: &Page<'_>, figure: &str) -> Vec<String> {
    let says = |what: &dyn Fn(&str) -> bool| {
        wait::within(SAID_WITHIN, &mut || {
            let said = page.evaluate(STATUS);
            said.as_str().filter(|said| what(said)).map(str::to_owned)
        })
    };
    page.press("ArrowRight");
    let Some(first) = says(&|said| !said.is_empty()) else {
        return vec![format!("{figure}: an arrow says nothing")];
    };
    page.press("ArrowRight");
    let mut wrong = Vec::new();
    let says_another = || says(&|said| !said.is_empty() && said != first).is_some();
    let rows = "document.activeElement.closest('figure').querySelectorAll('tbody tr').length";
    if page.evaluate(rows).as_u64() > Some(1) && !says_another() {
        wrong.push(format!("{figure}: a second arrow says the same, {first}"));
    }
    page.press("Escape");
    if says(&str::is_empty).is_none() {
        wrong.push(format!("{figure}: Escape leaves the readout"));
    }
    wrong
}

/// Returns the trials that a chart has marks of, as (number, verdict).
pub fn trial_marks(page: &Page<'_>, chart: &str) -> Vec<(u64, String)> {
    let found = probe(page, &format!("trialMarks({chart:?})"));
    serde_json::from_value(found).expect("what trialMarks() gives")
}

/// Returns the titles of all axes.
pub fn axis_titles(page: &Page<'_>) -> Vec<String> {
    probed(page, "axisTitles()")
}

/// Returns the captions of all tables outside of figures, with their numbers of rows.
pub fn tables(page: &Page<'_>) -> Vec<String> {
    probed(page, "tables()")
}

/// Returns the cells of the table that a CSS selector finds.
pub fn cells(page: &Page<'_>, selector: &str) -> Vec<Vec<String>> {
    let found = probe(page, &format!("cells({selector:?})"));
    serde_json::from_value(found).expect("what cells() gives")
}

/// Marks of trials that do not stand where `load_of` their number belongs by the ticks of the load axis.
pub fn positions(page: &Page<'_>, chart: &str, load_of: &dyn Fn(u64) -> f64) -> Vec<String> {
    let found = probe(page, &format!("positions({chart:?})"));
    let ticks: Vec<(String, f64)> =
        serde_json::from_value(found["x"].clone()).expect("what positions() gives");
    let ticks: Vec<(f64, f64)> =
        ticks.iter().filter_map(|(text, px)| Some((tick_value(text)?, *px))).collect();
    let trials: Vec<(u64, f64, f64)> =
        serde_json::from_value(found["trials"].clone()).expect("as above");
    let title = probe(
        page,
        &format!("document.querySelector('figure[data-chart={chart}] .axis-title.x').textContent"),
    );
    let is_log = title.as_str().is_some_and(|title| title.ends_with("(log)"));
    let scale = |value: f64| if is_log { value.ln() } else { value };
    let (Some(&(low, low_px)), Some(&(high, high_px))) = (ticks.first(), ticks.last()) else {
        return vec![format!("{chart}: no ticks")];
    };
    let px_per_unit = (high_px - low_px) / (scale(high) - scale(low));
    let judge = |(number, x, _): (u64, f64, f64)| {
        let expected = low_px + (scale(load_of(number)) - scale(low)) * px_per_unit;
        ((x - expected).abs() > 1.5)
            .then(|| format!("{chart}: trial {number} is at {x:.1} px, not {expected:.1}"))
    };
    trials.into_iter().filter_map(judge).collect()
}

/// "1,500" and "1.5k" as numbers.
fn tick_value(text: &str) -> Option<f64> {
    let plain = text.replace(',', "");
    let (digits, factor) = match plain.strip_suffix(['k', 'M', 'G']) {
        Some(digits) if plain.ends_with('k') => (digits, 1e3),
        Some(digits) if plain.ends_with('M') => (digits, 1e6),
        Some(digits) => (digits, 1e9),
        None => (plain.as_str(), 1.0),
    };
    digits.parse::<f64>().ok().map(|value| value * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_as_they_are_written() {
        let values = ["0", "1,500", "1.5k", "20M", "2G", "x"].map(tick_value);
        let expected = [Some(0.0), Some(1500.0), Some(1500.0), Some(2e7), Some(2e9), None];
        assert_eq!(values, expected);
    }
}
