//! The words for why a search claims no interval or no safe load.
//!
//! [`reason`] turns an [`Unsettled`] into a clause without a full stop, [`advice`] gives the remedy and a command
//! that explains more, and [`safe_missing`] states why there is no safe load. All matches are exhaustive, so a new
//! variant does not compile without its words. Every figure comes from the variant itself; no trial is read here.
//! Start reading at [`reason`].

use plimsoll_model::Rate;
use plimsoll_model::slo::Goal;
use plimsoll_model::trial::{Contrast, SafeMissing, Unsettled, Witness};
use plimsoll_model::units::grouped;

use crate::stopped::not_recovered;
use crate::terminal::counted;
use crate::time_text::rounded;

/// Returns the reason as a clause, without a full stop.
pub(crate) fn reason(why: &Unsettled) -> String {
    match why {
        Unsettled::Time { budget } => format!("the time budget of {} ended", rounded(*budget)),
        Unsettled::Trials { most } => format!("the limit of {most} trials was reached"),
        Unsettled::OneBound => {
            "one bound is missing: either no trial met the SLO or none missed it".to_owned()
        }
        Unsettled::NotOffered { near } => {
            format!("the interval ends near {near}, a load that this search may not offer")
        }
        Unsettled::NotConfirmed { good: 0, bad: 0 } => {
            "no longer trial was made at the lower bound".to_owned()
        }
        Unsettled::NotConfirmed { good, bad } => format!(
            "only {good} of {} at the lower bound met the SLO",
            counted((good + bad).into(), "longer trial")
        ),
        Unsettled::GoalOpen { goal, bad, all, together, load, further, is_cap } => {
            let observed = observed(goal, *bad, *all, *together, *load, *is_cap);
            let more = further.map_or_else(String::new, |further| {
                format!("; about {} more at {load} would tell", rounded(further))
            });
            format!("{observed}, too few to tell that from {}{more}", allowed(goal))
        }
        Unsettled::GoalMissed { goal, bad, all, together, load, is_cap } => {
            let observed = observed(goal, *bad, *all, *together, *load, *is_cap);
            format!("{observed}, over {}", allowed(goal))
        }
        Unsettled::Fell { before, after, beside } => with(
            format!(
                "the server carried {before} in the first overload and at most {after} in later ones"
            ),
            beside,
        ),
        Unsettled::Rose { before, after } => format!(
            "the server carried more and more, {before} in the first overload and {after} in the last one: it was \
             still warming up"
        ),
        Unsettled::MissedBelow { bad, all } => {
            format!("{bad} of {all} trials at loads far below the interval missed the SLO")
        }
        Unsettled::Spread { sd } => format!(
            "the capacity differs by {:.0} % from trial to trial (standard deviation)",
            sd * 100.0
        ),
        Unsettled::Contradiction { sds } => format!(
            "the verdicts contradict each other: they are {sds:.1} standard deviations from what any \
             one capacity explains"
        ),
        Unsettled::Wide { width } => {
            format!("the trials leave an interval that is {:.0} % wide", width * 100.0)
        }
        Unsettled::NotRecovered(state) => not_recovered(*state),
    }
}

/// Returns the remedy, as a clause, and the command that explains more.
pub(crate) fn advice(why: &Unsettled) -> String {
    let (id, text) = table! { why;
        Unsettled::Time { .. } => "time"; "give it more time with --budget",
        Unsettled::Trials { .. } => "trials"; "search with longer trials (--mode strict)",
        Unsettled::OneBound => "one-bound"; "move --min or --max, or give more time with --budget",
        Unsettled::NotOffered { .. } => "not-offered"; "move that limit (--min, --max), or use a larger generator",
        Unsettled::NotConfirmed { .. } => "not-confirmed";
            "search with longer trials (--mode strict), and look for what recurs in the page's graphs",
        Unsettled::GoalOpen { further: Some(_), .. } => "goal-open";
            "give it that time with --budget, or use a less rare goal",
        Unsettled::GoalOpen { further: None, .. } => "goal-open"; "use a less rare goal",
        Unsettled::GoalMissed { .. } => "goal-missed";
            "find what these operations have in common, or relax that goal",
        Unsettled::Fell { .. } => "fell";
            "restart the server and search again (lab --fresh-sut --repeat 6 does both)",
        Unsettled::Rose { .. } => "rose"; "search again while it is warm, or longer with --budget",
        Unsettled::MissedBelow { .. } => "missed-below"; "look for pauses and errors that do not depend on the load",
        Unsettled::Spread { .. } => "spread"; "use a quieter host, or longer trials (--mode strict)",
        Unsettled::Contradiction { .. } => "contradiction";
            "give the server its host alone, warm it up, or search longer with --budget",
        Unsettled::Wide { .. } => "wide"; "give it more time with --budget",
        Unsettled::NotRecovered(_) => "not-recovered"; "use a quieter host, or smaller storms (--max)",
    };
    format!("{text}; more: plimsoll explain {id}")
}

/// Returns the reason why there is no safe load, as a clause.
pub(crate) fn safe_missing(why: &SafeMissing) -> String {
    match why {
        SafeMissing::NoTime => {
            "the time budget left no time for trials with random arrivals".to_owned()
        }
        SafeMissing::NoneMet { trials, lowest } => format!(
            "none of {} with random arrivals met the SLO, down to {lowest}",
            counted((*trials).into(), "trial")
        ),
        SafeMissing::SetAside { why } => {
            format!("the trials with random arrivals do not count, because {}", reason(why))
        }
    }
}

/// Returns what was counted for a goal: `bad` of `all` operations, of which `together` come at a time.
fn observed(goal: &Goal, bad: u64, all: u64, together: f64, load: Rate, is_cap: bool) -> String {
    let what = match goal {
        Goal::Errors { .. } => "failed",
        Goal::Latency { .. } => "were late, failed or unsent",
    };
    let place = match is_cap {
        true => format!("at {load}, the highest load that may be offered"),
        false => format!("at loads up to {load}"),
    };
    let share = bad as f64 / all.max(1) as f64 * 100.0;
    let groups = match together > 1.0 {
        true => format!(", about {together:.0} at a time"),
        false => String::new(),
    };
    let (bad, all) = (grouped(bad), grouped(all));
    format!("for {goal}, {bad} of {all} operations {what} {place} ({share:.3} %{groups})")
}

fn allowed(goal: &Goal) -> String {
    format!("the {:.3} % that the goal allows", goal.bad_ratio_max() * 100.0)
}

/// Returns `text` with what was observed beside the trials.
fn with(text: String, beside: &[Contrast]) -> String {
    if beside.is_empty() {
        return text;
    }
    let one = |contrast: &Contrast| {
        let Contrast { witness, then, now } = *contrast;
        let share =
            |what: &str| format!("{what} {:.0} % instead of {:.0} %", now * 100.0, then * 100.0);
        match witness {
            Witness::Steal => share("steal"),
            Witness::Starved => share("the server's waits for a CPU"),
            Witness::RunDelay => share("the client's waits for a CPU"),
            Witness::HostCpu => share("CPU of this host"),
            Witness::CostUs => {
                format!("CPU time of the server {now:.1} us per answer instead of {then:.1} us")
            }
            Witness::YardstickUs => format!(
                "a fixed piece of work took {now:.0} us of this host's CPU instead of {then:.0} us"
            ),
        }
    };
    let beside: Vec<String> = beside.iter().map(one).collect();
    format!("{text}; where it carried less: {}", beside.join(", "))
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;

    use super::*;

    fn rate(per_s: f64) -> Rate {
        Rate::per_second(per_s).unwrap()
    }

    #[test]
    fn reasons_state_their_figures() {
        let cost = Contrast { witness: Witness::CostUs, then: 14.8, now: 17.7 };
        let steal = Contrast { witness: Witness::Steal, then: 0.0, now: 0.12 };
        let (before, after) = (rate(1_000.0), rate(700.0));
        let goal: Goal = "errors<0.1%".parse().unwrap();
        let (bad, all, load, is_cap) = (3, 1_000, rate(5.0), false);
        let further = Some(Nanos::from_secs(430));
        for (why, text) in [
            (
                Unsettled::Time { budget: Nanos::from_secs(210) },
                "the time budget of 3 m 30 s ended",
            ),
            (
                Unsettled::Fell { before, after, beside: vec![steal, cost] },
                "the server carried 1,000/s in the first overload and at most 700/s in later ones; where \
                 it carried less: steal 12 % instead of 0 %, CPU time of the server 17.7 us per answer \
                 instead of 14.8 us",
            ),
            (
                Unsettled::GoalOpen { goal, bad, all, together: 1.0, load, further, is_cap },
                "for errors<0.1%, 3 of 1,000 operations failed at loads up to 5.0/s (0.300 %), too few to \
                 tell that from the 0.100 % that the goal allows; about 7 m 10 s more at 5.0/s would \
                 tell",
            ),
            (
                Unsettled::GoalMissed { goal, bad, all, together: 3.0, load, is_cap: true },
                "for errors<0.1%, 3 of 1,000 operations failed at 5.0/s, the highest load that may be \
                 offered (0.300 %, about 3 at a time), over the 0.100 % that the goal allows",
            ),
            (
                Unsettled::NotConfirmed { good: 0, bad: 1 },
                "only 0 of 1 longer trial at the lower bound met the SLO",
            ),
        ] {
            assert_eq!(reason(&why), text);
        }
    }

    #[test]
    fn advice_names_the_section_of_its_reason() {
        let (load, goal) = (rate(700.0), "errors<0.1%".parse::<Goal>().unwrap());
        let (beside, all, together, is_cap) = (vec![], 1_000, 1.0, false);
        let open =
            |further| Unsettled::GoalOpen { goal, bad: 1, all, together, load, further, is_cap };
        for why in [
            Unsettled::Time { budget: Nanos::from_secs(60) },
            Unsettled::Trials { most: 60 },
            Unsettled::OneBound,
            Unsettled::NotOffered { near: load },
            Unsettled::NotConfirmed { good: 1, bad: 1 },
            open(None),
            open(Some(Nanos::from_secs(60))),
            Unsettled::GoalMissed { goal, bad: 9, all, together, load, is_cap },
            Unsettled::Fell { before: load, after: load, beside },
            Unsettled::Rose { before: load, after: load },
            Unsettled::MissedBelow { bad: 2, all: 9 },
            Unsettled::Spread { sd: 0.3 },
            Unsettled::Contradiction { sds: 4.0 },
            Unsettled::Wide { width: 0.7 },
        ] {
            let json = serde_json::to_value(&why).unwrap();
            let id = json["reason"].as_str().unwrap();
            let text = advice(&why);
            assert!(text.ends_with(&format!("; more: plimsoll explain {id}")), "{text}");
            assert!(!crate::explain::find(id).is_empty(), "{id}");
        }
    }

    #[test]
    fn a_missing_safe_load_has_its_reason() {
        let why = SafeMissing::NoneMet { trials: 3, lowest: rate(2_100.0) };
        let text = "none of 3 trials with random arrivals met the SLO, down to 2,100/s";
        assert_eq!(safe_missing(&why), text);
        let why = SafeMissing::SetAside { why: Unsettled::Spread { sd: 0.2 } };
        assert!(safe_missing(&why).contains("because the capacity differs by 20 %"));
    }
}
