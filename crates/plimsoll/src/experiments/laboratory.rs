//! Experiments in a laboratory.

use plimsoll_lab::{LabPlan, Laboratory};
use plimsoll_model::plan::LoadPlan;

use crate::session::Experiment;

/// An experiment that a laboratory can be made for.
pub(crate) trait RunsInLab: Experiment {
    /// Returns `plan` with what this experiment needs of a laboratory.
    fn lab_plan(&self, plan: LabPlan) -> LabPlan;

    /// Adapts to the running laboratory, which was started from `plan`; returns notes for the report.
    fn enter(&mut self, lab: &Laboratory, _plan: &LabPlan) -> Vec<String> {
        self.load().target_name.clone_from(&lab.name);
        Vec::new()
    }
}

/// Pins the clients to the CPUs that the laboratory leaves them.
pub(super) fn pin_clients(plan: &mut LoadPlan, lab: &LabPlan) {
    let clients = lab.placement.as_ref().map(|placement| &placement.clients);
    if let Some(clients) = clients.filter(|clients| !clients.is_empty()) {
        plan.cpus.clone_from(clients);
        plan.threads = clients.len() as u32;
    }
}
