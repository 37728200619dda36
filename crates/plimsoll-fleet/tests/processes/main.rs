//! Coordinators, agents and supervisors as real processes.
//!
//! This program is all of them: started with the name of a role it plays the role, otherwise it
//! runs the cases, as the standard harness would (an argument selects cases by name).
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "what is not as it should be fails the case")]

use std::process::ExitCode;
use std::{io, panic};

mod cases;
mod executor;
mod roles;

type Case = (&'static str, fn());

const CASES: &[Case] = &[
    ("loads_add_up_and_agents_are_reused", cases::loads_add_up_and_agents_are_reused),
    ("a_killed_agent_costs_its_share_only", cases::a_killed_agent_costs_its_share_only),
    ("a_hung_agent_does_not_hang_the_coordinator", cases::a_hung_agent_does_not_hang),
    ("a_hundred_agents_are_steered_as_one", cases::a_hundred_agents_are_steered_as_one),
    ("an_agent_lost_in_a_ramp_does_not_hang_it", cases::an_agent_lost_in_a_ramp),
    ("an_agent_that_refuses_is_named", cases::an_agent_that_refuses_is_named),
    ("a_relay_makes_one_agent_of_many", cases::a_relay_makes_one_agent_of_many),
    ("a_relay_says_what_it_lost", cases::a_relay_says_what_it_lost_and_why_it_cannot),
    ("what_is_no_agent_is_an_error", cases::what_is_no_agent_is_an_error),
    ("servers_share_one_port", cases::servers_share_one_port),
    ("ctrl_c_and_sigterm_give_a_partial_report", cases::stop_signals_give_a_partial_report),
    ("the_second_signal_ends_at_once", cases::the_second_signal_ends_at_once),
    ("kill_9_of_the_coordinator_leaves_nothing", cases::kill_9_of_the_coordinator),
    ("a_restart_replaces_every_program", cases::a_restart_replaces_every_program),
    ("a_stopped_supervisor_leaves_nothing", cases::a_stopped_supervisor_leaves_nothing),
    ("kill_9_of_the_supervisor_leaves_nothing", cases::kill_9_of_the_supervisor),
    ("a_program_that_cannot_start_says_why", cases::a_program_that_cannot_start_says_why),
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["agent"] => {
            let executor = executor::Script::default();
            plimsoll_fleet::agent::run(executor, io::stdin(), io::stdout(), None)
                .map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
        }
        ["agent", "--supervise"] => plimsoll_fleet::supervise(io::stdin(), io::stdout())
            .map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        ["coordinator", scratch] => roles::coordinator(scratch.as_ref()),
        ["interruptible"] => roles::interruptible(),
        ["stubborn"] => roles::stubborn(),
        _ => run_cases(&arguments),
    }
}

fn run_cases(arguments: &[String]) -> ExitCode {
    let filters: Vec<_> = arguments.iter().filter(|text| !text.starts_with('-')).collect();
    let mut failed = 0;
    for (name, case) in CASES {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        let passed = panic::catch_unwind(case).is_ok();
        failed += i32::from(!passed);
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    }
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
