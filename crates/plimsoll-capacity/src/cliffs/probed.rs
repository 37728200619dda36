//! The findings of all connections of the timeout probe: one row per kind.
//!
//! [`rows`] groups the ends of connections by [`ProbeKind`] and picks the connection with the median wait of each
//! kind. No timer is named for a wait that nothing ended, an end within 100 ms or an ordinary answer. Otherwise
//! [`reason`] derives the owner from the closer, and a known timer may replace it. [`came_from_behind`] separates a
//! backend from a proxy: it compares the ends of half a body and of half a head. Start reading at [`row`].

use plimsoll_model::Nanos;
use plimsoll_model::cliff::{
    Awaits, Confidence, Hand, KnownTimer, Owner, ProbeEnd, ProbeKind, ProbedTimer,
};
use plimsoll_model::ending::Closer;

use super::constants::{self, SAME};
use super::owner::{Ascription, with_known};

/// Stretches that end sooner were refused, not waited for.
const AT_ONCE: Nanos = Nanos::from_millis(100);

/// Returns one row for each kind of connection that got as far as waiting.
pub fn rows(ends: &[ProbeEnd], known: &[KnownTimer]) -> Vec<ProbedTimer> {
    let of_kind = |kind| ends.iter().filter(|end| end.kind == kind).collect::<Vec<_>>();
    let all = ProbeKind::ALL.into_iter().map(of_kind).filter(|ends| !ends.is_empty());
    let all: Vec<Vec<&ProbeEnd>> = all.collect();
    let typical: Vec<&ProbeEnd> = all.iter().map(|ends| typical(ends)).collect();
    all.iter().zip(&typical).map(|(kind, end)| row(end, kind.len(), &typical, known)).collect()
}

/// Returns the connection that waited the median time.
fn typical<'a>(ends: &[&'a ProbeEnd]) -> &'a ProbeEnd {
    let mut sorted = ends.to_vec();
    sorted.sort_by_key(|end| end.after);
    sorted[sorted.len() / 2]
}

fn row(end: &ProbeEnd, connections: usize, all: &[&ProbeEnd], known: &[KnownTimer]) -> ProbedTimer {
    let is_over = end.closer == Closer::Us;
    let found = if is_over {
        Ascription::new(Owner::Unknown, Confidence::Possible, "nothing ended the wait")
    } else if end.after < AT_ONCE {
        Ascription::new(Owner::Unknown, Confidence::Likely, "ended at once: no timer")
    } else if end.closer == Closer::Success {
        Ascription::new(Owner::Unknown, Confidence::Likely, "an ordinary answer: no timer")
    } else {
        let found = with_known(reason(end, all), end.after, known, awaits(end.kind));
        let name = found.name.or_else(|| constants::label(end.after, false));
        Ascription { name, ..found }
    };
    ProbedTimer {
        kind: end.kind,
        connections: u32::try_from(connections).unwrap_or(u32::MAX),
        after_ms: (!is_over).then(|| end.after.as_millis_f64()),
        closer: end.closer,
        label: found.name,
        owner: found.owner,
        evidence: found.evidence,
    }
}

const fn awaits(kind: ProbeKind) -> &'static [Awaits] {
    match kind {
        ProbeKind::Connected => &[Awaits::Opening, Awaits::Request, Awaits::NextRequest],
        ProbeKind::TlsDone => &[Awaits::Request, Awaits::NextRequest],
        ProbeKind::HalfHead | ProbeKind::HalfBody => &[Awaits::Request],
        ProbeKind::Answered => &[Awaits::NextRequest],
        ProbeKind::SlowAnswer => &[Awaits::Answer],
    }
}

fn reason(end: &ProbeEnd, all: &[&ProbeEnd]) -> Ascription {
    let sut = |evidence: &str| Ascription::new(Owner::Sut, Confidence::Likely, evidence);
    let backend = |evidence: &str| Ascription::new(Owner::Backend, Confidence::Likely, evidence);
    match (end.kind, end.closer) {
        (_, Closer::Status(502)) => backend("502: what is behind the proxy closed first"),
        (_, Closer::Status(504)) => sut("504: the proxy stopped waiting for its backend"),
        (ProbeKind::HalfBody, _) if came_from_behind(end, all) => backend(
            "written like the good answers, and not like what ends half a head: it came from \
             behind the proxy",
        ),
        (ProbeKind::HalfBody, _) => sut("ended as the server itself ends a request"),
        (ProbeKind::SlowAnswer, _) => sut("ended by the server before its answer came"),
        _ => sut("nothing behind the server has heard of this connection"),
    }
}

/// Reports whether half a body and half a head were ended by different programs: a proxy forwards a complete head, so
/// that the server behind it waits for the body as well.
fn came_from_behind(body: &ProbeEnd, all: &[&ProbeEnd]) -> bool {
    let of = |kind| all.iter().find(|end| end.kind == kind);
    let good = of(ProbeKind::Answered).and_then(|end| end.good_hand.as_ref());
    let (Some(hand), Some(good)) = (&body.hand, good) else { return false };
    let Some(head) = of(ProbeKind::HalfHead) else { return false };
    let differs = |hand: &Hand| head.hand.as_ref().is_some_and(|other| other != hand);
    let off = (body.after.0 as f64 / head.after.0.max(1) as f64).ln().abs();
    hand == good && (differs(hand) || (head.hand.is_none() && off > SAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(kind: ProbeKind, s: u64, closer: Closer, hand: Option<&str>) -> ProbeEnd {
        let hand = hand.map(|names| Hand(names.split(' ').map(str::to_owned).collect()));
        ProbeEnd { kind, after: Nanos::from_secs(s), closer, hand, good_hand: None }
    }

    fn answered(s: u64, closer: Closer, good: &str) -> ProbeEnd {
        let good_hand = Some(Hand(good.split(' ').map(str::to_owned).collect()));
        ProbeEnd { good_hand, ..end(ProbeKind::Answered, s, closer, None) }
    }

    fn owner_of_body(ends: &[ProbeEnd]) -> Owner {
        let rows = rows(ends, &[]);
        rows.iter().find(|row| row.kind == ProbeKind::HalfBody).expect("a row").owner
    }

    #[test]
    fn half_a_body_is_the_backends_only_if_another_program_ended_half_a_head() {
        let late = Closer::Status(408);
        let proxy = [
            end(ProbeKind::HalfHead, 10, late, Some("cache-control content-type")),
            answered(60, Closer::Us, "x-app"),
        ];
        let with = |first: &ProbeEnd, s, hand| {
            owner_of_body(&[
                first.clone(),
                proxy[1].clone(),
                end(ProbeKind::HalfBody, s, late, Some(hand)),
            ])
        };
        assert_eq!(with(&proxy[0], 17, "x-app"), Owner::Backend);
        assert_eq!(with(&proxy[0], 17, "cache-control content-type"), Owner::Sut);
        // One server by itself: the same program ends both.
        let alone = end(ProbeKind::HalfHead, 10, late, Some("x-app"));
        assert_eq!(with(&alone, 10, "x-app"), Owner::Sut);
        // A proxy that closes without a word.
        let silent = end(ProbeKind::HalfHead, 60, Closer::PeerFin, None);
        assert_eq!(with(&silent, 17, "x-app"), Owner::Backend);
        assert_eq!(with(&silent, 60, "x-app"), Owner::Sut);
    }

    #[test]
    fn what_nothing_ended_and_what_was_refused_at_once_is_no_timer() {
        let refused = ProbeEnd {
            after: Nanos::from_millis(2),
            ..end(ProbeKind::HalfBody, 0, Closer::Status(405), Some("x"))
        };
        let rows = rows(&[end(ProbeKind::Connected, 150, Closer::Us, None), refused], &[]);
        assert_eq!(rows[0].after_ms, None);
        assert_eq!((rows[0].owner, rows[1].owner), (Owner::Unknown, Owner::Unknown));
        assert!(rows.iter().all(|row| row.label.is_none()), "{rows:?}");
    }

    #[test]
    fn the_median_of_its_connections_makes_the_row_and_known_timers_name_it() {
        let known = KnownTimer {
            name: "HAProxy timeout http-keep-alive".to_owned(),
            at: Nanos::from_secs(3),
            owner: Owner::Sut,
            awaits: Awaits::NextRequest,
        };
        let ends = [3, 9, 3].map(|s| answered(s, Closer::PeerFin, "x"));
        let rows = rows(&ends, &[known]);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].connections, rows[0].after_ms), (3, Some(3_000.0)));
        assert_eq!(rows[0].label.as_deref(), Some("HAProxy timeout http-keep-alive"));
    }
}
