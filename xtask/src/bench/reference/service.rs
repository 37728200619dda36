//! How long the reference server takes for a request, and the exact quantiles of that.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

/// The law of the service times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Always as long.
    Fixed(Duration),
    /// Any time from none to this one, each as likely.
    Uniform(Duration),
    /// One request at a time, each `1 / per_s` seconds long.
    Queue { per_s: u32 },
}

impl Service {
    /// The exact quantile `q` (0 to 1) in seconds; a queue has none without its arrivals.
    pub(crate) fn quantile(self, q: f64) -> Option<f64> {
        match self {
            Self::Fixed(span) => Some(span.as_secs_f64()),
            Self::Uniform(longest) => Some(longest.as_secs_f64() * q),
            Self::Queue { .. } => None,
        }
    }
}

/// As on the command line.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(span) => write!(f, "fixed-ms={}", span.as_millis()),
            Self::Uniform(longest) => write!(f, "uniform-ms={}", longest.as_millis()),
            Self::Queue { per_s } => write!(f, "queue-per-s={per_s}"),
        }
    }
}

impl FromStr for Service {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('=').and_then(|(law, number)| {
            let number: u32 = number.parse().ok()?;
            let span = Duration::from_millis(number.into());
            match law {
                "fixed-ms" => Some(Self::Fixed(span)),
                "uniform-ms" => Some(Self::Uniform(span)),
                "queue-per-s" if number > 0 => Some(Self::Queue { per_s: number }),
                _ => None,
            }
        });
        parsed.with_context(|| {
            format!("service {text}: give fixed-ms=N, uniform-ms=N or queue-per-s=N")
        })
    }
}

/// When a queue of `per_s` that is free at `free_at` is through with what arrives at `received`.
/// Times are absolute, so a late wake-up of one request does not slow the next.
pub(super) fn queue_end(free_at: Duration, received: Duration, per_s: u32) -> Duration {
    free_at.max(received) + Duration::from_secs(1) / per_s
}

/// Random shares for one connection: SplitMix64, whose every seed is a good one.
pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new(seed: u64, connection: u64) -> Self {
        // Mixed once, so that neighbouring connections have nothing in common.
        let mut mixer = Self(seed ^ connection.wrapping_mul(0xA076_1D64_78BD_642F));
        Self(mixer.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below 1.
    pub(super) fn next_share(&mut self) -> f64 {
        // 53 bits are what an f64 holds.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_read_as_written() {
        let span = Duration::from_millis(50);
        for service in [Service::Fixed(span), Service::Uniform(span), Service::Queue { per_s: 7 }] {
            assert_eq!(service.to_string().parse::<Service>().unwrap(), service);
        }
        for text in ["", "fixed-ms", "fixed-ms=x", "uniform-ms=-1", "queue-per-s=0", "free=1"] {
            let error = text.parse::<Service>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("service {text}: give ")), "{error}");
        }
    }

    #[test]
    fn laws_have_exact_quantiles() {
        let span = Duration::from_millis(50);
        assert_eq!(Service::Fixed(span).quantile(0.99), Some(0.05));
        assert!((Service::Uniform(span).quantile(0.9).unwrap() - 0.045).abs() < 1e-12);
        assert_eq!(Service::Queue { per_s: 7 }.quantile(0.5), None);
    }

    #[test]
    fn a_queue_serves_one_at_a_time() {
        let ms = Duration::from_millis;
        assert_eq!(queue_end(ms(0), ms(100), 100), ms(110)); // free: at once
        assert_eq!(queue_end(ms(110), ms(101), 100), ms(120)); // busy: after the one before
        assert_eq!(queue_end(ms(120), ms(500), 100), ms(510)); // idle time is not saved up
    }

    #[test]
    fn draws_are_uniform_and_each_connection_has_its_own() {
        let shares = |connection| {
            let mut draws = Draws::new(1, connection);
            (0..10_000).map(|_| draws.next_share()).collect::<Vec<_>>()
        };
        let (first, second) = (shares(0), shares(1));
        assert_eq!(first, shares(0));
        assert_ne!(first, second);
        // The standard error of each decile's share of 20,000 draws is 0.2 %.
        for tenth in 0..10 {
            let range = f64::from(tenth) / 10.0..f64::from(tenth + 1) / 10.0;
            let hits = first.iter().chain(&second).filter(|share| range.contains(share)).count();
            assert!((1_840..2_160).contains(&hits), "{range:?}: {hits}");
        }
    }
}
