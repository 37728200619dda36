//! The execution of a script on one connection.
//!
//! [`Client`] is an index into the instructions of the opening or the operation, plus the state of the present one.
//! The caller sends the leading bytes itself and then reports that with [`Client::expect_operation`].
//! [`Client::handle_bytes`] matches input against each instruction and appends further sends to `reply`. During a
//! sleep the caller keeps the time, and at most 64 KiB of input are stored. Start reading at
//! [`Client::handle_bytes`], then `advance` for the matching.

use std::fmt;
use std::sync::Arc;

use plimsoll_model::target::Filling;
use plimsoll_model::{ErrorClass, Nanos};
use regex_automata::util::primitives::StateID;
use thiserror::Error;

use super::program::{Do, Instruction, Program};
use crate::conversation::{self, Progress};
use crate::kept::Kept;
use crate::pattern::Found;

/// Most bytes that may come while the script sleeps.
pub const EARLY_BYTES_MAX: usize = 64 << 10;

/// The position of one connection in its script.
///
/// The first bytes of the opening or the operation are sent by the caller ([`super::leading`]), who then
/// calls [`expect_opening`](Self::expect_opening) or [`expect_operation`](Self::expect_operation).
#[derive(Debug)]
pub struct Client {
    program: Arc<Program>,
    place: Place,
    /// Index of the present instruction.
    next: u32,
    /// Bytes taken by the present instruction.
    taken: u64,
    /// State of the present search; `None` before its first byte.
    state: Option<StateID>,
    /// Bytes taken since the operation began.
    bytes: u64,
    /// The first bytes that the present instruction received.
    seen: Seen,
    /// For the places of templates.
    filling: Filling,
    /// Expected bytes of the present instruction, if that is a template.
    expected: Vec<u8>,
    /// Bytes that came while the script slept; at most [`EARLY_BYTES_MAX`].
    early: Vec<u8>,
    /// End of the present sleep.
    sleeps_until: Option<Nanos>,
    /// All sleeps since the opening or the operation began.
    slept: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// No answer is awaited.
    Idle,
    Opening,
    Operation,
}

/// The first bytes of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen(Kept<15>);

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.bytes().escape_ascii())
    }
}

/// The bytes that came instead of the expected ones. Faults are archived, and an echo of sent bytes may be a
/// credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes of the server.
    Began(Seen),
    /// Bytes of the script.
    OfScript,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began(seen) => seen.fmt(f),
            Self::OfScript => f.write_str("bytes of the script itself"),
        }
    }
}

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ScriptFault {
    /// Other bytes than expected.
    #[error(
        "line {line} of the script expects something else than an answer that begins with {seen}"
    )]
    Mismatch {
        /// Line of the expectation.
        line: u32,
        /// The bytes that came instead.
        seen: Answer,
    },
    /// Bytes that nothing asked for.
    #[error("the server sent bytes that the script does not ask for: {seen}")]
    SpokeFirst {
        /// The first of them.
        seen: Answer,
    },
}

impl ScriptFault {
    /// Returns the class in which the operation ends.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Mismatch { .. } => ErrorClass::ScriptMismatch,
            Self::SpokeFirst { .. } => ErrorClass::PeerSpokeFirst,
        }
    }
}

impl Client {
    /// Creates the client of a connection on which no answer is awaited.
    pub fn new(program: Arc<Program>) -> Self {
        Self {
            program,
            place: Place::Idle,
            next: 0,
            taken: 0,
            state: None,
            bytes: 0,
            seen: Seen::default(),
            filling: Filling::default(),
            expected: Vec::new(),
            early: Vec::new(),
            sleeps_until: None,
            slept: Nanos::ZERO,
        }
    }

    /// Sets the values for the places of templates in the opening or operation that begins next.
    pub const fn fill_with(&mut self, filling: Filling) {
        self.filling = filling;
    }

    /// Notes that the connection was made, and the first bytes of the opening are sent.
    pub fn expect_opening(&mut self) {
        self.begin(Place::Opening);
    }

    /// Notes that the first bytes of the operation are sent.
    pub fn expect_operation(&mut self) {
        self.begin(Place::Operation);
    }

    fn begin(&mut self, place: Place) {
        self.place = place;
        self.bytes = 0;
        self.early.clear();
        self.sleeps_until = None;
        self.slept = Nanos::ZERO;
        let steps = self.steps();
        let is_sent = |step: &&Instruction| matches!(step.action, Do::Send(_));
        let first = steps.iter().take_while(is_sent).count();
        self.go_to(first as u32);
    }

    /// Reports whether nothing is awaited.
    pub fn is_idle(&self) -> bool {
        self.place == Place::Idle
    }

    /// Returns the end of the present sleep; `None` if the script does not sleep.
    pub const fn sleeps_until(&self) -> Option<Nanos> {
        self.sleeps_until
    }

    /// Returns the time that the present opening or operation has slept.
    pub const fn slept(&self) -> Nanos {
        self.slept
    }

    /// Sets the end of the sleep that was just reported.
    pub fn sleep_until(&mut self, at: Nanos) {
        self.sleeps_until = Some(at);
    }

    /// Ends the sleep. Returns the bytes that came meanwhile, to be handled next even if there are none.
    pub fn wake(&mut self) -> Vec<u8> {
        self.sleeps_until = None;
        std::mem::take(&mut self.early)
    }

    /// Handles bytes from the server, up to the end of the opening or of the operation; returns how many
    /// were consumed, and the result. What is to be sent is appended to `reply`.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(usize, Progress), ScriptFault> {
        if self.sleeps_until.is_some() {
            self.keep_early(input)?;
            return Ok((input.len(), Progress::NeedMore));
        }
        let program = Arc::clone(&self.program);
        let steps = match self.place {
            Place::Idle => return Err(self.spoke_first(input)),
            Place::Opening => &program.opening,
            Place::Operation => &program.operation,
        };
        let mut rest = input;
        while let Some(step) = steps.get(self.next as usize) {
            match &step.action {
                Do::Send(template) => template.fill(&self.filling, reply),
                Do::Sleep(time) => {
                    self.go_to(self.next + 1);
                    self.keep_early(rest)?;
                    // Until the caller says when.
                    self.sleeps_until = Some(Nanos::MAX);
                    self.slept = self.slept + *time;
                    return Ok((input.len(), Progress::Sleeps(*time)));
                }
                _ => {
                    let (taken, is_met) = self.advance(step, rest)?;
                    self.taken += taken as u64;
                    self.bytes += taken as u64;
                    rest = rest.get(taken..).unwrap_or_default();
                    if !is_met {
                        return Ok((input.len(), Progress::NeedMore));
                    }
                }
            }
            self.go_to(self.next + 1);
        }
        let progress = match self.place {
            Place::Opening => Progress::Greeted,
            Place::Idle | Place::Operation => {
                Progress::Complete(conversation::Answer::plain(self.bytes, None))
            }
        };
        self.place = Place::Idle;
        Ok((input.len() - rest.len(), progress))
    }

    /// Handles the end of the server's stream. Returns the bytes of the operation if the script expects the end.
    pub fn handle_eof(&mut self) -> Option<u64> {
        let awaits_end = self
            .steps()
            .get(self.next as usize)
            .is_some_and(|step| matches!(step.action, Do::Close));
        let is_met = awaits_end && self.place == Place::Operation && self.sleeps_until.is_none();
        is_met.then(|| {
            self.place = Place::Idle;
            self.bytes
        })
    }

    /// Reports whether a byte has come for the present operation.
    pub const fn has_begun(&self) -> bool {
        self.bytes > 0
    }

    fn steps(&self) -> &[Instruction] {
        match self.place {
            Place::Opening => &self.program.opening,
            Place::Idle | Place::Operation => &self.program.operation,
        }
    }

    fn go_to(&mut self, next: u32) {
        self.next = next;
        self.taken = 0;
        self.state = None;
        self.seen = Seen::default();
    }

    /// Returns the bytes that `step` consumes, and whether it is met.
    fn advance(&mut self, step: &Instruction, input: &[u8]) -> Result<(usize, bool), ScriptFault> {
        self.seen.0.extend(input);
        match &step.action {
            Do::Expect(bytes) => {
                begins_with(bytes, self.taken, input).ok_or_else(|| self.mismatch(step))
            }
            Do::ExpectFilled(template) => {
                if self.taken == 0 {
                    self.expected.clear();
                    template.fill(&self.filling, &mut self.expected);
                }
                begins_with(&self.expected, self.taken, input).ok_or_else(|| self.mismatch(step))
            }
            Do::Search { pattern, bytes_max } => {
                let mut state = self.state.unwrap_or_else(|| pattern.start());
                for (at, byte) in input.iter().enumerate() {
                    match pattern.next(state, *byte) {
                        Found::Not(next) => state = next,
                        Found::Match { includes_byte } => {
                            return Ok((at + usize::from(includes_byte), true));
                        }
                        Found::Never => return Err(self.mismatch(step)),
                    }
                    if self.taken + at as u64 + 1 >= *bytes_max {
                        return Err(self.mismatch(step));
                    }
                }
                self.state = Some(state);
                Ok((input.len(), false))
            }
            Do::Length(bytes) => {
                let left = bytes - self.taken;
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                Ok((taken, taken as u64 == left))
            }
            Do::Any => Ok((input.len(), !input.is_empty())),
            Do::Close => match input {
                [] => Ok((0, false)),
                _ => Err(self.mismatch(step)),
            },
            Do::Send(_) | Do::Sleep(_) => Ok((0, true)),
        }
    }

    fn keep_early(&mut self, input: &[u8]) -> Result<(), ScriptFault> {
        if self.early.len() + input.len() > EARLY_BYTES_MAX {
            return Err(self.spoke_first(input));
        }
        self.early.extend_from_slice(input);
        Ok(())
    }

    fn spoke_first(&self, input: &[u8]) -> ScriptFault {
        let mut seen = Seen::default();
        seen.0.extend(input);
        ScriptFault::SpokeFirst { seen: self.answer(seen) }
    }

    fn mismatch(&self, step: &Instruction) -> ScriptFault {
        ScriptFault::Mismatch { line: step.line, seen: self.answer(self.seen) }
    }

    fn answer(&self, seen: Seen) -> Answer {
        if self.program.has(seen.0.bytes()) { Answer::OfScript } else { Answer::Began(seen) }
    }
}

/// Returns the bytes of `input` that match `expected` behind the first `taken`, and whether these are all; `None`
/// if they differ.
fn begins_with(expected: &[u8], taken: u64, input: &[u8]) -> Option<(usize, bool)> {
    let expected = expected.get(taken as usize..).unwrap_or_default();
    let common = expected.len().min(input.len());
    (expected[..common] == input[..common]).then_some((common, common == expected.len()))
}
