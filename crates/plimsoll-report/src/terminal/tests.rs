//! Golden pages from hand-made records.

use plimsoll_model::hold::{ConnectionsFound, FailedAt, HoldEnd, ServerFailure, Side, Swept};
use plimsoll_model::host::{EndStatus, HostSummary, LimitId, LimitKind, SourceKind, SourceSummary};
use plimsoll_model::result::RunResult;
use plimsoll_model::search::Axis;
use plimsoll_model::settings::Operation;
use plimsoll_model::summary::{DeliverySummary, LoadHostSummary, Summary};
use plimsoll_model::tally::DeliveryCounts;
use plimsoll_model::target::Protocol;
use plimsoll_model::trial::{
    CheckId, Confirmations, Met, Outcome, Phase, Recovery, SafeMissing, Stopped, TrialRecord,
    TrialsAtLoad, Unit, Unsettled, Verdict, trial_at_lower_bound,
};
use plimsoll_model::{Nanos, Rate};

use super::*;
use crate::fixtures;
use crate::fixtures::golden;

fn page(summary: &Summary, trials: &[TrialRecord], color: bool) -> String {
    let text = render(summary, trials, Style { color, ..Style::default() });
    // Escapes are shown, so that a snapshot is plain text.
    text.replace('\x1b', "<esc>")
}

#[test]
fn load_pages() {
    for (name, summary) in [
        ("load_good", fixtures::load_good()),
        ("load_bad", fixtures::load_bad()),
        ("load_with_reasons", fixtures::load_with_reasons()),
        ("load_invalid", fixtures::load_invalid()),
        ("load_closed", fixtures::load_closed()),
        ("load_partial", fixtures::load_partial()),
        ("load_refused", fixtures::load_refused()),
        ("load_all_5xx", fixtures::load_all_5xx()),
        ("load_stopped_early", fixtures::load_stopped_early()),
    ] {
        golden(name, &page(&summary, &[], false));
    }
    golden("load_bad_color", &page(&fixtures::load_bad(), &[], true));
}

#[test]
fn nothing_was_sent_is_only_said_where_that_is_so() {
    let mut summary = fixtures::load_good();
    summary.operations.send_lag_ms = Default::default();
    let text = page(&summary, &[], false);
    assert!(text.contains("send lag was not measured"), "{text}");
    summary.bytes.sent = 0;
    assert!(page(&summary, &[], false).contains("nothing was sent"));
}

#[test]
fn deliveries_that_are_lost_or_come_again_are_in_the_first_sentence() {
    let counted = |lost, duplicated| {
        let counts = DeliveryCounts { expected: 20_000, ..DeliveryCounts::default() };
        let deliveries = DeliverySummary { counts, lost, duplicated, ..DeliverySummary::default() };
        let mut summary = fixtures::load_good();
        summary.answers.deliveries = Some(deliveries);
        page(&summary, &[], false).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(counted(20, 26).contains("Of 20,000 deliveries 20 did not come, 26 came again."));
    assert!(counted(20, 0).contains("Of 20,000 deliveries 20 did not come."));
    assert!(!counted(0, 0).contains("Of 20,000 deliveries"));
    assert!(counted(0, 0).contains("Delivered 0 of 20,000; lost 0; duplicated 0; reordered 0"));
}

#[test]
fn other_hosts_are_counted_with_the_worst_clock_and_those_that_were_lost() {
    let mut summary = fixtures::load_good();
    let host = |bound: f64, lost: Option<&str>| LoadHostSummary {
        threads: 8,
        clock_bound_ms: bound,
        round_trip_ms: bound * 2.0,
        clock_offset_ms: 0.0,
        clock_drift_ms: -bound * 3.0,
        start_margin_ms: Some(980.0),
        ports_per_source: Some(28_232),
        scheduled: 500,
        ok: 498,
        busiest_thread: bound,
        send_lag_p99_ms: Some(bound * 10.0),
        lost: lost.map(str::to_owned),
    };
    assert!(!page(&summary, &[], false).contains("Hosts"));
    summary.machines.load_hosts = [
        ("client01".to_owned(), host(0.1, None)),
        ("client02".to_owned(), host(0.4, Some("ended unexpectedly: exit code 255"))),
    ]
    .into();
    let words: Vec<_> = page(&summary, &[], false).split_whitespace().map(str::to_owned).collect();
    let text = words.join(" ");
    for line in [
        "Hosts 2 hosts with 16 threads",
        "each began within 0.400 ms of the common instant (bound; client02 by a round trip of 0.800 ms)",
        "clocks drifted by at most 1.20 ms in a load (client02)",
        "client02 sent latest: 99 % within 4.00 ms of the instant, its busiest thread at 40 % of a CPU",
        "lost: client02 ended unexpectedly: exit code 255",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let (found, trials) = fixtures::find_regular();
    let found = Summary { machines: summary.machines, ..found };
    assert!(page(&found, &trials, false).contains("2 hosts with 16 threads"));
}

#[test]
fn sources_that_were_lost_in_a_run_are_named() {
    let mut summary = fixtures::load_good();
    assert!(!page(&summary, &[], false).contains("Sources"));
    let lost = |kind, name: &str, after_s, reason: Option<&str>, ended| SourceSummary {
        kind,
        name: name.to_owned(),
        pid: (kind == SourceKind::Process).then_some(4_711),
        after_s,
        reason: reason.map(str::to_owned),
        ended,
    };
    let sources_lost = vec![
        lost(SourceKind::Process, "haproxy", 3.0, None, Some(EndStatus::Killed(9))),
        lost(SourceKind::Haproxy, "haproxy:/x", 4.0, Some("Connection refused"), None),
    ];
    let mut host = HostSummary::default();
    host.sources_lost = sources_lost;
    summary.machines.hosts = [("web1".to_owned(), host)].into();
    let words: Vec<_> = page(&summary, &[], false).split_whitespace().map(str::to_owned).collect();
    let expected = "Sources process haproxy (4711) ended after 3.00 s: killed by SIGKILL \
                    haproxy:/x not read from 4.00 s on: Connection refused";
    assert!(words.join(" ").contains(expected), "{}", words.join(" "));
}

#[test]
fn limits_that_the_server_announced_are_stated_where_they_shaped_the_result() {
    let text = |summary: &Summary| {
        page(summary, &[], false).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut summary = fixtures::load_good();
    summary.answers.announced.idle_s = 5;
    summary.answers.streams.each = 10;
    assert!(!text(&summary).contains("Announced"), "{}", text(&summary));
    summary.settings.load.as_mut().expect("a load").protocol = Protocol::Http2;
    summary.answers.streams.allowed = Some(2);
    let expected = "Announced the server allows 2 streams per connection \
                    (SETTINGS_MAX_CONCURRENT_STREAMS): 10 were asked for";
    assert!(text(&summary).contains(expected), "{}", text(&summary));
    summary.settings.load.as_mut().expect("a load").protocol = Protocol::Mqtt;
    let expected = "Announced the broker allows 2 unacknowledged publishes per connection \
                    (receive maximum): 10 were asked for";
    assert!(text(&summary).contains(expected), "{}", text(&summary));
    summary.answers.streams.allowed = None;
    summary.connections.counts.closed_by_peer = 3;
    (summary.answers.announced.ends, summary.answers.announced.requests_min) = (12, 98);
    summary.answers.announced.requests_max = 100;
    let expected = "Announced the server ended 12 connections after 98 to 100 requests, by \
                    Connection: close the server closes connections that are idle for 5 s \
                    (Keep-Alive: timeout=5)";
    assert!(text(&summary).contains(expected), "{}", text(&summary));
    summary.answers.announced.requests_min = 100;
    assert!(text(&summary).contains("after 100 requests, its limit (keepalive_requests of nginx"));
}

#[test]
fn a_search_whose_answers_are_all_redirects_warns() {
    let (summary, mut trials) = fixtures::find_regular();
    for trial in &mut trials {
        let status = &mut trial.measurement.tally.answers.status;
        *status = Default::default();
        status.add(301, 7_000);
    }
    let text = page(&summary, &trials, false);
    assert!(text.contains("Warning      every answer is a redirect"), "{text}");
    assert!(text.contains("which plimsoll does not follow"), "{text}");
}

#[test]
fn hold_pages() {
    for (name, summary) in [
        ("hold_good", fixtures::hold_good()),
        ("hold_bad", fixtures::hold_bad()),
        ("hold_cycles", fixtures::hold_cycles()),
        ("hold_cut_short", fixtures::hold_cut_short()),
        ("hold_nothing", fixtures::hold_nothing()),
    ] {
        golden(name, &page(&summary, &[], false));
    }
}

#[test]
fn find_pages() {
    for (name, (summary, trials)) in [
        ("find_regular", fixtures::find_regular()),
        ("find_generator_limited", fixtures::find_generator_limited()),
        ("find_fails_at_minimum", fixtures::find_fails_at_minimum()),
        ("find_unfinished", fixtures::find_unfinished()),
        ("find_refused", fixtures::find_refused()),
        ("find_several", fixtures::find_several()),
    ] {
        golden(name, &page(&summary, &trials, false));
    }
    golden("find_storm", &page(&fixtures::find_storm(), &[], false));
    golden("find_repeated", &page(&fixtures::find_repeated(), &[], false));
    let (summary, trials) = fixtures::find_regular();
    golden("find_regular_color", &page(&summary, &trials, true));
}

#[test]
fn logs_of_jobs_fold_the_trials_and_show_what_went_wrong_beside_the_job() {
    let logged = |log, (summary, trials): (Summary, Vec<TrialRecord>)| {
        render(&summary, &trials, Style { log: Some(log), ..Style::default() })
    };
    let found = logged(JobLog::GitHub, fixtures::find_regular());
    let (_, folded) = found.split_once("\n::group::Trials\n  # phase").expect("a group");
    assert!(folded.split_once("\n::endgroup::\n").is_some_and(|(table, _)| table.contains("GOOD")));
    assert!(!found.contains("::error") && !found.contains("::warning"), "{found}");
    let missed = logged(JobLog::GitHub, (fixtures::load_bad(), Vec::new()));
    let last = missed.lines().last().unwrap_or_default();
    assert!(last.starts_with("::error title=plimsoll load, BAD::"), "{last}");
    assert!(last.contains("%25") && !last.contains("% "), "{last}");
    let invalid = logged(JobLog::GitHub, (fixtures::load_invalid(), Vec::new()));
    assert!(invalid.contains("\n::warning title=plimsoll load, INVALID::"), "{invalid}");
    let partial = logged(JobLog::GitHub, (fixtures::load_partial(), Vec::new()));
    assert!(partial.contains("\n::warning title=plimsoll load, PARTIAL::"), "{partial}");
    let found = logged(JobLog::GitLab { unix_s: 17 }, fixtures::find_regular());
    let start = "\n\x1b[0Ksection_start:17:trials[collapsed=true]\r\x1b[0KTrials\n";
    assert!(found.contains(start) && found.contains("\n\x1b[0Ksection_end:17:trials\r\x1b[0K\n"));
}

#[test]
fn compare_pages() {
    for (name, summary) in [
        ("compare_saturated", fixtures::compare_saturated()),
        ("compare_duet", fixtures::compare_duet()),
        ("compare_lower", fixtures::compare_lower()),
        ("compare_no_difference", fixtures::compare_no_difference()),
        ("compare_undecided", fixtures::compare_undecided()),
    ] {
        let text = page(&summary, &[], false);
        for line in text.lines() {
            assert!(line.chars().count() <= 80 && line == line.trim_end(), "{line}");
        }
        golden(name, &text);
    }
    golden("compare_saturated_color", &page(&fixtures::compare_saturated(), &[], true));
}

#[test]
fn sizing_page() {
    let text = page(&fixtures::sizing_better(), &[], false);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    golden("sizing_better", &text);
}

#[test]
fn compare_lines() {
    let summary = fixtures::compare_saturated();
    let RunResult::Compare { compare } = &summary.result else { panic!("a comparison") };
    let line = |round| render_round_line(compare.metric, 10, round);
    let lines: Vec<_> = compare.rounds.iter().map(line).collect();
    golden("compare_lines", &lines.join("\n"));
}

#[test]
fn trial_lines() {
    let lines: Vec<_> = fixtures::trials().iter().map(render_trial_line).collect();
    golden("trial_lines", &lines.join("\n"));
    assert!(lines.iter().all(|line| line.len() <= 80), "{lines:#?}");
}

#[test]
fn pages_fit_80_columns_and_colours_change_nothing_else() {
    let loads = [fixtures::load_good(), fixtures::load_bad(), fixtures::load_closed()]
        .map(|summary| (summary, Vec::new()));
    let finds = [fixtures::find_regular(), fixtures::find_generator_limited()];
    for (summary, trials) in loads.into_iter().chain(finds) {
        let plain = page(&summary, &trials, false);
        for line in plain.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            assert_eq!(line, line.trim_end());
        }
        let mut colored = page(&summary, &trials, true);
        for code in ["0", "1", "2", "1;31", "1;32", "1;33"] {
            colored = colored.replace(&format!("<esc>[{code}m"), "");
        }
        assert_eq!(
            colored.lines().map(str::trim_end).collect::<Vec<_>>(),
            plain.lines().collect::<Vec<_>>()
        );
    }
}

#[test]
fn the_cap_is_named_when_the_tipping_point_was_not_reached() {
    let (mut summary, trials) = fixtures::find_regular();
    if let Some(find) = summary.result.find_mut() {
        find.found.outcome = Outcome::NotReached { cap: "--max 20000".to_owned() };
        find.found.upper = None;
    }
    let text = page(&summary, &trials, false);
    assert!(text.contains("at least 18,200/s"), "{text}");
    assert!(text.contains("--max 20000"), "{text}");
}

/// Returns `text` in one line, with single spaces.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_server_that_is_gone_is_told_first() {
    let (mut summary, trials) = fixtures::find_unfinished();
    summary.verdict = Verdict::Bad;
    summary.partial = false;
    if let Some(find) = summary.result.find_mut() {
        let why = Stopped::ServerEnded { how: "haproxy ended: SIGKILL".to_owned() };
        find.found.outcome = Outcome::Unfinished { why };
        find.found.upper = None;
    }
    let text = page(&summary, &trials, false);
    let first =
        "Server lost: haproxy ended: SIGKILL. Until then: at least 16,000/s, which met the SLO.";
    assert!(unwrapped(&text).starts_with(first), "{text}");
}

#[test]
fn confirmations_noise_and_recovery_are_told() {
    let (mut summary, trials) = fixtures::find_regular();
    let find = summary.result.find_mut().expect("a search");
    find.found.confirmations = Confirmations { good: 2, bad: 1, invalid: 1 };
    find.found.spread = Some(0.048);
    find.found.recovery = Some(Recovery::After(Nanos::from_secs(14)));
    let text = page(&summary, &trials, false);
    for expected in
        ["2 of 4 longer trials", "1 INVALID", "4.8 % (standard deviation", "14", "Recovers"]
    {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let find = summary.result.find_mut().expect("a search");
    find.found.recovery = Some(Recovery::No(Nanos::from_secs(14)));
    find.found.outcome = Outcome::Unconfirmed { why: "send-lag: p99 9 ms".to_owned() };
    let text = page(&summary, &trials, false);
    assert!(text.contains("Tipping point not confirmed:"), "{text}");
    assert!(text.contains("is not served"), "{text}");
}

#[test]
fn a_safe_load_that_was_not_found_is_said_to_be_missing() {
    let (mut summary, trials) = fixtures::find_regular();
    let find = summary.result.find_mut().expect("a search");
    (find.found.safe, find.found.safe_missing) = (None, Some(SafeMissing::NoTime));
    let text = page(&summary, &trials, false);
    let at = |words| text.find(words).unwrap_or(usize::MAX);
    assert!(text.starts_with("Tipping point: between"), "{text}");
    assert!(at("Safe load: none: the time budget left no time") < at("Trials"), "{text}");
    let find = summary.result.find_mut().expect("a search");
    find.found.safe_missing = None;
    let text = page(&summary, &trials, false);
    assert!(!text.contains("Safe load:"), "{text}");
}

#[test]
fn the_full_report_begins_with_the_answers_of_the_page() {
    for (summary, trials) in [
        fixtures::find_regular(),
        fixtures::find_generator_limited(),
        fixtures::find_fails_at_minimum(),
        fixtures::find_unstable(),
    ] {
        let text = page(&summary, &trials, false);
        let first = text.lines().take_while(|line| !line.trim().is_empty());
        let first: Vec<_> = first.flat_map(str::split_whitespace).collect();
        // What Markdown says first.
        assert_eq!(first.join(" "), Digest::of(&summary).sentence());
    }
}

#[test]
fn what_is_not_settled_claims_no_interval() {
    let (mut summary, trials) = fixtures::find_regular();
    summary.causes = None;
    let find = summary.result.find_mut().expect("a search");
    (find.found.lower, find.found.upper, find.width) = (None, None, None);
    (find.found.safe, find.found.confidence) = (None, None);
    let why = Unsettled::Spread { sd: 0.3 };
    find.found.outcome = Outcome::Unstable { why };
    let text = page(&summary, &trials, false);
    let text = unwrapped(&text);
    assert!(
        text.starts_with("Unstable: no interval is claimed, because the capacity differs by 30 %"),
        "{text}"
    );
    assert!(!text.contains("Safe load"), "{text}");
    let find = summary.result.find_mut().expect("a search");
    find.found.confirmations = Confirmations { good: 1, bad: 1, invalid: 0 };
    (find.found.confirmed, find.confirm_s) = (Rate::per_second(700.0), 30.0);
    let text = page(&summary, &trials, false);
    assert!(!text.to_lowercase().contains("confirmed"), "{text}");
    assert!(text.contains("Long trials  700/s: 1 of 2 longer trials GOOD"), "{text}");
    let find = summary.result.find_mut().expect("a search");
    let budget = Nanos::from_secs(210);
    find.found.outcome = Outcome::Undecided { why: Unsettled::Time { budget } };
    (find.found.lower, find.found.upper) = (Rate::per_second(700.0), Rate::per_second(900.0));
    find.found.met = Some(Met { trials: 1, longest: Nanos::from_secs(3) });
    let text = unwrapped(&page(&summary, &trials, false));
    let first = "Undecided: between 700/s, which met the SLO for 3.00 s in 1 trial, and 900/s, which \
                 missed it; not one number, because the time budget of 3 m 30 s ended. What to do: \
                 give it more time with --budget; more: plimsoll explain time";
    assert!(text.starts_with(first), "{text}");
    let find = summary.result.find_mut().expect("a search");
    find.found.outcome = Outcome::Bounds { why: Unsettled::Time { budget } };
    find.found.met = Some(Met { trials: 4, longest: Nanos::from_secs(15) });
    let text = unwrapped(&page(&summary, &trials, false));
    let first = "Tipping point: between 700/s, which met the SLO for 15 s in 4 trials, and 900/s, \
                 which missed it; no confidence is stated, because the time budget of 3 m 30 s \
                 ended. What to do: give it more time with --budget; more: plimsoll explain time";
    assert!(text.starts_with(first), "{text}");
    summary.result.find_mut().expect("a search").found.confidence = Some(0.9);
    let text = unwrapped(&page(&summary, &trials, false));
    let range = "Tipping point: between 700/s and 900/s (90 % confidence): the most that the server \
                 takes in even arrivals and meets the SLO; a range, because the time budget of 3 m \
                 30 s ended. What to do: give it more time with --budget; more: plimsoll explain time";
    assert!(text.contains(range), "{text}");
}

#[test]
fn the_lower_bound_is_shown_by_its_confirming_trial() {
    let trials = fixtures::trials();
    let shown = trial_at_lower_bound(&trials, fixtures::rate(18_200.0))
        .map(|trial| trial.measurement.request.number);
    assert_eq!(shown, Some(8));
    // A bound between loads that were measured: the one below it, and none that was BAD.
    let shown = |per_s| trial_at_lower_bound(&trials, fixtures::rate(per_s));
    let number = |per_s| shown(per_s).map(|trial| trial.measurement.request.number);
    assert_eq!((number(18_900.0), number(50.0)), (Some(8), None));
}

#[test]
fn latency_at_the_lower_bound_is_that_of_all_valid_trials_there() {
    let mut trials = fixtures::trials();
    let at = |trials: &[_]| TrialsAtLoad::at_lower_bound(trials, fixtures::rate(18_200.0));
    let good = at(&trials).expect("GOOD twice");
    // One more, BAD and much slower, and one that says nothing.
    for (number, verdict) in [(9, Verdict::Bad), (10, Verdict::Invalid)] {
        trials.push(fixtures::trial(number, Phase::Narrow, 18_200, 20, verdict));
    }
    let all = at(&trials).expect("the same load");
    assert_eq!((good.trials, all.trials), (2, 3));
    assert_eq!(all.tally.scheduled, good.tally.scheduled + 20 * 18_200);
    assert_eq!(all.window, good.window + Nanos::from_secs(20));
    let p90 = |at: &TrialsAtLoad| at.tally.spans.corrected.quantile(0.9);
    assert!(p90(&all) > p90(&good), "{:?} {:?}", p90(&all), p90(&good));
}

#[test]
fn nothing_measured_is_still_a_page() {
    let summary = fixtures::load_empty();
    let text = page(&summary, &[], false);
    assert!(text.contains("0 scheduled"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf/"), "{text}");
}

#[test]
fn loads_that_were_good_and_bad_are_told() {
    let (summary, mut trials) = fixtures::find_regular();
    let told = |trials: &[TrialRecord]| page(&summary, trials, false).contains("GOOD in one trial");
    assert!(!told(&trials));
    for per_s in [8_000, 16_000] {
        // One contradiction may be the tipping point itself.
        assert!(!told(&trials));
        trials.push(fixtures::trial(9, Phase::Narrow, per_s, 5, Verdict::Bad));
    }
    assert!(told(&trials));
}

#[test]
fn handshakes_are_called_by_their_name() {
    let (mut summary, mut trials) = fixtures::find_regular();
    if let Some(find) = summary.result.find_mut() {
        find.axis = Axis::Handshakes;
    }
    summary.settings.load.as_mut().expect("a load").operation = Operation::TlsHandshake;
    let text = page(&summary, &trials, false);
    for words in
        ["18,200 handshakes/s and", "axis handshakes", "CPU per handshake", "nothing is sent"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    // A handshake has no status, and one that was late was answered all the same.
    trials.iter_mut().for_each(|trial| trial.measurement.tally.answers.status = Default::default());
    if let Some(find) = summary.result.find_mut() {
        find.found.outcome = Outcome::FailsAtMinimum;
    }
    let text = page(&summary, &trials, false);
    assert!(text.contains("missed the SLO even at the lowest load"), "{text}");
}

#[test]
fn a_hold_that_lost_everything_states_the_limit_and_nothing_of_no_connections() {
    let mut summary = fixtures::hold_bad();
    let hold = summary.result.hold_mut().expect("a hold");
    hold.last_sweep = Some(Swept { connections: 0, answered: 0 });
    hold.beats.lost = 7;
    hold.end = HoldEnd::ServerFull {
        resource: LimitId::of(LimitKind::FrontendMaxconn, "a"),
        unit: Unit::Count,
        used: 20,
        limit: 20,
    };
    summary.failures.error_classes.insert("timeout".to_owned(), 20);
    let text = page(&summary, &[], false);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "at a limit of its own, maxconn of frontend a: 20 of 20 in use",
        "7 not sent, their connection was lost",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for wrong in ["every one answered", "raise --linger"] {
        assert!(!text.contains(wrong), "{wrong}: {text}");
    }
}

#[test]
fn connections_are_levels_and_no_rates() {
    let (mut summary, mut trials) = fixtures::find_regular();
    let hold = fixtures::hold_good().result.hold().cloned().map(Box::new);
    let memory = hold.as_ref().map(|hold| hold.projections[0].clone());
    let mut find = summary.result.find().cloned().expect("a search");
    find.axis = Axis::Connections;
    (find.found.lower, find.found.upper) = (Rate::per_second(18_200.0), Rate::per_second(18_900.0));
    find.width = Some(0.038);
    find.found.recovery = Some(Recovery::Yes);
    find.connections = Some(ConnectionsFound {
        soak_held: Some(18_200),
        soak_s: 150.0,
        first_limit: memory.clone(),
        first_limit_of: Some(Side::Host),
        stopped_by: None,
        failed_at: Some(FailedAt {
            at: 18_750,
            why: ServerFailure::AcceptsNoMore,
            predicted: memory,
            predicted_off: Some(-0.021),
        }),
    });
    summary.result = RunResult::Connections { find: Box::new(find), hold };
    let held = fixtures::count(CheckId::Held, 18_750, 18_882);
    for trial in trials.iter_mut().filter(|trial| trial.judgement.verdict == Verdict::Bad) {
        trial.judgement.reasons.insert(0, held.clone());
    }
    // However the lines are broken.
    let flat = |summary: &Summary| -> String {
        let text = page(summary, &trials, false);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = flat(&summary);
    for words in [
        "Tipping point: between 18,200 and 18,900 connections (3.8 % wide)",
        "Soak test passed: 18,200 connections held for",
        "Re-ramp from zero: passed",
        "Failed at 18,750 connections: it accepted no more",
        "2.1 % less",
        "Projected limits",
        "held: 18,750 (limit: at least 18,882)",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("18,200/s"), "{text}");
    let failed_at = summary.result.find_mut().and_then(|find| find.connections.as_mut());
    let failed_at = failed_at.and_then(|found| found.failed_at.as_mut()).expect("as above");
    failed_at.predicted_off = Some(9_974.0);
    let text = flat(&summary);
    assert!(text.contains("9,975 times as many") && !text.contains("997400"), "{text}");
    if let Some(find) = summary.result.find_mut() {
        find.found.outcome = Outcome::GeneratorLimited { why: "source ports (clients)".to_owned() };
    }
    let text = flat(&summary);
    assert!(text.contains("at least 18,200 connections: this host was the limit"), "{text}");
    if let Some(find) = summary.result.find_mut() {
        find.found.outcome = Outcome::Unconfirmed { why: "send-lag".to_owned() };
    }
    let text = flat(&summary);
    let open = "Tipping point not confirmed: between 18,200 and 18,900 connections as far as the search measured";
    assert!(text.contains(open) && text.contains("INVALID, because the generator"), "{text}");
}
