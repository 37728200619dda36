//! Rows of a kind become lists: one for each field, also of fields that only some rows have.

use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the lists of `rows`; `null` if a row has no such field, or 0 in the objects named `counts`, which only
/// say what is not 0. Without rows, the fields are those of `template`.
pub(super) fn columns<T: Serialize>(rows: &[T], template: &T, counts: &[&str]) -> Value {
    let mut lists = Map::new();
    let all = if rows.is_empty() { std::slice::from_ref(template) } else { rows };
    for (index, row) in all.iter().enumerate() {
        // A row has texts for keys and finite numbers, or nothing in their place.
        if let Ok(Value::Object(row)) = serde_json::to_value(row) {
            append(&mut lists, row, index);
        }
    }
    level(&mut lists, rows.len());
    for name in counts {
        let Some(Value::Object(counts)) = lists.get_mut(*name) else { continue };
        let values = counts.values_mut().filter_map(Value::as_array_mut).flatten();
        values.filter(|value| value.is_null()).for_each(|value| *value = 0.into());
    }
    Value::Object(lists)
}

fn append(lists: &mut Map<String, Value>, row: Map<String, Value>, length: usize) {
    for (name, value) in row {
        match value {
            Value::Object(inner) => {
                let slot = lists.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(lists) = slot {
                    append(lists, inner, length);
                }
            }
            value => {
                let slot = lists.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = slot {
                    list.resize(length, Value::Null);
                    list.push(value);
                }
            }
        }
    }
}

fn level(lists: &mut Map<String, Value>, length: usize) {
    for value in lists.values_mut() {
        match value {
            Value::Array(list) => list.resize(length, Value::Null),
            Value::Object(lists) => level(lists, length),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_list_is_as_long_as_there_are_rows() {
        let rows = [
            json!({"t": 1, "errors": {}}),
            json!({"t": 2, "errors": {"reset": 3}}),
            json!({"t": 3}),
        ];
        let expected = json!({"t": [1, 2, 3], "errors": {"reset": [null, 3, null]}});
        assert_eq!(columns(&rows, &rows[0], &[]), expected);
        let counted = columns(&rows, &rows[0], &["errors"]);
        assert_eq!(counted["errors"], json!({"reset": [0, 3, 0]}));
        assert_eq!(columns(&[], &rows[0], &[]), json!({"t": [], "errors": {}}));
    }
}
