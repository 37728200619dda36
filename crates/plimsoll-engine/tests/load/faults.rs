//! Servers that end connections and answers in awkward ways.

use std::io::Write;

use plimsoll_model::plan::LoadPlan;

use super::scripted::{OK, Scripted, open, plan, read_request, run};

#[test]
fn an_idle_connection_is_found_again_in_a_slot_of_another_destination() {
    // The first server ends each connection, which was idle by then, so that its slot goes to the
    // second server's.
    let closing = Scripted::start(|mut stream| {
        if read_request(&mut stream) {
            stream.write_all(OK).unwrap();
        }
    });
    let lasting = Scripted::answering();
    let mut plan = LoadPlan {
        connections: 2,
        threads: 1,
        prewarm: false,
        ..plan(closing.address, open(200.0, 200))
    };
    let other = super::scripted::plan(lasting.address, open(200.0, 200));
    plan.targets.extend(other.targets);
    plan.destinations.extend(other.destinations);
    plan.target_destination.push(1);
    let tally = run(plan);
    assert_eq!((tally.scheduled, tally.unsent), (40, 0));
}
