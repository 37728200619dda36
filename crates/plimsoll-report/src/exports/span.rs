//! The spans of an operation that histograms are kept of, by name.

use plimsoll_model::Histogram;
use plimsoll_model::spans::Spans;

macro_rules! spans {
    ($($(#[$doc:meta])* $variant:ident = $name:ident;)*) => {
        /// A span with a histogram of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Span {
            $($(#[$doc])* $variant,)*
        }

        impl Span {
            /// Every span, in the order of the log's lines.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in flags and files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name),)* }
            }

            pub(super) const fn of(self, spans: &Spans) -> &Histogram {
                match self { $(Self::$variant => &spans.$name,)* }
            }
        }
    };
}

spans! {
    /// Intended start to the end of the answer.
    Corrected = corrected;
    /// Actual send to the end of the answer.
    Uncorrected = uncorrected;
    /// Actual send to the arrival of the answer in the kernel.
    Wire = wire;
    /// The request's first byte to the answer's.
    Ttfb = ttfb;
    /// SYN to established.
    Connect = connect;
    /// Established to handshake complete.
    Tls = tls;
    /// What this process added before an operation was sent.
    SendLag = send_lag;
}
