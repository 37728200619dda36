//! `plimsoll compare` into a job: two command lines of this program, and the figure they give.
//!
//! Both are parsed and planned as if they were run, so that errors are reported before anything is
//! started.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_model::Nanos;
use plimsoll_model::compare::Metric;
use plimsoll_model::plan::{Pacing, Trust};
use plimsoll_model::search::Axis;
use plimsoll_report::command_line_redacted;

use super::{Destination, Inputs, Job, load, outputs};
use crate::exit::Stop;
use crate::flags;
use crate::flags::shared::OutputFlags;
use crate::flags::values::OutputFile;
use crate::flags::{Command, CompareFlags};

/// One of the two.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Arm {
    /// `A` or `B`.
    pub(crate) name: &'static str,
    /// As typed, secrets included: to be found among the arguments and replaced by `text`.
    pub(crate) typed: String,
    /// All of it as one line without secrets.
    pub(crate) text: String,
    /// The arguments of plimsoll, without what a comparison adds to them.
    pub(crate) args: Vec<String>,
    /// Whether the arguments name a seed.
    pub(crate) has_seed: bool,
    /// Whether they turn progress off.
    pub(crate) is_silent: bool,
    /// Whether it is a search without --probe-timeouts: a comparison then skips the probe, because
    /// each of its measurements would wait for minutes to find the same timers.
    pub(crate) skips_probe: bool,
}

/// One comparison, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompareJob {
    /// What is compared with.
    pub(crate) a: Arm,
    /// What is compared.
    pub(crate) b: Arm,
    /// The figure.
    pub(crate) metric: Metric,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// Rounds to make; at least 6.
    pub(crate) rounds: u32,
    /// No round begins that would end after this.
    pub(crate) budget: Option<Nanos>,
    /// Relative differences up to this do not matter.
    pub(crate) threshold: f64,
    /// Seed of the order and of the arrivals.
    pub(crate) seed: u64,
    /// Where the archive goes.
    pub(crate) out: Option<PathBuf>,
    /// Where the summary goes.
    pub(crate) json: Option<OutputFile>,
    /// Whether progress is shown.
    pub(crate) ui: bool,
}

impl CompareJob {
    /// What reports call the target.
    pub(crate) fn target_name(&self) -> String {
        format!("{} against {}", self.b.text, self.a.text)
    }

    /// The settings that shape the comparison.
    pub(crate) fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::from([
            ("rounds".to_owned(), self.rounds.to_string()),
            ("seed".to_owned(), self.seed.to_string()),
        ]);
        if let Some(budget) = self.budget {
            settings.insert("budget".to_owned(), budget.to_string());
        }
        settings
    }

    /// The arguments of this program, each of the two in the form that holds no secrets.
    pub(crate) fn args_redacted(&self, args: impl Iterator<Item = String>) -> Vec<String> {
        let arms = [&self.a, &self.b];
        let hide = |arg: String| {
            let arm = arms.iter().find(|arm| arm.typed == arg);
            arm.map_or(arg, |arm| arm.text.clone())
        };
        args.map(hide).collect()
    }
}

/// What a command line measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measures {
    /// The tipping point on an axis.
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
}

/// Checks the flags of `compare`.
pub(crate) fn build(flags: &CompareFlags, inputs: &mut Inputs<'_>) -> Result<CompareJob, Stop> {
    let (Some(a), Some(b)) = (&flags.a, &flags.b) else {
        return Err(Stop::usage(
            "compare needs two things to measure",
            "for example: plimsoll compare 'lab --sut haproxy' 'lab --sut nginx'",
        ));
    };
    outputs::check(&flags.output)?;
    let a = arm("A", a, flags)?;
    let b = arm("B", b, flags)?;
    let (of_a, of_b) = (examine(&a, inputs)?, examine(&b, inputs)?);
    if of_a != of_b {
        return Err(Stop::usage(
            format_args!("A is {}, and B is {}", of_a.command(), of_b.command()),
            "compare what gives the same figure",
        ));
    }
    let metric = metric(flags.metric, of_a)?;
    Ok(CompareJob {
        metric,
        unit: unit(metric, of_a),
        rounds: flags.rounds,
        budget: flags.budget,
        threshold: flags.threshold,
        seed: flags.seed,
        out: flags.output.out.clone(),
        json: flags.output.json.clone(),
        ui: !flags.output.no_ui,
        a,
        b,
    })
}

fn arm(name: &'static str, typed: &str, flags: &CompareFlags) -> Result<Arm, Stop> {
    let mut args = shlex::split(typed).ok_or_else(|| {
        let what = format_args!("{name} is not a command line: a quote is not closed");
        Stop::usage(what, "close or drop it")
    })?;
    if args.first().is_some_and(|word| word == "plimsoll") {
        args.remove(0);
    }
    args.extend_from_slice(&flags.both);
    if args.first().is_some_and(|word| word.contains("://")) {
        let command = if is_load(flags.metric, &args) { &["load"][..] } else { &["find", "rate"] };
        args.splice(..0, command.iter().map(|word| (*word).to_owned()));
    }
    let is = |word: &str, flag: &str| {
        word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let searches = args.first().is_some_and(|word| ["find", "lab"].contains(&word.as_str()));
    Ok(Arm {
        name,
        skips_probe: searches && !args.iter().any(|word| is(word, "--probe-timeouts")),
        typed: typed.to_owned(),
        text: shown(&command_line_redacted(&args)),
        has_seed: args.iter().any(|word| is(word, "--seed")),
        is_silent: args.iter().any(|word| is(word, "--no-ui")),
        args,
    })
}

/// One line that a shell splits into `args` again.
fn shown(args: &[String]) -> String {
    let joined = shlex::try_join(args.iter().map(String::as_str));
    // Only a NUL, which no argument can hold, is an error.
    joined.unwrap_or_else(|_| args.join(" "))
}

/// Whether a URL without a command is loaded rather than searched.
fn is_load(metric: Option<Metric>, args: &[String]) -> bool {
    let paced = |word: &String| {
        let flag = word.split('=').next().unwrap_or_default();
        ["--rate", "-r", "--stages"].contains(&flag)
    };
    match metric {
        Some(metric) => metric != Metric::LowerBound,
        None => args.iter().any(paced),
    }
}

/// Reads and plans a command line.
fn examine(arm: &Arm, inputs: &mut Inputs<'_>) -> Result<Measures, Stop> {
    let name = arm.name;
    let measures = flags::parse_line(&arm.args).and_then(|command| match command {
        Command::Lab(experiment) => {
            refuse_outputs(experiment.output())?;
            // Each round has a server of its own, wherever that will be.
            let url =
                if experiment.is_tls() { "https://127.0.0.1:1/" } else { "http://127.0.0.1:1/" };
            let to = Destination::laboratory(url.to_owned(), Trust::Insecure);
            searched("lab", &super::lab(&experiment, &to, inputs)?)
        }
        Command::Find(experiment) => {
            refuse_outputs(experiment.output())?;
            searched("find", &super::find(&experiment, inputs)?)
        }
        Command::Load(flags) => {
            refuse_outputs(&flags.output)?;
            if flags.pace.rate.is_none() && flags.pace.stages.is_empty() {
                return Err(Stop::usage(
                    "a load is compared at a load that is named",
                    "add --rate 1k for both, or --rate 0 for a closed loop, after two dashes",
                ));
            }
            let job = load::build(&flags, inputs)?;
            Ok(Measures::Load { closed: matches!(job.plan.pacing, Pacing::Closed { .. }) })
        }
        _ => Err(not_measured(arm.args.first().map_or("nothing", String::as_str))),
    });
    let measures = measures.map_err(|stop| match stop {
        Stop::Usage(text) => Stop::Usage(format!("{name}: {text}")),
        Stop::CannotRun(text) => Stop::CannotRun(format!("{name}: {text}")),
        Stop::Asked(_) => Stop::usage(format_args!("{name} asks for help"), "name a measurement"),
        other => other,
    })?;
    match inputs.stdin_reader {
        None => Ok(measures),
        Some(flag) => Err(Stop::usage(
            format_args!("{name}: {flag} - reads standard input, and every round needs it again"),
            "name a file",
        )),
    }
}

/// What a search gives; other experiments have no one figure.
fn searched(command: &'static str, job: &Job) -> Result<Measures, Stop> {
    match job {
        Job::Rate(job) => Ok(Measures::Search(command, job.search.axis)),
        Job::Connections(job) => Ok(Measures::Search(command, job.search.axis)),
        Job::Hold(_) => Err(not_measured(&format!("{command} hold"))),
        Job::Rfc9411(_) => Err(not_measured(&format!("{command} rfc9411"))),
    }
}

fn not_measured(what: &str) -> Stop {
    Stop::usage(
        format_args!("{what} does not give one figure to compare"),
        "use a URL, lab, find or load",
    )
}

fn refuse_outputs(output: &OutputFlags) -> Result<(), Stop> {
    if output.out.is_none() && output.json.is_none() {
        return Ok(());
    }
    Err(Stop::usage(
        "every round has an archive of its own, below that of the comparison",
        "give --out and --json to compare itself",
    ))
}

fn metric(asked: Option<Metric>, of: Measures) -> Result<Metric, Stop> {
    let usual = match of {
        Measures::Search(..) => Metric::LowerBound,
        Measures::Load { closed: true } => Metric::Throughput,
        Measures::Load { closed: false } => Metric::P99,
    };
    let Some(metric) = asked else { return Ok(usual) };
    let fits = match of {
        Measures::Search(..) => metric == Metric::LowerBound,
        // In a closed loop a stall of the server stops the load as well, which hides the stall.
        Measures::Load { closed: true } => {
            matches!(metric, Metric::Throughput | Metric::ClientCpu)
        }
        Measures::Load { closed: false } => metric != Metric::LowerBound,
    };
    if fits {
        return Ok(metric);
    }
    Err(Stop::usage(
        format_args!("--metric {} is no figure of {}", metric.name(), of.command()),
        match metric {
            Metric::LowerBound => "compare with lab or find, or use another metric",
            Metric::P99 => "compare with load --rate 1k, or use another metric",
            Metric::Throughput | Metric::ClientCpu => "compare with load, or use another metric",
        },
    ))
}

fn unit(metric: Metric, of: Measures) -> &'static str {
    match (metric, of) {
        (Metric::P99, _) => "ms",
        (Metric::ClientCpu, _) => "us",
        (_, Measures::Search(_, Axis::Handshakes)) => "handshakes/s",
        (Metric::LowerBound, Measures::Search(_, Axis::Connections)) => "connections",
        (Metric::LowerBound | Metric::Throughput, _) => "requests/s",
    }
}
