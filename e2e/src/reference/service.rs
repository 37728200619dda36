//! Service times of the reference server and their exact quantiles; or its highest rate.
//!
//! [`Service`] is the law as the command line names it: a fixed or uniform time, or a token bucket that bounds the
//! rate. `Bucket::take` is the generic cell rate algorithm on absolute times, so that a late wake-up does not slow
//! the next request; a bucket holds 10 ms of tokens. `Metastable::take` adds a slow state that an overload causes and
//! 4 s without requests end. `Draws` gives reproducible random shares per connection. Start with [`Service`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Every service, as on the command line.
pub const SERVICES: &str = "fixed-ms=N, uniform-ms=N, bucket-per-s=N or metastable-per-s=N";

/// The law of the service times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Always as long.
    Fixed(Duration),
    /// Any time from none to this one, each as likely.
    Uniform(Duration),
    /// A token bucket: so many tokens come per second, it holds those of 10 ms, and a request takes one
    /// or waits for it.
    Bucket {
        /// Tokens per second.
        per_s: u32,
    },
    /// A token bucket that drops to a tenth of its rate once a request had to wait for 80 ms, until no
    /// request has come for 4 s.
    Metastable {
        /// Tokens per second.
        per_s: u32,
    },
}

/// Content of a full bucket, as the time in which it fills.
const BUCKET: Duration = Duration::from_millis(10);
/// Wait that a metastable server bears: less than the 100 ms that 100 connections can make a server of
/// 1,000/s wait.
const PATIENCE: Duration = Duration::from_millis(80);
/// Calm that it needs to recover.
const CALM: Duration = Duration::from_secs(4);

impl Service {
    /// Returns the exact quantile `q` (0 to 1) in seconds; `None` if it depends on the load.
    pub fn quantile(self, q: f64) -> Option<f64> {
        match self {
            Self::Fixed(span) => Some(span.as_secs_f64()),
            Self::Uniform(longest) => Some(longest.as_secs_f64() * q),
            Self::Bucket { .. } | Self::Metastable { .. } => None,
        }
    }
}

/// As on the command line.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(span) => write!(f, "fixed-ms={}", span.as_millis()),
            Self::Uniform(longest) => write!(f, "uniform-ms={}", longest.as_millis()),
            Self::Bucket { per_s } => write!(f, "bucket-per-s={per_s}"),
            Self::Metastable { per_s } => write!(f, "metastable-per-s={per_s}"),
        }
    }
}

impl FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(law, number)| {
            let number: u32 = number.parse().ok()?;
            let span = Duration::from_millis(number.into());
            match law {
                "fixed-ms" => Some(Self::Fixed(span)),
                "uniform-ms" => Some(Self::Uniform(span)),
                "bucket-per-s" if number > 0 => Some(Self::Bucket { per_s: number }),
                "metastable-per-s" if number > 9 => Some(Self::Metastable { per_s: number }),
                _ => None,
            }
        });
        parsed.ok_or_else(|| format!("service {text}: give {SERVICES}"))
    }
}

/// A token bucket, by the time at which it will be full: the generic cell rate algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    /// Since the epoch.
    full_at: Duration,
}

impl Bucket {
    /// When a request that is received then gets its token. Times are absolute, so that a late
    /// wake-up of one request does not slow the next.
    pub(super) fn take(&mut self, received: Duration, per_s: u32) -> Duration {
        let period = Duration::from_secs(1) / per_s;
        self.full_at = self.full_at.max(received) + period;
        received.max(self.full_at.saturating_sub(BUCKET.max(period)))
    }
}

/// A bucket with a second, worse state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Metastable {
    bucket: Bucket,
    is_down: bool,
    last: Duration,
}

impl Metastable {
    /// As [`Bucket::take`].
    pub(super) fn take(&mut self, received: Duration, per_s: u32) -> Duration {
        if received.saturating_sub(self.last) >= CALM {
            *self = Self::default();
        }
        self.last = received;
        let due = self.bucket.take(received, if self.is_down { per_s / 10 } else { per_s });
        self.is_down |= due.saturating_sub(received) >= PATIENCE;
        due
    }
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
        for service in [
            Service::Fixed(span),
            Service::Uniform(span),
            Service::Bucket { per_s: 7 },
            Service::Metastable { per_s: 70 },
        ] {
            assert_eq!(service.to_string().parse::<Service>().unwrap(), service);
        }
        for text in ["", "fixed-ms", "fixed-ms=x", "uniform-ms=-1", "bucket-per-s=0", "free=1"] {
            let error = text.parse::<Service>().unwrap_err();
            assert!(error.starts_with(&format!("service {text}: give ")), "{error}");
        }
    }

    #[test]
    fn laws_have_exact_quantiles() {
        let span = Duration::from_millis(50);
        assert_eq!(Service::Fixed(span).quantile(0.99), Some(0.05));
        assert!((Service::Uniform(span).quantile(0.9).unwrap() - 0.045).abs() < 1e-12);
        assert_eq!(Service::Bucket { per_s: 7 }.quantile(0.5), None);
    }

    #[test]
    fn a_bucket_gives_what_it_has_at_once_and_the_rest_at_its_pace() {
        let ms = Duration::from_millis;
        let mut bucket = Bucket::default();
        // 1,000/s: ten tokens are there, then one comes each millisecond.
        let all_at_once: Vec<_> = (0..14).map(|_| bucket.take(ms(100), 1_000)).collect();
        assert_eq!(all_at_once[..10], [ms(100); 10]);
        assert_eq!(all_at_once[10..], [ms(101), ms(102), ms(103), ms(104)]);
        // 46 ms fill it, and no more than that.
        let later: Vec<_> = (0..11).map(|_| bucket.take(ms(150), 1_000)).collect();
        assert_eq!((later[9], later[10]), (ms(150), ms(151)));
        // A pace below one token in 10 ms still has one.
        let mut slow = Bucket::default();
        assert_eq!(slow.take(ms(5), 10), ms(5));
        assert_eq!(slow.take(ms(6), 10), ms(105));
    }

    #[test]
    fn a_bucket_lets_exactly_its_rate_through() {
        for per_s in [700_u32, 2_300, 9_100] {
            let mut bucket = Bucket::default();
            // Twice as many as it takes, for ten seconds.
            let offered = 20 * per_s;
            let gap = Duration::from_secs(10) / offered;
            let end = Duration::from_secs(10);
            let let_through = (0..offered).filter(|nth| bucket.take(gap * *nth, per_s) <= end);
            let count = let_through.count() as f64;
            let expected = f64::from(10 * per_s) + BUCKET.as_secs_f64() * f64::from(per_s);
            assert!((count - expected).abs() <= 2.0, "{per_s}/s: {count}, not {expected}");
        }
    }

    #[test]
    fn an_overload_is_felt_until_nothing_comes() {
        let ms = Duration::from_millis;
        let mut server = Metastable::default();
        // 2,000/s for a second: after 0.09 s of it the backlog is as long as it bears.
        let dues: Vec<_> = (0..2_000).map(|nth| server.take(ms(nth / 2), 1_000)).collect();
        assert!(dues[150] < ms(150), "{:?}", dues[150]);
        assert!(server.is_down && dues[1_999] > ms(10_000), "{:?}", dues[1_999]);
        // Load that it could well serve keeps it down, however little.
        assert!(server.take(ms(4_900), 1_000) > ms(10_000));
        assert!(server.take(ms(8_800), 1_000) > ms(10_000));
        assert_eq!(server.take(ms(12_800), 1_000), ms(12_800));
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
