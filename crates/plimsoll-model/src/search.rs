//! Axes and modes of a search.

named! {
    /// The quantity that is raised.
    pub enum Axis {
        /// Requests per second.
        Rate = "rate",
        /// New TLS connections per second.
        Handshakes = "handshakes",
        /// Deliveries of published messages per second.
        Deliveries = "deliveries",
        /// Connections held at once.
        Connections = "connections",
        /// Held connections that are cut at once and come back.
        Storm = "storm",
        /// In a test case of RFC 9411: TCP connections per second.
        ConnectionsPerS = "connections/s",
        /// In a test case of RFC 9411: application transactions per second.
        TransactionsPerS = "transactions/s",
    }
}

named! {
    /// The thoroughness of a search.
    pub enum Mode {
        /// About four minutes.
        Quick = "quick",
        /// Up to 25 minutes.
        Standard = "standard",
        /// Up to 90 minutes.
        Strict = "strict",
        /// By the procedure of a test case of RFC 9411.
        Rfc9411 = "rfc9411",
    }
}
