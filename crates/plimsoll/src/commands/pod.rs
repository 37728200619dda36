//! Commands in the coordinator's pod of `plimsoll k8s run`: the measuring command itself as a child, and those that
//! `kubectl exec` starts to fetch its results or to stop it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use plimsoll_fleet::kubernetes::{FETCHED, Order, STDOUT, write_results};
use plimsoll_fleet::message::ExitReason;
use plimsoll_sys::process::{self, Group, Signal, Ties};
use plimsoll_sys::whole_file::WholeFile;
use plimsoll_sys::{input_file, output_file};

use crate::exit::{Result, Stop};
use crate::flags::k8s::PodCommand;
use crate::run::install_interrupts;

/// Period of checking the command.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The folder of the files that the command names.
const INPUTS: &str = "inputs";
/// The files with the command's process, and with its exit code once it has ended.
const PID: &str = "pid";
const EXIT_CODE: &str = "exit-code";

/// Runs one of them.
pub(crate) fn run(command: &PodCommand) -> Result<()> {
    match command {
        PodCommand::Coordinate { results, keep_for, order, words } => {
            let command = match order {
                None => here(words),
                Some(dir) => ordered(dir, &results.join(INPUTS)).map_err(Stop::cannot_run)?,
            };
            coordinate(results, Duration::from_secs(*keep_for), command)
        }
        PodCommand::Results { results } => {
            let code = read_number(&results.join(EXIT_CODE)).ok_or_else(not_ended)?;
            let code = u8::try_from(code).map_err(|_| not_ended())?;
            write_results(results, code, io::stdout().lock()).map_err(Stop::cannot_run)
        }
        PodCommand::Ended { results } => {
            read_number(&results.join(EXIT_CODE)).map(drop).ok_or_else(not_ended)
        }
        PodCommand::Fetched { results } => {
            WholeFile::write(&results.join(FETCHED), b"").map_err(Stop::cannot_run)
        }
        PodCommand::Interrupt { results } => match read_number(&results.join(PID)) {
            Some(pid) => process::kill(pid, Signal::INT).map_err(Stop::cannot_run),
            None => Err(Stop::CannotRun("no command runs here".to_owned())),
        },
    }
}

/// The most that a file with one number has.
const NUMBER_BYTES_MAX: u64 = 64;

fn not_ended() -> Stop {
    Stop::CannotRun("the command has not ended".to_owned())
}

fn read_number(path: &Path) -> Option<u32> {
    input_file::read_text(path, NUMBER_BYTES_MAX).ok()?.trim().parse().ok()
}

/// Returns the command that runs this program with these words.
fn here(words: &[String]) -> Command {
    let mut command = Command::new(process::own_executable());
    command.arg0("plimsoll").args(words);
    command
}

/// Returns the command that runs this program with the words of an order, in a new folder with its files.
fn ordered(dir: &Path, inputs: &Path) -> io::Result<Command> {
    let order = Order::read(dir)?;
    order.place(inputs)?;
    let mut command = here(&order.words);
    command.current_dir(inputs);
    Ok(command)
}

fn coordinate(results: &Path, keep_for: Duration, mut command: Command) -> Result<()> {
    let interrupts = install_interrupts()?;
    let cannot = |error: io::Error| {
        Stop::CannotRun(format!("the results cannot be kept in {}: {error}", results.display()))
    };
    let stdout = output_file::rewrite(&results.join(STDOUT)).map_err(cannot)?;
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::inherit());
    let ties = Ties { group: Group::Own, dies_with_parent: true, ..Ties::default() };
    let mut child = process::spawn(command, &ties).map_err(cannot)?;
    let pid = child.id().to_string();
    WholeFile::write(&results.join(PID), pid.as_bytes()).map_err(cannot)?;
    let mut is_told = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            break status;
        }
        if interrupts.is_raised() && !is_told {
            is_told = true;
            // It may have ended just now.
            let _ = process::kill(child.id(), Signal::TERM);
        }
        thread::sleep(LOOK_AGAIN);
    };
    let code = match ExitReason::from(status) {
        ExitReason::Code(code) => u8::try_from(code).unwrap_or(1),
        ExitReason::Signal(signal) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
    };
    WholeFile::write(&results.join(EXIT_CODE), code.to_string().as_bytes()).map_err(cannot)?;
    // The far end of kubectl's stream waits for this line.
    let _ = writeln!(io::stderr(), "{}", plimsoll_fleet::kubernetes::ENDED);
    let deadline = Instant::now() + keep_for;
    let fetched = results.join(FETCHED);
    while !fetched.exists() && Instant::now() < deadline && !interrupts.is_raised() {
        thread::sleep(LOOK_AGAIN);
    }
    if !fetched.exists() {
        // No client has fetched the results: only the log remains.
        let copied = input_file::open_regular(&results.join(STDOUT))
            .and_then(|mut text| io::copy(&mut text, &mut io::stdout()));
        drop(copied);
    }
    if code == 0 { Ok(()) } else { Err(Stop::Reported(code)) }
}
