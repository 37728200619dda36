//! The steps of `cargo xtask ci`, in order, each named by what fails and with its time. A step
//! that fails does not keep the later ones from running: one run shows all that is wrong.

use std::ffi::{OsStr, OsString};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::metadata::Depth;
use crate::{fuzz, layers, licences, metadata, packages, tidy};

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything CI runs.
    Full,
    /// What a developer can wait for before each commit.
    Fast,
}

/// One step: its name, whether `--fast` runs it, and what it does.
struct Step {
    name: &'static str,
    is_fast: bool,
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "packages", is_fast: false, run: packages::run },
    Step { name: "fmt", is_fast: true, run: fmt },
    Step { name: "layers", is_fast: true, run: layers::run },
    Step { name: "tidy", is_fast: true, run: tidy::run },
    Step { name: "licences", is_fast: true, run: licences::run },
    Step { name: "clippy", is_fast: true, run: clippy },
    Step { name: "doc", is_fast: true, run: doc },
    Step { name: "fuzz-check", is_fast: false, run: fuzz_check },
    Step { name: "test-pure", is_fast: true, run: test_pure },
    Step { name: "build", is_fast: false, run: build },
    // Last, so that the closing lines of `cargo test` stand at the end of the log.
    Step { name: "test", is_fast: false, run: test },
];

/// What became of one step.
struct Outcome {
    name: &'static str,
    passed: bool,
    took: Duration,
}

/// Runs the steps and lists at the end which failed.
pub(crate) fn run(extent: Extent) -> Result<()> {
    let mut outcomes = Vec::new();
    for step in STEPS.iter().filter(|step| is_wanted(step, extent)) {
        println!("\n==> {}", step.name);
        let started = Instant::now();
        let result = (step.run)();
        if let Err(error) = &result {
            println!("{} FAILED: {error:#}", step.name);
        }
        outcomes.push(Outcome { name: step.name, passed: result.is_ok(), took: started.elapsed() });
    }
    println!("\n{}", overview(&outcomes));
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed).collect();
    if !failed.is_empty() {
        let names: Vec<_> = failed.iter().map(|outcome| outcome.name).collect();
        bail!("failed: {}", names.join(", "));
    }
    Ok(())
}

/// The full run tests everything at once, so it needs no separate run of the pure crates.
fn is_wanted(step: &Step, extent: Extent) -> bool {
    match extent {
        Extent::Full => step.name != "test-pure",
        Extent::Fast => step.is_fast,
    }
}

fn overview(outcomes: &[Outcome]) -> String {
    let lines = outcomes.iter().map(|outcome| {
        let result = if outcome.passed { "ok" } else { "FAILED" };
        format!("{:<12}{result:<8}{:>7.1} s\n", outcome.name, outcome.took.as_secs_f64())
    });
    lines.collect()
}

fn fmt() -> Result<()> {
    cargo(&["fmt", "--all", "--check"], &[])
}

fn clippy() -> Result<()> {
    let arguments = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    cargo(&arguments, &[])
}

fn doc() -> Result<()> {
    let arguments = ["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"];
    cargo(&arguments, &[("RUSTDOCFLAGS", OsStr::new("-D warnings"))])
}

/// The crates that build and test in seconds.
fn test_pure() -> Result<()> {
    let pure = ["plimsoll-model", "plimsoll-proto", "plimsoll-capacity", "xtask"];
    let mut arguments = vec!["test", "--locked"];
    arguments.extend(pure.iter().flat_map(|name| ["--package", name]));
    cargo(&arguments, &[])
}

/// Everything that tests need, in one command: one set of features, so that nothing is built twice.
fn build() -> Result<()> {
    cargo(&["build", "--locked", "--workspace", "--all-targets"], &[])
}

/// How many failed end-to-end tests are run again. More than that is no accident of a busy machine.
const RUN_AGAIN_MAX: usize = 3;

/// All tests. Those end-to-end tests that mostly wait run beside the others, which leave them the CPU
/// when they want it; those that measure run alone at the end. All drive the debug build, which checks
/// its own assertions as well.
fn test() -> Result<()> {
    let waiting = piped(&mut tests(0, &["--test", "waiting", "--", "--test-threads=8"])?)?;
    let mut failed = Vec::new();
    for (name, arguments) in [
        ("unit tests", &["--lib", "--bins"][..]),
        ("integration tests", &["--exclude", "e2e", "--test", "*"]),
        ("documentation tests", &["--exclude", "e2e", "--doc"]),
    ] {
        let status = tests(10, arguments)?.status().context("cannot run cargo test")?;
        failed.extend((!status.success()).then_some(name));
    }
    let has_passed = end_to_end("waiting", waiting)?;
    failed.extend((!has_passed).then_some("end-to-end tests that wait"));
    let measuring = piped(&mut tests(0, &["--test", "measuring", "--", "--test-threads=1"])?)?;
    let has_passed = end_to_end("measuring", measuring)?;
    failed.extend((!has_passed).then_some("end-to-end tests that measure"));
    if !failed.is_empty() {
        bail!("{}", failed.join(", "));
    }
    Ok(())
}

fn piped(command: &mut Command) -> Result<Child> {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("cannot run cargo test")
}

/// Whether all tests of a suite pass, a few of them on a second run, alone: they drive real servers, and
/// the machine's other work may spoil one of them.
fn end_to_end(suite: &str, first: Child) -> Result<bool> {
    let output = first.wait_with_output().context("cannot wait for cargo test")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{}\n{printed}", String::from_utf8_lossy(&output.stderr));
    let failures = failures(&printed);
    if output.status.success() || failures.is_empty() || failures.len() > RUN_AGAIN_MAX {
        return Ok(output.status.success());
    }
    println!("run again, alone: {}", failures.join(", "));
    let mut arguments = vec!["--test", suite, "--", "--test-threads=1", "--exact"];
    arguments.extend(&failures);
    let has_passed = tests(0, &arguments)?.status().context("cannot run cargo test")?.success();
    if has_passed {
        println!("FLAKY, passed on the second run: {}", failures.join(", "));
    }
    Ok(has_passed)
}

/// The names of failed tests, in the list with which the test harness ends.
fn failures(printed: &str) -> Vec<&str> {
    let (_, list) = printed.rsplit_once("\nfailures:\n").unwrap_or_default();
    list.lines().map_while(|line| line.strip_prefix("    ")).collect()
}

/// `cargo test` of the workspace with these arguments. One selection of packages means one set of
/// features, so that nothing is compiled again.
fn tests(niceness: u32, arguments: &[&str]) -> Result<Command> {
    let target = metadata::read(&crate::root(), Depth::Ours)?.target_directory;
    let mut command = Command::new("nice");
    command.args(["-n", &niceness.to_string()]).arg(cargo_program());
    command.args(["test", "--locked", "--workspace", "--no-fail-fast"]).args(arguments);
    // No INSTA_UPDATE: a snapshot that differs fails, and leaves no file behind.
    command.env("PLIMSOLL_BIN", target.join("debug/plimsoll")).env("INSTA_UPDATE", "no");
    command.stdin(Stdio::null());
    Ok(command)
}

/// The fuzz targets compile, so that a change of an interface cannot leave them behind. They share
/// what was checked of the dependencies, and need no fuzzing engine to be checked.
fn fuzz_check() -> Result<()> {
    let target = metadata::read(&crate::root(), Depth::Ours)?.target_directory;
    let environment = [
        ("CARGO_TARGET_DIR", target.as_os_str()),
        ("CUSTOM_LIBFUZZER_PATH", OsStr::new("not-linked/libfuzzer.a")),
    ];
    cargo(&["check", "--locked", "--manifest-path", fuzz::MANIFEST, "--bins"], &environment)
}

/// Runs cargo, whose output goes where ours goes.
fn cargo(arguments: &[&str], environment: &[(&str, &OsStr)]) -> Result<()> {
    let shown = format!("cargo {}", arguments.join(" "));
    println!("{shown}");
    let status = Command::new(cargo_program())
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(extent: Extent) -> Vec<&'static str> {
        STEPS.iter().filter(|step| is_wanted(step, extent)).map(|step| step.name).collect()
    }

    #[test]
    fn fast_leaves_out_what_is_slow() {
        let fast = ["fmt", "layers", "tidy", "licences", "clippy", "doc", "test-pure"];
        assert_eq!(names(Extent::Fast), fast);
        let full = names(Extent::Full);
        assert_eq!(full.first(), Some(&"packages"));
        assert_eq!(full.last(), Some(&"test"));
        assert!(!full.contains(&"test-pure"));
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
