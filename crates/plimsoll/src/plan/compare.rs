//! `plimsoll compare` into a job: two command lines of this program, and the figure they give.
//!
//! Both are parsed and planned as if they were run, so that errors are reported before anything is
//! started.

use std::ffi::OsString;

use plimsoll_capacity::compare::{BUDGET_MIN, Blocks, ROUNDS_DEFAULT, ROUNDS_MIN};
use plimsoll_model::Nanos;
use plimsoll_model::compare::{Arm, Metric};
use plimsoll_model::plan::{Pacing, Trust};
use plimsoll_model::search::Axis;

use super::in_turn::TurnsJob;
use super::publish::PublishJob;
use super::{Destination, Inputs, Job, hosts, load, outputs, publish, watch};
use crate::exit::{Result, Stop};
use crate::flags;
use crate::flags::archived;
use crate::flags::shared::{OutputFlags, RequestFlags};
use crate::flags::values::Processes;
use crate::flags::{Command, CompareFlags};

/// Time of a comparison that chooses its loads by itself.
const BUDGET_DEFAULT: Nanos = Nanos::from_secs(300);
/// Rounds of loads of the user's, which may be long.
const LOAD_ROUNDS_DEFAULT: u32 = 12;
/// The most rounds, as in the flags.
const ROUNDS_MAX: usize = 200;
/// Flags of a search that a comparison has no use for.
const OF_SEARCHES: &str =
    "--slo --deadline --mode --budget --probe-timeouts --min --max --repeat --confirm-cause";

/// One of the two, as it was typed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArmLine {
    /// All of it as one line, as archives have it.
    pub(crate) text: String,
    /// The arguments of plimsoll.
    pub(crate) args: Vec<String>,
    /// The command: `lab`, `find` or `load`.
    pub(crate) command: Command,
    /// `true` if they name a seed.
    pub(crate) has_seed: bool,
}

/// One comparison, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompareJob {
    /// The baseline, and the arm that is compared with it.
    pub(crate) arms: [ArmLine; 2],
    /// The measure of both.
    pub(crate) of: Measures,
    /// The figures of which one decides; at least one.
    pub(crate) metrics: Vec<Metric>,
    /// Turns of the arms.
    pub(crate) turns: TurnsJob,
    /// Both are loaded at the same time, each in one half of the CPUs.
    pub(crate) duet: bool,
    /// Relative differences up to this do not matter.
    pub(crate) threshold: f64,
    /// Publishing of figures meanwhile.
    pub(crate) publish: PublishJob,
    /// Notes for the reader at the beginning.
    pub(crate) notes: Vec<String>,
}

impl CompareJob {
    /// Returns the target in reports.
    pub(crate) fn target_name(&self) -> String {
        format!("{} against {}", self.arms[1].text, self.arms[0].text)
    }

    /// Returns the arguments of this program as archives have them. Flags for both are among those of each.
    pub(crate) fn command_line(&self, args: impl IntoIterator<Item = OsString>) -> Vec<String> {
        let [a, b] = self.arms.each_ref().map(|arm| [arm.text.clone()]);
        archived::line(args, &[("a", &a[..]), ("b", &b[..]), ("both", &[])])
    }
}

/// The measure of a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measures {
    /// Capacity of a server, on an axis.
    Search(&'static str, Axis),
    /// A load; closed when the server sets its pace.
    Load { closed: bool },
}

impl Measures {
    fn command(self) -> String {
        match self {
            Self::Search(command, axis) => format!("{command} on the axis {}", axis.name()),
            Self::Load { closed: true } => "load in a closed loop".to_owned(),
            Self::Load { closed: false } => "load at a given rate".to_owned(),
        }
    }

    /// Reports whether the loads are the user's.
    pub(crate) const fn is_load(self) -> bool {
        matches!(self, Self::Load { .. })
    }

    /// Returns its figures; the first is the usual one of a load. In a closed loop a stall of the server stops the
    /// load as well, and hides itself: it has no latency to compare.
    pub(crate) const fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Search(..) => &[Metric::Goodput, Metric::ServerCpu, Metric::P50, Metric::P99],
            Self::Load { closed: true } => &[Metric::Throughput, Metric::ClientCpu],
            Self::Load { closed: false } => {
                &[Metric::P99, Metric::P50, Metric::Throughput, Metric::ClientCpu]
            }
        }
    }

    /// Returns the unit of one of them.
    pub(crate) const fn unit(self, metric: Metric) -> &'static str {
        match (metric, self) {
            (Metric::P50 | Metric::P99, _) => "ms",
            (Metric::ServerCpu | Metric::ClientCpu, _) => "us",
            (_, Self::Search(_, Axis::Handshakes)) => "handshakes/s",
            _ => "requests/s",
        }
    }
}

/// Checks the flags of `compare`.
pub(crate) fn build(flags: &CompareFlags, inputs: &mut Inputs) -> Result<CompareJob> {
    let (Some(a), Some(b)) = (&flags.a, &flags.b) else {
        refuse!("compare needs two things to measure";
            "for example: plimsoll compare 'lab --sut haproxy' 'lab --sut nginx'");
    };
    outputs::check(&flags.output)?;
    let (a, of_a, processes_a) = arm(Arm::A, a, flags, inputs)?;
    let (b, of_b, processes_b) = arm(Arm::B, b, flags, inputs)?;
    refuse_if!(of_a != of_b;
        "A is {}, and B is {}", of_a.command(), of_b.command();
        "compare what gives the same figure");
    refuse_if!(processes_a != processes_b;
        "A and B are loaded by the same processes, and name different numbers of them";
        "give --processes for both, after two dashes");
    let (rounds, budget) = extent(flags, of_a)?;
    let arms = [a, b];
    let are_labs = arms.iter().all(|arm| matches!(arm.command, Command::Lab(_)));
    Ok(CompareJob {
        metrics: metrics(flags.metric, of_a)?,
        notes: unused(&arms, of_a),
        of: of_a,
        arms,
        turns: TurnsJob { rounds, budget, seed: flags.seed, output: flags.output.clone() },
        duet: are_labs && !flags.in_turn && inputs.cpus >= 2,
        threshold: flags.threshold,
        publish: publish::of_output(&flags.output, inputs)?,
    })
}

/// Returns the number of rounds, and their time.
fn extent(flags: &CompareFlags, of: Measures) -> Result<(u32, Option<Nanos>)> {
    if of.is_load() {
        return Ok((flags.rounds.unwrap_or(LOAD_ROUNDS_DEFAULT), flags.budget));
    }
    let budget = flags.budget.unwrap_or(BUDGET_DEFAULT);
    refuse_if!(budget < BUDGET_MIN;
        "--budget {budget} is too short for {ROUNDS_MIN} rounds"; "give {BUDGET_MIN} or more");
    let fill = || Blocks::rounds_for(budget, ROUNDS_DEFAULT as usize).min(ROUNDS_MAX) as u32;
    Ok((flags.rounds.unwrap_or_else(fill), Some(budget)))
}

fn arm(
    name: Arm,
    typed: &str,
    flags: &CompareFlags,
    inputs: &mut Inputs,
) -> Result<(ArmLine, Measures, Processes)> {
    let name = name.name();
    let mut args = shell_words::split(typed).map_err(
        |_| usage!("{name} is not a command line: a quote is not closed"; "close or drop it"),
    )?;
    if args.first().is_some_and(|word| word == "plimsoll") {
        args.remove(0);
    }
    args.extend_from_slice(&flags.both);
    if args.first().is_some_and(|word| word.contains("://")) {
        let command = if is_load(flags.metric, &args) { &["load"][..] } else { &["find", "rate"] };
        args.splice(..0, command.iter().map(|word| (*word).to_owned()));
    }
    let examined = examine(&args, inputs).map_err(|stop| match stop {
        Stop::Usage(text) => Stop::Usage(format!("{name}: {text}")),
        Stop::CannotRun(text) => Stop::CannotRun(format!("{name}: {text}")),
        Stop::Asked(_) => Stop::usage(format_args!("{name} asks for help"), "name a measurement"),
        other => other,
    });
    let (command, measures, processes) = examined?;
    if let Some(flag) = &inputs.stdin_reader {
        refuse!("{name}: {flag} - reads standard input, and every round needs it again";
            "name a file");
    }
    let line = ArmLine { text: shown(&args), has_seed: names(&args, "--seed"), command, args };
    Ok((line, measures, processes))
}

/// Reports whether `args` have a flag, by itself or with its value.
fn names(args: &[String], flag: &str) -> bool {
    args.iter().any(|word| {
        word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })
}

/// Says which flags change nothing.
fn unused(arms: &[ArmLine], of: Measures) -> Vec<String> {
    let given = |flag: &&str| arms.iter().any(|arm| names(&arm.args, flag));
    let flags: Vec<&str> = OF_SEARCHES.split(' ').filter(given).collect();
    if flags.is_empty() || of.is_load() {
        return Vec::new();
    }
    vec![format!(
        "a comparison does not search: both are saturated, and compared at one load below; {} \
         changes nothing",
        flags.join(" ")
    )]
}

/// Returns `args` as archives have them, as one line that a shell splits into words.
fn shown(args: &[String]) -> String {
    let args = std::iter::once("plimsoll").chain(args.iter().map(String::as_str));
    let words = archived::line(args.map(OsString::from), &[]).split_off(1);
    shell_words::join(words)
}

/// Reports whether a URL without a command is loaded rather than saturated.
fn is_load(metric: Option<Metric>, args: &[String]) -> bool {
    let paced = |word: &String| {
        let flag = word.split('=').next().unwrap_or_default();
        ["--rate", "-r", "--stages"].contains(&flag)
    };
    let of_loads = [Metric::Throughput, Metric::ClientCpu];
    metric.is_some_and(|metric| of_loads.contains(&metric)) || args.iter().any(paced)
}

/// Reads and plans a command line.
fn examine(args: &[String], inputs: &mut Inputs) -> Result<(Command, Measures, Processes)> {
    let command = flags::parse_line(args)?;
    let (measures, processes) = match &command {
        Command::Lab(lab) => {
            let experiment = lab.experiment().ok_or_else(|| not_measured("lab sweep"))?;
            refuse_outputs(experiment.output())?;
            // Where it will be is not known yet.
            let scheme = if experiment.is_tls() { "https" } else { "http" };
            let (url, request) = (format!("{scheme}://127.0.0.1:1/"), RequestFlags::default());
            let to = Destination::laboratory(url, request, Trust::Insecure, None);
            let job = super::lab(experiment, &to, inputs)?;
            super::lab::check_near(experiment.hosts(), "compare")?;
            super::lab::hosts(experiment.hosts(), inputs)?;
            (searched("lab", &job)?, job.load().processes)
        }
        Command::Find(experiment) => {
            let (_, server, output) = experiment.common();
            refuse_outputs(output)?;
            hosts::check_none(&server.hosts, "compare")?;
            let job = super::find(experiment, inputs)?;
            watch::of_experiment(experiment, inputs)?;
            (searched("find", &job)?, job.load().processes)
        }
        Command::Load(flags) => {
            refuse_outputs(&flags.output)?;
            refuse_if!(flags.pace.rate.is_none() && flags.pace.stages.is_empty();
                "a load is compared at a load that is named";
                "add --rate 1k for both, or --rate 0 for a closed loop, after two dashes");
            refuse_if!(!flags.events.event.is_empty();
                "--event is for one load, and compare makes many in turn"; "drop it, or use load");
            hosts::check_none(&flags.server.hosts, "compare")?;
            let job = load::build(flags, inputs)?;
            let closed = matches!(job.plan.pacing, Pacing::Closed { .. });
            (Measures::Load { closed }, job.processes)
        }
        _ => return Err(not_measured(args.first().map_or("nothing", String::as_str))),
    };
    Ok((command, measures, processes))
}

/// Returns the measure of a search; other experiments cannot take turns of seconds.
fn searched(command: &'static str, job: &Job) -> Result<Measures> {
    match job {
        Job::Rate(job) => Ok(Measures::Search(command, job.search.axis)),
        Job::Connections(_) => Err(not_measured(&format!("{command} connections"))),
        Job::Storm(_) => Err(not_measured(&format!("{command} storm"))),
        Job::Hold(_) => Err(not_measured(&format!("{command} hold"))),
        Job::Rfc9411(_) => Err(not_measured(&format!("{command} rfc9411"))),
    }
}

fn not_measured(what: &str) -> Stop {
    usage!("{what} cannot be measured in turns of a few seconds";
        "compare URLs, or rates or handshakes of lab or find, or loads")
}

fn refuse_outputs(output: &OutputFlags) -> Result<()> {
    let is_published = output.live.is_some() || output.publish.is_asked();
    refuse_if!(output.out.is_some() || output.json.is_some() || is_published;
        "a comparison has one archive and one result";
        "give --out, --json and the like to compare itself");
    Ok(())
}

/// Returns the figure that was asked for. Otherwise what a server gives when it is saturated, and what an answer costs
/// it: the first shows a quota or a lock, the second a server that is not the slowest part.
fn metrics(asked: Option<Metric>, of: Measures) -> Result<Vec<Metric>> {
    let metrics = of.metrics();
    match asked {
        Some(metric) if metrics.contains(&metric) => Ok(vec![metric]),
        Some(metric) => {
            let names: Vec<_> = metrics.iter().map(|metric| metric.name()).collect();
            refuse!("--metric {} is no figure of {}", metric.name(), of.command();
                "use {}", names.join(" or "))
        }
        None if of.is_load() => Ok(vec![metrics[0]]),
        None => Ok(vec![Metric::Goodput, Metric::ServerCpu]),
    }
}
