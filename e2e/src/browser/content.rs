//! Comparison of a page with the archive that it was drawn from.
//!
//! [`differs`] collects the numbers of the terminal report's first sentence and the figures of the summary, writes
//! them as the page does, and searches for each of them in the page's text. The rows of the trials' table and the
//! marks of three charts are compared with the trials of the archive. `NAMED` is the table of figures that a page
//! must contain if the summary has them. Start with [`differs`].

use serde_json::Value;

use super::checks;
use super::page::Page;
use crate::runs::{HOSTILE, Run};

/// The notation of a figure of the summary.
#[derive(Clone, Copy)]
enum Figure {
    /// "1,107".
    Count,
    /// "0.554", "20.4".
    Ms,
}

/// Figures that the page names where the summary has them.
const NAMED: [(&str, Figure); 9] = [
    ("/latency_ms/corrected/p99", Figure::Ms),
    ("/find/lower", Figure::Count),
    ("/find/upper", Figure::Count),
    ("/find/safe", Figure::Count),
    ("/find/trials", Figure::Count),
    ("/hold/asked", Figure::Count),
    ("/hold/held", Figure::Count),
    ("/hold/lost", Figure::Count),
    ("/compare/rounds_used", Figure::Count),
];

/// Returns the differences between a page and its archive: the answer, figures of the summary, checks, errors, trials
/// and their marks.
pub fn differs(page: &Page<'_>, run: &Run) -> Vec<String> {
    let text = page.evaluate("document.getElementById('main').textContent");
    let text = text.as_str().expect("a text").to_owned();
    let expected = [answer(run), figures(&run.summary().0)].concat();
    let absent = expected.iter().filter(|figure| !text.contains(&figure[..]));
    let mut wrong: Vec<_> = absent.map(|figure| format!("{figure:?} is not on the page")).collect();
    let trials = trials(run);
    let rows = checks::cells(page, "#trials-table");
    let shown: Vec<_> = rows.iter().map(|row| (row[0].clone(), row[3].to_lowercase())).collect();
    let stated = |(number, verdict, _): &(u64, String, f64)| (number.to_string(), verdict.clone());
    if shown != trials.iter().map(stated).collect::<Vec<_>>() {
        wrong.push(format!("trials are {trials:?}, and the table has {shown:?}"));
    }
    for chart in ["tipping", "goodput", "course"] {
        if page
            .evaluate(&format!("document.querySelector('figure[data-chart={chart}] svg')"))
            .is_null()
        {
            continue;
        }
        let mut marks = checks::trial_marks(page, chart);
        marks.sort_unstable();
        let stated = |(number, verdict, _): &(u64, String, f64)| (*number, verdict.clone());
        let mut expected: Vec<_> = trials.iter().map(stated).collect();
        expected.sort_unstable();
        if marks != expected {
            wrong.push(format!("{chart}: trials are {expected:?}, and it has marks of {marks:?}"));
        }
    }
    wrong
}

/// Marks of the tipping point's chart that do not stand at their trial's load.
pub fn misplaced(page: &Page<'_>, run: &Run) -> Vec<String> {
    let trials = trials(run);
    let load_of = |wanted: u64| {
        let found = trials.iter().find(|(number, _, _)| *number == wanted);
        found.map_or(f64::NAN, |(_, _, load)| *load)
    };
    checks::positions(page, "tipping", &load_of)
}

/// Names that are no text on the page but markup or program, or that are not there.
pub fn executed(page: &Page<'_>) -> Vec<String> {
    let text = page.evaluate("document.getElementById('main').textContent");
    let text = text.as_str().expect("a text").to_owned();
    let absent = HOSTILE[..2].iter().filter(|name| !text.contains(**name));
    let mut wrong: Vec<_> = absent.map(|name| format!("{name:?} is not on the page")).collect();
    if !page.evaluate("window.wasRun").is_null() {
        wrong.push("a name was run as a program".to_owned());
    }
    wrong
}

/// Number, verdict and load of each trial.
fn trials(run: &Run) -> Vec<(u64, String, f64)> {
    let read = |trial: &Value| {
        let request = &trial["measurement"]["request"];
        let number = request["number"].as_u64().expect("a number");
        let verdict = trial["judgement"]["verdict"].as_str().expect("a verdict").to_owned();
        (number, verdict, request["rate"].as_f64().expect("a load"))
    };
    run.trials().iter().map(read).collect()
}

/// Returns the numbers of the first sentence of the terminal's report.
fn answer(run: &Run) -> Vec<String> {
    let report = run.report();
    let sentence = report.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let first = sentence.split(". ").next().unwrap_or_default();
    numbers(first)
}

fn numbers(text: &str) -> Vec<String> {
    let words = text.split(|at: char| !(at.is_ascii_digit() || ".,:".contains(at)));
    let words = words.map(|word| word.trim_matches(|at: char| !at.is_ascii_digit()));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns the figures of a summary that its page names, as it writes them.
fn figures(summary: &Value) -> Vec<String> {
    let number = |path: &str| summary.pointer(path).and_then(Value::as_f64);
    let named = NAMED.iter().filter_map(|(path, figure)| Some(figure.text(number(path)?)));
    let list =
        |path: &str| summary.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
    let checks =
        list("/reasons").into_iter().filter_map(|check| Some(check["check"].as_str()?.to_owned()));
    let loads = list("/rfc9411/results").into_iter().filter_map(|result| result["load"].as_f64());
    let errors = summary["error_classes"].as_object().cloned().unwrap_or_default();
    let errors = errors
        .into_iter()
        .flat_map(|(class, count)| [class, Figure::Count.text(count.as_f64().unwrap_or_default())]);
    named.chain(checks).chain(loads.map(|load| Figure::Count.text(load))).chain(errors).collect()
}

impl Figure {
    fn text(self, value: f64) -> String {
        match self {
            Self::Count => grouped(value.round() as u64),
            Self::Ms if value < 0.9995 => format!("{value:.3}"),
            Self::Ms if value >= 99.95 => grouped(value.round() as u64),
            Self::Ms if value >= 9.995 => format!("{value:.1}"),
            Self::Ms => format!("{value:.2}"),
        }
    }
}

/// Returns a whole number with commas.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_a_page_writes_them() {
        let ms = [0.0402, 0.9996, 2.345, 20.44, 99.96, 1_234.5].map(|value| Figure::Ms.text(value));
        assert_eq!(ms, ["0.040", "1.00", "2.35", "20.4", "100", "1,235"]);
        let counts = [0.0, 999.0, 1_000.0, 1_234_567.0].map(|value| Figure::Count.text(value));
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn numbers_are_taken_out_of_a_sentence() {
        let found = numbers("300/s of 1,300/s for 3.00 s to http://127.0.0.1:41911/; 100 % ok,");
        assert_eq!(found, ["300", "1,300", "3.00", "127.0.0.1:41911", "100"]);
    }
}
