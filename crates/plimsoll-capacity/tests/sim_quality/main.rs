//! How good is the search? Thousands of whole searches against simulated servers whose capacity is
//! known, with the very code that judges real ones.

mod kinds;
mod methods;
mod score;

use plimsoll_capacity::Mode;

use methods::Method;
use score::quantile;
use score::score;

#[test]
#[ignore]
fn look() {
    let seeds = 200;
    let began = std::time::Instant::now();
    for kind in kinds::servers() {
        for method in [
            Method::Plimsoll(Mode::Standard),
            Method::Bisection(Mode::Standard),
            Method::Staircase(Mode::Standard, 25),
        ] {
            let s = score(&kind, method, seeds);
            println!(
                "{:26} {:30} contained {:5.1} near {:5.1} trials {:3} {:3} error {:.2} % width {:.1} % spent {}  [{:.1}s]",
                kind.name,
                format!("{method:?}"),
                s.contained_percent(),
                s.near_percent(),
                quantile(&s.trials, 0.5),
                quantile(&s.trials, 0.9),
                100.0 * quantile(&s.errors, 0.5),
                100.0 * quantile(&s.widths, 0.5),
                quantile(&s.spent, 0.5),
                began.elapsed().as_secs_f64()
            );
        }
    }
}

#[test]
#[ignore]
fn trace() {
    for (kind, seed) in
        [("hard cap", 1u64), ("hard cap", 2), ("noise 1 % by trial", 3), ("noise 5 % by trial", 4)]
    {
        let kind = kinds::servers().into_iter().find(|k| k.name == kind).expect("known");
        println!("--- {}", kind.name);
        let mut world = kind.world(seed);
        let found = methods::plimsoll(&mut world, Mode::Standard, seed, &mut |record| {
            let m = &record.measurement;
            println!(
                "{:3} {:?} {:7.1} {:5.1}s/{:5.1} {:?} {:?}",
                m.request.number,
                m.request.phase,
                m.request.rate.get(),
                m.window.as_secs_f64(),
                m.request.duration.as_secs_f64(),
                record.judgement.verdict,
                record
                    .judgement
                    .reasons
                    .iter()
                    .filter(|c| c.level == plimsoll_model::trial::Level::Fail)
                    .map(|c| format!("{} {}", c.check, c.value))
                    .collect::<Vec<_>>()
            );
        });
        println!("{found:?}");
    }
}

#[test]
#[ignore]
fn misses() {
    for name in [
        "noise 1 % by trial",
        "noise 5 % by trial",
        "noise 10 % by trial",
        "stall in 1 of 10 trials",
    ] {
        let kind = kinds::servers().into_iter().find(|k| k.name == name).expect("known");
        let mut table = std::collections::BTreeMap::<String, (u32, u32, Vec<u32>)>::new();
        for seed in 0..400u64 {
            let mut world = kind.world(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x51A1);
            let f = methods::plimsoll(&mut world, Mode::Standard, seed, &mut |_| ());
            let t = f.tipping.clone().expect("ours");
            let outcome = format!("{:?}", t.outcome).chars().take(70).collect::<String>();
            let entry = table
                .entry(format!(
                    "{} noise {}",
                    outcome,
                    t.noise.map_or("none".to_owned(), |n| format!("{:.0}", n * 100.0))
                ))
                .or_default();
            let (l, u) = (f.lower.unwrap_or(1.0), f.upper.unwrap_or(1e9));
            let near = l / (u / l) <= 5_000.0 && 5_000.0 <= u * u / l;
            entry.0 += 1;
            entry.1 += u32::from(!near);
            entry.2.push(f.trials);
        }
        println!("--- {name}");
        for (k, (n, miss, mut trials)) in table {
            trials.sort_unstable();
            println!("{k:90} {n:4} miss {miss:3} trials {}", trials[trials.len() / 2]);
        }
    }
}
