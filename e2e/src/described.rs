//! Compares what every run leaves behind with the schemas that programs rely on.

use std::fs;
use std::path::Path;

use serde_json::Value;

const SUMMARY: &str = include_str!("../../crates/plimsoll-report/schemas/summary.json");
const PLAN: &str = include_str!("../../crates/plimsoll-report/schemas/plan.json");
/// Archives of this form; a test may write another one.
const ARCHIVE: &str = "plimsoll.archive/1";
/// Folders below that of a run: an archive, and the parts of a comparison or of repeated searches in it.
const DEPTH_MAX: u32 = 4;

/// Fails if a summary or the plan of an archive below `folder` is not described by its schema.
pub(crate) fn check_archives(folder: &Path) {
    let mut faults = Vec::new();
    check(folder, DEPTH_MAX, &mut faults);
    assert!(faults.is_empty(), "{faults:#?}");
}

fn check(folder: &Path, depth: u32, faults: &mut Vec<String>) {
    let ours = read(&folder.join("manifest.json")).filter(|manifest| manifest["schema"] == ARCHIVE);
    if let Some(manifest) = ours {
        add(PLAN, &manifest["plan"], &folder.join("manifest.json"), faults);
        if let Some(summary) = read(&folder.join("summary.json")) {
            add(SUMMARY, &summary, &folder.join("summary.json"), faults);
        }
    }
    for path in crate::process::entries(folder) {
        if depth > 0 && path.is_dir() && !path.is_symlink() {
            check(&path, depth - 1, faults);
        }
    }
}

/// `None` for a file that is not there, or not whole: its writer was killed.
fn read(path: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

fn add(schema: &str, document: &Value, path: &Path, faults: &mut Vec<String>) {
    let schema = serde_json::from_str(schema).expect("a schema is JSON");
    let found = testkit::schema::faults(&schema, document);
    faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", path.display())));
}
