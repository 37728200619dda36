//! Scripts of raw TCP and TLS connections.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Template;
use crate::Nanos;
use crate::framed::framed;

/// A conversation, step by step. Repetitions are written out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Script {
    /// Once per connection, before it counts as usable.
    #[serde(with = "crate::framed")]
    pub opening: Vec<Step>,
    /// One operation; it begins with [`Action::Send`] or [`Action::SendBody`].
    #[serde(with = "crate::framed")]
    pub operation: Vec<Step>,
    /// Pause of a connection after its operation has ended.
    pub rest: Nanos,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Step {
    /// Line in its file, from 1.
    pub line: u32,
    /// The action.
    #[serde(with = "crate::framed")]
    pub action: Action,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Sends these bytes.
    Send(#[serde(with = "crate::framed")] Template),
    /// Sends the target's body; the last that an operation sends before it awaits something, once.
    SendBody,
    /// Awaits exactly these bytes.
    Expect(#[serde(with = "crate::framed")] Template),
    /// Awaits the shortest run of bytes that the regular expression matches a part of.
    Search {
        /// The expression.
        pattern: Arc<str>,
        /// Bytes after which it fails.
        bytes_max: u64,
    },
    /// Awaits this number of bytes, at least 1, whatever their values.
    Length(u64),
    /// Awaits at least one byte, and takes what has come with it.
    Any,
    /// Awaits the end of the server's stream.
    Close,
    /// Waits, which is part of no latency.
    Sleep(Nanos),
}

framed!(Script, Step, Action);

impl Script {
    /// Sends a message and awaits the same bytes.
    pub fn echo(message: Vec<u8>) -> Self {
        let message = Template::literal(message);
        let step = |action| Step { line: 1, action };
        Self {
            operation: vec![step(Action::Send(message.clone())), step(Action::Expect(message))],
            ..Self::default()
        }
    }
}
