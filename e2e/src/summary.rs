//! The object that `--json` writes, as a script reads it: by name.

use std::collections::BTreeMap;

use serde_json::Value;

/// One `plimsoll.summary/1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary(pub Value);

impl Summary {
    /// Reads one object and checks what holds in every run.
    pub fn parse(text: &str) -> Self {
        let value = serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("not one JSON object ({error}): {text:?}"));
        let summary = Self(value);
        assert_eq!(summary.text("schema"), "plimsoll.summary/1");
        let ended = summary.count("ok") + summary.count("errors") + summary.count("unsent");
        assert_eq!(summary.count("scheduled"), ended, "{summary:?}");
        let classes: u64 = summary.counts("error_classes").values().sum();
        assert_eq!(summary.count("errors"), classes, "{summary:?}");
        assert!(summary.count("late") <= summary.count("ok"), "{summary:?}");
        summary
    }

    /// Returns the value at `path`, whose names are joined by dots.
    pub fn at(&self, path: &str) -> &Value {
        let found = path.split('.').try_fold(&self.0, |value, name| value.get(name));
        found.unwrap_or_else(|| panic!("no {path} in {}", self.0))
    }

    /// A count.
    pub fn count(&self, path: &str) -> u64 {
        self.at(path).as_u64().unwrap_or_else(|| panic!("{path} is no count in {}", self.0))
    }

    /// Returns a figure.
    pub fn number(&self, path: &str) -> f64 {
        self.at(path).as_f64().unwrap_or_else(|| panic!("{path} is no number in {}", self.0))
    }

    /// Returns a text.
    pub fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or_else(|| panic!("{path} is no text in {}", self.0))
    }

    /// Counts by name, such as `error_classes`.
    pub fn counts(&self, path: &str) -> BTreeMap<String, u64> {
        let object = self.at(path).as_object();
        let object = object.unwrap_or_else(|| panic!("{path} is no object in {}", self.0));
        let count = |value: &Value| value.as_u64().expect("a count");
        object.iter().map(|(name, value)| (name.clone(), count(value))).collect()
    }

    /// Returns the words of a class's reasons, one per line.
    pub fn reasons(&self, class: &str) -> String {
        let reasons = self.at("error_reasons").get(class).and_then(Value::as_array);
        let texts = reasons.into_iter().flatten().map(|one| one["text"].as_str().expect("a text"));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Checks that all of `ops` operations were answered well.
    pub fn assert_all_ok(&self, ops: u64) {
        assert_eq!(self.count("scheduled"), ops, "{self:?}");
        assert_eq!(self.count("ok"), ops, "{self:?}");
    }

    /// Checks that all of `ops` operations failed, and in which class.
    pub fn assert_all_failed(&self, ops: u64, class: &str) {
        assert_eq!(self.count("scheduled"), ops, "{self:?}");
        let expected = BTreeMap::from([(class.to_owned(), ops)]);
        assert_eq!(self.counts("error_classes"), expected, "{self:?}");
    }
}
