//! Quantiles of a histogram as JSON has them: milliseconds, `null` if nothing was measured.

use serde::{Deserialize, Serialize};

use crate::{Histogram, Nanos};

/// Declares sets of quantiles, each with the figure of a histogram that a field is.
macro_rules! quantiles {
    ($($(#[$about:meta])* $name:ident { $($field:ident: $of:expr,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
        pub struct $name {
            $(pub $field: Option<f64>,)*
        }

        impl $name {
            /// Returns the figures with their names, in order.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }

        impl From<&Histogram> for $name {
            fn from(histogram: &Histogram) -> Self {
                let ms = |of: fn(&Histogram) -> Option<Nanos>| of(histogram).map(Nanos::as_millis_f64);
                Self { $($field: ms($of),)* }
            }
        }
    )*};
}

quantiles! {
    /// Quantiles of latencies.
    FullQuantiles {
        min: Histogram::min,
        mean: Histogram::mean,
        p50: |all| all.quantile(0.5),
        p90: |all| all.quantile(0.9),
        p99: |all| all.quantile(0.99),
        p999: |all| all.quantile(0.999),
        max: Histogram::max,
    }
    /// Quantiles of a part of an operation.
    ShortQuantiles {
        p50: |all| all.quantile(0.5),
        p90: |all| all.quantile(0.9),
        p99: |all| all.quantile(0.99),
        max: Histogram::max,
    }
    /// Quantiles of a delay.
    LagQuantiles {
        p50: |all| all.quantile(0.5),
        p99: |all| all.quantile(0.99),
        max: Histogram::max,
    }
    /// The figures of a KPI of RFC 9411.
    MinAvgMax {
        min: Histogram::min,
        avg: Histogram::mean,
        max: Histogram::max,
    }
}

impl FullQuantiles {
    /// Returns the median, the 90th, 99th and 99.9th percentile, and the longest.
    pub const fn from_median(&self) -> [Option<f64>; 5] {
        [self.p50, self.p90, self.p99, self.p999, self.max]
    }
}
