//! Whether every operation ended in exactly one class, and the server saw as many as were sent.

use serde_json::Value;

use crate::bench::claim::Claim;
use crate::bench::truth::shot::Shot;

/// The sums of all runs so far.
#[derive(Default)]
pub(super) struct Accounting {
    /// Runs whose classes were looked at, and those of them that do not add up.
    runs: u32,
    unbalanced: Vec<String>,
    /// Runs whose server logged, and those of them whose log is of another length.
    logged: u32,
    differing: Vec<String>,
}

impl Accounting {
    pub(super) fn add(&mut self, name: &str, shot: &Shot) {
        let summary = &shot.finished.summary;
        self.runs += 1;
        if let Some(sums) = imbalance(summary) {
            self.unbalanced.push(format!("{name}: {sums}"));
        }
        if let Some(log) = &shot.log {
            self.logged += 1;
            let sent = count(summary, "ok").zip(count(summary, "errors")).map(|(ok, bad)| ok + bad);
            if sent != u64::try_from(log.len()).ok() {
                self.differing.push(format!("{name}: {sent:?} sent, {} served", log.len()));
            }
        }
    }

    pub(super) fn claims(&self) -> [Claim; 2] {
        let claim = |what: &str, aim: &str, runs: u32, faults: &[String]| {
            if runs == 0 {
                return Claim::not_measured(what, aim, "no figures");
            }
            let good = runs as usize - faults.len();
            let first = faults.first().map(|fault| format!("; {fault}")).unwrap_or_default();
            Claim::new(what, aim, format!("in {good} of {runs}{first}"), faults.is_empty())
        };
        [
            claim(
                "scheduled = ok + errors + unsent, also interrupted or with the server killed",
                "in every run",
                self.runs,
                &self.unbalanced,
            ),
            claim(
                "the reference server counted ok + errors requests",
                "in every run it survived",
                self.logged,
                &self.differing,
            ),
        ]
    }
}

/// What is wrong with the sums of a summary.
fn imbalance(summary: &Value) -> Option<String> {
    let classes = ["scheduled", "ok", "errors", "unsent"].map(|name| count(summary, name));
    let [Some(scheduled), Some(ok), Some(errors), Some(unsent)] = classes else {
        return Some("a count is missing".to_owned());
    };
    (scheduled != ok + errors + unsent)
        .then(|| format!("{scheduled} is not {ok} + {errors} + {unsent}"))
}

fn count(summary: &Value, name: &str) -> Option<u64> {
    summary[name].as_u64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::bench::claim::Outcome;
    use crate::bench::invocation::Finished;

    use super::*;

    fn add(accounting: &mut Accounting, summary: Value, served: Option<usize>) {
        let log = served.map(|served| vec![0.01; served]);
        accounting.add("run", &Shot { finished: Finished { summary, seconds: 1.0 }, log });
    }

    fn outcomes(accounting: &Accounting) -> [Outcome; 2] {
        accounting.claims().map(|claim| claim.outcome)
    }

    #[test]
    fn sums_must_agree_on_both_sides() {
        let summary = |ok| json!({"scheduled": 10, "ok": ok, "errors": 2, "unsent": 1});
        let mut accounting = Accounting::default();
        assert_eq!(outcomes(&accounting), [Outcome::NotMeasured; 2]);
        add(&mut accounting, summary(7), None);
        assert_eq!(outcomes(&accounting), [Outcome::Reached, Outcome::NotMeasured]);
        add(&mut accounting, summary(7), Some(9));
        assert_eq!(outcomes(&accounting), [Outcome::Reached; 2]);
        add(&mut accounting, summary(7), Some(10));
        add(&mut accounting, summary(8), None);
        assert_eq!(outcomes(&accounting), [Outcome::NotReached; 2]);
        let [sums, served] = accounting.claims().map(|claim| claim.found);
        assert_eq!(sums, "in 3 of 4; run: 10 is not 8 + 2 + 1");
        assert_eq!(served, "in 1 of 2; run: Some(9) sent, 10 served");
    }

    #[test]
    fn a_missing_count_is_a_fault() {
        assert_eq!(imbalance(&json!({"scheduled": 0})).as_deref(), Some("a count is missing"));
    }
}
