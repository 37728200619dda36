//! The steps of `cargo xtask ci`, in order, each named by what fails and with its time. A step
//! that fails does not keep the later ones from running: one run shows all that is wrong.
//!
//! End-to-end tests mostly wait. What only computes (the other tests, the documentation) runs beside them in the CPU
//! time that they leave; those that measure run after them. Quick checks run, and packages are installed, beside the build.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::metadata::Depth;
use crate::{fuzz, layers, licences, metadata, packages, tidy};

/// The extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything CI runs.
    Full,
    /// Checks that a developer can wait for before each commit.
    Fast,
}

/// One step: its name and what it does.
#[derive(Clone, Copy)]
struct Step {
    name: &'static str,
    action: Action,
}

#[derive(Clone, Copy)]
enum Action {
    /// A check of ours.
    Check(fn() -> Result<()>),
    Cargo(fn() -> Result<Command>),
}

use Action::{Cargo, Check};

const PACKAGES: Step = Step { name: "packages", action: Check(packages::run) };
const BUILD: Step = Step { name: "build", action: Cargo(build) };
const STRIP: Step = Step { name: "strip", action: Check(strip) };
const TEST_PURE: Step = Step { name: "test-pure", action: Cargo(test_pure) };
/// Steps that take a second.
const QUICK: [Step; 4] = [
    Step { name: "fmt", action: Cargo(fmt) },
    Step { name: "layers", action: Check(layers::run) },
    Step { name: "tidy", action: Check(tidy::run) },
    Step { name: "licences", action: Check(licences::run) },
];
const TESTS: [Step; 2] = [
    Step { name: "unit tests", action: Cargo(|| tests(&["--lib", "--bins"])) },
    Step { name: "doc tests", action: Cargo(|| tests(&["--exclude", "e2e", "--doc"])) },
];
const CLIPPY: Step = Step { name: "clippy", action: Cargo(clippy) };
const LINTS: Step = Step { name: "clippy", action: Check(lints) };
const DOC: Step = Step { name: "doc", action: Cargo(doc) };
const FUZZ_CHECK: Step = Step { name: "fuzz-check", action: Cargo(fuzz_check) };

/// The CPU priority of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Priority {
    Usual,
    /// A tenth of the CPU if others want it: tests of real connections have timeouts.
    Low,
    /// Only the CPU time that no other process wants.
    Idle,
}

impl Priority {
    /// Returns the command that starts another with it.
    const fn prefix(self) -> &'static [&'static str] {
        match self {
            Self::Usual => &[],
            Self::Low => &["nice", "-n", "10"],
            Self::Idle => &["chrt", "--idle", "0"],
        }
    }
}

/// The result of one step.
struct Outcome {
    name: &'static str,
    passed: bool,
    took: Duration,
}

/// Runs the steps and lists at the end which failed.
pub(crate) fn run(extent: Extent) -> Result<()> {
    let outcomes = match extent {
        Extent::Full => full(),
        Extent::Fast => {
            let steps = QUICK.into_iter().chain([CLIPPY, DOC, TEST_PURE]);
            steps.map(|step| carry_out(step, Priority::Usual)).collect()
        }
    };
    println!("\n{}", overview(&outcomes));
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed).collect();
    if !failed.is_empty() {
        let names: Vec<_> = failed.iter().map(|outcome| outcome.name).collect();
        bail!("failed: {}", names.join(", "));
    }
    Ok(())
}

fn full() -> Vec<Outcome> {
    let usual = |step| carry_out(step, Priority::Usual);
    // The build begins on one CPU. Only the end-to-end tests need the packages, which are mostly waited for.
    let quick = thread::spawn(move || QUICK.into_iter().chain([PACKAGES]).map(usual).collect());
    // Builds beside the waiting tests take the CPU time that these need: 8 of 346 failed.
    let built = [BUILD, LINTS, STRIP].map(usual);
    let mut outcomes: Vec<_> = quick.join().expect("no step panics");
    outcomes.extend(built);
    let began = Instant::now();
    // Eight at a time use half of the time of two CPUs (509 s for 548 s of CPU time), and the steps beside them the other
    // half. With twelve all end no earlier (579 s, and 615 to 702 s), and up to eight tests fail on a slow host.
    let waiting = start_suite("waiting", 8);
    // The longest integration tests have one thread each, and leave a CPU to the other steps.
    let integration = start_tests(&["--exclude", "e2e", "--test", "*"], Priority::Low);
    for (steps, priority) in [(&TESTS[..], Priority::Low), (&[DOC, FUZZ_CHECK], Priority::Idle)] {
        outcomes.extend(steps.iter().map(|step| carry_out(*step, priority)));
    }
    outcomes.push(outcome("integration", began, || match end_tests(integration?)? {
        (status, _) if status.success() => Ok(()),
        (status, _) => bail!("{status}"),
    }));
    outcomes.push(outcome("waiting", began, || end_suite("waiting", waiting?)));
    let began = Instant::now();
    let measuring = || end_suite("measuring", start_suite("measuring", 4)?);
    // Last, so that the closing lines of `cargo test` stand at the end of the log.
    outcomes.push(outcome("measuring", began, measuring));
    outcomes
}

fn carry_out(step: Step, priority: Priority) -> Outcome {
    outcome(step.name, Instant::now(), || match step.action {
        Check(run) => run(),
        Cargo(command) => run_cargo(&command()?, priority),
    })
}

/// Makes the outcome of a step that began at `began` and ends with `rest`.
fn outcome(name: &'static str, began: Instant, rest: impl FnOnce() -> Result<()>) -> Outcome {
    println!("\n==> {name}");
    let result = rest();
    if let Err(error) = &result {
        println!("{name} FAILED: {error:#}");
    }
    Outcome { name, passed: result.is_ok(), took: began.elapsed() }
}

fn overview(outcomes: &[Outcome]) -> String {
    let lines = outcomes.iter().map(|outcome| {
        let result = if outcome.passed { "ok" } else { "FAILED" };
        format!("{:<12}{result:<8}{:>7.1} s\n", outcome.name, outcome.took.as_secs_f64())
    });
    lines.collect()
}

fn fmt() -> Result<Command> {
    Ok(cargo(&["fmt", "--all", "--check"]))
}

fn clippy() -> Result<Command> {
    Ok(cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn doc() -> Result<Command> {
    let mut command =
        cargo(&["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    Ok(command)
}

/// Returns the test command of the crates that build and test in seconds.
fn test_pure() -> Result<Command> {
    let pure = ["plimsoll-model", "plimsoll-proto", "plimsoll-capacity", "xtask"];
    let mut command = cargo(&["test", "--locked"]);
    command.args(pure.iter().flat_map(|name| ["--package", name]));
    Ok(command)
}

/// Returns one command that builds everything that tests need: one set of features, so that nothing is built twice.
fn build() -> Result<Command> {
    Ok(linted(&["build", "--locked", "--workspace", "--all-targets"]))
}

/// Fails if the build had a warning. Cargo keeps the warnings of what it built, and prints them again.
fn lints() -> Result<()> {
    let mut command = build()?;
    let output =
        command.args(["--message-format", "short"]).output().context("cannot run cargo")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let warnings = warnings(&printed);
    if !output.status.success() || !warnings.is_empty() {
        bail!("{} warnings, {}\n{}", warnings.len(), output.status, warnings.join("\n"));
    }
    Ok(())
}

/// Returns the warnings in what cargo printed with `--message-format short`.
fn warnings(printed: &str) -> Vec<&str> {
    printed.lines().filter(|line| line.contains("warning: ")).collect()
}

/// Returns cargo with clippy as the compiler of our crates: a check beside the build would take 300 s of CPU time more,
/// most of it for what the build does as well. Without lines in backtraces: tests copy the program to other hosts.
fn linted(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CARGO_PROFILE_DEV_DEBUG", "false");
    command
}

/// Makes the program that the end-to-end tests drive. Tests of hosts copy and hash it often, and without the names of
/// its functions it has 52 MB instead of 74.
fn strip() -> Result<()> {
    let stripped = stripped()?;
    fs::create_dir_all(stripped.parent().unwrap_or(&stripped))?;
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(target()?.join("debug/plimsoll"));
    let status = strip.status().context("cannot run strip, which comes with a C compiler")?;
    if !status.success() {
        bail!("strip: {status}");
    }
    Ok(())
}

fn stripped() -> Result<PathBuf> {
    Ok(target()?.join("stripped/plimsoll"))
}

/// Returns the check that the fuzz targets compile, so that a change of an interface cannot leave them behind. They
/// share what was checked of the dependencies, and need no fuzzing engine to be checked.
fn fuzz_check() -> Result<Command> {
    let mut command = cargo(&["check", "--locked", "--manifest-path", fuzz::MANIFEST, "--bins"]);
    command.env("CARGO_TARGET_DIR", target()?);
    command.env("CUSTOM_LIBFUZZER_PATH", "not-linked/libfuzzer.a");
    Ok(command)
}

/// The most failed end-to-end tests that are run again, of 350: on a machine half as fast as usual three timeouts were
/// an accident. More than that is none.
const RUN_AGAIN_MAX: usize = 6;

/// Starts end-to-end tests, `threads` at once. All drive the debug build, which checks its own assertions as well.
fn start_suite(suite: &str, threads: u32) -> Result<Child> {
    let threads = format!("--test-threads={threads}");
    start_tests(&["--test", suite, "--", &threads], Priority::Usual)
}

/// Reports whether all tests of a suite pass, a few of them on a second run, with nothing beside them: they drive real
/// servers, and the machine's other work may spoil one of them.
fn end_suite(suite: &str, first: Child) -> Result<()> {
    let (status, printed) = end_tests(first)?;
    if status.success() {
        return Ok(());
    }
    let failures = failures(&printed);
    if failures.is_empty() || failures.len() > RUN_AGAIN_MAX {
        bail!("{status}");
    }
    println!("run again, with nothing beside them: {}", failures.join(", "));
    let mut arguments = vec!["--test", suite, "--", "--test-threads=3", "--exact"];
    arguments.extend(&failures);
    run_cargo(&tests(&arguments)?, Priority::Usual)?;
    println!("FLAKY, passed on the second run: {}", failures.join(", "));
    Ok(())
}

/// Returns the names of failed tests from the list with which the test harness ends.
fn failures(printed: &str) -> Vec<&str> {
    let (_, list) = printed.rsplit_once("\nfailures:\n").unwrap_or_default();
    list.lines().map_while(|line| line.strip_prefix("    ")).collect()
}

/// Returns `cargo test` of the workspace with these arguments. One selection of packages means one set of
/// features, so that nothing is compiled again.
fn tests(arguments: &[&str]) -> Result<Command> {
    let mut command = linted(&["test", "--locked", "--workspace", "--no-fail-fast"]);
    command.args(arguments);
    // No INSTA_UPDATE: a snapshot that differs fails, and leaves no file behind.
    command.env("PLIMSOLL_BIN", stripped()?).env("INSTA_UPDATE", "no");
    Ok(command)
}

fn target() -> Result<PathBuf> {
    Ok(metadata::read(&crate::root(), Depth::Ours)?.target_directory)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_program());
    command.args(arguments);
    command
}

/// Runs cargo, whose output goes where ours goes.
fn run_cargo(command: &Command, priority: Priority) -> Result<()> {
    let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let shown = format!("cargo {}", arguments.join(" "));
    println!("{shown}");
    let status = prioritised(command, priority).status();
    let status = status.with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Starts [`tests`] beside other steps; [`end_tests`] prints their output.
fn start_tests(arguments: &[&str], priority: Priority) -> Result<Child> {
    let mut command = prioritised(&tests(arguments)?, priority);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("cannot run cargo test")
}

/// Waits for tests, prints their output, and returns what they wrote to their standard output.
fn end_tests(started: Child) -> Result<(ExitStatus, String)> {
    let output = started.wait_with_output().context("cannot wait for cargo test")?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}\n{printed}");
    if said.contains(" Compiling ") {
        bail!("these tests needed another build, for which all others waited");
    }
    Ok((output.status, printed))
}

/// Returns the command that runs another with a priority, and with no input.
fn prioritised(command: &Command, priority: Priority) -> Command {
    let words = priority.prefix().iter().map(OsStr::new).chain([command.get_program()]);
    let mut words = words.chain(command.get_args());
    let mut started = Command::new(words.next().unwrap_or_default());
    started.args(words).stdin(Stdio::null());
    started.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    started
}

fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_leave_the_cpu_to_others_as_they_are_told() {
        // Its niceness is its exit code, or 99.
        let script = "case $(chrt -p $$) in *SCHED_IDLE*) exit 99;; esac; exit $(nice)";
        let mut command = Command::new("bash");
        command.args(["-c", script]);
        let code = |priority| match run_cargo(&command, priority) {
            Ok(()) => 0,
            Err(error) => error.to_string().rsplit(' ').next().unwrap().parse().unwrap(),
        };
        let usual: u32 = code(Priority::Usual);
        assert_eq!(code(Priority::Low), 19.min(usual + 10));
        assert_eq!(code(Priority::Idle), 99);
    }

    #[test]
    fn warnings_are_read_from_what_cargo_prints_again() {
        let printed = "src/main.rs:1:15: warning: unused variable: `x`\nwarning: `w` (bin \"w\") generated 1 \
            warning\n    Finished `dev` profile\n";
        assert_eq!(warnings(printed).len(), 2);
        assert!(warnings("    Finished `dev` profile\n").is_empty());
    }

    #[test]
    fn failed_tests_are_read_from_the_list_at_the_end() {
        let printed = "running 3 tests\ntest a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\n\nfailed\n\n\
            failures:\n    a::b\n    c::d\n\ntest result: FAILED. 1 passed; 2 failed\n";
        assert_eq!(failures(printed), ["a::b", "c::d"]);
        assert!(failures("running 1 test\n\ntest result: ok. 1 passed\n").is_empty());
    }

    #[test]
    fn the_overview_names_what_failed() {
        let outcomes = [
            Outcome { name: "fmt", passed: true, took: Duration::from_millis(1_250) },
            Outcome { name: "fuzz-check", passed: false, took: Duration::from_secs(61) },
        ];
        let expected = "fmt         ok          1.2 s\nfuzz-check  FAILED     61.0 s\n";
        assert_eq!(overview(&outcomes), expected);
    }
}
