//! Histograms of the spans of time that a load measures.

use serde::{Deserialize, Serialize};

use crate::Histogram;

macro_rules! spans {
    ($($(#[doc = $doc:literal])* $variant:ident $name:ident,)*) => {
        /// A span of time that is measured.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Span {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Span {
            /// Returns the name in flags and files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name),)* }
            }
        }

        /// The spans of time that are measured, one histogram each.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Spans {
            $(
                $(#[doc = $doc])*
                #[serde(default, skip_serializing_if = "Histogram::is_empty")]
                pub $name: Histogram,
            )*
        }

        impl Spans {
            /// Returns the histogram of `span`.
            pub const fn of(&self, span: Span) -> &Histogram {
                match span { $(Span::$variant => &self.$name,)* }
            }

            /// Adds every value of `other`.
            pub fn merge(&mut self, other: &Self) {
                $(self.$name.merge(&other.$name);)*
            }

            /// Forgets every value, keeps the memory.
            pub fn clear(&mut self) {
                $(self.$name.clear();)*
            }

            /// Returns the memory of all histograms, in bytes.
            pub fn memory_bytes(&self) -> u64 {
                [$(self.$name.memory_bytes()),*].iter().sum()
            }
        }
    };
}

spans! {
    /// Intended start to the end of the answer; ok operations.
    Corrected corrected,
    /// Actual send to the end of the answer; ok operations. Without keep-alive an operation is
    /// sent with its connection's SYN.
    Uncorrected uncorrected,
    /// SYN to established; opened connections.
    Connect connect,
    /// Established to handshake complete; opened TLS connections.
    Tls tls,
    /// The request's first byte sent to the answer's first byte received.
    Ttfb ttfb,
    /// Delay of this process from the instant at which an operation could be sent (it was due and a
    /// connection was free, or could be opened) to the instant at which it was: our own fault.
    SendLag send_lag,
    /// SYN to the first byte of the first answer; sessions.
    SynToFirstByte syn_to_first_byte,
    /// SYN to the end of the first answer; sessions whose first answer is ok.
    SynToLastByte syn_to_last_byte,
    /// A push's sending by a server on the same clock to its arrival here.
    Pushed pushed,
    /// A publish's intended start to its delivery to one of the load's own subscriptions, if both are on one host.
    Delivery delivery,
    /// A publish's actual send to its delivery, as in `delivery`.
    DeliveryUncorrected delivery_uncorrected,
    /// Actual send to the arrival of the answer's last bytes in this host's kernel, less what this
    /// process took to read what the handshake waited for: the server and the path. Stamped
    /// operations, see [`crate::tally::StampCounts`].
    Wire wire,
    /// Time from that arrival to our reading of it; stamped operations.
    ReceiveLag receive_lag,
    /// `corrected` of the stamped operations.
    Stamped stamped,
    /// `corrected` of the stamped operations without our own delay: send lag, receive lag, and the
    /// wait for a connection that was ours to free.
    Undelayed undelayed,
    /// Lower bound of `undelayed`: earlier operations that were sent late, too, may have made the
    /// server slower, which received them together with these.
    UndelayedMin undelayed_min,
}

impl Spans {
    /// Forgets every value that rests on stamps; returns the number of stamped operations.
    pub fn clear_stamped(&mut self) -> u64 {
        let stamped = self.wire.count();
        for span in [
            &mut self.wire,
            &mut self.receive_lag,
            &mut self.stamped,
            &mut self.undelayed,
            &mut self.undelayed_min,
        ] {
            span.clear();
        }
        stamped
    }
}
