//! JSON Schemas of the documents that programs read. A test compares each with what this crate writes, both ways: a
//! document that a schema refuses, and a field that it does not list, are failures.

/// A schema and its name.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// Name for `plimsoll schema`.
    pub name: &'static str,
    /// The documents that it describes.
    pub of: &'static str,
    /// The schema: one JSON object, draft 2020-12.
    pub text: &'static str,
}

/// All of them.
pub const ALL: [Schema; 6] = [
    Schema {
        name: "summary",
        of: "the result of a run: --json, and summary.json of an archive",
        text: include_str!("../schemas/summary.json"),
    },
    Schema {
        name: "view",
        of: "what a report page draws: its download, and /view of a live page",
        text: include_str!("../schemas/view.json"),
    },
    Schema {
        name: "watch",
        of: "one interval of watch --json",
        text: include_str!("../schemas/watch.json"),
    },
    Schema {
        name: "doctor",
        of: "the limits of a host: doctor --json",
        text: include_str!("../schemas/doctor.json"),
    },
    Schema {
        name: "tune",
        of: "planned changes of settings: tune plan --json",
        text: include_str!("../schemas/tune.json"),
    },
    Schema {
        name: "plan",
        of: "the plan of a load in manifest.json of an archive",
        text: include_str!("../schemas/plan.json"),
    },
];

/// Checks that a schema describes `document`, and lists every field of it. The file is read, so that a corrected one
/// needs no compiler.
#[cfg(test)]
pub(crate) fn assert_described(name: &str, document: &serde_json::Value) {
    let faults = faults(name, document);
    assert!(faults.is_empty(), "schemas/{name}.json: {faults:#?}");
}

#[cfg(test)]
fn faults(name: &str, document: &serde_json::Value) -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas");
    let text = std::fs::read_to_string(format!("{folder}/{name}.json")).expect("a schema");
    testkit::schema::faults(&serde_json::from_str(&text).expect("JSON"), document)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::fixtures::*;
    use crate::json::write_summary;

    #[test]
    fn every_kind_of_summary_is_described() {
        let mut all = Vec::new();
        for summary in [
            load_good(),
            load_empty(),
            load_with_reasons(),
            load_bad(),
            load_invalid(),
            load_closed(),
            load_refused(),
            load_all_5xx(),
            load_stopped_early(),
            load_partial(),
            find_regular().0,
            find_repeated(),
            find_generator_limited().0,
            find_fails_at_minimum().0,
            find_refused().0,
            find_unfinished().0,
            find_several().0,
            compare_saturated(),
            compare_duet(),
            compare_lower(),
            compare_no_difference(),
            compare_undecided(),
            hold_good(),
            hold_bad(),
            hold_cut_short(),
            hold_nothing(),
            sizing_better(),
            find_storm(),
        ] {
            let mut text = Vec::new();
            write_summary(&summary, &mut text).unwrap();
            all.extend(faults("summary", &serde_json::from_slice(&text).unwrap()));
        }
        assert!(all.is_empty(), "{all:#?}");
    }

    #[test]
    fn a_type_is_described_alike_in_every_schema() {
        let mut known: BTreeMap<String, serde_json::Value> = BTreeMap::new();
        for schema in ALL {
            let parsed: serde_json::Value = serde_json::from_str(schema.text).unwrap();
            for (name, definition) in parsed["$defs"].as_object().into_iter().flatten() {
                let first = known.entry(name.clone()).or_insert_with(|| definition.clone());
                assert_eq!(first, definition, "{name} of {}", schema.name);
            }
        }
    }

    #[test]
    fn names_are_those_of_the_files_and_of_the_documents() {
        for schema in ALL {
            let parsed: serde_json::Value = serde_json::from_str(schema.text).unwrap();
            let stated = &parsed["properties"]["schema"]["const"];
            let expected = format!("plimsoll.{}/1", schema.name);
            assert!(stated.is_null() || *stated == expected, "{expected}");
            assert_eq!(stated.is_null(), schema.name == "plan");
        }
    }
}
