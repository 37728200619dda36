//! One measurement of a comparison: a run of this very program, and the figure that it found.

use std::fs;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use plimsoll_model::compare::Metric;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{Outcome, Verdict, deciding};
use plimsoll_report::{Archive, findings};
use plimsoll_sys::process;
use plimsoll_sys::process::{Group, Signal, Ties};
use plimsoll_sys::signal::Interrupts;

use crate::exit::Stop;
use crate::plan::compare::Arm;
use crate::{exit, run};

/// How often the run is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a measurement gave.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// The figure; `None` when it is INVALID.
    pub(super) value: Option<f64>,
    /// Why it is.
    pub(super) invalid: Option<String>,
    /// Relative width within which the figure is known.
    pub(super) resolution: f64,
}

/// Runs `arm` to its end, with its archive in `dir`, and gives its summary.
pub(super) fn make(
    arm: &Arm,
    seed: u64,
    dir: &Path,
    interrupts: &Interrupts,
) -> Result<Summary, Stop> {
    if interrupts.is_raised() {
        return Err(run::interrupted_stop(interrupts));
    }
    let log = dir.with_extension("log");
    let failed = |why: String| Stop::CannotRun(format!("{}: {why}", arm.name));
    let mut child = start(arm, seed, dir, &log).map_err(|error| failed(error.to_string()))?;
    let status = wait(&mut child, interrupts).map_err(|error| failed(error.to_string()))?;
    if interrupts.is_raised() {
        return Err(run::interrupted_stop(interrupts));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    if !matches!(code, Some(exit::DONE | exit::INVALID | exit::SLO_MISSED)) {
        let archive = dir.display();
        return Err(failed(format!("{} (archived in {archive})", last_words(&log, status))));
    }
    let archive = Archive::open(dir).map_err(|error| failed(error.to_string()))?;
    archive.summary().cloned().ok_or_else(|| failed(format!("{} has no summary", dir.display())))
}

/// Starts it in a group of its own: a Ctrl-C at the terminal reaches this process alone, which
/// passes it on once, and dies with this process in every case.
fn start(arm: &Arm, seed: u64, dir: &Path, log: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(process::own_executable());
    command.arg0("plimsoll").args(&arm.args).arg("--out").arg(dir);
    if !arm.is_silent {
        command.arg("--no-ui");
    }
    if !arm.has_seed {
        command.arg("--seed").arg(seed.to_string());
    }
    if arm.skips_probe {
        command.args(["--probe-timeouts", "0"]);
    }
    // Its report is in its archive.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
    let ties = Ties { group: Group::Own, dies_with_parent: true, ..Ties::default() };
    process::spawn(command, &ties)
}

fn wait(child: &mut Child, interrupts: &Interrupts) -> std::io::Result<ExitStatus> {
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupts.is_raised() && !told {
            told = true;
            // It may have ended just now.
            let _ = process::kill(child.id(), Signal::INT);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What the run said before it failed.
fn last_words(log: &Path, status: ExitStatus) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map_or_else(
        || format!("it ended with {status} and said nothing"),
        |line| line.trim_start_matches("plimsoll: ").to_owned(),
    )
}

/// Reads the figure; `Err` when this command line has none, however often it is measured.
pub(super) fn read(arm: &Arm, metric: Metric, summary: &Summary) -> Result<Measured, Stop> {
    let resolution = summary.find.as_ref().and_then(|find| find.width).unwrap_or(0.0);
    let measured = |value, invalid| {
        Ok(Measured { value, invalid, resolution: if value.is_some() { resolution } else { 0.0 } })
    };
    if summary.verdict == Verdict::Invalid {
        return measured(None, Some(why_invalid(summary)));
    }
    if let Some(find) = &summary.find
        && let Some(why) = no_bound(find, summary)
            .map_err(|why| Stop::CannotRun(format!("{}: {why} ({})", arm.name, arm.text)))?
    {
        return measured(None, Some(why));
    }
    match figure(metric, summary).filter(|value| value.is_finite() && *value > 0.0) {
        Some(value) => measured(Some(value), None),
        None => Err(Stop::CannotRun(format!(
            "{}: not one operation was answered, so there is no {} ({})",
            arm.name,
            metric.title(),
            arm.text
        ))),
    }
}

fn figure(metric: Metric, summary: &Summary) -> Option<f64> {
    match metric {
        Metric::LowerBound => summary.find.as_ref()?.lower,
        Metric::P99 => summary.latency_ms.corrected.p99,
        Metric::Throughput => Some(summary.ok as f64 / summary.seconds),
        Metric::ClientCpu => {
            let generator = &summary.generator;
            let sent = summary.scheduled.saturating_sub(summary.unsent) as f64;
            Some((generator.cpu_user_s + generator.cpu_system_s) * 1e6 / sent)
        }
    }
}

/// Why a search gave no bound this time; `Err` when it never will.
fn no_bound(find: &FindSummary, summary: &Summary) -> Result<Option<String>, String> {
    match &find.outcome {
        Outcome::Regular => Ok(None),
        Outcome::GeneratorLimited { why }
        | Outcome::NetworkLimited { why }
        | Outcome::Unconfirmed { why }
        | Outcome::Unstable { why }
        | Outcome::Undecided { why } => Ok(Some(why.clone())),
        Outcome::Unfinished { why } if summary.verdict == Verdict::Good => Ok(Some(why.clone())),
        Outcome::Unfinished { why } => Err(why.clone()),
        Outcome::NotReached { cap } => {
            Err(format!("the tipping point was not reached, because of the cap: {cap}"))
        }
        Outcome::FailsAtMinimum if summary.ok == 0 && summary.status.is_empty() => {
            let classes = summary.error_classes.iter().max_by_key(|(_, count)| **count);
            let class = classes.map_or("no answer", |(class, _)| class);
            Err(format!("not one operation was answered, even at the lowest load: {class}"))
        }
        Outcome::FailsAtMinimum => {
            Err("the SLO is missed even at the lowest load; loosen --slo or lower --min".to_owned())
        }
    }
}

fn why_invalid(summary: &Summary) -> String {
    if let Some(
        Outcome::GeneratorLimited { why }
        | Outcome::NetworkLimited { why }
        | Outcome::Unconfirmed { why }
        | Outcome::Unstable { why }
        | Outcome::Undecided { why }
        | Outcome::Unfinished { why },
    ) = summary.find.as_ref().map(|find| &find.outcome)
    {
        return why.clone();
    }
    deciding(summary.verdict, &summary.reasons)
        .next()
        .map_or_else(|| "the generator was the limit".to_owned(), findings::line)
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;
    use plimsoll_model::search::{Axis, Mode};
    use plimsoll_model::summary::SummaryHead;
    use plimsoll_model::tally::Tally;
    use plimsoll_model::trial::{Check, Confirmations, Level, Measure};

    use super::*;

    fn arm() -> Arm {
        Arm { name: "B", text: "load x".to_owned(), ..Arm::default() }
    }

    fn summary(verdict: Verdict) -> Summary {
        let mut tally = Tally { scheduled: 1_010, ok: 1_000, unsent: 10, ..Tally::default() };
        tally.spans.corrected.record(Nanos::from_millis(5));
        tally.generator.cpu_user = Nanos::from_millis(6);
        tally.generator.cpu_system = Nanos::from_millis(4);
        let failed = |name: &str| {
            let seen = Measure::ratio("", 0.97).at_most(0.9);
            Check::new(name.to_owned().into(), Level::Fail, [seen])
        };
        let head = SummaryHead {
            command: "load".to_owned(),
            target: String::new(),
            started_at: String::new(),
            window: Nanos::from_secs(2),
            partial: false,
            settings: std::collections::BTreeMap::new(),
            verdict,
            reasons: vec![failed("p99<5ms"), failed("generator-cpu")],
            find: None,
            hold: None,
            archive: None,
        };
        Summary::new(head, &tally)
    }

    fn searched(outcome: Outcome, verdict: Verdict) -> Summary {
        let find = FindSummary {
            axis: Axis::Rate,
            slo: String::new(),
            mode: Mode::Quick,
            outcome,
            lower: Some(450.0),
            upper: Some(470.0),
            width: Some(0.05),
            trials: 9,
            invalid_trials: 0,
            search_s: 1.0,
            confirm_s: 1.0,
            conditional_throughput: None,
            confirmations: Confirmations::default(),
            noise: None,
            confidence: None,
            safe: None,
            spread: None,
            drift_per_min: None,
            recovers: None,
            recovery_s: None,
            notes: Vec::new(),
            path: None,
            connections: None,
        };
        Summary { find: Some(find), ..summary(verdict) }
    }

    #[test]
    fn figures_of_a_load() {
        let of = |metric| read(&arm(), metric, &summary(Verdict::Good)).unwrap().value.unwrap();
        assert!((of(Metric::P99) - 5.0).abs() < 0.01);
        assert_eq!(of(Metric::Throughput), 500.0);
        assert_eq!(of(Metric::ClientCpu), 10.0);
        // A missed goal is a figure all the same; a generator at its limit is none.
        assert!(read(&arm(), Metric::P99, &summary(Verdict::Bad)).unwrap().value.is_some());
        let invalid = read(&arm(), Metric::P99, &summary(Verdict::Invalid)).unwrap();
        assert_eq!(invalid.value, None);
        assert_eq!(invalid.invalid.unwrap(), "generator-cpu: 97 % (limit: at most 90 %)");
        let silent = Summary { ok: 0, ..summary(Verdict::Bad) };
        assert_eq!(read(&arm(), Metric::Throughput, &silent).unwrap_err().code(), 1);
    }

    #[test]
    fn only_a_settled_search_has_a_figure() {
        let of = |outcome, verdict| read(&arm(), Metric::LowerBound, &searched(outcome, verdict));
        let why = || "why".to_owned();
        let found = of(Outcome::Regular, Verdict::Good).unwrap();
        assert_eq!((found.value, found.resolution), (Some(450.0), 0.05));
        let unfinished = of(Outcome::Unfinished { why: why() }, Verdict::Good).unwrap();
        assert_eq!((unfinished.value, unfinished.invalid), (None, Some(why())));
        let limited = of(Outcome::GeneratorLimited { why: why() }, Verdict::Invalid).unwrap();
        assert_eq!((limited.value, limited.invalid), (None, Some(why())));
        let unconfirmed = of(Outcome::Unconfirmed { why: why() }, Verdict::Invalid).unwrap();
        assert_eq!((unconfirmed.value, unconfirmed.invalid), (None, Some(why())));
        // These will be the same the next time, so that there is nothing to compare.
        for (outcome, verdict) in [
            (Outcome::NotReached { cap: why() }, Verdict::Good),
            (Outcome::FailsAtMinimum, Verdict::Bad),
            (Outcome::Unfinished { why: why() }, Verdict::Bad),
        ] {
            let stop = of(outcome, verdict).unwrap_err();
            assert!(stop.code() == 1 && stop.complaint().unwrap().contains("B: "), "{stop:?}");
        }
        // A missed goal does not prove that the server is there.
        let failed = |ok| Summary { ok, ..searched(Outcome::FailsAtMinimum, Verdict::Bad) };
        let said = |summary| read(&arm(), Metric::LowerBound, &summary).unwrap_err();
        assert!(said(failed(5)).complaint().unwrap().contains("loosen --slo"));
        let mut gone = failed(0);
        gone.error_classes = [("timeout".to_owned(), 2), ("connect-refused".to_owned(), 9)].into();
        let said = said(gone).complaint().unwrap();
        assert!(
            said.contains("not one operation was answered") && said.contains("refused"),
            "{said}"
        );
    }
}
