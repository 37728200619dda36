//! The simulated servers on hosts whose speed changes.

use plimsoll_model::Nanos;

use testkit::{Anomalies, Course, HostSpeed, Rival, recorded};

use crate::kinds::{Kind, Truth, kind, plain};

/// Mean seconds of the slow stretches and of the others.
const DWELLS: [(u64, u64); 7] = [(1, 12), (2, 2), (2, 8), (8, 8), (30, 30), (120, 120), (300, 300)];

fn on_host(name: &str, course: Course, felt: f64, truth: Truth) -> Kind {
    let anomalies = Anomalies { speed: Some(HostSpeed { course, felt }), ..Anomalies::default() };
    Kind { anomalies, truth, is_steady: false, ..kind(name, plain()) }
}

fn two_speeds(slow: f64, felt: f64, (slow_s, fast_s): (u64, u64)) -> Kind {
    let course = Course::TwoSpeeds {
        slow,
        slow_mean: Nanos::from_secs(slow_s),
        fast_mean: Nanos::from_secs(fast_s),
    };
    let slower = 100.0 * (1.0 - slow);
    let name = format!("two speeds, {slower:.0} % slower for {slow_s} s of {}", slow_s + fast_s);
    on_host(&name, course, felt, Truth::HalfOfRuns)
}

/// Every kind of host.
pub(crate) fn hosts() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for slow in [0.84, 0.7] {
        kinds.extend(DWELLS.map(|dwell| two_speeds(slow, 1.0, dwell)));
    }
    for (name, series) in [("calm", recorded::CALM), ("rough", recorded::ROUGH)] {
        let name = format!("recorded speed, {name}");
        kinds.push(on_host(&name, Course::Recorded(series), 1.0, Truth::HalfOfRuns));
    }
    for (name, to) in [("20 % slower", 0.8), ("20 % faster", 1.2)] {
        // When is drawn for each search.
        let course = Course::Step { at: Nanos::ZERO, to };
        kinds.push(on_host(&format!("once {name} for good"), course, 1.0, Truth::AnyRegime));
    }
    let rival = Some(Rival {
        from: Nanos::ZERO,
        to: Nanos::from_secs(10),
        every: Nanos::from_secs(30),
        left: 0.5,
    });
    let neighbour = Kind {
        anomalies: Anomalies { rival, ..Anomalies::default() },
        truth: Truth::Slow(0.5),
        is_steady: false,
        ..kind("a neighbour takes half for 10 s of 30", plain())
    };
    kinds.push(neighbour.clone());
    let name = format!("{}, CPU times read", neighbour.name);
    // Trials that missed beside the neighbour are left out then: the answer is of the server alone.
    kinds.push(Kind { name, is_observed: true, truth: Truth::Capacity, ..neighbour });
    // Not when they are there for most of the time.
    let mostly = rival.map(|rival| Rival { to: Nanos::from_secs(20), ..rival });
    kinds.push(Kind {
        name: "a neighbour takes half for 20 s of 30, CPU times read".to_owned(),
        is_observed: true,
        truth: Truth::AnyRegime,
        anomalies: Anomalies { rival: mostly, ..Anomalies::default() },
        ..neighbour
    });
    kinds
}
