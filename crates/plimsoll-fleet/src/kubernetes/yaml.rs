//! JSON as YAML that a person reads: maps and lists by indentation, strings quoted where YAML could take them for
//! something else.

use serde_json::Value;

/// Returns a document, with a line end.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

fn block(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                text.push_str(&format!("{pad}{}:", scalar(name)));
                if is_inline(value) {
                    text.push_str(&format!(" {}\n", flow(value)));
                } else {
                    text.push('\n');
                    block(value, indent + 2, text);
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                if is_inline(item) {
                    text.push_str(&format!("{pad}- {}\n", flow(item)));
                } else {
                    let mut inner = String::new();
                    block(item, indent + 2, &mut inner);
                    // The first line begins behind the dash.
                    text.push_str(&format!("{pad}- {}", &inner[indent + 2..]));
                }
            }
        }
        other => text.push_str(&format!("{pad}{}\n", flow(other))),
    }
}

fn is_inline(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        // JSON is YAML.
        other => other.to_string(),
    }
}

/// Formats a scalar. It is plain if it begins with a letter or a slash, has only harmless characters, and is no word of
/// YAML.
fn scalar(text: &str) -> String {
    let is_harmless = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    let begins = text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '/');
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_word = words.contains(&text.to_ascii_lowercase().as_str());
    if begins && text.chars().all(is_harmless) && !is_word {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_indented_and_quoted_where_needed() {
        let value = json!({
            "plain": "a-b/c.d",
            "quoted": ["true", "1", "a: b", "$(X)", "", "1Gi", "No"],
            "nested": [{ "a": { "b": 1 }, "c": [] }, [1, 2]],
            "empty": {},
            "none": null,
        });
        let expected = r#"empty: {}
nested:
  - a:
      b: 1
    c: []
  - - 1
    - 2
none: null
plain: a-b/c.d
quoted:
  - "true"
  - "1"
  - "a: b"
  - "$(X)"
  - ""
  - "1Gi"
  - "No"
"#;
        assert_eq!(document(&value), expected);
    }
}
