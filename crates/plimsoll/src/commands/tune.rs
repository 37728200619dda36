//! `plimsoll tune`: a plan for this host's settings, its application, and the way back; and
//! configurations of proxies.

use std::io;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

use plimsoll_report::time_text;
use plimsoll_sys::{clock, sock_diag};
use plimsoll_tune::proxy::{HAPROXY, NGINX};
use plimsoll_tune::tune::{
    Applied, HostDisk, Journal, Plan, Reversal, Reverted, Role, StartedBy, TuneError, apply, lock,
    revert,
};

use super::printed::{print, say};
use super::tune_proxy;
use crate::exit::{CANNOT_RUN, Result, Stop};
use crate::flags::{ApplyFlags, GoalFlags, PlanFlags, RevertFlags, RoleFlag, TuneCommand};
use crate::kernel_files::ROOT;
use crate::plan::host_goal::needs;

pub(crate) fn run(command: &TuneCommand) -> Result<()> {
    match command {
        TuneCommand::Plan(flags) => show_plan(flags),
        TuneCommand::Apply(flags) => apply_plan(flags),
        TuneCommand::Revert(flags) => revert_newest(flags),
        TuneCommand::Haproxy(flags) => tune_proxy::run(&HAPROXY, flags),
        TuneCommand::Nginx(flags) => tune_proxy::run(&NGINX, flags),
    }
}

fn plan(goal: &GoalFlags) -> Result<Plan> {
    let roles: Vec<Role> = goal
        .role
        .iter()
        .map(|role| match role {
            RoleFlag::Client => Role::Client,
            RoleFlag::Proxy => Role::Proxy,
            RoleFlag::Backend => Role::Backend,
        })
        .collect();
    let (disk, root) = (&HostDisk, Path::new(ROOT));
    let started_by = StartedBy::of(disk, root, goal.pid);
    let queues = sock_diag::listen_queues().unwrap_or_default();
    let listening: Vec<u16> = queues.iter().map(|queue| queue.address.port()).collect();
    let churns = goal.rate.is_some();
    Ok(Plan::of(&needs(goal)?, &roles, churns, &listening, &started_by, disk, root))
}

fn show_plan(flags: &PlanFlags) -> Result<()> {
    let plan = plan(&flags.goal)?;
    print(flags.json.as_ref(), &plan.json(), &plan.render())
}

fn apply_plan(flags: &ApplyFlags) -> Result<()> {
    refuse_if!(!flags.yes && !io::stdin().is_terminal();
        "tune apply asks for confirmation, and stdin is no terminal"; "add --yes");
    // Before the plan: no other apply or revert changes what it is made of.
    let dir = &flags.journal.journal;
    let _lock = lock(dir).map_err(tune_stop)?;
    let plan = plan(&flags.goal)?;
    say(&plan.render())?;
    if plan.is_empty(flags.persist) {
        return Ok(());
    }
    if !flags.yes && !agrees()? {
        return say("Nothing was changed.\n");
    }
    let name = format!("{}-{}", time_text::compact(clock::unix_seconds()), std::process::id());
    let applied = apply(&mut HostDisk, Path::new(ROOT), &plan, dir, &name, flags.persist);
    let applied = applied.map_err(tune_stop)?;
    say(&applied_text(&plan, &applied, dir))?;
    if applied.failed.is_empty() { Ok(()) } else { Err(Stop::Reported(CANNOT_RUN)) }
}

fn agrees() -> Result<bool> {
    let _ = write!(io::stderr(), "Change these settings? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Stop::CannotRun(format!("cannot read the answer: {error}; use --yes")))?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn applied_text(plan: &Plan, applied: &Applied, dir: &Path) -> String {
    let mut text = String::from("\n");
    for (name, value) in &applied.changed {
        text.push_str(&format!("changed  {name} = {value}\n"));
    }
    for (name, why) in &applied.failed {
        text.push_str(&format!("FAILED   {name}: {why}\n"));
    }
    for path in &applied.kept_in {
        let limits = plan.limits.first().filter(|limit| Path::new(&limit.file) == path);
        let holds = limits.map_or_else(String::new, |limit| format!(", holds {}", limit.holds));
        text.push_str(&format!("kept     {}{holds}\n", path.display()));
    }
    if applied.is_revertible {
        let flag = format!(" --journal {}", dir.display());
        let flag = if dir == Path::new("/var/lib/plimsoll/tune") { "" } else { &flag };
        text.push_str(&format!("`plimsoll tune revert{flag}` takes it back.\n"));
    }
    text
}

fn revert_newest(flags: &RevertFlags) -> Result<()> {
    let dir = &flags.journal.journal;
    if !dir.is_dir() {
        return Err(tune_stop(TuneError::Nothing { dir: dir.clone() }));
    }
    let _lock = lock(dir).map_err(tune_stop)?;
    let journal = Journal::newest(dir).map_err(tune_stop)?;
    let reverted = revert(&mut HostDisk, Path::new(ROOT), journal, flags.force);
    let reverted = reverted.map_err(tune_stop)?;
    say(&reverted.iter().map(reverted_line).collect::<String>())?;
    if reverted.iter().all(Reverted::is_settled) { Ok(()) } else { Err(Stop::Reported(CANNOT_RUN)) }
}

fn reverted_line(reverted: &Reverted) -> String {
    let path = reverted.path.display();
    match &reverted.outcome {
        Reversal::Restored => format!("restored {path}\n"),
        Reversal::WasThere => format!("as before {path}\n"),
        Reversal::Gone => format!("gone     {path}: nothing to restore\n"),
        Reversal::ChangedByOthers { present, old } => format!(
            "LEFT     {path}: somebody else has changed it since, to {present:?}; it was {old:?} before; \
             --force restores it\n"
        ),
        Reversal::Failed(why) => format!("FAILED   {path}: {why}\n"),
    }
}

fn tune_stop(error: TuneError) -> Stop {
    match error {
        TuneError::Io { path, source } if source.kind() == io::ErrorKind::PermissionDenied => {
            let path = path.display();
            Stop::CannotRun(format!("{path}: {source}; run as root, or name a --journal directory"))
        }
        other => Stop::cannot_run(other),
    }
}
