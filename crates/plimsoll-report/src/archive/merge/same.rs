//! The check that two runs are of one load.

use plimsoll_model::settings::Settings;
use plimsoll_model::slo::Slo;
use serde_json::Value;

use crate::archive::reader::Archive;

/// Fields of a plan that each machine may have of its own: its share of the load, and its addresses.
const OWN: [&str; 8] =
    ["connections", "cpus", "rows", "seed", "shard", "sources", "staggered", "threads"];
/// Fields of the pace that each machine may have of its own.
const OWN_PACE: [&str; 4] = ["from", "to", "ops_total", "connections"];

/// Returns one line about the first thing in which the runs differ and which forbids to merge them.
pub(super) fn first_difference(first: &Archive, other: &Archive) -> Option<String> {
    let (a, b) = (&first.manifest, &other.manifest);
    let clocks = |archive: &Archive| {
        let merged = archive.manifest.merged_from.iter().map(|part| part.clock);
        let own = archive.manifest.merged_from.is_empty().then_some(archive.manifest.clock);
        merged.chain(own).collect::<Vec<_>>()
    };
    let names = |what: &str| {
        let (a, b) = (first.dir.display(), other.dir.display());
        format!("{a} and {b} {what}")
    };
    if clocks(first).iter().any(|clock| clocks(other).contains(clock)) {
        return Some(names("hold the same run"));
    }
    let slo = |settings: &Settings| {
        Value::from(settings.slo.as_ref().map_or_else(|| "none".to_owned(), Slo::to_string))
    };
    let of = |name: &str, a: Value, b: Value| difference(name, &a, &b);
    let found = of("target", a.target.as_str().into(), b.target.as_str().into())
        .or_else(|| of("slo", slo(&a.settings), slo(&b.settings)))
        .or_else(|| of("plan", shared(&a.plan), shared(&b.plan)));
    found.map(|what| names(&format!("differ: {what}")))
}

/// Returns the plan without what each machine may have of its own.
fn shared(plan: &Value) -> Value {
    let mut plan = plan.clone();
    let Some(map) = plan.as_object_mut() else { return plan };
    map.retain(|key, _| !OWN.contains(&key.as_str()));
    map.get_mut("pacing").into_iter().for_each(without_shares);
    // A name may list its addresses in another order each time.
    for server in map.get_mut("destinations").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(addresses) = server.get_mut("addresses").and_then(Value::as_array_mut) {
            addresses.sort_by_key(ToString::to_string);
        }
    }
    plan
}

fn without_shares(pace: &mut Value) {
    match pace {
        Value::Object(map) => {
            map.retain(|key, _| !OWN_PACE.contains(&key.as_str()));
            map.values_mut().for_each(without_shares);
        }
        Value::Array(list) => list.iter_mut().for_each(without_shares),
        _ => {}
    }
}

/// Returns `name` and both values, of the first in which `a` and `b` differ.
fn difference(name: &str, a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        _ if a == b => None,
        (Value::Object(a_map), Value::Object(b_map)) => {
            let keys = a_map.keys().chain(b_map.keys().filter(|key| !a_map.contains_key(*key)));
            let null = Value::Null;
            keys.map(|key| (key, a_map.get(key).unwrap_or(&null), b_map.get(key).unwrap_or(&null)))
                .find_map(|(key, a, b)| difference(&format!("{name}.{key}"), a, b))
        }
        (Value::Array(a_list), Value::Array(b_list)) if a_list.len() == b_list.len() => {
            let pairs = a_list.iter().zip(b_list).enumerate();
            pairs.map(|(at, (a, b))| difference(&format!("{name}[{at}]"), a, b)).find_map(|d| d)
        }
        _ => Some(format!("{name} is {a} and {b}")),
    }
}
