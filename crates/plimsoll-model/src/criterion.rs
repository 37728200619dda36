//! The validation criteria of RFC 9411.

named! {
    /// A validation criterion of section 7. Its name contains the threshold.
    pub enum Criterion {
        /// Failed application transactions.
        Failed = "F failed transactions <0.001 %",
        /// Connections that the SUT reset.
        Reset = "R connections reset by the SUT <0.001 %",
        /// Deviation of the forwarding rate.
        Forwarding = "C5 deviation of the forwarding rate <5 %",
        /// Deviation of the concurrent connections.
        Concurrency = "N10 deviation of concurrent connections <10 %",
        /// Distance of the load below its target.
        Target = "T below the target <5 %",
    }
}

impl Criterion {
    /// Returns the letter in tables, with which the name begins.
    pub fn code(self) -> &'static str {
        self.name().split(' ').next().unwrap_or_default()
    }
}
