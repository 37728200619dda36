//! `--json`: a summary as one object, and back.

use std::io::Write;

use plimsoll_model::summary::{SCHEMA, Summary};
use serde::Serialize;

use crate::error::{ReportError, Result};
use crate::terminal::findings::{CheckLine, worded_summary};

/// Writes one pretty-printed object and a newline.
pub fn write_summary(summary: &Summary, out: &mut dyn Write) -> Result<()> {
    #[derive(Serialize)]
    struct Document<'a> {
        #[serde(flatten)]
        summary: &'a Summary,
        checks: Vec<CheckLine<'a>>,
    }
    let summary = &worded_summary(summary);
    let checks = summary.reasons.iter().map(CheckLine::of).collect();
    // One buffer, one write: a reader at the other end of a pipe never sees half an object.
    let mut text = serde_json::to_vec_pretty(&Document { summary, checks })?;
    text.push(b'\n');
    out.write_all(&text)?;
    out.flush()?;
    Ok(())
}

/// Reads what [`write_summary`] wrote; fields that this version does not know are ignored.
pub fn read_summary(text: &[u8]) -> Result<Summary> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    // The schema first: its error is clearer than that of a missing field.
    let head: Head = serde_json::from_slice(text)?;
    if head.schema != SCHEMA {
        return Err(ReportError::Schema { found: head.schema, expected: SCHEMA });
    }
    Ok(serde_json::from_slice(text)?)
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;
    use plimsoll_model::trial::{Met, SloFound, TippingPoint};

    use super::*;
    use crate::fixtures;

    #[test]
    fn round_trip_and_shape() {
        for summary in [
            fixtures::load_good(),
            fixtures::load_with_reasons(),
            fixtures::hold_bad(),
            fixtures::compare_saturated(),
            fixtures::sizing_better(),
            fixtures::find_regular().0,
            fixtures::find_storm(),
            crate::terminal::rfc9411::tests::summary(),
        ] {
            let mut text = Vec::new();
            write_summary(&summary, &mut text).unwrap();
            assert!(text.starts_with(b"{\n  \"schema\": \"plimsoll.summary/1\","));
            assert!(text.ends_with(b"}\n"));
            assert_eq!(read_summary(&text).unwrap(), worded_summary(&summary));
        }
    }

    #[test]
    fn a_goal_states_the_length_of_its_trials_as_the_search_does() {
        let met = Some(Met { trials: 4, longest: Nanos::from_secs(15) });
        let tip = TippingPoint { met, ..fixtures::tipping_point() };
        let goals = vec![SloFound { slo: "p99<50ms".to_owned(), found: tip.clone() }];
        let mut summary = fixtures::find_regular().0;
        summary.result = fixtures::find(TippingPoint { goals, ..tip }).into();
        let mut text = Vec::new();
        write_summary(&summary, &mut text).unwrap();
        let written: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let expected = serde_json::json!({ "trials": 4, "longest_s": 15.0 });
        assert_eq!(written["find"]["met"], expected);
        assert_eq!(written["find"]["goals"][0]["met"], expected);
    }

    fn keys(value: &serde_json::Value, out: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => {
                for (key, value) in map {
                    out.push(key.clone());
                    // The keys of these objects come from the run, not from the schema.
                    let of_run = ["status", "loss_classes", "environment", "error_reasons"];
                    let is_of_sweep = key == "settings" && map.contains_key("goodput_per_s");
                    if !of_run.contains(&key.as_str()) && !is_of_sweep {
                        keys(value, out);
                    }
                }
            }
            serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, out)),
            _ => {}
        }
    }

    #[test]
    fn every_field_and_class_is_in_the_reference() {
        let reference = include_str!("../../../docs/reference/json.md");
        let mut names = Vec::new();
        for summary in [
            fixtures::load_bad(),
            fixtures::load_with_reasons(),
            fixtures::hold_bad(),
            fixtures::compare_saturated(),
            fixtures::sizing_better(),
            fixtures::find_regular().0,
            fixtures::find_storm(),
            crate::terminal::rfc9411::tests::summary(),
        ] {
            let mut text = Vec::new();
            write_summary(&summary, &mut text).unwrap();
            keys(&serde_json::from_slice(&text).unwrap(), &mut names);
        }
        names.extend(plimsoll_model::ErrorClass::ALL.iter().map(|class| class.name().to_owned()));
        for name in names {
            let named =
                |before: &str, after: &str| reference.contains(&format!("{before}{name}{after}"));
            assert!(
                named("`", "`") || named(".", "`") || named("`", ".") || named(".", "."),
                "{name} is not in docs/reference/json.md"
            );
        }
    }

    #[test]
    fn other_schemas_are_named() {
        let error = read_summary(br#"{"schema":"plimsoll.summary/9"}"#).unwrap_err();
        assert!(error.to_string().contains("plimsoll.summary/9"), "{error}");
        assert!(read_summary(b"[]").is_err());
    }
}
