//! The watch of a storm that is not over in time: does it end by itself?
//!
//! Clients that give up leave work behind: the server makes their handshakes after they have left, and the retries keep
//! its queue full. Such a storm makes no progress, however long it lasts, and the retries feed it.

use plimsoll_model::Nanos;
use plimsoll_model::storm::{Endless, StormCounts};

use super::settings::StormSettings;

/// Progress is compared over at least this time.
const WINDOW_MIN: Nanos = Nanos::from_secs(3);
/// Patiences for which a storm is watched beyond the time for recovery.
const PATIENCES: u64 = 3;
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
}

/// The finding of a watch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Finding {
    /// It is not decided yet.
    Wait,
    /// It is late, and ends by itself.
    Ends,
    /// It makes no progress.
    Endless(Endless),
}

impl Watch {
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
        let window = WINDOW_MIN.max(settings.patience);
        let before = self.samples.iter().rfind(|earlier| earlier.at + window <= since);
        let Some(before) = before else { return Finding::Wait };
        let window_s = since.since(before.at).as_secs_f64();
        let came = before.missing.saturating_sub(sample.missing) as f64;
        let is_moving = came > PROGRESS * sample.missing as f64;
        let left_s = sample.missing as f64 * window_s / came.max(1e-9);
        if is_moving && left_s <= ENDS_WITHIN * settings.recover.as_secs_f64() {
            return Finding::Ends;
        }
        let watched = settings.recover + Nanos(PATIENCES * window.0);
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
