//! The variation of the capacity within a trial: factors in slices of equal length.

/// Factors of the capacity, one for each slice; the last one also applies afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Slices {
    factors: Vec<f64>,
    length_s: f64,
}

impl Slices {
    /// A capacity that does not vary.
    pub(crate) const STEADY: Self = Self { factors: Vec::new(), length_s: f64::MAX };

    /// Multiplies the slices of the first `window_s` seconds by further factors, which are asked
    /// for in slices of `length_s` or finer: `factor` gets the start of each slice and its length,
    /// seconds.
    pub(crate) fn multiply(
        &mut self,
        window_s: f64,
        length_s: f64,
        mut factor: impl FnMut(f64, f64) -> f64,
    ) {
        let fine_s = length_s.min(self.length_s);
        let count = ((window_s / fine_s).ceil() as usize).max(1);
        let before = std::mem::replace(self, Self { factors: Vec::new(), length_s: fine_s });
        let factors = (0..count).map(|slice| {
            let start_s = slice as f64 * fine_s;
            let index = (start_s / before.length_s) as usize;
            let already = before.factors.get(index).copied().unwrap_or(1.0);
            already * factor(start_s, fine_s)
        });
        self.factors = factors.collect();
    }

    /// Returns the factor at `t`.
    pub(crate) fn at(&self, t: f64) -> f64 {
        let index = (t / self.length_s + 1e-9) as usize;
        self.factors.get(index).or_else(|| self.factors.last()).copied().unwrap_or(1.0)
    }

    /// Returns the first instant after `t` at which the factor may change.
    pub(crate) fn edge(&self, t: f64) -> Option<f64> {
        let next = ((t / self.length_s + 1e-9).floor() + 1.0) * self.length_s;
        let last = self.factors.len() as f64 * self.length_s;
        (self.factors.len() > 1 && next < last + 1e-9).then_some(next)
    }
}
