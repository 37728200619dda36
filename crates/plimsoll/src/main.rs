//! plimsoll finds the load line of a server: how much load it can carry before latency rises, and
//! which resource runs out first.
//!
//! This crate is flags, wiring and exit codes. What was typed is in `flags`, what it means in
//! `plan`, what is done in `commands`.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

#[macro_use]
mod exit;

mod causes;
mod clock;
mod commands;
mod display;
mod experiments;
mod flags;
mod host_file;
mod hosts;
mod kernel_files;
mod output;
mod plan;
mod preflight;
mod publish;
mod rows;
mod run;
mod screen;
mod session;
mod survey;

use plimsoll_sys::process;

use exit::{Result, Stop};
use flags::{Command, LabCommand};

fn main() -> ExitCode {
    plan::live::take_token();
    match dispatch() {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(stop) => {
            // A closed pipe is no reason for another message.
            if let Stop::Asked(text) = &stop {
                let _ = std::io::stdout().write_all(text.as_bytes());
            }
            if let Some(complaint) = stop.complaint() {
                let _ = writeln!(std::io::stderr(), "{complaint}");
            }
            ExitCode::from(stop.code())
        }
    }
}

fn dispatch() -> Result<()> {
    let command = flags::parse()?;
    let needs_processes = !matches!(command, Command::Report(_) | Command::Explain(_));
    if needs_processes && !process::own_executable().exists() {
        return Err(Stop::CannotRun(
            "/proc is not mounted: plimsoll starts its processes through it, and reads this host and its limits \
             there; mount it with mount -t proc proc /proc"
                .to_owned(),
        ));
    }
    match command {
        Command::Lab(LabCommand::Experiment(experiment)) => commands::lab::run(&experiment),
        Command::Lab(LabCommand::Sweep(flags)) => commands::sweep::run(&flags),
        Command::Find(experiment) => commands::find::run(&experiment),
        Command::Compare(flags) => commands::compare::run(&flags),
        Command::Load(flags) => commands::load::run(&flags),
        Command::Hold(command) => commands::hold::run(&command),
        Command::Serve(flags) => commands::serve::run(&flags),
        Command::Doctor(flags) => commands::doctor::run(&flags),
        Command::Tune(command) => commands::tune::run(&command),
        Command::Watch(flags) => commands::watch::run(&flags),
        Command::Report(flags) => commands::report::run(&flags),
        Command::Explain(flags) => commands::explain::run(&flags),
        // A file names no other one, so this is not reached twice.
        Command::Run(flags) => refuse!("{:?} names a run file", flags.file;
            "write the command itself"),
        Command::Schema(flags) => commands::schema::run(&flags),
        Command::K8s(command) => commands::k8s::run(&command),
        Command::Pod(command) => commands::pod::run(&command),
        Command::Agent(flags) => commands::agent::run(&flags),
    }
}
