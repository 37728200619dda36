//! `plimsoll tune haproxy --try` and `tune nginx --try`: the configuration and Debian's default, measured in turn.
//!
//! [`measure`] plans two laboratories with one certificate, one with Debian's configuration and one with the tuned
//! one, and runs a [`SizingExperiment`] over them in paired rounds. The command does this twice, for requests and for
//! handshakes, each with half of the budget, and prints both tables. The connections of the goal are lowered to the
//! descriptors of this host. Start with [`measure`].

use std::collections::BTreeMap;

use plimsoll_capacity::compare::ROUNDS_DEFAULT;
use plimsoll_lab::{ProxyConfiguration, SutSettings};
use plimsoll_model::Nanos;
use plimsoll_model::compare::Finding;
use plimsoll_model::result::RunResult;
use plimsoll_model::sizing::SizingSummary;
use plimsoll_model::units::grouped;
use plimsoll_report::terminal::render_sizing_table;
use plimsoll_sys::limits::raise_descriptor_limit;
use plimsoll_sys::signal::Interrupts;
use plimsoll_tune::proxy::{Dialect, ProxyGoal};

use super::isolation::Isolation;
use super::printed::say;
use super::sweep;
use crate::exit::{Result, Stop, UNSETTLED};
use crate::experiments::sizing::SizingExperiment;
use crate::flags::shared::OutputFlags;
use crate::flags::{Command, LabCommand, LabExperiment, parse_line};
use crate::plan::Inputs;
use crate::plan::in_turn::TurnsJob;
use crate::plan::inputs::read_text;
use crate::plan::sizing::{SizedValue, Variation, budget_min};
use crate::plan::tuned_proxy::TunedProxy;
use crate::publish::Publisher;
use crate::session::SessionSetup;
use crate::{run, session};

const DEFAULT: &str = "Debian's default";
const TUNED: &str = "tuned";
/// Descriptors of a proxy that are no connections.
const DESCRIPTORS_BESIDE: u64 = 1_024;
/// Connections of the closed loops: enough to saturate a few CPUs, and fewer than Debian's nginx takes.
const CONNECTIONS: &str = "100";

/// Measures requests and handshakes, and prints what was gained.
pub(super) fn run(proxy: &TunedProxy, budget: Nanos) -> Result<()> {
    let budget = Nanos(budget.0 / 2);
    refuse_if!(budget < budget_min(2);
        "--budget is too short for eight rounds of requests and of handshakes";
        "give {} or more", Nanos(budget_min(2).0 * 2));
    let interrupts = run::install_interrupts()?;
    let requests = measure(proxy, "rate", "requests/s", budget, &interrupts)?;
    let handshakes = measure(proxy, "handshakes", "handshakes/s", budget, &interrupts)?;
    say(&table(proxy.installed.dialect, &proxy.goal, &requests, &handshakes))
}

/// Runs one of the two experiments; its archive is kept.
fn measure(
    proxy: &TunedProxy,
    experiment: &str,
    unit: &'static str,
    budget: Nanos,
    interrupts: &Interrupts,
) -> Result<SizingSummary> {
    let mut inputs = Inputs::of_host(std::io::empty());
    let pem = read_text(&proxy.goal.certificate)
        .map_err(|error| Stop::CannotRun(format!("--cert cannot be read: {error}")))?;
    let fit = raise_descriptor_limit().saturating_sub(DESCRIPTORS_BESIDE) / 2;
    let goal = ProxyGoal { connections: proxy.goal.connections.min(fit), ..proxy.goal.clone() };
    let configurations =
        [(DEFAULT, ProxyConfiguration::Debian), (TUNED, ProxyConfiguration::Tuned(Box::new(goal)))];
    let laboratory = laboratory(proxy, experiment)?;
    let isolation = Isolation::asked(&[&laboratory])?;
    let (mut values, mut notes) = (Vec::new(), Vec::new());
    for (name, configuration) in configurations {
        let value = SizedValue {
            name: name.to_owned(),
            settings: BTreeMap::new(),
            experiment: laboratory.clone(),
            variation: Variation {
                certificate: Some(pem.clone()),
                settings: SutSettings { configuration, ..SutSettings::default() },
                ..Variation::default()
            },
        };
        let planned = sweep::plan(&value, &isolation, &mut inputs)?;
        values.push(sweep::start(&value, planned, &mut notes)?);
    }
    let turns = TurnsJob {
        rounds: ROUNDS_DEFAULT,
        budget: Some(budget),
        seed: 1,
        output: OutputFlags::default(),
    };
    let target =
        format!("{} {}", proxy.installed.dialect.kind.name(), proxy.installed.version_text);
    let mut experiment = SizingExperiment::new(turns, unit, &target, values);
    let mut servers = experiment.servers();
    let set_up = SessionSetup {
        command: "tune try",
        server: &mut servers,
        publisher: &Publisher::default(),
        interrupts,
        notes,
    };
    let ended = session::measure(&mut experiment, set_up)?;
    let mut summary = ended.summary;
    ended.run.store(&mut summary)?;
    let RunResult::Sizing { sizing } = summary.result else {
        return Err(ended.stop.unwrap_or(Stop::Reported(UNSETTLED)));
    };
    let Some(stop) = ended.stop else { return Ok(*sizing) };
    if let Some(why) = &sizing.stopped {
        let made = sizing.rounds_made;
        say(&format!(
            "{unit}: {made} rounds were made, and a statement needs at least eight: {why}; give a \
             longer --budget\n"
        ))?;
    }
    Err(stop)
}

/// Returns `plimsoll lab` for the installed program.
fn laboratory(proxy: &TunedProxy, experiment: &str) -> Result<LabExperiment> {
    let name = proxy.installed.dialect.kind.name();
    let path = proxy.installed.path.to_string_lossy();
    let words = format!("lab {experiment} -k --connections {CONNECTIONS} --sut {name} --{name}");
    let words: Vec<_> = words.split(' ').chain([&*path]).map(str::to_owned).collect();
    match parse_line(&words)? {
        Command::Lab(LabCommand::Experiment(experiment)) => Ok(*experiment),
        _ => Err(Stop::CannotRun("no laboratory was planned; report this as a bug".to_owned())),
    }
}

fn table(
    dialect: &Dialect,
    goal: &ProxyGoal,
    requests: &SizingSummary,
    handshakes: &SizingSummary,
) -> String {
    let tables = [requests, handshakes].map(render_sizing_table);
    let default = (dialect.debian_connections)(goal.cores);
    let (default, tuned) = (grouped(default), grouped(goal.connections));
    let mut text = format!(
        "\n{}Connections: {default} by {DEFAULT}, {tuned} {TUNED}; what each configuration allows, not measured.\n",
        tables.concat()
    );
    let found = [requests, handshakes].into_iter().filter_map(|sizing| sizing.values.get(1));
    let found = found.flat_map(|value| [value.goodput, value.per_cpu]).flatten();
    if !found.into_iter().any(|found| found.finding == Finding::Higher) {
        text.push_str(
            "Nothing to gain for requests and handshakes: no difference was seen beyond the intervals \
             above. The CPU time of each is spent in TLS and in the kernel, which no setting changes.\n",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use plimsoll_model::compare::{Difference, NoiseSummary};
    use plimsoll_model::sizing::SizingValue;
    use plimsoll_tune::proxy::{HAPROXY, NGINX, Places};

    use super::*;

    fn sized(finding: Finding) -> SizingSummary {
        let noise = NoiseSummary { cv: 0.02, half_width: 0.08, floor: None, detectable: 0.1 };
        let found = Difference {
            finding,
            ratio: 1.234,
            ratio_low: 1.145,
            ratio_high: 1.312,
            ratio_observed: None,
            confidence: 0.98,
            p: 0.01,
            difference_max: 0.312,
            noise,
            a: 15_336.0,
            b: 18_925.0,
        };
        let default = SizingValue { goodput_per_s: Some(15_336.0), ..SizingValue::default() };
        let tuned = SizingValue { goodput: Some(found), ..default.clone() };
        SizingSummary {
            unit: "requests/s".to_owned(),
            block_s: 3.0,
            rounds_planned: 8,
            rounds_made: 8,
            values: vec![default, tuned],
            blocks: Vec::new(),
            stopped: None,
        }
    }

    #[test]
    fn the_table_says_what_was_gained_or_that_nothing_was() {
        let goal = ProxyGoal {
            connections: 200_000,
            rate_per_s: 10,
            cores: 2,
            certificate: "site.pem".into(),
            handshakes_per_cpu: 4_500,
            named_backends: Vec::new(),
            http2: true,
            backends: Vec::new(),
            listen: "*:443".to_owned(),
            places: Places {
                user: None,
                chroot: None,
                statistics: None,
                log: Some("log".into()),
                state: "run".into(),
            },
        };
        let (higher, same) = (sized(Finding::Higher), sized(Finding::NoDifference));
        let text = table(&HAPROXY, &goal, &higher, &same);
        assert!(text.contains("+23.4 (+14.5 to +31.2)") && text.contains("262,000"), "{text}");
        assert!(!text.contains("Nothing to gain"), "{text}");
        let text = table(&NGINX, &goal, &same, &same);
        assert!(text.contains("Nothing to gain") && text.contains(" 768 "), "{text}");
    }
}
