//! Command lines of `hold` and `lab hold`.

use plimsoll_model::Nanos;
use plimsoll_model::plan::{HoldPlan, Pacing, TlsState};

use super::{held, hold_job};

#[test]
fn holds() {
    let job = hold_job(&["https://127.0.0.1:9/", "-c", "20k"]);
    let plan = &job.load.plan;
    let expected = HoldPlan {
        connections_per_s: 2_000.0,
        opening_max: 512,
        heartbeat: Some(Nanos::from_secs(60)),
        replace: false,
    };
    assert_eq!((job.hold, &plan.pacing), (expected, &Pacing::Hold(expected)));
    assert_eq!((plan.connections, plan.keepalive, plan.prewarm), (20_000, true, false));
    assert_eq!(
        (plan.timeouts.deadline, plan.timeouts.linger),
        (Some(Nanos::from_secs(1)), Nanos::from_secs(60))
    );
    assert_eq!((job.span, &job.levels[..]), (Nanos::from_secs(60), &[20_000][..]));
    assert!(job.load.both_ends_here && !job.up_to);
    let words =
        "--rate 30/m --for 0 --heartbeat 0 --replace --up-to --opening 7 --tls-state rustls";
    let flags: Vec<_> = words.split(' ').chain(["https://10.9.9.9/", "-c", "100"]).collect();
    let mut job = hold_job(&flags);
    let expected =
        HoldPlan { connections_per_s: 0.5, opening_max: 7, heartbeat: None, replace: true };
    assert_eq!((job.hold, job.span, job.up_to), (expected, Nanos::ZERO, true));
    assert_eq!(job.load.plan.tls.state, TlsState::Rustls);
    assert!(!job.load.both_ends_here);
    job.lower_to(60);
    assert_eq!((job.load.plan.connections, &job.levels[..]), (60, &[60][..]));
}

#[test]
fn laboratories_for_holding() {
    let job = held(&["lab", "hold"]);
    assert_eq!(job.levels, [1_000, 2_500, 5_000, 7_500, 10_000]);
    assert_eq!((job.load.plan.connections, job.span), (10_000, Nanos::from_secs(5)));
    let mut job = held(&["lab", "hold", "-c", "3", "--sut", "embedded", "--for", "1s"]);
    assert_eq!(job.levels, [1, 2, 3]);
    job.lower_to(2);
    assert_eq!((job.levels, job.load.plan.connections), (vec![1, 2], 2));
}
