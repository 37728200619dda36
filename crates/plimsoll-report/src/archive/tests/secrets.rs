//! A secret in every text of a plan, and nothing that is written has it.

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plimsoll_model::framed::Framed as _;
use plimsoll_model::plan::{
    AddressRange, ClientIds, DeliveryPlan, LoadPlan, MqttPlan, ProxyHeader, Trust,
};
use plimsoll_model::row::{Row, RowBatch, RowEnd, RowPlan};
use plimsoll_model::target::{
    Action, Credentials, Messages, MqttVersion, Publish, Script, Step, Subscription, Template, Will,
};
use serde_json::{Value, json};

use super::*;
use crate::exports::{
    Export, ExportedRun, RowFormat, RowHead, RowLatency, RowTarget, Span, write_export, write_rows,
};
use crate::view::{Head, View, ViewBuilder};
use crate::{json, page, schema};

/// Returns a plan with everything that a plan can have, all on one target.
fn whole_plan() -> LoadPlan {
    let publish = Publish { topic: "a topic".to_owned(), ..Publish::default() };
    let step = |action| Step { line: 1, action };
    let template = || Template::literal(b"said".to_vec());
    let mut plan = fixtures::plan();
    plan.tls.trust = Trust::Roots("PEM".to_owned());
    plan.rows = Some(RowPlan { every: 1 });
    let target = &mut plan.targets[0];
    target.script = Some(Script {
        opening: vec![step(Action::Send(template())), step(Action::Expect(template()))],
        operation: vec![step(Action::Search { pattern: "a+".into(), bytes_max: 9 })],
        ..Script::default()
    });
    target.websocket = Some(Messages { expected: Some("b+".into()), ..Messages::default() });
    target.publish = Some(publish.clone());
    plan.mqtt = Some(MqttPlan {
        version: MqttVersion::V5,
        client_ids: ClientIds::Listed(["a client".to_owned()].into()),
        users: [Credentials { name: "ann".to_owned(), password: Some("pass".to_owned()) }].into(),
        keep_alive_s: 5,
        resumes_session: true,
        session_expiry_s: None,
        in_flight: 1,
        will: Some(Will { publish, message: b"bye".to_vec() }),
        subscribe: Some(Subscription { filter: "#".to_owned(), ..Subscription::default() }),
        deliveries: Some(DeliveryPlan { run: 7 }),
    });
    let first = "10.0.0.1".parse().unwrap();
    plan.proxy = Some(ProxyHeader {
        sources: Some(AddressRange { first, count: 2 }),
        id_prefix: "a prefix".to_owned(),
    });
    plan
}

/// Collects the places of all texts in `value`, and of its lists of bytes.
fn texts(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::String(_) => out.push(at.to_owned()),
        Value::Array(_) if at.ends_with("/message") => out.push(at.to_owned()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                texts(item, &format!("{at}/{index}"), out);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                texts(item, &format!("{at}/{name}"), out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the replacement for a text of a plan: the secret, in the form of its field. Hosts are what a report is
/// about, and path segments identify its requests: they are shown, as `target/url.rs` says.
fn in_form_of(place: &str, secret: &str) -> Option<Value> {
    if place.ends_with("/url/host") {
        None
    } else if place.ends_with("/url/path") {
        Some(format!("/a;{secret}/b;k={secret}?{secret}={secret}&{secret}").into())
    } else if place.ends_with("/body") || place.ends_with("/bytes") {
        Some(STANDARD.encode(secret).into())
    } else if place.ends_with("/message") {
        Some(json!(secret.as_bytes()))
    } else {
        Some(secret.into())
    }
}

/// Returns `plan` with the secret in all of its texts, and in how many. What is no free text, such as an address,
/// stays.
fn filled(plan: &LoadPlan, secret: &str) -> (LoadPlan, usize) {
    let mut value = plan.write(serde_json::value::Serializer).unwrap();
    let (mut places, mut count) = (Vec::new(), 0);
    texts(&value, "", &mut places);
    for place in places {
        let Some(form) = in_form_of(&place, secret) else { continue };
        let before = std::mem::replace(value.pointer_mut(&place).unwrap(), form);
        match LoadPlan::read(&value) {
            Ok(_) => count += 1,
            Err(_) => *value.pointer_mut(&place).unwrap() = before,
        }
    }
    (LoadPlan::read(&value).unwrap(), count)
}

/// Returns the form in which `bytes` contain `secret`: as text, base64 at any offset, or a list of numbers.
fn contained(bytes: &[u8], secret: &str) -> Option<String> {
    let text: String =
        String::from_utf8_lossy(bytes).chars().filter(|letter| !letter.is_whitespace()).collect();
    let encoded = (0..3).map(|offset| {
        let padded = [&vec![0; offset], secret.as_bytes()].concat();
        // The first and last characters also depend on the neighbouring bytes.
        let encoded = STANDARD.encode(padded).trim_end_matches('=').to_owned();
        encoded[(offset * 8).div_ceil(6)..encoded.len() - 1].to_owned()
    });
    let numbers: Vec<_> = secret.bytes().map(|byte| byte.to_string()).collect();
    let mut forms = encoded.chain([secret.to_owned(), numbers.join(",")]);
    forms.find(|form| text.contains(form.as_str()))
}

/// Returns all files and exports of a run of `plan`, by name.
fn written(plan: &LoadPlan, dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut manifest = manifest_of(plan, false);
    manifest.target = plan.targets[0].url.to_string();
    let parts = [fixtures::tally(10, 900, 1)];
    let summary = Summary {
        target: manifest.target.clone(),
        settings: fixtures::settings(plan),
        ..summary_of(&parts)
    };
    let row = Row {
        intended: Nanos(1),
        sent: Some(Nanos(2)),
        ended: Nanos(9),
        status: 200,
        end: RowEnd::Ok,
        body_bytes: 4,
        target: 0,
    };
    let rows = Event::Rows(RowBatch { rows: vec![row], dropped: 0 });
    let mut writer = ArchiveWriter::create(dir, &manifest).unwrap();
    let mut live = ViewBuilder::new("run".to_owned(), "0.1.0".to_owned(), Head::of(&manifest), 1);
    for event in [load_started(), interval(0, &parts[0]), rows] {
        writer.handle_event(&event).unwrap();
        live.handle_event(&event);
    }
    writer.finish(&summary).unwrap();
    live.finish(&summary);
    let archive = Archive::open(dir).unwrap();
    let view = View::of_archive(&archive, &summary).unwrap();
    schema::assert_described("view", &serde_json::to_value(&view).unwrap());
    schema::assert_described("plan", &archive.manifest.plan);
    let mut out: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .collect();
    out.push(("page".to_owned(), page::render(&view).into_bytes()));
    out.push(("its data".to_owned(), serde_json::to_vec(&view).unwrap()));
    out.push(("live page".to_owned(), serde_json::to_vec(&live.view()).unwrap()));
    out.push(("terminal".to_owned(), drawn(&summary, &[], Style::default()).into_bytes()));
    let mut summary_json = Vec::new();
    json::write_summary(&summary, &mut summary_json).unwrap();
    out.push(("--json".to_owned(), summary_json));
    let vegeta = |format| Export::Vegeta(format, RowLatency::Corrected);
    for export in [
        Export::Csv,
        Export::Ndjson,
        Export::Hgrm(Span::Corrected),
        Export::Hlog,
        Export::Junit,
        Export::Markdown,
        vegeta(RowFormat::Csv),
        vegeta(RowFormat::Json),
    ] {
        let mut text = Vec::new();
        let run = ExportedRun { archive: &archive, summary: &summary, gate: None };
        write_export(export, &run, &mut text).unwrap();
        out.push((format!("{export:?}"), text));
    }
    let head = RowHead {
        name: "run".to_owned(),
        every: 1,
        epoch_unix_ns: 0,
        targets: plan.targets.iter().map(RowTarget::of).collect(),
        latency: RowLatency::Corrected,
    };
    let mut text = Vec::new();
    write_rows(&head, RowFormat::Json, vec![row], &mut text).unwrap();
    out.push(("--rows".to_owned(), text));
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn a_secret_in_any_text_of_a_plan_is_written_nowhere(
        secret in "[A-Za-z0-9]{14,40}",
        has_prefix: bool,
    ) {
        let mut plan = whole_plan();
        if let Some(mqtt) = plan.mqtt.as_mut().filter(|_| has_prefix) {
            mqtt.client_ids = ClientIds::Prefix("a client".to_owned());
        }
        let (plan, count) = filled(&plan, &secret);
        // Headers alone have eight.
        prop_assert!(count >= 27, "{count} texts of {plan:?}");
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in written(&plan, &dir.path().join("run")) {
            let found = contained(&bytes, &secret);
            prop_assert!(found.is_none(), "{name} has {found:?}: {}", String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn a_secret_is_found_in_every_form() {
    let secret = "hunter2-sesame";
    for offset in 0..3 {
        let bytes = [&b"xyz"[..offset], secret.as_bytes(), b"!"].concat();
        assert!(contained(STANDARD.encode(bytes).as_bytes(), secret).is_some(), "{offset}");
    }
    assert!(contained(&serde_json::to_vec_pretty(secret.as_bytes()).unwrap(), secret).is_some());
    assert!(contained(b"a hunter2-sesame b", secret).is_some());
    assert!(contained(b"hunter3", secret).is_none());
}

#[test]
fn an_archives_files_are_their_owners() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    written(&whole_plan(), &run);
    HostWriter::create(&run).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&run), 0o700);
    for entry in fs::read_dir(&run).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}
