//! The judgement of a hold: GOOD, BAD or INVALID, by the connections that were held and answered.
//!
//! [`judge_hold`] turns the counts of a hold ([`Held`]) into one [`Check`] per question: limits of this host,
//! connections held, lost and answered, statuses, accounting, lateness and growth of memory. Most checks are one
//! function of this file. A connection that the server lost counts even if another was opened in its place. Start
//! reading at [`judge_hold`].

use plimsoll_model::ErrorClass;
use plimsoll_model::cycles::{Growth, GrowthLimit};
use plimsoll_model::hold::{Swept, bad_statuses};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, CheckId, Judgement, Level, Measure, Unit};

use crate::losses::lost_by_peer;
use crate::validity::local_held;

/// The result of a hold.
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
    /// `true` if a smaller number of connections is accepted if no more fit.
    pub accepts_less: bool,
    /// Agents that were lost.
    pub lost_agents: u32,
    /// The user stopped it.
    pub interrupted: bool,
    /// The growth of the server's memory per cycle, and the most that it may be.
    pub growth: Option<(Growth, GrowthLimit)>,
}

/// Judges a hold.
///
/// INVALID when this host was the limit, BAD when the server refused, lost or did not answer
/// connections. What this host lost is no reason to call the server bad; what the server lost
/// is one, even if connections were opened in the place of the lost ones.
pub fn judge_hold(held: &Held<'_>) -> Judgement {
    let tally = held.tally;
    let mut checks = own_limits(held);
    checks.push(all_held(held));
    let lost = lost_by_peer(&tally.failures.lost_held);
    let measures = [Measure::count("", lost).at_most(0.0)];
    checks.push(Check::new(CheckId::Lost, fail_if(lost > 0), measures));
    checks.extend(all_answered(held));
    checks.extend(statuses(tally));
    checks.extend(accounting(tally));
    checks.extend(late(tally));
    checks.extend(held.growth.map(|(growth, limit)| memory_growth(growth, limit)));
    let missing = held.asked.saturating_sub(held.held) as f64;
    let loss_ratio = if held.asked > 0 { missing / held.asked as f64 } else { 0.0 };
    Judgement::of(checks, loss_ratio)
}

const fn fail_if(condition: bool) -> Level {
    Level::of(condition, false)
}

/// Checks the resources of this host: exhausted, lost, or not tried.
fn own_limits(held: &Held<'_>) -> Vec<Check> {
    let mut checks = vec![local_held(held.tally)];
    if held.lost_agents > 0 {
        // The check on agents covers the connections that a lost agent had.
        checks[0].level = Level::Pass;
        let lost = Measure::count("lost", held.lost_agents.into()).at_most(0.0);
        checks.push(Check::new(CheckId::Agents, Level::Fail, [lost]));
    }
    checks.extend(held.cut_short.map(|why| {
        let level = if held.accepts_less { Level::Warn } else { Level::Fail };
        Check { level, ..Check::failed(CheckId::Machine, why) }
    }));
    checks
}

fn all_held(held: &Held<'_>) -> Check {
    let seen = Measure::count("", held.held).at_least(held.asked as f64);
    // An interrupt during the ramp ends the hold early.
    let missing = held.held < held.asked && !held.interrupted && held.cut_short.is_none();
    Check::new(CheckId::Held, fail_if(missing), [seen])
}

fn all_answered(held: &Held<'_>) -> Option<Check> {
    // Of no connections there is nothing to state; the other checks fail for their loss.
    let swept = held.last_sweep.filter(|swept| swept.connections > 0)?;
    let level = fail_if(swept.answered < swept.connections);
    let seen = Measure::count("in the last sweep", swept.answered);
    Some(Check::new(CheckId::Answered, level, [seen.at_least(swept.connections as f64)]))
}

/// Checks the statuses: a 4xx is the answer to a wrong path; a 5xx means that the server failed.
fn statuses(tally: &Tally) -> Option<Check> {
    let failed = tally.failures.operations.get(ErrorClass::Status5xx);
    let refused = tally.failures.operations.get(ErrorClass::Status4xx);
    let measures = [
        Measure::count("answers of 5xx", failed).at_most(0.0),
        Measure::count("of 4xx", refused).at_most(0.0),
    ];
    (bad_statuses(&tally.failures.operations) > 0)
        .then(|| Check::new(CheckId::Status, Level::of(failed > 0, true), measures))
}

fn accounting(tally: &Tally) -> Option<Check> {
    (!tally.balances()).then(|| {
        let ended = tally.ok + tally.errors_total() + tally.unsent;
        let missing = Measure::count("not in exactly one class", ended.abs_diff(tally.scheduled));
        Check::new(CheckId::Accounting, Level::Fail, [missing.at_most(0.0)])
    })
}

/// Fails if the whole interval is above the limit, warns if a part of it is.
fn memory_growth(growth: Growth, limit: GrowthLimit) -> Check {
    let max = limit.bytes as f64;
    let level = Level::of(growth.low > max, growth.high > max);
    let of = |name, value| Measure::new(name, value, Unit::Bytes);
    let measures = [of("at least", growth.low).at_most(max), of("at most", growth.high)];
    Check::new(CheckId::MemoryGrowth, level, measures)
}

fn late(tally: &Tally) -> Option<Check> {
    let unsent = tally.unsent.saturating_sub(tally.unsent_lost);
    let measures = [
        Measure::count("answered late", tally.late).at_most(0.0),
        Measure::count("not sent, with the one before still open", unsent).at_most(0.0),
    ];
    (tally.late + unsent > 0).then(|| Check::new(CheckId::Late, Level::Warn, measures))
}

#[cfg(test)]
mod tests {
    use plimsoll_model::trial::Verdict;

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
            growth: None,
        }
    }

    fn worst(held: &Held<'_>) -> (Verdict, CheckId) {
        let judgement = judge_hold(held);
        (judgement.verdict, judgement.reasons[0].id.clone())
    }

    #[test]
    fn all_held_and_answering_is_good() {
        let tally = Tally { scheduled: 200, ok: 200, late: 3, ..Tally::default() };
        let judgement = judge_hold(&held(&tally));
        assert_eq!(judgement.verdict, Verdict::Good);
        let warned: Vec<_> =
            judgement.reasons.iter().filter(|check| check.level != Level::Pass).collect();
        assert!(matches!(warned[..], [late] if late.id == CheckId::Late), "{warned:?}");
    }

    #[test]
    fn the_server_is_blamed_for_what_it_did() {
        let with = |class, count| {
            let mut tally = Tally::default();
            tally.failures.lost_held.add(class, count);
            tally
        };
        let lost = with(ErrorClass::ResetByPeer, 1);
        // Even if another one was opened in its place.
        assert_eq!(worst(&held(&lost)), (Verdict::Bad, CheckId::Lost));
        let silent = Swept { connections: 100, answered: 99 };
        let none = Tally::default();
        let silent = Held { last_sweep: Some(silent), ..held(&none) };
        assert_eq!(worst(&silent), (Verdict::Bad, CheckId::Answered));
        // Nothing is stated of the answers of no connections.
        let empty = Some(Swept { connections: 0, answered: 0 });
        let empty = Held { held: 0, last_sweep: empty, ..held(&lost) };
        assert!(judge_hold(&empty).reasons.iter().all(|check| check.id != CheckId::Answered));
        assert_eq!(judge_hold(&empty).verdict, Verdict::Bad);
        let mut refused = Tally::default();
        refused.failures.attempts.add(ErrorClass::ConnectRefused, 60);
        let refused = Held { held: 40, last_sweep: None, ..held(&refused) };
        assert_eq!(worst(&refused), (Verdict::Bad, CheckId::Held));
        let mut broken = Tally { scheduled: 1, ..Tally::default() };
        broken.failures.operations.add(ErrorClass::Status5xx, 1);
        assert_eq!(worst(&held(&broken)), (Verdict::Bad, CheckId::Status));
        let mut wrong_path = Tally { scheduled: 1, ..Tally::default() };
        wrong_path.failures.operations.add(ErrorClass::Status4xx, 1);
        assert_eq!(worst(&held(&wrong_path)), (Verdict::Good, CheckId::Status));
    }

    #[test]
    fn our_own_limits_never_count_against_the_server() {
        let mut ports = Tally::default();
        ports.failures.attempts.add(ErrorClass::LocalPorts, 60);
        let ports = Held { held: 40, ..held(&ports) };
        assert_eq!(worst(&ports), (Verdict::Invalid, CheckId::LocalErrors));
        let mut agent = Tally::default();
        agent.failures.lost_held.add(ErrorClass::AgentLost, 50);
        let agent = Held { held: 50, lost_agents: 1, ..held(&agent) };
        assert_eq!(worst(&agent), (Verdict::Invalid, CheckId::Agents));
        let none = Tally::default();
        let cut = Held { held: 50, cut_short: Some("memory runs out"), ..held(&none) };
        assert_eq!(worst(&cut), (Verdict::Invalid, CheckId::Machine));
        let up_to = Held { accepts_less: true, ..cut };
        assert_eq!(worst(&up_to), (Verdict::Good, CheckId::Machine));
        let unbalanced = Tally { scheduled: 1, ..Tally::default() };
        assert_eq!(worst(&held(&unbalanced)), (Verdict::Invalid, CheckId::Accounting));
    }

    #[test]
    fn requests_of_lost_connections_do_not_count_as_late() {
        let tally = Tally { scheduled: 2, unsent: 2, unsent_lost: 2, ..Tally::default() };
        let judgement = judge_hold(&held(&tally));
        assert!(judgement.reasons.iter().all(|check| check.id != CheckId::Late));
    }

    #[test]
    fn an_interrupt_before_the_top_is_nobodys_fault() {
        let none = Tally::default();
        let stopped = Held { held: 40, last_sweep: None, interrupted: true, ..held(&none) };
        assert_eq!(judge_hold(&stopped).verdict, Verdict::Good);
    }
}
