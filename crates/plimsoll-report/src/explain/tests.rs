//! That every id of the model has a section, and every section an id.

use std::collections::BTreeSet;

use plimsoll_model::ErrorClass;
use plimsoll_model::cause::Cause;
use plimsoll_model::reason::Reason;
use plimsoll_model::trial::{Outcome, Unsettled};

use super::*;

/// Words of the report that have a section: those of the design and of reports.
const WORDS: &[&str] = &[
    "target",
    "sut",
    "open-loop",
    "closed-loop",
    "intended-start",
    "corrected",
    "uncorrected",
    "deadline",
    "linger",
    "trial",
    "verdict",
    "good",
    "bad",
    "invalid",
    "wire",
    "receive-lag",
    "tipping-point",
    "safe-load",
    "storm",
    "axis",
    "cause",
    "agent",
    "run",
    "slo",
    "goal",
    "unsent",
    "ok",
    "error",
    "confidence",
    "spread",
    "drift",
    "confirmed",
    "predicted",
    "correlated",
    "refuted",
    "regime",
    "yardstick",
    "duet",
    "goodput",
    "gate",
    "baseline",
    "heartbeat",
];

fn ids(noun: &str) -> BTreeSet<&'static str> {
    let of_kind = all().filter(|section| section.noun == noun);
    let all: Vec<_> = of_kind.map(|section| section.id).collect();
    let once: BTreeSet<_> = all.iter().copied().collect();
    assert_eq!(all.len(), once.len(), "an id of {noun:?} is there twice: {all:?}");
    once
}

fn set(names: impl IntoIterator<Item = impl Into<String>>) -> BTreeSet<String> {
    names.into_iter().map(Into::into).collect()
}

/// Returns the name of an outcome in JSON. A new one does not compile without a name here.
const fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Regular => "regular",
        Outcome::Bounds { .. } => "bounds",
        Outcome::NotReached { .. } => "not-reached",
        Outcome::FailsAtMinimum => "fails-at-minimum",
        Outcome::GeneratorLimited { .. } => "generator-limited",
        Outcome::Unconfirmed { .. } => "unconfirmed",
        Outcome::NetworkLimited { .. } => "network-limited",
        Outcome::Unstable { .. } => "unstable",
        Outcome::Undecided { .. } => "undecided",
        Outcome::Unfinished { .. } => "unfinished",
    }
}

const fn unsettled(why: &Unsettled) -> &'static str {
    match why {
        Unsettled::Time { .. } => "time",
        Unsettled::Trials { .. } => "trials",
        Unsettled::OneBound => "one-bound",
        Unsettled::NotOffered { .. } => "not-offered",
        Unsettled::NotConfirmed { .. } => "not-confirmed",
        Unsettled::GoalOpen { .. } => "goal-open",
        Unsettled::GoalMissed { .. } => "goal-missed",
        Unsettled::Fell { .. } => "fell",
        Unsettled::Rose { .. } => "rose",
        Unsettled::MissedBelow { .. } => "missed-below",
        Unsettled::Spread { .. } => "spread",
        Unsettled::Contradiction { .. } => "contradiction",
        Unsettled::Wide { .. } => "wide",
        Unsettled::NotRecovered(_) => "not-recovered",
    }
}

const fn reason(reason: &Reason) -> &'static str {
    match reason {
        Reason::Status { .. } => "status",
        Reason::Unrequested { .. } => "unrequested",
        Reason::Surplus => "surplus",
        Reason::Unanswered { .. } => "unanswered",
        Reason::HandshakeCut { .. } => "handshake-cut",
        Reason::NotTls => "not-tls",
        Reason::Alert { .. } => "alert",
        Reason::Certificate { .. } => "certificate",
        Reason::Grpc { .. } => "grpc",
        Reason::Mqtt { .. } => "mqtt",
        Reason::Other { .. } => "other",
    }
}

/// Names that a `match` of this file gives, read from its text.
fn matched(function: &str) -> BTreeSet<String> {
    let text = include_str!("tests.rs");
    let (_, body) = text.split_once(&format!("const fn {function}(")).expect("the function");
    let (body, _) = body.split_once("\n}").expect("its end");
    let names = body.split("=> \"").skip(1).filter_map(|rest| rest.split_once('"'));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_id_of_the_model_has_a_section_and_no_section_is_without_an_id() {
    assert_eq!(set(ids("check")), set(CheckId::NAMED.iter().map(|id| id.name())));
    assert_eq!(set(ids("cause")), set(Cause::ALL.iter().map(|cause| cause.name())));
    assert_eq!(set(ids("error class")), set(ErrorClass::ALL.iter().map(|class| class.name())));
    let outcomes: BTreeSet<_> = matched("outcome").union(&matched("unsettled")).cloned().collect();
    assert_eq!(set(ids("outcome of a search")), outcomes);
    assert_eq!(set(ids("reason of a failure")), matched("reason"));
    let words = ids("word");
    assert!(WORDS.iter().all(|word| words.contains(word)), "{words:?}");
}

#[test]
fn names_in_the_texts_are_those_of_json() {
    assert_eq!(
        serde_json::to_value(Outcome::FailsAtMinimum).unwrap(),
        outcome(&Outcome::FailsAtMinimum)
    );
    let why = Unsettled::Wide { width: 0.7 };
    assert_eq!(serde_json::to_value(&why).unwrap()["reason"], unsettled(&why));
    for one in [Reason::Surplus, Reason::NotTls, Reason::HandshakeCut { reset: true }] {
        assert_eq!(serde_json::to_value(&one).unwrap()["kind"], reason(&one));
    }
}

#[test]
fn every_section_has_a_meaning_and_all_but_words_have_all_parts() {
    for section in all() {
        assert!(!section.summary().is_empty(), "{section:?}");
        assert!(section.id.len() <= 22, "{section:?}");
        for label in LABELS.into_iter().filter(|_| section.noun != "word") {
            let part = section.part(label);
            assert!(part.is_some_and(|part| part.len() > 5), "{} has no {label}", section.id);
        }
        // A label that is misspelled would be printed by no one.
        let labels = section.text.matches("\n- **").count();
        let own = LABELS.iter().filter(|label| section.text.contains(&format!("\n- **{label}**:")));
        assert_eq!(labels, own.count(), "{}", section.id);
    }
}

#[test]
fn pages_are_80_columns_wide_and_plain() {
    let wide = Style { width: 200, ..Style::default() };
    for section in all() {
        let page = section.text(wide);
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        assert!(!page.contains("**") && !page.contains("](") && !page.contains('\x1b'), "{page}");
    }
    let list = list(wide);
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    assert!(all().all(|section| list.contains(&format!("  {}", section.id))));
}

#[test]
fn ids_are_found_as_people_type_them() {
    for (typed, id, families) in [
        ("98", "98", 1),
        ("safe load", "safe-load", 1),
        ("SEND_LAG", "send-lag", 1),
        ("p99<50ms", "goal", 1),
        // A check, and the reason of a failure.
        ("unrequested", "unrequested", 2),
    ] {
        let found = find(typed);
        assert_eq!(found.len(), families, "{typed}");
        assert!(found.iter().all(|section| section.id == id), "{typed}");
    }
    assert!(find("nonsense").is_empty() && find("").is_empty());
    assert_eq!(nearest("send-lga").first(), Some(&"send-lag"));
    assert_eq!(nearest("serverCPU").first(), Some(&"server-cpu"));
    assert!(nearest("port").contains(&"local-ports"));
    assert!(nearest("qqqqqqqqqqqq").is_empty());
}
