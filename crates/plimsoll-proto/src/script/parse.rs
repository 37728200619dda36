//! The parser of a script: text into the steps of its opening and its operation.
//!
//! [`parse`] splits the text into lines and words and passes each line to `Parser::statement`, which pushes steps
//! onto the innermost open block. `end_block` unrolls a `repeat` and completes the script at the end of the `loop`.
//! `expectation` parses the forms of `expect`, and `complete` checks the rules that concern several lines. Steps,
//! bytes sent and sleeps are bounded by the constants below. Errors name the line, counted from 1. Start reading at
//! [`parse`].

use std::io::Result as IoResult;

use plimsoll_model::Nanos;
use plimsoll_model::lines::lines;
use plimsoll_model::target::{Action, Script, Step, Template};
use plimsoll_model::units::{grouped, parse_duration, parse_size};
use thiserror::Error;

use super::words::{Word, split};

/// Longest script.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;
/// Most steps of the opening and of the operation together, repetitions written out.
pub const STEPS_MAX: usize = 10_000;
/// The most bytes that one operation, or one opening, sends.
pub const SEND_BYTES_MAX: usize = 16 << 20;
/// Longest text to be expected, and most bytes in which a marker or an expression is looked for if the
/// script says nothing.
pub const EXPECT_BYTES_MAX: usize = 64 << 10;
/// Most bytes in which a marker or an expression is looked for, and most that are awaited by number.
pub const SEARCH_BYTES_MAX: u64 = 1 << 30;
/// Longest sleep of one operation, all of them together.
pub const SLEEP_MAX: Nanos = Nanos::from_secs(3600);
/// A marker becomes an expression, which has a state for each byte.
const MARKER_BYTES_MAX: usize = 1024;
/// Blocks within blocks.
const DEPTH_MAX: usize = 8;

const STATEMENTS: &str = "there are send, expect, sleep, repeat, loop and end";
const BODY_PLACE: &str =
    "a file of more than 16 MiB is sent once, before the loop expects anything";
const BEHIND_BODY: &str =
    "nothing is sent behind a file of more than 16 MiB before something is expected";
const SENDS: &str = "send is followed by \"bytes\", @file or stamp";
const EXPECTATIONS: &str = "expect is followed by \"bytes\", /expression/, until \"marker\", line, a \
                            number of bytes, any or close";

/// A fault of a script, and its line, counted from 1.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {what}")]
pub struct ScriptError {
    /// The line.
    pub line: u32,
    /// The fault.
    pub what: String,
}

/// Reads a script. `read` returns the contents of the files that it names, or `None` for one that is larger than
/// [`SEND_BYTES_MAX`], which becomes the target's body.
///
/// ```
/// use plimsoll_model::target::Action;
/// use plimsoll_proto::script::parse;
///
/// let text = b"expect line\nloop\n  send \"PING\\r\\n\"\n  expect \"PONG\\r\\n\"\nend\n";
/// let script = parse(text, &mut |_| unreachable!("it names no file")).expect("a script");
/// assert_eq!((script.opening.len(), script.operation.len()), (1, 2));
/// assert!(matches!(script.operation[0].action, Action::Send(_)));
/// let error = parse(b"send \"PING\"", &mut |_| Ok(None)).expect_err("no operation");
/// assert!(error.to_string().starts_with("line 1: there is no loop"));
/// ```
pub fn parse(
    text: &[u8],
    read: &mut dyn FnMut(&str) -> IoResult<Option<Vec<u8>>>,
) -> Result<Script, ScriptError> {
    let whole = |what: String| ScriptError { line: 1, what };
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(whole("a script has 1 MiB at most".to_owned()));
    }
    let lines = lines(text).map_err(|error| ScriptError {
        line: error.line as u32,
        what: error.problem.to_string(),
    })?;
    let mut parser = Parser { read, blocks: vec![Block::new(1, 0)], script: None, steps: 0 };
    let mut line = 0;
    for words in lines {
        line = words.number as u32;
        let at_line = |what| ScriptError { line, what };
        let words = split(words.text).map_err(at_line)?;
        parser.statement(line, &words).map_err(at_line)?;
    }
    let end = line.max(1);
    if let [_, .., open] = parser.blocks.as_slice() {
        return Err(ScriptError { line: open.line, what: "the block has no end".to_owned() });
    }
    parser.script.ok_or_else(|| ScriptError {
        line: end,
        what: "there is no loop: the lines between loop and end are one operation".to_owned(),
    })
}

/// Lines between `loop` or `repeat` and their `end`, or those outside.
struct Block {
    line: u32,
    /// 0 for the operation, and for what is outside of it.
    repeats: usize,
    steps: Vec<Step>,
}

impl Block {
    const fn new(line: u32, repeats: usize) -> Self {
        Self { line, repeats, steps: Vec::new() }
    }
}

struct Parser<'a> {
    read: &'a mut dyn FnMut(&str) -> IoResult<Option<Vec<u8>>>,
    /// The opening, then the blocks that are not closed.
    blocks: Vec<Block>,
    /// Once the operation is complete.
    script: Option<Script>,
    /// Steps so far, repetitions written out.
    steps: usize,
}

impl Parser<'_> {
    fn statement(&mut self, line: u32, words: &[Word]) -> Result<(), String> {
        let (name, arguments) = match words {
            [] => return Ok(()),
            [Word::Bare(name), arguments @ ..] => (name.as_str(), arguments),
            _ => return Err(format!("a line begins with a word; {STATEMENTS}")),
        };
        if self.script.is_some() {
            return Err("nothing follows the loop".to_owned());
        }
        match (name, arguments) {
            ("loop", []) if self.blocks.len() == 1 => self.blocks.push(Block::new(line, 0)),
            ("loop", []) => return Err("a loop is not inside another block".to_owned()),
            ("repeat", [Word::Bare(count)]) => {
                let repeats = count.parse().ok().filter(|count| (1..=STEPS_MAX).contains(count));
                let repeats = repeats.ok_or("repeat is followed by a number from 1 to 10,000")?;
                if self.blocks.len() > DEPTH_MAX {
                    return Err(format!("more than {DEPTH_MAX} blocks inside each other"));
                }
                self.blocks.push(Block::new(line, repeats));
            }
            ("end", []) => return self.end_block(),
            ("send", [_, ..]) => {
                let mut all = Template::default();
                let mut is_body_sent = false;
                for argument in arguments {
                    match self.sent(argument)? {
                        _ if is_body_sent => return Err(BEHIND_BODY.to_owned()),
                        Some(sent) => all.extend(&sent),
                        None => is_body_sent = true,
                    }
                }
                if all != Template::default() || !is_body_sent {
                    self.push(line, Action::Send(all))?;
                }
                if is_body_sent {
                    self.push(line, Action::SendBody)?;
                }
            }
            ("expect", [_, ..]) => self.push(line, expectation(arguments)?)?,
            ("sleep", [Word::Bare(time)]) => {
                let time = parse_duration(time).map_err(|error| error.to_string())?;
                if time == Nanos::ZERO || time > SLEEP_MAX {
                    return Err("a sleep takes more than 0 and at most 1h".to_owned());
                }
                self.push(line, Action::Sleep(time))?;
            }
            ("loop" | "end", _) => return Err(format!("{name} must be alone in its line")),
            ("repeat", _) => return Err("repeat is followed by a number".to_owned()),
            ("send", _) => return Err(SENDS.to_owned()),
            ("expect", _) => return Err(EXPECTATIONS.to_owned()),
            ("sleep", _) => return Err("sleep is followed by a time such as 10ms".to_owned()),
            _ => return Err(format!("{name:.40?} is no statement; {STATEMENTS}")),
        }
        Ok(())
    }

    /// Returns the bytes that an argument of `send` sends; `None` for the target's body.
    fn sent(&mut self, word: &Word) -> Result<Option<Template>, String> {
        match word {
            Word::Text(text) => Template::parse(text).map(Some),
            Word::File(path) => match (self.read)(path) {
                Ok(contents) => Ok(contents.map(Template::literal)),
                Err(error) => Err(format!("cannot read {path:?}: {error}")),
            },
            Word::Bare(word) if word == "stamp" => Ok(Some(Template::stamp())),
            _ => Err(SENDS.to_owned()),
        }
    }

    fn push(&mut self, line: u32, action: Action) -> Result<(), String> {
        self.count_steps(1)?;
        if let Some(block) = self.blocks.last_mut() {
            block.steps.push(Step { line, action });
        }
        Ok(())
    }

    fn count_steps(&mut self, more: usize) -> Result<(), String> {
        self.steps = self.steps.saturating_add(more);
        match self.steps > STEPS_MAX {
            true => Err("more than 10,000 steps, repetitions counted".to_owned()),
            false => Ok(()),
        }
    }

    fn end_block(&mut self) -> Result<(), String> {
        let Some(block) = self.blocks.pop().filter(|_| !self.blocks.is_empty()) else {
            return Err("there is no block to end".to_owned());
        };
        if block.repeats > 0 {
            self.count_steps(block.steps.len().saturating_mul(block.repeats - 1))?;
            let outer = self.blocks.last_mut().map(|outer| &mut outer.steps);
            if let Some(outer) = outer {
                let times = block.steps.len() * block.repeats;
                outer.extend(block.steps.into_iter().cycle().take(times));
            }
            return Ok(());
        }
        let opening = self.blocks.pop().map(|block| block.steps).unwrap_or_default();
        self.blocks.push(Block::new(1, 0));
        self.script = Some(complete(opening, block.steps)?);
        Ok(())
    }
}

fn expectation(arguments: &[Word]) -> Result<Action, String> {
    let (wanted, bound) = match arguments {
        [wanted @ .., Word::Bare(max), Word::Bare(size)] if max == "max" => {
            let size = parse_size(size).map_err(|error| error.to_string())?;
            (wanted, Some(bounded(size)?))
        }
        wanted => (wanted, None),
    };
    let bytes_max = bound.unwrap_or(EXPECT_BYTES_MAX as u64);
    let search = |pattern: String| Action::Search { pattern: pattern.into(), bytes_max };
    match (wanted, bound) {
        ([Word::Text(text)], None) => {
            let template = Template::parse(text)?;
            match template.bytes_max() {
                1..=EXPECT_BYTES_MAX => Ok(Action::Expect(template)),
                _ => Err("1 to 65,536 bytes can be expected".to_owned()),
            }
        }
        ([Word::Bare(stamp)], None) if stamp == "stamp" => Ok(Action::Expect(Template::stamp())),
        ([Word::Pattern(pattern)], _) => Ok(search(pattern.clone())),
        ([Word::Bare(until), Word::Text(marker)], _) if until == "until" => {
            let marker = Template::parse(marker)?.as_literal();
            let marker = marker.ok_or("a marker is the same bytes each time; write %% for %")?;
            if marker.is_empty() || marker.len() > MARKER_BYTES_MAX {
                return Err("a marker has 1 to 1,024 bytes".to_owned());
            }
            Ok(search(marker.iter().map(|byte| format!("\\x{byte:02x}")).collect()))
        }
        ([Word::Bare(line)], _) if line == "line" => Ok(search("\\n".to_owned())),
        ([Word::Bare(any)], None) if any == "any" => Ok(Action::Any),
        ([Word::Bare(close)], None) if close == "close" => Ok(Action::Close),
        ([Word::Bare(size)], None) => match parse_size(size) {
            Ok(size) => Ok(Action::Length(bounded(size)?)),
            Err(_) => Err(EXPECTATIONS.to_owned()),
        },
        _ => Err(EXPECTATIONS.to_owned()),
    }
}

fn bounded(size: u64) -> Result<u64, String> {
    match size {
        1..=SEARCH_BYTES_MAX => Ok(size),
        _ => Err(format!("1 to {} bytes can be awaited", grouped(SEARCH_BYTES_MAX))),
    }
}

/// Checks what concerns more than one line.
fn complete(opening: Vec<Step>, mut operation: Vec<Step>) -> Result<Script, String> {
    let rest = match operation.last() {
        Some(Step { action: Action::Sleep(time), .. }) => *time,
        _ => Nanos::ZERO,
    };
    if rest > Nanos::ZERO {
        operation.pop();
    }
    let at = |step: &Step, what: &str| Err(format!("{what} (line {})", step.line));
    match operation.first() {
        None => return Err("the loop is empty".to_owned()),
        Some(Step { action: Action::Send(_) | Action::SendBody, .. }) => {}
        Some(_) => return Err("the loop must send before anything else".to_owned()),
    }
    let is_body = |step: &&Step| step.action == Action::SendBody;
    let leads = operation.iter().take_while(|step| matches!(step.action, Action::Send(_))).count();
    let behind = operation.get(leads + 1..).unwrap_or_default();
    if let Some(step) = opening.iter().chain(behind).find(is_body) {
        return at(step, BODY_PLACE);
    }
    if operation.iter().any(|step| is_body(&step))
        && let Some(step) = behind.first().filter(|step| matches!(step.action, Action::Send(_)))
    {
        return at(step, BEHIND_BODY);
    }
    if let Some(step) = opening.iter().find(|step| matches!(step.action, Action::Sleep(_))) {
        return at(step, "a sleep belongs into the loop");
    }
    let ends = |step: &&Step| matches!(step.action, Action::Close);
    let before_last = &operation[..operation.len() - 1];
    if let Some(step) = opening.iter().chain(before_last).find(ends) {
        return at(step, "expect close is the last of the loop");
    }
    for pair in operation.windows(2) {
        if let [before, Step { action: Action::Sleep(_), line }] = pair
            && matches!(before.action, Action::Send(_) | Action::SendBody)
        {
            return Err(format!("a sleep must follow an expect, or come before end (line {line})"));
        }
    }
    let slept = |step: &Step| match step.action {
        Action::Sleep(time) => time.0,
        _ => 0,
    };
    if operation.iter().map(slept).fold(rest.0, u64::saturating_add) > SLEEP_MAX.0 {
        return Err("an operation sleeps for more than 1h".to_owned());
    }
    let sent = |step: &Step| match &step.action {
        Action::Send(template) => template.bytes_max(),
        _ => 0,
    };
    for steps in [&opening, &operation] {
        if steps.iter().map(sent).fold(0, usize::saturating_add) > SEND_BYTES_MAX {
            return Err("more than 16 MiB are sent".to_owned());
        }
    }
    Ok(Script { opening, operation, rest })
}
