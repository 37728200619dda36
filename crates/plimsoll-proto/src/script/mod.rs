//! Scripts of raw TCP and TLS: what is sent, and what is awaited.
//!
//! [`parse()`] reads the language, [`Program`] is what runs, [`Client`] runs it on one connection.

mod client;
mod parse;
mod program;
pub(crate) mod words;

pub use crate::pattern::PATTERN_MEMORY_MAX;
pub use client::{Answer, Client, EARLY_BYTES_MAX, ScriptFault, Seen};
pub use parse::{
    EXPECT_BYTES_MAX, SCRIPT_BYTES_MAX, SEARCH_BYTES_MAX, SEND_BYTES_MAX, SLEEP_MAX, STEPS_MAX,
    ScriptError, parse,
};
pub use program::Program;

use plimsoll_model::target::{Action, Step, Template};

/// Returns the bytes that `steps` send first.
pub fn leading(steps: &[Step]) -> Template {
    let mut all = Template::default();
    for step in steps {
        let Action::Send(sent) = &step.action else { break };
        all.extend(sent);
    }
    all
}

/// Reports whether `steps` only send.
pub fn only_sends(steps: &[Step]) -> bool {
    steps.iter().all(|step| matches!(step.action, Action::Send(_) | Action::SendBody))
}

/// Reports whether `steps` send the target's body, behind what they begin with sending.
pub fn sends_body(steps: &[Step]) -> bool {
    steps.iter().any(|step| step.action == Action::SendBody)
}
