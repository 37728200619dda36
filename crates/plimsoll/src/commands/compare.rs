//! `plimsoll compare`: two servers, both up, measured in turn.

use plimsoll_lab::Placement;
use plimsoll_model::compare::Arm;
use plimsoll_sys::affinity;

use super::isolation::Isolation;
use super::lab;
use crate::exit::{Result, Stop};
use crate::experiments::compare::{CONNECTIONS_TIMES_MAX, CompareExperiment};
use crate::experiments::in_turn::{Side, SideServer};
use crate::flags::{Command, CompareFlags};
use crate::plan::compare::ArmLine;
use crate::plan::sizing::Variation;
use crate::plan::{Inputs, Job};
use crate::publish::Publisher;
use crate::session::SessionSetup;
use crate::{plan, run, session};

pub(crate) fn run(flags: &CompareFlags) -> Result<()> {
    let mut inputs = Inputs::of_host(std::io::empty());
    let job = plan::compare::build(flags, &mut inputs)?;
    let [a, b] = &job.arms;
    // There are two laboratories, or none.
    let labs = job.arms.iter().filter_map(|arm| match &arm.command {
        Command::Lab(lab) => lab.experiment(),
        _ => None,
    });
    let isolation = Isolation::asked(&labs.collect::<Vec<_>>())?;
    let mut planned = [
        PlannedSide::of(Arm::A, a, &isolation, &mut inputs)?,
        PlannedSide::of(Arm::B, b, &isolation, &mut inputs)?,
    ];
    if job.duet {
        let halves = Placement::halves(&affinity::by_core(affinity::usable_cpus()));
        for (planned, half) in planned.iter_mut().zip(halves.into_iter().flatten()) {
            if let PlannedSide::Laboratory(planned) = planned {
                planned.plan.placement = Some(half);
            }
        }
    }
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let interrupts = &interrupts;
    Publisher::during(&job.publish.clone(), interrupts, |publisher| {
        let mut notes = job.notes.clone();
        let [a, b] = planned;
        let sides = [a.start(Arm::A, &mut notes)?, b.start(Arm::B, &mut notes)?];
        let mut experiment = CompareExperiment::new(job, sides);
        let mut servers = experiment.servers();
        let server = &mut servers;
        session::run(
            &mut experiment,
            SessionSetup { command: "compare", server, publisher, interrupts, notes },
        )
    })
}

/// One side, of which nothing has been started.
enum PlannedSide {
    Laboratory(Box<lab::Planned>),
    Named(Box<Side>),
}

impl PlannedSide {
    fn of(name: Arm, arm: &ArmLine, isolation: &Isolation, inputs: &mut Inputs) -> Result<Self> {
        let (load, times, watched) = match &arm.command {
            Command::Lab(lab) => {
                let flags = lab.experiment().ok_or_else(not_measured)?;
                let planned = lab::Planned::of(flags, &Variation::default(), isolation, inputs)?;
                return Ok(Self::Laboratory(Box::new(planned)));
            }
            Command::Find(flags) => {
                let job = plan::find(flags, inputs)?;
                let times = match &job {
                    Job::Rate(job) if !job.pool_fixed => CONNECTIONS_TIMES_MAX,
                    _ => 1,
                };
                (job.load().clone(), times, plan::watch::of_experiment(flags, inputs)?)
            }
            Command::Load(flags) => {
                let load = plan::load::build(flags, inputs)?;
                (load, 1, plan::watch::watched(&flags.watch.watch, inputs)?)
            }
            // Refused when the job was made.
            _ => return Err(not_measured()),
        };
        let server = SideServer { server: Some(Box::new(watched.server()?)), lab: None };
        let connections_max = load.plan.connections * times;
        let name = name.name().to_string();
        Ok(Self::Named(Box::new(Side { name, load, connections_max, server, placement: None })))
    }

    fn start(self, name: Arm, notes: &mut Vec<String>) -> Result<Side> {
        match self {
            Self::Named(side) => Ok(*side),
            Self::Laboratory(planned) => Ok(planned.start(&name.name().to_string(), notes)?),
        }
    }
}

/// Returns the error for a measure that was refused when the job was made.
fn not_measured() -> Stop {
    Stop::CannotRun("not a measurement; report this as a bug".to_owned())
}
