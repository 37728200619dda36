//! One load against one server of known service times, left alone or disturbed on the way.

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::bench::announced::Announced;
use crate::bench::invocation::{Finished, Invocation};
use crate::bench::page::Section;
use crate::bench::reference::{Reference, Service};
use crate::bench::truth::accounting::Accounting;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU, process};

pub(super) const RATE_PER_S: u32 = 1_000;
pub(super) const CONNECTIONS: u32 = 100;
/// Beyond the load itself: more than plimsoll's linger of 150 s.
const PATIENCE: Duration = Duration::from_secs(200);

/// Whose server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    Plimsoll,
    Reference,
}

/// A server, and how long it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) maker: Maker,
    pub(super) service: Service,
}

impl Case {
    pub(super) fn name(&self) -> String {
        let maker = match self.maker {
            Maker::Plimsoll => "`plimsoll serve`",
            Maker::Reference => "reference server",
        };
        match self.service {
            Service::Fixed(span) => format!("{maker}, {} ms fixed", span.as_millis()),
            Service::Uniform(longest) => format!("{maker}, 0-{} ms uniform", longest.as_millis()),
            Service::Bucket { .. } | Service::Metastable { .. } | Service::Connections { .. } => {
                format!("{maker}, {}", self.service)
            }
        }
    }

    /// The header that asks plimsoll's server for its sleep.
    fn header(&self) -> Option<String> {
        match (self.maker, self.service) {
            (Maker::Plimsoll, Service::Fixed(span)) => {
                Some(format!("sleep-fixed: {}", span.as_millis()))
            }
            (Maker::Plimsoll, Service::Uniform(longest)) => {
                Some(format!("sleep: {}", longest.as_millis()))
            }
            _ => None,
        }
    }
}

/// What happens at two fifths of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    None,
    /// The server stands still for so long.
    Freeze(Duration),
    /// The load is interrupted.
    Interrupt,
    /// The server dies.
    Kill,
}

impl Disturbance {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "undisturbed",
            Self::Freeze(_) => "frozen",
            Self::Interrupt => "interrupted",
            Self::Kill => "server killed",
        }
    }

    /// Whether it can be seen in the summary. A freeze is left to who judges its latencies.
    fn check(self, summary: &Value) -> Result<()> {
        match self {
            Self::Interrupt if summary["partial"] != true => {
                bail!("the interrupted run does not call itself partial")
            }
            Self::Kill if summary["errors"].as_u64().unwrap_or(0) == 0 => {
                bail!("the server was killed, and the summary has no errors")
            }
            _ => Ok(()),
        }
    }
}

/// A load that is over.
pub(super) struct Shot {
    pub(super) finished: Finished,
    /// What the reference server logged, seconds; only where the run was not cut short.
    pub(super) log: Option<Vec<f64>>,
}

enum Server {
    Plimsoll(Announced),
    Reference(Reference),
}

impl Server {
    fn start(bench: &Bench, case: &Case, seed: u32) -> Result<Self> {
        match case.maker {
            Maker::Plimsoll => {
                let mut command = process::pinned(SERVER_CPU, &bench.tools.plimsoll);
                command.args(plimsoll_serve(seed).split(' '));
                Ok(Self::Plimsoll(Announced::start(&mut command)?))
            }
            Maker::Reference => Ok(Self::Reference(Reference::start(case.service, seed.into())?)),
        }
    }

    fn shown(case: &Case, seed: u32) -> String {
        match case.maker {
            Maker::Plimsoll => {
                format!("taskset -c {SERVER_CPU} plimsoll {}", plimsoll_serve(seed))
            }
            Maker::Reference => Reference::shown(case.service, seed.into()),
        }
    }

    const fn announced(&self) -> &Announced {
        match self {
            Self::Plimsoll(announced) | Self::Reference(Reference(announced)) => announced,
        }
    }

    fn log(self) -> Result<Option<Vec<f64>>> {
        match self {
            Self::Plimsoll(_) => Ok(None),
            Self::Reference(reference) => reference.log().map(Some),
        }
    }
}

fn plimsoll_serve(seed: u32) -> String {
    format!("serve --http 127.0.0.1:0 --threads 1 --processes 1 --seed {seed} --no-ui")
}

/// Where the shots of one round are made.
pub(super) struct Range<'a> {
    pub(super) bench: &'a Bench,
    pub(super) section: &'a mut Section,
    pub(super) accounting: &'a mut Accounting,
    /// From 1; also the seed.
    pub(super) round: u32,
}

impl Range<'_> {
    /// Makes one load. A failure is told in the section.
    pub(super) fn shoot(
        &mut self,
        case: Case,
        disturbance: Disturbance,
        seconds: u32,
    ) -> Option<Shot> {
        let name = format!("{}, {}, round {}", case.name(), disturbance.name(), self.round);
        println!("truth: {name}: {seconds} s");
        match self.try_shoot(&case, disturbance, seconds) {
            Ok(shot) => {
                self.accounting.add(&name, &shot);
                Some(shot)
            }
            Err(error) => {
                self.section.fail(format!("{name}: {error:#}"));
                None
            }
        }
    }

    fn try_shoot(&mut self, case: &Case, disturbance: Disturbance, seconds: u32) -> Result<Shot> {
        let server = Server::start(self.bench, case, self.round)?;
        let words = format!(
            "load {} --rate {RATE_PER_S} --duration {seconds}s --connections {CONNECTIONS} \
             --threads 1 --processes 1 --seed {}",
            server.announced().url,
            self.round
        );
        let mut load = Invocation::new(&words, Some(CLIENT_CPU));
        if let Some(header) = case.header() {
            load = load.argument("-H").argument(header);
        }
        if self.round == 1 && disturbance == Disturbance::None {
            self.section.note_command(Server::shown(case, self.round));
            self.section.note_command(load.shown());
        }
        let length = Duration::from_secs(seconds.into());
        let running = load.start(self.bench, length + PATIENCE)?;
        if disturbance != Disturbance::None {
            thread::sleep(length * 2 / 5);
        }
        match disturbance {
            Disturbance::None => {}
            Disturbance::Freeze(span) => {
                server.announced().process.signal_all("STOP")?;
                thread::sleep(span);
                server.announced().process.signal_all("CONT")?;
            }
            Disturbance::Interrupt => running.process.signal("INT")?,
            Disturbance::Kill => {
                drop(server);
                let finished = running.finish()?;
                disturbance.check(&finished.summary)?;
                return Ok(Shot { finished, log: None });
            }
        }
        let finished = running.finish()?;
        disturbance.check(&finished.summary)?;
        let log = server.log()?.filter(|_| disturbance != Disturbance::Interrupt);
        Ok(Shot { finished, log })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_disturbance_must_have_happened() {
        let (whole, partial) = (json!({"partial": false}), json!({"partial": true}));
        assert!(Disturbance::Interrupt.check(&whole).is_err());
        assert!(Disturbance::Interrupt.check(&partial).is_ok());
        assert!(Disturbance::Kill.check(&json!({"errors": 0})).is_err());
        assert!(Disturbance::Kill.check(&json!({"errors": 7})).is_ok());
        assert!(Disturbance::None.check(&whole).is_ok());
    }

    #[test]
    fn only_our_own_server_is_asked_for_its_sleep() {
        let ms = Duration::from_millis;
        for (maker, service, name, header) in [
            (
                Maker::Plimsoll,
                Service::Fixed(ms(10)),
                "`plimsoll serve`, 10 ms fixed",
                Some("sleep-fixed: 10"),
            ),
            (
                Maker::Plimsoll,
                Service::Uniform(ms(50)),
                "`plimsoll serve`, 0-50 ms uniform",
                Some("sleep: 50"),
            ),
            (Maker::Reference, Service::Fixed(ms(10)), "reference server, 10 ms fixed", None),
        ] {
            let case = Case { maker, service };
            assert_eq!((case.name().as_str(), case.header().as_deref()), (name, header));
        }
    }
}
