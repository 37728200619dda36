//! `plimsoll lab sweep`: several laboratories, measured in turn.

use plimsoll_lab::{CheckError, LabError};
use plimsoll_model::sizing::SizingValue;

use super::isolation::Isolation;
use super::lab;
use crate::exit::Result;
use crate::experiments::sizing::{Sized, SizingExperiment};
use crate::flags::SweepFlags;
use crate::flags::programs::kinds;
use crate::plan::Inputs;
use crate::plan::lab::check_near;
use crate::plan::sizing::{SizedValue, build};
use crate::publish::Publisher;
use crate::session::SessionSetup;
use crate::{run, session};

pub(crate) fn run(flags: &SweepFlags) -> Result<()> {
    let mut inputs = Inputs::of_host(std::io::empty());
    let job = build(flags, &inputs)?;
    // The clients are the same for all.
    let labs: Vec<_> = job.values.iter().map(|value| &value.experiment).collect();
    let isolation = Isolation::asked(&labs)?;
    let planned: Vec<_> = job
        .values
        .iter()
        .map(|value| plan(value, &isolation, &mut inputs))
        .collect::<Result<_, _>>()?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let interrupts = &interrupts;
    Publisher::during(&job.publish, interrupts, |publisher| {
        let mut notes = Vec::new();
        let values: Vec<_> = job
            .values
            .iter()
            .zip(planned)
            .map(|(value, planned)| start(value, planned, &mut notes))
            .collect::<Result<_, _>>()?;
        let target = format!("{} values of {}", values.len(), flags.vary.join(" "));
        let mut experiment = SizingExperiment::new(job.turns, job.unit, &target, values);
        let mut servers = experiment.servers();
        let server = &mut servers;
        session::run(
            &mut experiment,
            SessionSetup { command: "lab sweep", server, publisher, interrupts, notes },
        )
    })
}

/// Plans the laboratory of one value; a setting of another program than its own is refused.
pub(super) fn plan(
    value: &SizedValue,
    isolation: &Isolation,
    inputs: &mut Inputs,
) -> Result<lab::Planned> {
    check_near(value.experiment.hosts(), "lab sweep")?;
    let planned = lab::Planned::of(&value.experiment, &value.variation, isolation, inputs)?;
    if let Some(of) = &value.variation.of {
        refuse_if!(!of.contains(&planned.plan.sut.kind);
            "{} is a setting of another program than the laboratory's", value.name;
            "name --sut {} after --", kinds(of.iter().copied()));
    }
    Ok(planned)
}

/// Starts the laboratory of one value.
pub(super) fn start(
    value: &SizedValue,
    planned: lab::Planned,
    notes: &mut Vec<String>,
) -> Result<Sized> {
    let side = planned.start(&value.name, notes).map_err(|error| match error {
        LabError::Proxy(CheckError::Rejected { alert, .. }) => usage!("{}: {alert}", value.name;
            "use a value that the program takes"),
        other => other.into(),
    })?;
    let shown = SizingValue {
        name: value.name.clone(),
        settings: value.settings.clone(),
        ..SizingValue::default()
    };
    Ok((shown, side))
}
