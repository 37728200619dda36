//! The watch of a storm that is not over in time: does it end by itself?
//!
//! Clients that give up leave work behind: the server makes their handshakes after they have left, and the retries keep
//! its queue full. Such a storm makes no progress, however long it lasts, and the retries feed it.

use plimsoll_model::Nanos;
use plimsoll_model::storm::{Endless, StormCounts};

use super::settings::StormSettings;

/// Progress is compared over at least this time.
const WINDOW_MIN: Nanos = Nanos::from_secs(3);
/// Counts cover whole seconds and come as late; clients at the head of the queue are served a moment after the others
/// gave up.
const COUNTED: Nanos = Nanos::from_secs(3);
/// A storm whose clients need longer for their attempts is not watched.
const WINDOW_MAX: Nanos = Nanos::from_secs(120);
/// Windows for which a storm is watched beyond the time for recovery.
const WINDOWS: u64 = 3;
/// A storm that needs more than this number of recovery times ends too late to be called one that ends.
const ENDS_WITHIN: f64 = 20.0;
/// A part of the missing clients that comes back within a window is progress.
const PROGRESS: f64 = 0.02;

/// The state of a storm at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    at: Nanos,
    missing: u64,
    retries: u64,
}

/// The samples of one storm.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    samples: Vec<Sample>,
    /// A storm of this size, or a smaller one, is known not to end.
    is_known: bool,
}

/// The clients that came back in a window.
#[derive(Clone, Copy, Debug)]
struct Progress {
    before: Sample,
    window_s: f64,
    /// Time until all are back at this pace.
    left: Nanos,
    is_moving: bool,
}

/// The finding of a watch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Finding {
    /// The storm is not decided yet.
    Wait,
    /// The storm is late, and ends by itself.
    Ends,
    /// The storm makes no progress.
    Endless(Endless),
}

impl Watch {
    /// Creates a watch before its storm; `is_known` if it is known not to end.
    pub(super) fn new(is_known: bool) -> Self {
        Self { samples: Vec::new(), is_known }
    }

    /// Returns the progress over the last `window`; `None` if the storm is younger.
    fn progress(&self, window: Nanos, since: Nanos) -> Option<Progress> {
        let now = self.samples.last()?;
        let before = *self.samples.iter().rfind(|earlier| earlier.at + window <= since)?;
        let window_s = since.since(before.at).as_secs_f64();
        let came = before.missing.saturating_sub(now.missing) as f64;
        let left = Nanos::from_secs_f64((now.missing as f64 * window_s / came.max(1e-6)).min(1e6));
        let is_moving = came > PROGRESS * now.missing as f64;
        Some(Progress { before, window_s, left, is_moving })
    }

    /// Takes the counts since the cut, `since` after it.
    pub(super) fn look(
        &mut self,
        counts: &StormCounts,
        since: Nanos,
        settings: &StormSettings,
    ) -> Finding {
        let sample = Sample { at: since, missing: counts.missing(), retries: counts.retries };
        self.samples.push(sample);
        if since <= settings.recover {
            return Finding::Wait;
        }
        // All attempts of a client, pauses included.
        let window = WINDOW_MIN.max(settings.patience + settings.pause);
        if self.is_known || window > WINDOW_MAX {
            return Finding::Ends;
        }
        // No client has given up yet that will be served by then.
        let soon = self.progress(WINDOW_MIN, since).map(|progress| since + progress.left);
        if soon.is_some_and(|end| end <= settings.patience) {
            return ends(soon, since, settings);
        }
        // Until the first clients have given up, and the clients served by then are counted, returning clients say
        // nothing about the others.
        if since < settings.patience + COUNTED + window {
            return Finding::Wait;
        }
        let Some(progress) = self.progress(window, since) else { return Finding::Wait };
        let Progress { before, window_s, left, is_moving } = progress;
        let left_max = ENDS_WITHIN * settings.recover.as_secs_f64();
        if is_moving && left.as_secs_f64() <= left_max {
            return ends(Some(since + left), since, settings);
        }
        let watched = settings.recover.max(settings.patience) + Nanos(WINDOWS * window.0);
        if since < watched {
            return Finding::Wait;
        }
        let retries = sample.retries.saturating_sub(before.retries);
        match !is_moving && retries > 0 {
            true => Finding::Endless(Endless {
                retries_per_s: retries as f64 / window_s,
                missing: sample.missing,
                watched_s: since.as_secs_f64(),
            }),
            false => Finding::Ends,
        }
    }
}

/// The storm ends at about `end`, which is waited for if it is near: the time is worth a figure.
fn ends(end: Option<Nanos>, since: Nanos, settings: &StormSettings) -> Finding {
    let is_near = end.is_some_and(|end| end <= Nanos(2 * settings.recover.0));
    match is_near && since <= Nanos(2 * settings.recover.0) {
        true => Finding::Wait,
        false => Finding::Ends,
    }
}
