//! The fit of all storms together: the largest one that the server survives. It uses the likelihood of the search for
//! rates: the probability of recovery falls with the number of connections that are cut.

use crate::search::likelihood::{Mixture, Posterior, Sample};

use super::evidence::Evidence;

/// The safe storm is survived by this share of storms, with this confidence.
const SAFE: (f64, f64) = (0.9, 0.9);

/// The largest storm by all that were judged.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    posterior: Posterior,
    sample: Sample,
    /// Ends of the interval, connections.
    pub(super) lower: u64,
    pub(super) upper: u64,
}

/// Fits `evidence`; `None` without a storm.
pub(super) fn fit(evidence: &Evidence, confidence: f64) -> Option<Fit> {
    let mut sample = Sample::default();
    for storm in &evidence.storms {
        sample.add((storm.cut as f64).ln(), Mixture::default(), storm.good);
    }
    let posterior = Posterior::of(std::slice::from_ref(&sample))?;
    let tail = 0.5 * (1.0 - confidence);
    let lower = posterior.quantile(tail).exp().floor().max(0.0) as u64;
    let upper = posterior.quantile(1.0 - tail).exp().ceil() as u64;
    Some(Fit { posterior, sample, lower, upper })
}

impl Fit {
    /// Returns the relative width of the interval.
    pub(super) fn width(&self) -> f64 {
        match self.lower {
            0 => f64::INFINITY,
            lower => self.upper as f64 / lower as f64 - 1.0,
        }
    }

    /// Returns the connections below which the largest storm lies with probability `q`.
    pub(super) fn quantile(&self, q: f64) -> f64 {
        self.posterior.quantile(q).exp()
    }

    /// Returns the information of a storm of `cut` connections, bits.
    pub(super) fn information(&self, cut: u64) -> f64 {
        self.posterior.information((cut as f64).ln())
    }

    /// Returns the standard deviation of the largest storm from one to the next, relative.
    pub(super) fn spread(&self) -> f64 {
        self.posterior.spread()
    }

    /// Returns the standard deviations by which the verdicts contradict one largest storm.
    pub(super) fn surprise(&self) -> f64 {
        self.posterior.surprise(&self.sample)
    }

    /// Returns the storm that 9 of 10 survive, with a confidence of 90 %.
    pub(super) fn safe(&self) -> Option<u64> {
        let (share, confidence) = SAFE;
        let cut = self.posterior.safe(share, confidence)?.exp().floor();
        (cut >= 1.0).then_some(cut as u64)
    }
}
