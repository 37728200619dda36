//! Causes that `find` names where the cause is known: every recipe of `e2e::recipe`, and the confusion matrix
//! over all of them.
//!
//! `CAUSES=rate-limit,maxconn` runs only recipes whose name or cause contains one of these; `CAUSES_AT_ONCE=3` runs so
//! many beside each other, except those that need a CPU of their own; `CAUSES_HOST=1` also runs those that change a
//! setting of the whole host meanwhile; `CAUSES_OUT=FILE` collects the records of several
//! runs, one JSON object in a line, and the matrix is that of all of them; `CAUSES_ARCHIVES=DIR` keeps the archives of
//! the searches there, and of those that are there already only the causes are named again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;

use e2e::recipe;
use e2e::recipe::{Answer, Recipe};

use crate::alone;

/// Rows that are to be found at grade predicted or better.
const ROWS_MIN: usize = 22;
/// Wrong causes, in percent of all.
const WRONG_MAX: usize = 5;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the recipes that are asked for.
fn wanted() -> Vec<Recipe> {
    let words = variable("CAUSES").unwrap_or_default();
    let words: Vec<&str> = words.split(',').filter(|word| !word.is_empty()).collect();
    let is_wanted = |recipe: &Recipe| {
        let cause = recipe.expected.to_string();
        words.is_empty()
            || words.iter().any(|word| recipe.name.contains(word) || cause.contains(word))
    };
    let may = |recipe: &Recipe| variable("CAUSES_HOST").is_some() || !recipe.changes_host();
    recipe::all().into_iter().filter(is_wanted).filter(may).collect()
}

fn run(recipe: &Recipe, this_host: &str) -> Option<Value> {
    let seen = match recipe
        .run(env!("CARGO_BIN_EXE_fault"), variable("CAUSES_ARCHIVES").as_deref().map(Path::new))
    {
        Ok(seen) => seen,
        Err(why) => {
            println!("CANNOT {}: {why}", recipe.name);
            return None;
        }
    };
    let answer = recipe.judge(&seen, this_host);
    let record = recipe.record(&seen, answer);
    println!("{} {} (row {}): {record}", answer.name(), recipe.name, recipe.row);
    if answer != Answer::Right {
        println!("    {}", seen.causes);
    }
    if let Some(path) = variable("CAUSES_OUT") {
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        writeln!(file.expect("CAUSES_OUT can be written"), "{record}").expect("as above");
    }
    Some(record)
}

/// Runs recipes, `at_once` at the same time.
fn run_all(recipes: &[Recipe], at_once: usize, this_host: &str) -> Vec<Value> {
    let (next, records) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(recipe) = recipes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let record = run(recipe, this_host);
                    records.lock().expect("no recipe panics with it").extend(record);
                }
            });
        }
    });
    records.into_inner().expect("as above")
}

fn text<'a>(record: &'a Value, field: &str) -> &'a str {
    record[field].as_str().unwrap_or("-")
}

/// Returns one line for each recipe, and below it what was expected against what was named.
fn matrix(records: &[Value]) -> String {
    let mut shown = String::from(
        "| row | recipe | tipping point, /s | cause | first named | resource, host | grade | |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut sorted: Vec<&Value> = records.iter().collect();
    sorted.sort_by_key(|record| (record["row"].as_u64(), text(record, "recipe").to_owned()));
    let mut confused: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for record in sorted {
        let bound = |name: &str| {
            record[name].as_f64().map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"))
        };
        let row = record["row"]
            .as_u64()
            .filter(|row| *row > 0)
            .map_or_else(|| "-".to_owned(), |row| row.to_string());
        let decoy = if record["decoy"] == true { " (decoy)" } else { "" };
        let resource = match (text(record, "resource"), text(record, "host")) {
            ("-" | "", _) => "-".to_owned(),
            (resource, host) => format!("{resource}, {host}"),
        };
        writeln!(
            shown,
            "| {row} | {}{decoy} | {} to {} | {} | {} | {resource} | {} | {} |",
            text(record, "recipe"),
            bound("lower"),
            bound("upper"),
            text(record, "expected"),
            text(record, "cause"),
            text(record, "grade"),
            text(record, "answer"),
        )
        .expect("a text grows");
        *confused.entry((text(record, "expected"), text(record, "cause"))).or_default() += 1;
    }
    shown.push_str("\n| cause | named | times |\n|---|---|---|\n");
    for ((expected, named), times) in confused {
        writeln!(shown, "| {expected} | {named} | {times} |").expect("a text grows");
    }
    shown
}

#[test]
#[ignore = "takes two hours on an idle machine, as root"]
fn what_gives_way_is_named() {
    let _alone = alone();
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux has it");
    let at_once = variable("CAUSES_AT_ONCE").and_then(|n| n.parse().ok()).unwrap_or(1);
    let (by_themselves, together): (Vec<_>, Vec<_>) =
        wanted().into_iter().partition(|recipe| recipe.is_alone);
    let mut records = run_all(&together, at_once, name.trim());
    records.extend(run_all(&by_themselves, 1, name.trim()));
    if let Some(path) = variable("CAUSES_OUT") {
        let text = fs::read_to_string(path).unwrap_or_default();
        records = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    }
    println!("{}", matrix(&records));
    let are =
        |answer: Answer| records.iter().filter(|r| text(r, "answer") == answer.name()).count();
    let wrong = are(Answer::Wrong);
    assert!(wrong * 100 <= WRONG_MAX * records.len(), "{wrong} wrong of {}", records.len());
    let mut rows: Vec<u64> = records
        .iter()
        .filter(|record| text(record, "answer") == "right")
        .filter_map(|record| record["row"].as_u64())
        .filter(|row| *row > 0)
        .collect();
    rows.sort_unstable();
    rows.dedup();
    println!("rows at grade predicted or better: {rows:?}");
    let is_whole = variable("CAUSES").is_none();
    assert!(!is_whole || rows.len() >= ROWS_MIN, "only {rows:?}");
}
