//! Regular expressions of bytes, matched as the bytes come.

use regex_automata::Anchored;
use regex_automata::dfa::dense::{BuildError, Builder, Config, DFA};
use regex_automata::dfa::{Automaton as _, StartKind};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};

/// Memory of one compiled expression, and of its making. An expression that needs more is refused.
pub const PATTERN_MEMORY_MAX: usize = 4 << 20;

/// A regular expression of bytes, looked for as they come.
#[derive(Debug)]
pub(crate) struct Pattern {
    automaton: DFA<Vec<u32>>,
    start: StateID,
}

/// Effect of one more byte on a search.
pub(crate) enum Found {
    /// The expression has not matched yet.
    Not(StateID),
    /// The expression has matched, with this byte or before it.
    Match { includes_byte: bool },
    /// The expression cannot match any more.
    Never,
}

impl Pattern {
    /// Compiles an expression; the error is one line.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        let limit = Some(PATTERN_MEMORY_MAX);
        let config = Config::new()
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(limit)
            .determinize_size_limit(limit);
        let automaton = Builder::new()
            .configure(config)
            // Of bytes, not of characters.
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .thompson(thompson::Config::new().nfa_size_limit(limit))
            .build(pattern)
            .map_err(|error| refusal(&error))?;
        let start = automaton
            .start_state(&start::Config::new().anchored(Anchored::No))
            .map_err(|error| format!("the expression cannot be used: {error}"))?;
        if automaton.is_match_state(automaton.next_eoi_state(start)) {
            return Err("the expression matches nothing at all, and so every answer".to_owned());
        }
        Ok(Self { automaton, start })
    }

    /// Returns the state before the first byte.
    pub(crate) const fn start(&self) -> StateID {
        self.start
    }

    /// Advances the search by one byte. The expression matches as soon as it would if the bytes ended here.
    pub(crate) fn next(&self, state: StateID, byte: u8) -> Found {
        let state = self.automaton.next_state(state, byte);
        // The automaton itself reports a match one byte late.
        if self.automaton.is_match_state(state) {
            return Found::Match { includes_byte: false };
        }
        if self.automaton.is_dead_state(state) || self.automaton.is_quit_state(state) {
            return Found::Never;
        }
        match self.automaton.is_match_state(self.automaton.next_eoi_state(state)) {
            true => Found::Match { includes_byte: true },
            false => Found::Not(state),
        }
    }

    /// Returns the state behind `bytes`. The state of a search that is decided does not change any more.
    pub(crate) fn advance(&self, mut state: StateID, bytes: &[u8]) -> StateID {
        for byte in bytes {
            if self.automaton.is_match_state(state) || self.automaton.is_dead_state(state) {
                break;
            }
            state = self.automaton.next_state(state, *byte);
        }
        state
    }

    /// Reports whether the expression matches a part of the bytes that led to `state`, if no more follow.
    pub(crate) fn matches(&self, state: StateID) -> bool {
        self.automaton.is_match_state(state)
            || self.automaton.is_match_state(self.automaton.next_eoi_state(state))
    }
}

/// Describes the error in one line: the library draws the expression over several.
fn refusal(error: &BuildError) -> String {
    if error.is_size_limit_exceeded() {
        return "the expression needs more than 4 MiB; make it shorter".to_owned();
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    format!("the expression is malformed: {}", last.trim_start_matches("error: "))
}
