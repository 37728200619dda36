//! Whether the latencies that plimsoll reports are the ones that the server made: against servers
//! whose service times are known exactly, one of them of another make than plimsoll's; while they
//! freeze; and whether every operation is accounted for, also when a run is cut short or its server
//! dies.

mod accounting;
mod freeze;
mod quantiles;
mod shot;

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;

use crate::bench::page::Section;
use crate::bench::reference::Service;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU};
use accounting::Accounting;
use freeze::Freeze;
use quantiles::Quantiles;
use shot::{Case, Disturbance, Maker, Range, Shot};

const ROUNDS: u32 = 3;
const SECONDS: u32 = 20;

const FIXED: Service = Service::Fixed(Duration::from_millis(10));
const UNIFORM: Service = Service::Uniform(Duration::from_millis(50));

const CASES: [Case; 4] = [
    Case { maker: Maker::Plimsoll, service: FIXED },
    Case { maker: Maker::Plimsoll, service: UNIFORM },
    Case { maker: Maker::Reference, service: FIXED },
    Case { maker: Maker::Reference, service: UNIFORM },
];
/// Cases whose server is frozen.
const FROZEN: [Case; 2] = [CASES[0], CASES[2]];

/// Measures all rounds and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let rounds = bench.settings.rounds_or(ROUNDS);
    let seconds = bench.settings.seconds_or(SECONDS);
    section.method = method(rounds, seconds);
    let freeze = Duration::from_secs(seconds.into()) / 10;
    let brief = (seconds / 4).max(2);
    let mut quantiles = CASES.map(Quantiles::new);
    let mut frozen = FROZEN.map(|case| Freeze::new(case, freeze));
    let mut accounting = Accounting::default();
    for round in 1..=rounds {
        let mut range = Range { bench, section: &mut *section, accounting: &mut accounting, round };
        for quantiles in &mut quantiles {
            let shot = range.shoot(quantiles.case(), Disturbance::None, seconds);
            shot.iter().for_each(|shot| quantiles.add(shot));
        }
        for frozen in &mut frozen {
            let shot = range.shoot(frozen.case(), Disturbance::Freeze(freeze), seconds);
            shot.iter().for_each(|shot| frozen.add(shot));
        }
        for case in FROZEN {
            range.shoot(case, Disturbance::Interrupt, brief);
            range.shoot(case, Disturbance::Kill, brief);
        }
    }
    section.claims.extend(quantiles.iter().map(Quantiles::claim));
    section.claims.extend(frozen.iter().flat_map(Freeze::claims));
    section.claims.extend(accounting.claims());
    section.figures = figures(&quantiles);
    Ok(())
}

fn figures(quantiles: &[Quantiles]) -> String {
    let mut text = String::from(
        "| server and service time | | exact, ms | corrected, ms | off, ms |\n|---|---|---|---|---|\n",
    );
    for row in quantiles.iter().flat_map(Quantiles::rows) {
        let _ = writeln!(text, "{row}");
    }
    text
}

fn method(rounds: u32, seconds: u32) -> String {
    let rate = shot::RATE_PER_S;
    let connections = shot::CONNECTIONS;
    let freeze = f64::from(seconds) / 10.0;
    let draws = rate * seconds;
    // Of the median of a uniform law: half its range over the root of the draws.
    let stray_ms = 25.0 / f64::from(draws).sqrt();
    format!(
        "Medians over {rounds} rounds of {seconds} s, with the range in brackets: {rate} Poisson \
         arrivals/s over {connections}\nkeep-alive connections, client on CPU {CLIENT_CPU}, server \
         on CPU {SERVER_CPU}, another seed in each round.\n\n\
         The exact quantiles of `plimsoll serve` are those of the law it was asked for; {draws} \
         draws stray\nfrom it by themselves (p50 of uniform 0-50 ms: standard error {stray_ms:.2} ms). The \
         reference server is of\nanother make, one thread per connection on the standard library \
         alone; it logs how long each request\nreally took, and its exact quantiles are those of \
         its log.\n\n\
         A freeze is SIGSTOP to every process of the server, and SIGCONT {freeze} s later, in a run \
         of {seconds} s. Corrected\nlatency counts from the intended start, uncorrected from the \
         send. At most {connections} requests are stuck on a\nconnection: the uncorrected p99 can \
         miss the freeze only where that is less than 1 % of all, in runs\nlonger than {} s.\n",
        connections * 100 / rate,
    )
}

/// What the summary of `shot` has at `path`, whose names are joined by dots.
fn figure(shot: &Shot, path: &str) -> Option<f64> {
    let summary = &shot.finished.summary;
    path.split('.').try_fold(summary, |value, name| value.get(name))?.as_f64()
}
