//! `--baseline RUN --fail-if EXPR`: whether a run is worse than another one by more than is allowed.

use std::path::Path;

use plimsoll_capacity::gate::{GateRun, RunSpeed, Stretches, judge};
use plimsoll_model::Nanos;
use plimsoll_model::gate::{Gate, GateResult, Incomparable};
use plimsoll_model::host::{Change, Metric, Reading, Role};
use plimsoll_model::result::RunResult;
use plimsoll_model::summary::Summary;
use plimsoll_report::terminal::{GateLine, GateReport};
use plimsoll_report::{Archive, ReportError};

use crate::causes;
use crate::exit::{INVALID, Result, SLO_MISSED, Stop, UNSETTLED};

/// Judges `summary`, of `archive`, by each gate; returns the command's end, too.
pub(super) fn gate(
    gates: &[Gate],
    baseline_dir: &Path,
    archive: &Archive,
    summary: &Summary,
) -> Result<(GateReport, Option<Stop>)> {
    let refuse = |error: ReportError| Stop::Usage(error.to_string());
    let baseline = Archive::open(baseline_dir).map_err(refuse)?;
    let rebuilt;
    let baseline_summary = match &baseline.summary {
        Some(summary) => summary,
        None => {
            rebuilt = baseline.rebuild_summary().map_err(refuse)?;
            &rebuilt
        }
    };
    let [before, now] = [(&baseline, baseline_summary), (archive, summary)];
    let loads = [stretches(before).map_err(refuse)?, stretches(now).map_err(refuse)?];
    // A piece of work takes another time on another host or kernel, whatever slows them.
    let is_one_host = baseline.manifest.host == archive.manifest.host;
    let speed = |archive| speed(archive).filter(|_| is_one_host);
    let run = |(archive, summary), stretches| GateRun { summary, stretches, speed: speed(archive) };
    let (before, now) = (run(before, &loads[0]), run(now, &loads[1]));
    let found: Vec<_> = gates.iter().map(|gate| (gate, judge(*gate, before, now))).collect();
    let lines = found.iter().map(|(gate, found)| GateLine::of(gate, found));
    let report = GateReport {
        baseline: baseline_dir.display().to_string(),
        notes: notes(&baseline, archive),
        lines: lines.collect(),
    };
    let refusals = found.iter().filter_map(|(_, found)| found.as_ref().err());
    let stop = stop(refusals.collect(), &report);
    Ok((report, stop))
}

/// Returns the stretches of a load; other runs are compared by what they state.
fn stretches((archive, summary): (&Archive, &Summary)) -> Result<Stretches, ReportError> {
    if summary.result != RunResult::Load {
        return Ok(Stretches::default());
    }
    archive.check_agreement(summary)?;
    let mut stretches = Stretches::new(summary.seconds);
    for (second, line) in archive.intervals()?.enumerate() {
        stretches.add(second, &line?.interval.tally);
    }
    Ok(stretches)
}

/// Returns the speed of the host of the run's server; `None` if the yardstick did not run there.
fn speed(archive: &Archive) -> Option<RunSpeed> {
    let hosts = causes::readings(&archive.dir);
    let has_server = |reading: &Reading| reading.processes(Role::Server).next().is_some();
    let readings = hosts.values().find(|readings| readings.iter().any(has_server))?;
    let piece = |pair: &[Reading]| {
        let change = Change::new(&pair[0], &pair[1]);
        let pieces = change.grown(Metric::YardstickPieces, &[]).filter(|pieces| *pieces > 0.0)?;
        Some(Nanos::from_secs_f64(change.grown(Metric::YardstickSeconds, &[])? / pieces))
    };
    let pieces: Vec<Nanos> = readings.windows(2).filter_map(piece).collect();
    RunSpeed::of(&pieces)
}

fn notes(baseline: &Archive, run: &Archive) -> Vec<String> {
    let mut notes = vec![
        "The two runs were not interleaved: beside the host's speed, no interval covers what differs between \
         two runs. `plimsoll compare` measures both in turns."
            .to_owned(),
    ];
    let (before, now) = (&baseline.manifest.host, &run.manifest.host);
    if before != now {
        notes.push(format!(
            "The baseline ran on another host or kernel: {}, {} CPUs; this one {}, {} CPUs.",
            before.kernel, before.cpus, now.kernel, now.cpus
        ));
    }
    notes
}

/// Returns the worst that was found: what cannot be compared is no pass.
fn stop(refusals: Vec<&Incomparable>, report: &GateReport) -> Option<Stop> {
    let lines = |wanted: Option<GateResult>| -> Vec<String> {
        let lines = report.lines.iter().filter(|line| line.result == wanted);
        lines.map(|line| format!("{}: {}", line.gate, line.text)).collect()
    };
    let is = |of: fn(&Incomparable) -> bool| refusals.iter().any(|why| of(why));
    use Incomparable::{Differs, NoInterval, Settings};
    if is(|why| matches!(why, Differs { .. } | Settings(_) | NoInterval { .. })) {
        let first = lines(None).into_iter().next();
        return first.map(|line| Stop::usage(line, "name another baseline, or drop it"));
    }
    if is(|why| matches!(why, Incomparable::Unsettled { .. })) {
        return Some(Stop::Gates(UNSETTLED, lines(None)));
    }
    if !refusals.is_empty() {
        return Some(Stop::Gates(INVALID, lines(None)));
    }
    let failed = lines(Some(GateResult::Fail));
    (!failed.is_empty()).then_some(Stop::Gates(SLO_MISSED, failed))
}
