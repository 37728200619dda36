//! The words for why a search stopped early, and for the failures of a server that holds connections.
//!
//! [`reason`] turns a [`Stopped`] into a clause without a full stop and [`failure`] does so for a [`ServerFailure`].
//! [`not_recovered`] words a server that did not return to its base line after a storm; `unsettled.rs` uses it too.
//! The matches are exhaustive, so a new variant does not compile without its words. Text of a program or a host
//! passes through [`clean`]. Start reading at [`reason`].

use plimsoll_model::hold::ServerFailure;
use plimsoll_model::trial::{BaseProperty, NotRecovered, Stopped};
use plimsoll_model::units::grouped;

use crate::terminal::findings;
use crate::terminal::layout::{clean, counted};

/// Returns the reason as a clause, without a full stop.
pub(crate) fn reason(why: &Stopped) -> String {
    match why {
        Stopped::Interrupted => "interrupted".to_owned(),
        Stopped::LoadEnded => "interrupted, or the clients were lost".to_owned(),
        Stopped::Killed => "killed before the search ended".to_owned(),
        Stopped::ServerEnded { how } | Stopped::LaboratoryEnded { how } => clean(how),
        Stopped::Silent { trial, load, class, checks, checks_load } => {
            let answer = class.map_or("no answer", |class| class.name());
            let after = match checks {
                0 => String::new(),
                n => {
                    format!(", nor in {} at {checks_load} after it", counted((*n).into(), "trial"))
                }
            };
            format!(
                "the server stopped answering: not one operation was answered in trial {trial} at {load} \
                 ({answer}){after}"
            )
        }
        Stopped::TimeLimit => {
            "the time limit of this mode was reached; a slower mode continues".to_owned()
        }
        Stopped::ServerFailed { why } => format!("the server failed: {}", failure(why)),
        Stopped::SoakFailed => "the lower bound did not pass its soak".to_owned(),
        Stopped::NoneOpened => "no connection could be opened".to_owned(),
        Stopped::BaseIncomplete { answered, asked } => format!(
            "only {} of {} connections were open and answered before any storm",
            grouped(*answered),
            grouped(*asked)
        ),
        Stopped::BaseMissed { checks } => {
            let missed: Vec<_> = checks.iter().map(findings::line).collect();
            clean(&format!("without any storm, the connections missed {}", missed.join(", ")))
        }
        Stopped::NotRecovered(state) => not_recovered(*state),
    }
}

/// Returns the state of a server that did not return to its base line, as a clause.
pub(crate) fn not_recovered(NotRecovered { cut, waited, differs }: NotRecovered) -> String {
    let differs = match differs {
        BaseProperty::Connections => "not all connections were open and answered",
        BaseProperty::Latency => "answers took longer",
        BaseProperty::Memory => "its memory still changed",
    };
    let cut = counted(cut, "connection");
    format!("the server was not as before {waited} after a storm of {cut}: {differs}")
}

/// Returns the failure as a clause, without a full stop.
pub(crate) fn failure(why: &ServerFailure) -> String {
    let part = |count: &u64, asked: &u64, what: &str| {
        format!("{} of {} {what}", grouped(*count), counted(*asked, "connection"))
    };
    let lost = |count: &u64| {
        let verb = if *count == 1 { "was" } else { "were" };
        format!("{} {verb} lost", counted(*count, "connection"))
    };
    match why {
        ServerFailure::NoneOpened { failed } => {
            format!("none of {} could be opened", counted(*failed, "connection"))
        }
        ServerFailure::AcceptsNoMore => "it accepted no more connections".to_owned(),
        ServerFailure::Missing { count, asked } => part(count, asked, "were not held"),
        ServerFailure::Silent { count, asked } => part(count, asked, "were silent"),
        ServerFailure::Lost { count, held } => {
            format!("{} when it held {}", lost(count), grouped(*held))
        }
        ServerFailure::LostInSoak { count, soak } => {
            format!("{} within {soak} of soak", lost(count))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::trial::{Check, Level, Measure};
    use plimsoll_model::{ErrorClass, Nanos, Rate};

    use super::*;

    #[test]
    fn reasons_state_their_figures() {
        let silent = |checks, class| {
            let (load, checks_load) = (Rate::per_second(700.0), Rate::per_second(100.0));
            let (load, checks_load) = (load.unwrap(), checks_load.unwrap());
            Stopped::Silent { trial: 9, load, class, checks, checks_load }
        };
        let failed = |why| Stopped::ServerFailed { why };
        let soak = Nanos::from_secs(150);
        for (why, text) in [
            (
                silent(4, Some(ErrorClass::ConnectRefused)),
                "the server stopped answering: not one operation was answered in trial 9 at 700/s \
                 (connect-refused), nor in 4 trials at 100/s after it",
            ),
            (
                silent(0, None),
                "the server stopped answering: not one operation was answered in trial 9 at 700/s \
                 (no answer)",
            ),
            (
                failed(ServerFailure::Lost { count: 4_000, held: 5_000 }),
                "the server failed: 4,000 connections were lost when it held 5,000",
            ),
            (
                failed(ServerFailure::LostInSoak { count: 1, soak }),
                "the server failed: 1 connection was lost within 150 s of soak",
            ),
            (
                Stopped::BaseIncomplete { answered: 999, asked: 1_000 },
                "only 999 of 1,000 connections were open and answered before any storm",
            ),
            (
                Stopped::BaseMissed {
                    checks: vec![Check::new(
                        "p99<50ms".to_owned().into(),
                        Level::Fail,
                        [Measure::span("", Nanos::from_millis(62)).at_most(50.0)],
                    )],
                },
                "without any storm, the connections missed p99<50ms: 62.0 ms (limit: at most 50.0 ms)",
            ),
            (
                Stopped::NotRecovered(NotRecovered {
                    cut: 2_000,
                    waited: Nanos::from_secs(60),
                    differs: BaseProperty::Latency,
                }),
                "the server was not as before 60.0 s after a storm of 2,000 connections: answers took \
                 longer",
            ),
        ] {
            assert_eq!(reason(&why), text);
        }
    }

    #[test]
    fn failures_state_their_figures() {
        for (why, text) in [
            (
                ServerFailure::Missing { count: 200_000, asked: 500_000 },
                "200,000 of 500,000 connections were not held",
            ),
            (
                ServerFailure::Silent { count: 7, asked: 100_000 },
                "7 of 100,000 connections were silent",
            ),
            (ServerFailure::NoneOpened { failed: 500 }, "none of 500 connections could be opened"),
        ] {
            assert_eq!(failure(&why), text);
        }
    }
}
