//! The table of docs/explanation/causes.md has a row for each recipe, with its cause, and no wrong one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::all;

/// Fewest situations with a real server.
const ROWS_MIN: usize = 60;
/// Rows that name no cause where a person could have, in percent.
const UNKNOWN_MAX: usize = 5;

/// Returns the cells of the rows below `header`, up to the end of that table.
fn rows(text: &str, header: &str) -> Vec<Vec<String>> {
    let table = text.lines().skip_while(|line| !line.starts_with(header)).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// Row, name and cause of a row of the table.
fn named(cells: &[String]) -> [String; 3] {
    [cells[1].clone(), cells[2].clone(), cells[4].clone()]
}

#[test]
fn documents_and_recipes_have_the_same_rows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/explanation/causes.md");
    let text = fs::read_to_string(&path).expect("the document is there");
    let measured = rows(&text, "| row | recipe | tipping point");
    let documented: BTreeSet<_> = measured.iter().map(|row| named(row)).collect();
    assert_eq!(documented.len(), measured.len(), "a row stands twice");
    let of_recipes: BTreeSet<_> = all()
        .iter()
        .map(|recipe| {
            let row = if recipe.row == 0 { "-".to_owned() } else { recipe.row.to_string() };
            let decoy = if recipe.is_decoy { " (decoy)" } else { "" };
            [row, format!("{}{decoy}", recipe.name), recipe.expected.to_string()]
        })
        .collect();
    let missing: Vec<_> = of_recipes.difference(&documented).collect();
    let surplus: Vec<_> = documented.difference(&of_recipes).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}");
    let answers = measured.iter().map(|row| row[8].as_str());
    let count = |answer: &str| answers.clone().filter(|one| *one == answer).count();
    let (right, correlated, unknown) = (count("right"), count("correlated"), count("unknown"));
    assert_eq!(right + correlated + unknown, measured.len(), "a wrong cause");
    assert!(measured.len() >= ROWS_MIN && unknown * 100 <= measured.len() * UNKNOWN_MAX);
}
