//! Limits that the server announced, if they shaped the result.

use plimsoll_model::announced::Uniform;
use plimsoll_model::summary::Summary;
use plimsoll_model::target::Protocol;
use plimsoll_model::trial::CheckId;
use plimsoll_model::units::grouped;

use super::layout::{Page, Tone, counted};

/// Limits that the server announced, and answers that are all of one kind where no check says so.
pub(super) fn announced(page: &mut Page, summary: &Summary) {
    let limits = [operations_at_once(summary), requests(summary), idle(summary)];
    page.entry_lines("Announced", limits.into_iter().flatten());
    let statuses =
        summary.answers.status.iter().filter_map(|(code, n)| Some((code.parse().ok()?, *n)));
    let (check, text) = match Uniform::of(statuses) {
        None => return,
        Some(Uniform::Redirects) => (CheckId::Redirects, "every answer is a redirect".to_owned()),
        Some(Uniform::Refusal(status)) => (CheckId::Refused, format!("every answer is {status}")),
    };
    if summary.reasons.iter().any(|made| made.id == check) {
        return;
    }
    page.hanging(Tone::Warn, &format!("{:11}", "Warning"), &text);
    page.quiet(13, check.hint().unwrap_or_default())
}

/// Returns a note if the server allows fewer operations at once on a connection than were asked for.
fn operations_at_once(summary: &Summary) -> Option<String> {
    let asked = summary.answers.streams.each;
    let allowed = summary.answers.streams.allowed.filter(|allowed| (1..asked).contains(allowed))?;
    let (who, what, by) = match is_http2(summary) {
        true => ("server", "stream", "SETTINGS_MAX_CONCURRENT_STREAMS"),
        false => ("broker", "unacknowledged publish", "receive maximum"),
    };
    let allowed = counted(allowed.into(), what);
    Some(format!(
        "the {who} allows {allowed} per connection ({by}): {} were asked for",
        grouped(asked.into())
    ))
}

fn is_http2(summary: &Summary) -> bool {
    summary.settings.has_load(|load| load.protocol == Protocol::Http2)
}

/// Requests after which the server ended connections of its own accord.
fn requests(summary: &Summary) -> Option<String> {
    let announced = &summary.answers.announced;
    let (fewest, most) = (announced.requests_min, announced.requests_max);
    let connections = match announced.ends {
        0 => return None,
        ends => counted(ends, "connection"),
    };
    let by = if is_http2(summary) { "GOAWAY" } else { "Connection: close" };
    let after = match most {
        1 => "1 request".to_owned(),
        _ if fewest == most => format!("{} requests", grouped(most)),
        _ => format!("{} to {} requests", grouped(fewest), grouped(most)),
    };
    // One value on several connections is a limit.
    let limit = match fewest == most && announced.ends > 1 && most > 1 {
        true => ", its limit (keepalive_requests of nginx, MaxKeepAliveRequests of Apache)",
        false => "",
    };
    Some(format!("the server ended {connections} after {after}{limit}, by {by}"))
}

/// Returns the time after which it closes idle connections, where it closed some.
fn idle(summary: &Summary) -> Option<String> {
    let seconds = Some(summary.answers.announced.idle_s).filter(|seconds| *seconds > 0)?;
    let counts = &summary.connections.counts;
    let lost = counts.closed_by_peer + counts.reset_by_peer;
    let lost_in_hold = summary.result.hold().is_some_and(|hold| !hold.loss_classes.is_empty());
    (lost > 0 || lost_in_hold).then(|| {
        format!("the server closes connections that are idle for {seconds} s (Keep-Alive: timeout={seconds})")
    })
}
