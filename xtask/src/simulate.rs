//! `cargo xtask simulate`: runs the simulated searches and writes their tables into
//! docs/explanation/search-quality.md, between markers.
//!
//! `--seeds N` searches of every row in quick mode, `--budget-seeds N` with other budgets,
//! `--stopped-seeds N` stopped by their users, `--standard-seeds N` in the longer modes and of the faults of generators
//! (0 leaves their tables alone), the seeds from `--first N` on; `--only 'WORD|WORD'` prints the rows of the servers
//! and generators with one of these in their names, and leaves the page alone.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

const PAGE: &str = "docs/explanation/search-quality.md";
const END: &str = "<!-- end -->";
/// Markers of the sections that are replaced, if they were requested.
const SECTIONS: [&str; 7] = [
    "<!-- quick -->",
    "<!-- hosts -->",
    "<!-- budgets -->",
    "<!-- stopped -->",
    "<!-- standard -->",
    "<!-- generators -->",
    "<!-- alarms -->",
];

/// Flags, each with the variable that passes its value to the test that makes the tables.
const FLAGS: [(&str, &str); 6] = [
    ("--seeds", "SIMULATE_SEEDS"),
    ("--budget-seeds", "SIMULATE_BUDGET_SEEDS"),
    ("--stopped-seeds", "SIMULATE_STOPPED_SEEDS"),
    ("--standard-seeds", "SIMULATE_STANDARD_SEEDS"),
    ("--first", "SIMULATE_FIRST"),
    (ONLY, "SIMULATE_ONLY"),
];
const ONLY: &str = "--only";

/// Returns the variables that `flags` ask for.
fn variables(flags: &[&str]) -> Result<Vec<(&'static str, String)>> {
    let each = flags.chunks(2).map(|pair| {
        let known = FLAGS.iter().find(|(flag, _)| *flag == pair[0]);
        let (_, variable) = known.with_context(|| format!("unknown flag {}", pair[0]))?;
        let value = pair.get(1).with_context(|| format!("{} takes a value", pair[0]))?;
        Ok((*variable, (*value).to_owned()))
    });
    each.collect()
}

/// Runs every search and rewrites the page.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let output = Command::new("cargo")
        .envs(variables(flags)?)
        .args(["test", "--release", "-p", "plimsoll-capacity", "--test", "sim_quality", "--"])
        .args(["tables", "--exact", "--ignored", "--nocapture"])
        .output()
        .context("cannot run cargo test")?;
    if !output.status.success() {
        bail!("the simulation failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let printed = String::from_utf8(output.stdout).context("the tables are not UTF-8")?;
    if flags.contains(&ONLY) {
        for section in SECTIONS {
            print!("{}", between(&printed, section).unwrap_or_default());
        }
        return Ok(());
    }
    let mut page = fs::read_to_string(PAGE).with_context(|| format!("cannot read {PAGE}"))?;
    for section in SECTIONS {
        let Some(text) = between(&printed, section) else { continue };
        page = replaced(&page, section, text)
            .with_context(|| format!("{PAGE} has no {section} followed by {END}"))?;
    }
    fs::write(PAGE, page).with_context(|| format!("cannot write {PAGE}"))
}

/// Returns the text between `marker` and the next end.
fn between<'a>(text: &'a str, marker: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(marker)?;
    after.split_once(END).map(|(inside, _)| inside)
}

/// Returns the page with another text behind `marker`.
fn replaced(page: &str, marker: &str, text: &str) -> Option<String> {
    let (before, after) = page.split_once(marker)?;
    let (_, rest) = after.split_once(END)?;
    Some(format!("{before}{marker}\n\n{}\n\n{END}{rest}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_variables() {
        let told = variables(&["--seeds", "20", "--only", "pause"]).expect("known");
        assert_eq!(told[0], ("SIMULATE_SEEDS", "20".to_owned()));
        assert_eq!(told[1].0, "SIMULATE_ONLY");
        assert!(variables(&["--seeds"]).is_err() && variables(&["--sed", "1"]).is_err());
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let page = "# A\n<!-- servers -->\nold\n<!-- end -->\ntext\n<!-- alarms --><!-- end -->\n";
        let new = replaced(page, "<!-- servers -->", "\n| new |\n").expect("marked");
        let expected = page.replace("\nold\n", "\n\n| new |\n\n");
        assert_eq!(new, expected);
        assert_eq!(replaced(&new, "<!-- servers -->", "| new |").as_ref(), Some(&new));
        assert_eq!(between(&new, "<!-- servers -->"), Some("\n\n| new |\n\n"));
        assert_eq!(replaced(page, "<!-- generators -->", ""), None);
    }
}
