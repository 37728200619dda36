//! Compares documents with JSON Schemas, strictly: a property that the schema does not list is a fault, too, so that a
//! schema cannot fall behind what is written.
//!
//! It knows the keywords that plimsoll's schemas use, and refuses others.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keywords that say nothing about a document.
const NOTES: [&str; 4] = ["$schema", "title", "description", "$defs"];

/// Returns what is wrong with `document`, each with its place; nothing if the schema describes it.
pub fn faults(schema: &Value, document: &Value) -> Vec<String> {
    let mut check = Check { root: schema, faults: Vec::new() };
    let listed = check.value(schema, document, "");
    check.unlisted(document, listed.as_ref(), "");
    check.faults
}

struct Check<'a> {
    root: &'a Value,
    faults: Vec<String>,
}

/// The properties of an object that a schema lists; `None` if it allows any.
type Listed = Option<BTreeSet<String>>;

impl Check<'_> {
    fn fault(&mut self, at: &str, what: impl std::fmt::Display) {
        self.faults.push(format!("{}: {what}", if at.is_empty() { "/" } else { at }));
    }

    /// Reports the properties of `value` that are not listed.
    fn unlisted(&mut self, value: &Value, listed: Option<&BTreeSet<String>>, at: &str) {
        let (Some(object), Some(listed)) = (value.as_object(), listed) else { return };
        for name in object.keys().filter(|name| !listed.contains(*name)) {
            self.fault(at, format_args!("the schema does not list {name:?}"));
        }
    }

    /// Checks a whole value, with the properties that it has.
    fn whole(&mut self, schema: &Value, value: &Value, at: &str) {
        let listed = self.value(schema, value, at);
        self.unlisted(value, listed.as_ref(), at);
    }

    /// Checks `value`, and returns the properties that are listed for it here.
    fn value(&mut self, schema: &Value, value: &Value, at: &str) -> Listed {
        let Some(schema) = schema.as_object() else {
            self.fault(at, "the schema is no object");
            return None;
        };
        if schema.keys().all(|key| NOTES.contains(&key.as_str())) {
            return None;
        }
        let mut listed = Some(BTreeSet::new());
        for (keyword, rule) in schema {
            match keyword.as_str() {
                "type" => self.kind(rule, value, at),
                "const" if rule != value => self.fault(at, format_args!("{value} is not {rule}")),
                "enum" if !rule.as_array().is_some_and(|all| all.contains(value)) => {
                    self.fault(at, format_args!("{value} is none of {rule}"));
                }
                "minimum" if value.as_f64() < rule.as_f64() && value.is_number() => {
                    self.fault(at, format_args!("{value} is less than {rule}"));
                }
                "required" => self.required(rule, value, at),
                "properties" => self.properties(rule, value, at, &mut listed),
                "additionalProperties" => {
                    self.others(schema, rule, value, at);
                    listed = None;
                }
                "items" => self.items(rule, value, at),
                "prefixItems" => self.prefix(rule, value, at),
                "$ref" => merge(&mut listed, self.referred(rule, value, at)),
                "allOf" => {
                    for part in rule.as_array().into_iter().flatten() {
                        let of_part = self.value(part, value, at);
                        merge(&mut listed, of_part);
                    }
                }
                "anyOf" => merge(&mut listed, self.any(rule, value, at)),
                "const" | "enum" | "minimum" | "minItems" | "maxItems" => {}
                note if NOTES.contains(&note) => {}
                other => self.fault(at, format_args!("the schema has the keyword {other}")),
            }
        }
        listed
    }

    fn kind(&mut self, rule: &Value, value: &Value, at: &str) {
        let is = |kind: &str| match kind {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => false,
        };
        let kinds = rule.as_array().map_or_else(|| vec![rule.clone()], Clone::clone);
        if !kinds.iter().filter_map(Value::as_str).any(is) {
            self.fault(at, format_args!("{value} is no {rule}"));
        }
    }

    fn required(&mut self, rule: &Value, value: &Value, at: &str) {
        let Some(object) = value.as_object() else { return };
        let names = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in names.filter(|name| !object.contains_key(*name)) {
            self.fault(at, format_args!("{name:?} is missing"));
        }
    }

    fn properties(&mut self, rule: &Value, value: &Value, at: &str, listed: &mut Listed) {
        let (Some(rules), Some(object)) = (rule.as_object(), value.as_object()) else { return };
        merge(listed, Some(rules.keys().cloned().collect()));
        for (name, rule) in rules {
            if let Some(value) = object.get(name) {
                self.whole(rule, value, &format!("{at}/{name}"));
            }
        }
    }

    fn others(&mut self, schema: &Map<String, Value>, rule: &Value, value: &Value, at: &str) {
        let is_named =
            |name: &str| schema.get("properties").is_some_and(|all| all.get(name).is_some());
        for (name, value) in value.as_object().into_iter().flatten() {
            if !is_named(name) {
                self.whole(rule, value, &format!("{at}/{name}"));
            }
        }
    }

    fn items(&mut self, rule: &Value, value: &Value, at: &str) {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            self.whole(rule, item, &format!("{at}/{index}"));
        }
    }

    fn prefix(&mut self, rule: &Value, value: &Value, at: &str) {
        let (Some(rules), Some(items)) = (rule.as_array(), value.as_array()) else { return };
        if rules.len() != items.len() {
            self.fault(at, format_args!("{} items instead of {}", items.len(), rules.len()));
        }
        for (index, (rule, item)) in rules.iter().zip(items).enumerate() {
            self.whole(rule, item, &format!("{at}/{index}"));
        }
    }

    fn referred(&mut self, rule: &Value, value: &Value, at: &str) -> Listed {
        let pointer = rule.as_str().and_then(|target| target.strip_prefix('#')).unwrap_or_default();
        let root = self.root;
        match root.pointer(pointer) {
            Some(target) => self.value(target, value, at),
            None => {
                self.fault(at, format_args!("{rule} leads nowhere"));
                None
            }
        }
    }

    /// Returns the first alternative that fits; else the faults of the one that has fewest of the value itself, then
    /// fewest in it.
    fn any(&mut self, rule: &Value, value: &Value, at: &str) -> Listed {
        let own = format!("{at}:");
        let badness = |faults: &[String]| {
            (faults.iter().filter(|fault| fault.starts_with(&own)).count(), faults.len())
        };
        let mut closest: Option<Vec<String>> = None;
        for part in rule.as_array().into_iter().flatten() {
            let mut check = Check { root: self.root, faults: Vec::new() };
            let listed = check.value(part, value, at);
            if check.faults.is_empty() {
                return listed;
            }
            if closest.as_ref().is_none_or(|faults| badness(&check.faults) < badness(faults)) {
                closest = Some(check.faults);
            }
        }
        self.faults.extend(closest.unwrap_or_default());
        None
    }
}

fn merge(listed: &mut Listed, more: Listed) {
    match (listed.as_mut(), more) {
        (Some(all), Some(more)) => all.extend(more),
        _ => *listed = None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_fault_is_found() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": { "type": ["integer", "null"], "minimum": 0 },
                "b": { "$ref": "#/$defs/B" },
                "c": { "type": "object", "additionalProperties": { "type": "string" } },
                "d": { "anyOf": [{ "const": "x" }, { "type": "array", "items": { "enum": [1, 2] } }] },
                "e": { "prefixItems": [{ "type": "number" }, {}] },
            },
            "required": ["a"],
            "allOf": [{ "properties": { "f": { "type": "boolean" } } }],
            "$defs": { "B": { "properties": { "inner": { "type": "string" } } } },
        });
        let whole = json!({
            "a": null, "b": { "inner": "x" }, "c": { "any": "x" }, "d": [1, 2], "e": [1.5, {}], "f": true
        });
        assert_eq!(faults(&schema, &whole), [""; 0]);
        for (name, value, fault) in [
            ("a", json!(-1), "/a: -1 is less than 0"),
            ("a", json!("x"), "/a: \"x\" is no [\"integer\",\"null\"]"),
            ("b", json!({ "other": 1 }), "/b: the schema does not list \"other\""),
            ("c", json!({ "any": 1 }), "/c/any: 1 is no \"string\""),
            ("d", json!([3]), "/d/0: 3 is none of [1,2]"),
            ("e", json!([1]), "/e: 1 items instead of 2"),
            ("f", json!(1), "/f: 1 is no \"boolean\""),
            ("g", json!(1), "/: the schema does not list \"g\""),
        ] {
            let mut document = whole.clone();
            document[name] = value;
            let found = faults(&schema, &document);
            assert!(found.iter().any(|found| found == fault), "{name}: {found:?}");
        }
        assert_eq!(faults(&schema, &json!({})), ["/: \"a\" is missing"]);
        assert_eq!(faults(&json!({ "pattern": "x" }), &json!(1)).len(), 1);
    }
}
