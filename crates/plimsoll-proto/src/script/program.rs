//! What runs: the steps of a script, its expressions compiled.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll_model::Nanos;
use plimsoll_model::target::{Action, Script, Step, Template};
use regex_automata::Anchored;
use regex_automata::dfa::dense::{BuildError, Builder, Config, DFA};
use regex_automata::dfa::{Automaton as _, StartKind};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};

use super::parse::ScriptError;

/// Memory of one compiled expression, and of its making. An expression that needs more is refused.
pub const PATTERN_MEMORY_MAX: usize = 4 << 20;

/// A script that can be run.
#[derive(Debug, Default)]
pub struct Program {
    pub(super) opening: Vec<Instruction>,
    pub(super) operation: Vec<Instruction>,
}

#[derive(Debug)]
pub(super) struct Instruction {
    pub(super) line: u32,
    pub(super) action: Do,
}

#[derive(Debug)]
pub(super) enum Do {
    Send(Template),
    /// What is expected, where it is the same each time.
    Expect(Arc<[u8]>),
    ExpectFilled(Template),
    Search {
        pattern: Arc<Pattern>,
        bytes_max: u64,
    },
    Length(u64),
    Any,
    Close,
    Sleep(Nanos),
}

/// A regular expression of bytes, looked for as they come.
#[derive(Debug)]
pub(super) struct Pattern {
    automaton: DFA<Vec<u32>>,
    start: StateID,
}

/// What one more byte means for a search.
pub(super) enum Found {
    /// Nothing yet.
    Not(StateID),
    /// The expression has matched, with this byte or before it.
    Match { includes_byte: bool },
    /// It cannot match any more.
    Never,
}

impl Program {
    /// Compiles the expressions of `script`; the error is one of an expression.
    pub fn new(script: &Script) -> Result<Self, ScriptError> {
        let mut patterns = HashMap::new();
        let mut compile = |steps: &[Step]| {
            steps.iter().map(|step| instruction(step, &mut patterns)).collect::<Result<_, _>>()
        };
        Ok(Self { opening: compile(&script.opening)?, operation: compile(&script.operation)? })
    }
}

fn instruction(
    step: &Step,
    patterns: &mut HashMap<Arc<str>, Arc<Pattern>>,
) -> Result<Instruction, ScriptError> {
    let action = match &step.action {
        Action::Send(template) => Do::Send(template.clone()),
        // It is sent with what the operation begins with.
        Action::SendBody => Do::Send(Template::default()),
        Action::Expect(template) => match template.as_literal() {
            Some(bytes) => Do::Expect(bytes.into()),
            None => Do::ExpectFilled(template.clone()),
        },
        Action::Search { pattern, bytes_max } => {
            let compiled = match patterns.get(pattern) {
                Some(compiled) => Arc::clone(compiled),
                None => {
                    let compiled = Pattern::new(pattern);
                    let compiled =
                        compiled.map_err(|what| ScriptError { line: step.line, what })?;
                    let compiled = Arc::new(compiled);
                    patterns.insert(Arc::clone(pattern), Arc::clone(&compiled));
                    compiled
                }
            };
            Do::Search { pattern: compiled, bytes_max: *bytes_max }
        }
        Action::Length(bytes) => Do::Length(*bytes),
        Action::Any => Do::Any,
        Action::Close => Do::Close,
        Action::Sleep(time) => Do::Sleep(*time),
    };
    Ok(Instruction { line: step.line, action })
}

impl Pattern {
    fn new(pattern: &str) -> Result<Self, String> {
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

    pub(super) const fn start(&self) -> StateID {
        self.start
    }

    /// The expression matches as soon as it would if the bytes ended here.
    pub(super) fn next(&self, state: StateID, byte: u8) -> Found {
        let state = self.automaton.next_state(state, byte);
        // The automaton itself tells a match one byte late.
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
}

/// In one line: the library draws the expression over several.
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
