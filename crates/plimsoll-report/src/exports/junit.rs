//! Goals and checks as test cases of JUnit's XML, which CI servers show.
//!
//! GitLab compares cases by their names between branches, so no name holds a figure that was measured; and it
//! shows only the content of an element, so the fault is described there and in `message`.

use std::io::Write;
use std::mem::discriminant;

use plimsoll_model::Fault;
use plimsoll_model::gate::GateResult;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{Check, CheckId, Family, Level, Outcome, SloFound, Standing, Verdict};

use super::run::ExportedRun;
use super::xml::Element;
use crate::digest::Digest;
use crate::error::Result;
use crate::terminal::{GateLine, findings};

/// The end of a case.
#[derive(Clone, Copy)]
enum Ending {
    Passed,
    /// The server's fault: `failure`, and its type.
    Failed(&'static str),
    /// The result is unknown: `error`, with its type.
    Error(&'static str),
    Skipped,
}

impl Ending {
    /// Returns the end of the whole run: what badge and exit code state.
    fn of_run(summary: &Summary) -> Self {
        if summary.partial { Self::Error("run") } else { summary.standing().into() }
    }
}

impl From<Standing> for Ending {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Met => Self::Passed,
            Standing::Missed => Self::Failed("slo"),
            Standing::Open => Self::Error("undecided"),
            Standing::Invalid => Self::Error("generator"),
        }
    }
}

/// A test case.
struct Case {
    group: &'static str,
    name: String,
    ending: Ending,
    /// Figures that were measured.
    text: String,
}

pub(super) fn write(run: &ExportedRun<'_>, out: &mut dyn Write) -> Result<()> {
    let summary = run.summary;
    let text = Digest::of(summary).sentence();
    let find = summary.result.find();
    let mut cases: Vec<Case> =
        find.into_iter().flat_map(|find| of_search(find, summary, &text)).collect();
    for check in &summary.reasons {
        // A check of several trials is listed once.
        if !cases.iter().any(|case| case.name == check.id.name()) {
            cases.push(of_check(check, summary.verdict));
        }
    }
    let ending = Ending::of_run(summary);
    if !cases.iter().any(|case| discriminant(&case.ending) == discriminant(&ending)) {
        cases.push(Case { group: "run", name: "run-complete".to_owned(), ending, text });
    }
    cases.extend(run.gate.iter().flat_map(|report| report.lines.iter().map(of_gate)));
    let count =
        |of: fn(&Ending) -> bool| cases.iter().filter(|c| of(&c.ending)).count().to_string();
    let suite = Element::new("testsuite")
        .with("name", class_name(summary))
        .with("tests", cases.len().to_string())
        .with("failures", count(|ending| matches!(ending, Ending::Failed(_))))
        .with("errors", count(|ending| matches!(ending, Ending::Error(_))))
        .with("skipped", count(|ending| matches!(ending, Ending::Skipped)))
        .with("time", format!("{:.3}", summary.seconds))
        .with("timestamp", summary.started_at.trim_end_matches('Z'))
        .children(cases.iter().map(|case| element(case, summary)));
    Ok(Element::new("testsuites").children([suite]).write(out)?)
}

/// Returns `plimsoll.load`, `plimsoll.find.rate`.
fn class_name(summary: &Summary) -> String {
    let axis = summary.result.find().map(|find| format!(".{}", find.axis.name()));
    format!("plimsoll.{}{}", summary.command.replace(' ', "."), axis.unwrap_or_default())
}

fn element(case: &Case, summary: &Summary) -> Element {
    let message = |name| Element::new(name).with("message", &*case.text);
    let inner = match &case.ending {
        Ending::Passed => Element::new("system-out").text(&*case.text),
        Ending::Failed(kind) => message("failure").with("type", *kind).text(&*case.text),
        Ending::Error(kind) => message("error").with("type", *kind).text(&*case.text),
        Ending::Skipped => message("skipped").text(&*case.text),
    };
    Element::new("testcase")
        .with("classname", format!("{}.{}", class_name(summary), case.group))
        .with("name", &*case.name)
        .with("time", "0.000")
        .children([inner])
}

/// Makes the cases of a search, one for each SLO; `text` has all answers.
fn of_search(find: &FindSummary, summary: &Summary, text: &str) -> Vec<Case> {
    let case = |name: String, outcome: &Outcome| {
        let ending = outcome.standing().map_or_else(|| Ending::of_run(summary), Ending::from);
        Case { group: "search", name, ending, text: text.to_owned() }
    };
    match &find.found.goals[..] {
        [] => vec![case("tipping-point".to_owned(), &find.found.outcome)],
        goals => {
            let of_goal =
                |goal: &SloFound| case(format!("tipping-point {}", goal.slo), &goal.found.outcome);
            goals.iter().map(of_goal).collect()
        }
    }
}

/// Makes the case of a gate. Its name is the expression, which contains no measured figure.
fn of_gate(line: &GateLine) -> Case {
    let ending = match line.result {
        Some(GateResult::Pass | GateResult::Warn) => Ending::Passed,
        Some(GateResult::Fail) => Ending::Failed("baseline"),
        None => Ending::Error("baseline"),
    };
    let warning = if line.result == Some(GateResult::Warn) { "warning: " } else { "" };
    let text = format!("{warning}{}", line.text);
    Case { group: "baseline", name: line.gate.clone(), ending, text }
}

fn of_check(check: &Check, verdict: Verdict) -> Case {
    let is_goal = check.id.family() == Family::Goal;
    let is_ours = check.id.fault() == Fault::Local;
    let is_invalid = verdict == Verdict::Invalid;
    let ending = match (check.level, is_goal) {
        // What the generator shaped speaks neither for nor against a goal.
        (_, true) if is_invalid => Ending::Skipped,
        (Level::Pass | Level::Warn, _) => Ending::Passed,
        (Level::Fail, true) => Ending::Failed("slo"),
        (Level::Fail, false) if is_ours => Ending::Error("generator"),
        (Level::Fail, false) if check.id == CheckId::RunComplete => Ending::Error("run"),
        (Level::Fail, false) if is_invalid => Ending::Skipped,
        (Level::Fail, false) => Ending::Failed("server"),
    };
    let group = match check.id.family() {
        Family::Goal => "slo",
        Family::Validity => "generator",
        Family::Server => "server",
        Family::Run => "run",
    };
    let mut text = findings::seen_and_limit(check);
    if check.level == Level::Warn {
        text.insert_str(0, "warning: ");
    }
    if let Some(hint) = check.id.hint().filter(|_| check.level > Level::Pass) {
        text.push_str(&format!("; {hint}"));
    }
    Case { group, name: check.id.name().into_owned(), ending, text }
}
