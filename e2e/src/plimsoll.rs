//! The plimsoll under test, run as a user runs it.
//!
//! Each run has its own folder for relative paths and for temporary files, and a mark in its
//! environment by which all that it started can be found, whatever became of the parent.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use std::{fs, thread};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Guarded, Process};
use crate::summary::Summary;
use crate::{described, process, program, wait};

/// The variable that marks what a run started.
const MARK: &str = "PLIMSOLL_E2E_RUN";
/// Attempts at a run that did not get its CPU, and at a search that may err.
const ATTEMPTS: usize = 3;
/// The checks that a generator fails when it does not get its CPU.
const CPU_CHECKS: [&str; 7] = [
    "own-delay",
    "scheduling",
    "send-lag",
    "arrivals",
    "rate-fidelity",
    "generator-cpu",
    "host-cpu",
];
/// Timeout of a run, except a search.
const RUN_PATIENCE: Duration = Duration::from_secs(180);

/// Returns lines of a file of the archive `run` in `folder`; none before it is there.
pub fn archived_lines(folder: &Path, name: &str) -> usize {
    let text = fs::read_to_string(folder.join("run").join(name)).unwrap_or_default();
    text.matches('\n').count()
}

/// Returns `arguments` with `--details` behind the command, where that ends with a report.
pub fn with_details<S: AsRef<str>>(arguments: &[S]) -> Vec<String> {
    let mut words: Vec<String> = arguments.iter().map(|word| word.as_ref().to_owned()).collect();
    let is_axis = |word: &String| {
        ["rate", "deliveries", "handshakes", "connections", "storm", "hold", "sweep", "rfc9411"]
            .contains(&word.as_str())
    };
    let asks_help = words.iter().any(|word| ["--help", "-h"].contains(&word.as_str()));
    let place = match words.first().map(String::as_str) {
        _ if asks_help => None,
        Some("load" | "hold" | "compare" | "report") => Some(1),
        Some("lab") if !words.get(1).is_some_and(is_axis) => Some(1),
        Some("find" | "lab") if words.get(1).is_some_and(is_axis) => Some(2),
        _ => None,
    };
    if let Some(place) = place {
        words.insert(place, "--details".to_owned());
    }
    words
}

static RUNS: AtomicU32 = AtomicU32::new(0);

/// A run in preparation.
#[derive(Debug)]
pub struct Plimsoll {
    command: Command,
    folder: TempDir,
    mark: String,
    input: Vec<u8>,
}

impl Plimsoll {
    /// plimsoll with these arguments, which ends with its whole report.
    pub fn new<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let arguments: Vec<String> =
            arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let mut command = Command::new(program::plimsoll());
        command.args(with_details(&arguments));
        Self::of(command)
    }

    /// plimsoll with these arguments as they are: its report is what fits on one screen.
    pub fn brief(arguments: &[&str]) -> Self {
        let mut command = Command::new(program::plimsoll());
        command.args(arguments);
        Self::of(command)
    }

    /// plimsoll with `arguments`, then `flags`, and of the `defaults`, pairs of a flag and its value,
    /// those that `flags` do not set: a flag may be given once only.
    pub fn with_defaults(arguments: &[&str], defaults: &[&str], flags: &[&str]) -> Self {
        let pairs = defaults.chunks(2).filter(|pair| !flags.contains(&pair[0]));
        let words = arguments.iter().chain(pairs.flatten()).chain(flags);
        Self::new(words)
    }

    /// plimsoll with these arguments, where no other program is found.
    pub fn without_path(arguments: &[&str]) -> Self {
        let mut run = Self::new(arguments);
        run.command.env("PATH", "/nowhere");
        run
    }

    /// plimsoll with these arguments, started by a shell that first does `before`.
    pub fn after(before: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program::installed("bash"));
        command.arg("-c").arg(format!("{before} && exec \"$0\" \"$@\""));
        command.arg(program::plimsoll()).args(with_details(arguments));
        Self::of(command)
    }

    /// plimsoll within `script`, which runs it as `"$0" "$@"`, in namespaces of its own: `flag` is
    /// unshare's, such as `-n`.
    pub fn unshared(flag: &str, script: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program::installed("unshare"));
        command.arg(flag).arg(program::installed("bash")).arg("-c").arg(script);
        command.arg(program::plimsoll()).args(with_details(arguments));
        Self::of(command)
    }

    /// Returns `plimsoll load` with its JSON on standard output, and a goal that only failing servers miss.
    ///
    /// With this goal the exit code shows whether operations failed (0 or 99), on a busy machine,
    /// too: without any goal, a generator that got no CPU for 10 ms makes a load INVALID (98).
    pub fn load<'a>(url: &'a str, arguments: &[&'a str]) -> Self {
        Self::new(["load", url, "--json", "-", "--slo", "errors<1%"].iter().chain(arguments))
    }

    fn of(mut command: Command) -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        fs::create_dir(folder.path().join("tmp")).expect("an own folder is writable");
        command.current_dir(folder.path()).env("TMPDIR", folder.path().join("tmp"));
        command.env(MARK, &mark).env_remove("NO_COLOR");
        // Tests may run in such a job themselves.
        command.env_remove("GITHUB_ACTIONS").env_remove("GITLAB_CI");
        Self { command, folder, mark, input: Vec::new() }
    }

    /// Returns the folder in which it runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes it run in the folder of another run instead.
    #[must_use]
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Puts a file into that folder.
    #[must_use]
    pub fn with_file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.folder().join(name), content).expect("an own folder is writable");
        self
    }

    /// Sets the standard input.
    #[must_use]
    pub fn with_input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        // A file, so that no thread has to write to a pipe.
        let input = self.folder().join("stdin");
        fs::write(&input, &self.input).expect("an own folder is writable");
        let stdin = fs::File::open(&input).expect("it has just been written");
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guarded = Guarded::start(&mut self.command);
        let stdout = follow(guarded.child().stdout.take());
        let stderr = follow(guarded.child().stderr.take());
        Running { guarded, stdout, stderr, folder: self.folder, mark: self.mark }
    }

    /// Runs it to its end.
    pub fn run(self) -> Finished {
        self.start().finish()
    }
}

/// Repeats a run that proves that it did not get its CPU: it ends INVALID (98) and says nothing of the
/// server. A run that is INVALID for another reason is returned.
pub fn undisturbed(mut run: impl FnMut() -> Finished) -> Finished {
    let mut invalid = Vec::new();
    for _ in 0..ATTEMPTS {
        let finished = run();
        if finished.code != Some(98) || !finished.lacked_cpu() {
            return finished;
        }
        invalid.push(format!("{}\n{}", finished.stderr, finished.stdout));
    }
    panic!("INVALID each time:\n{}", invalid.join("\n"));
}

/// Repeats a search until one ends with an interval in which `fault_of` finds no fault. Each ends with one of `codes`.
pub fn found_once(
    codes: &[i32],
    mut search: impl FnMut() -> Finished,
    mut fault_of: impl FnMut(&Summary) -> Option<String>,
) {
    let mut faults = Vec::new();
    for _ in 0..ATTEMPTS {
        let finished = search();
        let Some(code) = finished.code.filter(|code| codes.contains(code)) else {
            panic!("{:?}: {}", finished.code, finished.stderr);
        };
        // Irregular outcomes are objects with a reason.
        let fault = match finished.stdout.contains(r#""outcome": "regular""#) {
            true => fault_of(&finished.summary(code)),
            false => Some(format!("an irregular end with code {code}")),
        };
        let Some(fault) = fault else { return };
        println!("not found: {fault}");
        faults.push(fault);
    }
    panic!("the truth is in none of {faults:?}");
}

/// Reads a pipe to its end in its own thread.
fn follow(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let mut pipe = pipe.expect("the pipe was asked for");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error still counts.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// A running plimsoll. Dropping it kills it and all that it started.
#[derive(Debug)]
pub struct Running {
    guarded: Guarded,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
    folder: TempDir,
    mark: String,
}

impl Running {
    /// Returns the coordinator's process id.
    pub fn pid(&self) -> u32 {
        self.guarded.pid()
    }

    /// Returns the folder in which it runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns all descendants of the coordinator that run now.
    pub fn descendants(&self) -> Vec<Process> {
        process::descendants(self.pid())
    }

    /// Returns the descendants with this name.
    pub fn named(&self, name: &str) -> Vec<Process> {
        self.descendants().into_iter().filter(|seen| seen.name == name).collect()
    }

    /// Returns its agents, as soon as there is one.
    pub fn agents(&self) -> Vec<Process> {
        let agents = || Some(self.named("plimsoll-agent")).filter(|agents| !agents.is_empty());
        wait::until("the agents", agents)
    }

    /// Sends a signal, such as `INT`, to the coordinator alone.
    pub fn signal(&self, signal: &str) {
        self.guarded.signal(signal);
    }

    /// Sends a signal to the coordinator's process group, as a terminal does for Ctrl-C.
    pub fn signal_group(&self, signal: &str) {
        process::send_signal(signal, &format!("-{}", self.pid()));
    }

    /// Reports whether the coordinator has ended.
    pub fn has_ended(&mut self) -> bool {
        self.guarded.ended().is_some()
    }

    /// Waits for its end, and for the end of all that it started.
    pub fn finish(self) -> Finished {
        self.finish_within(RUN_PATIENCE)
    }

    /// Waits for the end, with another limit of time.
    pub fn finish_within(mut self, patience: Duration) -> Finished {
        let Some(status) = wait::within(patience, &mut || self.guarded.ended()) else {
            self.signal("INT");
            let written = self.stderr.recv_timeout(wait::PATIENCE).unwrap_or_default();
            let written = String::from_utf8_lossy(&written);
            panic!("plimsoll did not end in {patience:?}; then it was interrupted: {written}");
        };
        let text = |pipe: &Receiver<Vec<u8>>, name: &str| {
            let bytes = pipe.recv_timeout(wait::PATIENCE).unwrap_or_else(|_| {
                panic!("a process still holds {name}: {:?}", marked(&self.mark))
            });
            String::from_utf8(bytes).expect("plimsoll writes UTF-8")
        };
        let (stdout, stderr) = (text(&self.stdout, "stdout"), text(&self.stderr, "stderr"));
        self.assert_nothing_left();
        described::check_archives(self.folder());
        Finished { code: status.code(), stdout, stderr, folder: self.keep_folder() }
    }

    /// Waits until nothing that it started runs, and no scratch directory is left.
    pub fn assert_nothing_left(&self) {
        let gone =
            wait::within(wait::PATIENCE, &mut || marked(&self.mark).is_empty().then_some(()));
        assert!(gone.is_some(), "left running: {:?}", marked(&self.mark));
    }

    /// Waits until the temporary directory is empty.
    pub fn assert_no_scratch(&self) {
        let scratch = self.folder().join("tmp");
        let gone = wait::within(wait::PATIENCE, &mut || {
            process::entries(&scratch).is_empty().then_some(())
        });
        assert!(gone.is_some(), "left behind: {:?}", process::entries(&scratch));
    }

    fn keep_folder(mut self) -> TempDir {
        let empty = tempfile::tempdir().expect("the temporary directory is writable");
        std::mem::replace(&mut self.folder, empty)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.guarded.kill();
        for seen in marked(&self.mark) {
            seen.kill();
        }
    }
}

fn marked(mark: &str) -> Vec<Process> {
    process::with_environment(MARK, mark)
}

fn names_cpu(text: &str) -> bool {
    CPU_CHECKS.iter().any(|check| text.contains(check))
}

/// Reports whether a summary has a failed check of the generator's CPU, or an end that names one.
fn blames_cpu(json: &Value) -> bool {
    match json {
        Value::Object(fields) => {
            let check = fields.get("id").or_else(|| fields.get("check")).and_then(Value::as_str);
            let has_failed = fields.get("level").is_some_and(|level| level == "fail");
            let why = fields.get("why").and_then(Value::as_str);
            has_failed && check.is_some_and(names_cpu)
                || why.is_some_and(names_cpu)
                || fields.values().any(blames_cpu)
        }
        Value::Array(items) => items.iter().any(blames_cpu),
        _ => false,
    }
}

/// A run that is over.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// All of standard output.
    pub stdout: String,
    /// All of standard error.
    pub stderr: String,
    folder: TempDir,
}

impl Finished {
    /// Returns the folder in which it ran.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Checks the exit code and gives the object on standard output, whose sum is checked, too.
    pub fn summary(&self, code: i32) -> Summary {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stderr, self.stdout);
        Summary::parse(&self.stdout)
    }

    /// Returns the object that `--json out.json` wrote.
    pub fn written(&self, code: i32) -> Summary {
        let shown = format!("{}\n{}", self.stderr, self.stdout);
        assert_eq!(self.code, Some(code), "{shown}");
        let json = fs::read_to_string(self.folder().join("out.json"));
        Summary::parse(&json.unwrap_or_else(|error| panic!("no JSON: {error}\n{shown}")))
    }

    /// Checks that it called itself INVALID, for one of these reasons.
    pub fn assert_invalid(&self, reasons: &[&str]) {
        let summary = self.summary(98);
        assert_eq!(summary.text("verdict"), "invalid");
        let checks = summary.at("reasons").as_array().expect("a list").iter();
        let failed = checks.filter(|check| check["level"] == "fail");
        let names: Vec<_> = failed.filter_map(|check| check["check"].as_str()).collect();
        assert!(names.iter().any(|name| reasons.contains(name)), "{names:?}\n{summary:?}");
    }

    /// Reports whether it says that it did not get the CPU it needed: by its JSON where there is one, else by
    /// its report.
    fn lacked_cpu(&self) -> bool {
        let written = fs::read_to_string(self.folder().join("out.json")).unwrap_or_default();
        let json =
            [&written, &self.stdout].into_iter().find_map(|text| serde_json::from_str(text).ok());
        if let Some(json) = json {
            return blames_cpu(&json);
        }
        let lines = self.stderr.lines().chain(self.stdout.lines());
        let mut failures = lines.filter(|line| line.contains("INVALID") || line.contains("FAIL"));
        failures.any(names_cpu)
    }

    /// Checks that nothing is left in the temporary directory.
    pub fn assert_no_scratch(&self) {
        assert_eq!(process::entries(&self.folder.path().join("tmp")), Vec::<PathBuf>::new());
    }
}
