//! The times at which operations are due: `--rate`, `--stages`, `--arrivals`, `--duration`, `--requests`.

use plimsoll_model::pace::{Arrivals, Profile, Stage};
use plimsoll_model::plan::Pacing;
use plimsoll_model::settings::RateStep;
use plimsoll_model::{Nanos, Rate};

use crate::exit::Result;
use crate::flags::PaceFlags;
use crate::flags::values::{ArrivalsFlag, RampTo};

/// `--rate` of a load when none is given, per second: vegeta's.
const RATE_DEFAULT: f64 = 50.0;
const DURATION_DEFAULT: Nanos = Nanos::from_secs(10);

/// Returns the pacing, and the rate of an open loop as the flags give it.
pub(super) fn pacing(flags: &PaceFlags) -> Result<(Pacing, Vec<RateStep>)> {
    let closed = flags.rate == Some(Rate::ZERO);
    if !flags.stages.is_empty() {
        refuse_if!(closed;
            "--rate 0 (closed loop) and --stages (open loop) exclude each other";
            "drop one of them");
        return staged(flags);
    }
    if closed {
        return closed_loop(flags);
    }
    let rate = flags.rate.or_else(|| Rate::per_second(RATE_DEFAULT)).unwrap_or_default();
    let profile = match (flags.requests, flags.duration) {
        (Some(requests), None) => Profile::constant_ops(rate, requests),
        (requests, duration) => {
            let profile = Profile::constant(rate, duration.unwrap_or(DURATION_DEFAULT));
            profile.limited_to(requests.unwrap_or(u64::MAX))
        }
    };
    refuse_if!(profile.ops_total == 0;
        "--rate {} over {} starts no request", spelled(rate), profile.duration();
        "raise --rate or --duration, or give --requests");
    Ok((open(profile, flags.arrivals), vec![RateStep { per_s: rate.get(), within_s: 0.0 }]))
}

/// Returns the model's value of the flag.
pub(super) fn arrivals(flag: ArrivalsFlag) -> Arrivals {
    match flag {
        ArrivalsFlag::Poisson => Arrivals::Poisson,
        ArrivalsFlag::Uniform => Arrivals::Uniform,
    }
}

fn open(profile: Profile, flag: Option<ArrivalsFlag>) -> Pacing {
    Pacing::Open { profile, arrivals: arrivals(flag.unwrap_or(ArrivalsFlag::Poisson)) }
}

fn closed_loop(flags: &PaceFlags) -> Result<(Pacing, Vec<RateStep>)> {
    refuse_if!(flags.arrivals.is_some();
        "--arrivals spreads scheduled starts, and --rate 0 has no schedule"; "drop one of them");
    let duration = flags.duration.or_else(|| flags.requests.is_none().then_some(DURATION_DEFAULT));
    Ok((Pacing::Closed { duration, ops_total: flags.requests }, Vec::new()))
}

fn staged(flags: &PaceFlags) -> Result<(Pacing, Vec<RateStep>)> {
    refuse_if!(flags.duration.is_some();
        "--stages already sets the duration of the load"; "drop --duration, or add a stage");
    let mut from = flags.rate.unwrap_or(Rate::ZERO);
    let mut steps = vec![RateStep { per_s: from.get(), within_s: 0.0 }];
    let mut stages = Vec::new();
    for RampTo { duration, rate } in &flags.stages {
        // A stage without length is a jump: it only changes where the next one begins.
        if *duration > Nanos::ZERO {
            stages.push(Stage { duration: *duration, from, to: *rate });
        }
        from = *rate;
        steps.push(RateStep { per_s: rate.get(), within_s: duration.as_secs_f64() });
    }
    let profile = Profile::from_stages(stages).limited_to(flags.requests.unwrap_or(u64::MAX));
    refuse_if!(profile.ops_total == 0;
        "--stages starts no request"; "raise a rate or a duration, such as --stages 30s:500");
    Ok((open(profile, flags.arrivals), steps))
}

/// Returns the rate in the format of `--rate`, with four decimals.
fn spelled(rate: Rate) -> String {
    let text = format!("{:.4}", rate.get());
    format!("{}/s", text.trim_end_matches('0').trim_end_matches('.'))
}
