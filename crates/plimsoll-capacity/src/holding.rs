//! From a hold to GOOD, BAD or INVALID: were all connections held, and did each one answer?

use plimsoll_model::hold::{Swept, bad_statuses};
use plimsoll_model::tally::{ErrorCounts, Tally};
use plimsoll_model::trial::{Check, Judgement, Level, Verdict};
use plimsoll_model::units::grouped;
use plimsoll_model::{ErrorClass, Fault};

/// What a hold came to.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// Connections that were asked for.
    pub asked: u64,
    /// Connections held at the end.
    pub held: u64,
    /// Everything that was counted.
    pub tally: &'a Tally,
    /// The sweep at the end; `None` when the hold ended before it.
    pub last_sweep: Option<Swept>,
    /// Why fewer were opened than asked for, when that was our own decision.
    pub cut_short: Option<&'a str>,
    /// As many as fit are as good as those that were asked for.
    pub accepts_less: bool,
    /// Agents that died.
    pub lost_agents: u32,
    /// The user stopped it.
    pub interrupted: bool,
}

/// Judges a hold.
///
/// INVALID when this machine was the limit, BAD when the server refused, lost or did not answer
/// connections. What this machine lost is no reason to call the server bad; what the server lost
/// is one, even if connections were opened in the place of the lost ones.
pub fn judge_hold(held: &Held<'_>) -> Judgement {
    let mut checks = Vec::new();
    let tally = held.tally;
    checks.extend(own_limits(held));
    checks.push(all_held(held));
    checks.push(none_lost(&tally.losses));
    checks.extend(all_answered(held));
    checks.extend(statuses(tally));
    checks.extend(accounting(tally));
    checks.extend(late(tally));
    let is_own = |check: &Check| OWN.contains(&check.check.as_str());
    let failed =
        |own: bool| checks.iter().any(|check| check.level == Level::Fail && is_own(check) == own);
    let verdict = match (failed(true), failed(false)) {
        (true, _) => Verdict::Invalid,
        (false, true) => Verdict::Bad,
        (false, false) => Verdict::Good,
    };
    // The worst first; the sort keeps the order among equals.
    checks.sort_by_key(|check| std::cmp::Reverse(check.level));
    let missing = held.asked.saturating_sub(held.held) as f64;
    let loss_ratio = if held.asked > 0 { missing / held.asked as f64 } else { 0.0 };
    Judgement { verdict, reasons: checks, loss_ratio }
}

/// Checks that speak against this machine, not against the server.
const OWN: &[&str] = &["local-errors", "agents", "machine", "accounting"];

fn check(name: &str, value: String, limit: &str, level: Level) -> Check {
    Check { check: name.to_owned(), value, limit: limit.to_owned(), level }
}

const fn fail_if(condition: bool) -> Level {
    if condition { Level::Fail } else { Level::Pass }
}

/// What this machine ran out of, lost, or decided not to try.
fn own_limits(held: &Held<'_>) -> Vec<Check> {
    let tally = held.tally;
    let counts = [&tally.errors, &tally.connection_errors, &tally.losses];
    let local: u64 = counts.into_iter().map(of_this_machine).sum();
    let mut checks = vec![check(
        "local-errors",
        grouped(local),
        "none",
        // An agent's own check says more about the ones it lost.
        fail_if(local > 0 && held.lost_agents == 0),
    )];
    if held.lost_agents > 0 {
        checks.push(check("agents", format!("{} lost", held.lost_agents), "none", Level::Fail));
    }
    if let Some(why) = held.cut_short {
        let level = if held.accepts_less { Level::Warn } else { Level::Fail };
        checks.push(check("machine", why.to_owned(), "takes all that were asked for", level));
    }
    checks
}

fn of_this_machine(counts: &ErrorCounts) -> u64 {
    let ours = counts.iter().filter(|(class, _)| class.fault() == Fault::Local);
    ours.map(|(_, count)| count).sum()
}

fn all_held(held: &Held<'_>) -> Check {
    let value = format!("{} of {}", grouped(held.held), grouped(held.asked));
    // Whoever stopped it before the ramp was over did not want them all.
    let missing = held.held < held.asked && !held.interrupted && held.cut_short.is_none();
    check("held", value, "all that were asked for", fail_if(missing))
}

fn none_lost(losses: &ErrorCounts) -> Check {
    let lost = losses.total() - of_this_machine(losses) - losses.get(ErrorClass::Interrupted);
    check("lost", grouped(lost), "none", fail_if(lost > 0))
}

fn all_answered(held: &Held<'_>) -> Option<Check> {
    let swept = held.last_sweep?;
    let value = format!("{} of {}", grouped(swept.answered), grouped(swept.connections));
    let level = fail_if(swept.answered < swept.connections || swept.connections == 0);
    Some(check("answered", value, "every connection in the last sweep", level))
}

/// A 4xx is what a wrong path gets; with a 5xx the server says that it failed.
fn statuses(tally: &Tally) -> Option<Check> {
    let failed = tally.errors.get(ErrorClass::Status5xx);
    let level = if failed > 0 { Level::Fail } else { Level::Warn };
    (bad_statuses(&tally.errors) > 0).then(|| {
        let refused = tally.errors.get(ErrorClass::Status4xx);
        check(
            "status",
            format!("{} answers of 4xx, {} of 5xx", grouped(refused), grouped(failed)),
            "below 400",
            level,
        )
    })
}

fn accounting(tally: &Tally) -> Option<Check> {
    (!tally.balances()).then(|| {
        let ended = tally.ok + tally.errors_total() + tally.unsent;
        let value = format!("{} scheduled, {} ended", grouped(tally.scheduled), grouped(ended));
        check("accounting", value, "every request ends in one class", Level::Fail)
    })
}

fn late(tally: &Tally) -> Option<Check> {
    let slow = tally.late + tally.unsent;
    (slow > 0).then(|| {
        let value = format!(
            "{} answered late, {} not sent because the one before was still open",
            grouped(tally.late),
            grouped(tally.unsent)
        );
        check("late", value, "none", Level::Warn)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(tally: &Tally) -> Held<'_> {
        Held {
            asked: 100,
            held: 100,
            tally,
            last_sweep: Some(Swept { connections: 100, answered: 100 }),
            cut_short: None,
            accepts_less: false,
            lost_agents: 0,
            interrupted: false,
        }
    }

    fn worst(held: &Held<'_>) -> (Verdict, String) {
        let judgement = judge_hold(held);
        (judgement.verdict, judgement.reasons[0].check.clone())
    }

    #[test]
    fn all_held_and_answering_is_good() {
        let tally = Tally { scheduled: 200, ok: 200, late: 3, ..Tally::default() };
        let judgement = judge_hold(&held(&tally));
        assert_eq!(judgement.verdict, Verdict::Good);
        let warned: Vec<_> =
            judgement.reasons.iter().filter(|check| check.level != Level::Pass).collect();
        assert!(matches!(warned[..], [late] if late.check == "late"), "{warned:?}");
    }

    #[test]
    fn the_server_is_blamed_for_what_it_did() {
        let with = |class, count| {
            let mut tally = Tally::default();
            tally.losses.add(class, count);
            tally
        };
        let lost = with(ErrorClass::ResetByPeer, 1);
        // Even if another one was opened in its place.
        assert_eq!(worst(&held(&lost)), (Verdict::Bad, "lost".to_owned()));
        let silent = Swept { connections: 100, answered: 99 };
        let none = Tally::default();
        let silent = Held { last_sweep: Some(silent), ..held(&none) };
        assert_eq!(worst(&silent), (Verdict::Bad, "answered".to_owned()));
        let mut refused = Tally::default();
        refused.connection_errors.add(ErrorClass::ConnectRefused, 60);
        let refused = Held { held: 40, last_sweep: None, ..held(&refused) };
        assert_eq!(worst(&refused), (Verdict::Bad, "held".to_owned()));
        let mut broken = Tally { scheduled: 1, ..Tally::default() };
        broken.errors.add(ErrorClass::Status5xx, 1);
        assert_eq!(worst(&held(&broken)), (Verdict::Bad, "status".to_owned()));
        let mut wrong_path = Tally { scheduled: 1, ..Tally::default() };
        wrong_path.errors.add(ErrorClass::Status4xx, 1);
        assert_eq!(worst(&held(&wrong_path)), (Verdict::Good, "status".to_owned()));
    }

    #[test]
    fn our_own_limits_never_count_against_the_server() {
        let mut ports = Tally::default();
        ports.connection_errors.add(ErrorClass::LocalPorts, 60);
        let ports = Held { held: 40, ..held(&ports) };
        assert_eq!(worst(&ports), (Verdict::Invalid, "local-errors".to_owned()));
        let mut agent = Tally::default();
        agent.losses.add(ErrorClass::AgentLost, 50);
        let agent = Held { held: 50, lost_agents: 1, ..held(&agent) };
        assert_eq!(worst(&agent), (Verdict::Invalid, "agents".to_owned()));
        let none = Tally::default();
        let cut = Held { held: 50, cut_short: Some("memory would end"), ..held(&none) };
        assert_eq!(worst(&cut), (Verdict::Invalid, "machine".to_owned()));
        let up_to = Held { accepts_less: true, ..cut };
        assert_eq!(worst(&up_to), (Verdict::Good, "machine".to_owned()));
        let unbalanced = Tally { scheduled: 1, ..Tally::default() };
        assert_eq!(worst(&held(&unbalanced)), (Verdict::Invalid, "accounting".to_owned()));
    }

    #[test]
    fn an_interrupt_before_the_top_is_nobodys_fault() {
        let none = Tally::default();
        let stopped = Held { held: 40, last_sweep: None, interrupted: true, ..held(&none) };
        assert_eq!(judge_hold(&stopped).verdict, Verdict::Good);
    }
}
