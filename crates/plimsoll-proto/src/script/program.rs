//! Programs: the steps of a script, its expressions compiled.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll_model::Nanos;
use plimsoll_model::target::{Action, Script, Step, Template};

use super::parse::ScriptError;
use crate::pattern::Pattern;

/// The fewest bytes of which it matters that they are also in a script.
const TELLING_BYTES_MIN: usize = 4;

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
    /// Expected bytes that are the same each time.
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

impl Program {
    /// Compiles the expressions of `script`; the error is one of an expression.
    pub fn new(script: &Script) -> Result<Self, ScriptError> {
        let mut patterns = HashMap::new();
        let mut compile = |steps: &[Step]| {
            steps.iter().map(|step| instruction(step, &mut patterns)).collect::<Result<_, _>>()
        };
        Ok(Self { opening: compile(&script.opening)?, operation: compile(&script.operation)? })
    }

    /// Reports whether the script sends or expects `bytes`. A few bytes may match at random.
    pub(super) fn has(&self, bytes: &[u8]) -> bool {
        let is_part = |of: &[u8]| of.windows(bytes.len()).any(|part| part == bytes);
        let is_in = |step: &Instruction| match &step.action {
            Do::Send(template) | Do::ExpectFilled(template) => template.literals().any(is_part),
            Do::Expect(expected) => is_part(expected),
            Do::Search { .. } | Do::Length(_) | Do::Any | Do::Close | Do::Sleep(_) => false,
        };
        bytes.len() >= TELLING_BYTES_MIN && self.opening.iter().chain(&self.operation).any(is_in)
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
