//! `cargo xtask simulate`: runs the simulated searches and writes their tables into
//! docs/search-quality.md, between markers.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

const PAGE: &str = "docs/search-quality.md";
const END: &str = "<!-- end -->";
/// What is between these and the next end is replaced.
const SECTIONS: [&str; 3] = ["<!-- servers -->", "<!-- generators -->", "<!-- alarms -->"];

/// Runs every search and rewrites the page.
pub(crate) fn run() -> Result<()> {
    let output = Command::new("cargo")
        .args(["test", "--release", "-p", "plimsoll-capacity", "--test", "sim_quality", "--"])
        .args(["tables", "--exact", "--ignored", "--nocapture"])
        .output()
        .context("cannot run cargo test")?;
    if !output.status.success() {
        bail!("the simulation failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let printed = String::from_utf8(output.stdout).context("the tables are not UTF-8")?;
    let mut page = fs::read_to_string(PAGE).with_context(|| format!("cannot read {PAGE}"))?;
    for section in SECTIONS {
        let text =
            between(&printed, section).with_context(|| format!("{section} was not printed"))?;
        page = replaced(&page, section, text)
            .with_context(|| format!("{PAGE} has no {section} followed by {END}"))?;
    }
    fs::write(PAGE, page).with_context(|| format!("cannot write {PAGE}"))
}

/// What stands between `marker` and the next end.
fn between<'a>(text: &'a str, marker: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(marker)?;
    after.split_once(END).map(|(inside, _)| inside)
}

/// The page with another text behind `marker`.
fn replaced(page: &str, marker: &str, text: &str) -> Option<String> {
    let (before, after) = page.split_once(marker)?;
    let (_, rest) = after.split_once(END)?;
    Some(format!("{before}{marker}\n\n{}\n\n{END}{rest}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
