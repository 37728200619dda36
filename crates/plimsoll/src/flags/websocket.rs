//! Flags of WebSocket beside the payload.

use clap::Args;
use plimsoll_model::units::parse_size;

/// Flags of a ws:// or wss:// URL.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "WebSocket")]
pub(crate) struct WebSocketFlags {
    /// Send binary messages, even if the payload is text
    #[arg(long)]
    pub(crate) ws_binary: bool,

    /// Send each message in frames of at most this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) ws_fragment: Option<u64>,

    /// Subprotocols to offer, in order of preference
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) ws_protocol: Vec<String>,

    /// Content of an answer: TEXT, or a match of /REGEX/; other messages end no operation
    #[arg(long, value_name = "TEXT|/REGEX/")]
    pub(crate) expect: Option<String>,

    /// Number of messages after the upgrade that answer nothing, such as a greeting
    #[arg(long, value_name = "N")]
    pub(crate) skip_messages: Option<u32>,
}

impl WebSocketFlags {
    /// Returns the first flag about answers that was given, if any was.
    pub(crate) fn first_of_answers(&self) -> Option<&'static str> {
        let given = [
            (self.expect.is_some(), "--expect"),
            (self.skip_messages.is_some(), "--skip-messages"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }

    /// Returns the first flag that was given, if any was.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.ws_binary, "--ws-binary"),
            (self.ws_fragment.is_some(), "--ws-fragment"),
            (!self.ws_protocol.is_empty(), "--ws-protocol"),
        ];
        let given = given.into_iter().find_map(|(is_given, name)| is_given.then_some(name));
        given.or_else(|| self.first_of_answers())
    }
}
