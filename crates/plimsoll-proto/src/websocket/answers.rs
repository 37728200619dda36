//! The messages of a server that are answers.

use plimsoll_model::target::Target;
use regex_automata::util::primitives::StateID;

use crate::http1::head::tokens;
use crate::pattern::Pattern;
use crate::script::words;

/// The expected messages on the connections to one target.
#[derive(Debug, Default)]
pub struct Answers {
    /// Messages after the switch that answer nothing.
    pub(super) skipped: u32,
    /// Matches a part of each answer; `None`: any message is one.
    pattern: Option<Pattern>,
    /// Subprotocols that the opening offers.
    offered: Vec<Vec<u8>>,
}

impl Answers {
    /// Returns those to `target`.
    ///
    /// # Errors
    ///
    /// In one line, what is wrong with the expression that answers match.
    pub fn new(target: &Target) -> Result<Self, String> {
        let offers =
            |(name, _): &&(String, String)| name.eq_ignore_ascii_case("sec-websocket-protocol");
        let offered = target.headers.iter().filter(offers);
        let offered = offered.flat_map(|(_, value)| tokens(value.as_bytes())).map(<[u8]>::to_vec);
        let messages = target.websocket.as_ref();
        let pattern = messages.and_then(|messages| messages.expected.as_deref());
        Ok(Self {
            skipped: messages.map_or(0, |messages| messages.skipped),
            pattern: pattern.map(Pattern::new).transpose()?,
            offered: offered.collect(),
        })
    }

    /// Reports whether the opening offers the subprotocol `name`.
    pub(super) fn offers(&self, name: &[u8]) -> bool {
        self.offered.iter().any(|offered| offered == name)
    }

    /// Continues the search in a message, whose `bytes` come next.
    pub(super) fn read(&self, state: &mut Option<StateID>, bytes: &[u8]) {
        if let Some(pattern) = &self.pattern {
            *state = Some(pattern.advance(state.unwrap_or_else(|| pattern.start()), bytes));
        }
    }

    /// Reports whether a message is an answer, by the state of the search at its end.
    pub(super) fn contain(&self, state: Option<StateID>) -> bool {
        (self.pattern.as_ref())
            .is_none_or(|pattern| pattern.matches(state.unwrap_or_else(|| pattern.start())))
    }
}

/// Returns the regular expression for `wanted`: one between slashes, as scripts spell it, or else a text that answers
/// contain.
///
/// # Errors
///
/// In one line, what is wrong with it.
pub fn expected(wanted: &str) -> Result<String, String> {
    let pattern = match wanted.strip_prefix('/') {
        None => wanted.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        Some(rest) => match words::pattern(rest) {
            Ok((pattern, "")) => pattern,
            Ok((_, behind)) => {
                return Err(format!(
                    "{behind:.40?} follows the closing slash; a slash within the expression is \\/"
                ));
            }
            Err(_) => {
                return Err(
                    "it begins with a slash, as an expression does, and does not end with \
                            one; write a text that begins with a slash as /\\/text/"
                        .to_owned(),
                );
            }
        },
    };
    Pattern::new(&pattern)?;
    Ok(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(wanted: &str, messages: &[&[u8]]) -> bool {
        let pattern = Pattern::new(&expected(wanted).expect(wanted)).expect(wanted);
        let answers = Answers { pattern: Some(pattern), ..Answers::default() };
        let mut state = None;
        messages.iter().for_each(|piece| answers.read(&mut state, piece));
        answers.contain(state)
    }

    #[test]
    fn texts_and_expressions_match_messages_in_pieces() {
        for (wanted, pieces, is) in [
            ("ok", &[&b"it is o"[..], b"k now"][..], true),
            ("ok", &[b"it is o", b"", b"n"], false),
            ("ok", &[], false),
            // No character of a text has a special meaning, also if it is not ASCII.
            ("a.c(", &[b"xa.c(y"], true),
            ("a.c(", &[b"abc("], false),
            ("grün", &["grün".as_bytes()], true),
            ("{\"id\"", &[b"{\"id\": 1}"], true),
            ("/^ok$/", &[b"o", b"k"], true),
            ("/^ok$/", &[b"ok", b"."], false),
            ("/^ok$/", &[b"not ok"], false),
            ("/a\\/b/", &[b"a/b"], true),
            ("/(?i)pong [0-9]+/", &[b"a PONG ", b"17"], true),
            ("/\\x00\\xff/", &[b"\x00\xff"], true),
        ] {
            assert_eq!(matches(wanted, pieces), is, "{wanted} {pieces:?}");
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for (wanted, what) in [
            ("", "matches nothing at all"),
            ("/x*/", "matches nothing at all"),
            ("/ok", "does not end with one"),
            ("/", "does not end with one"),
            ("/ok/i", "follows the closing slash"),
            ("/a(/", "malformed"),
            ("/[0-9]{9999999}/", "the expression"),
        ] {
            let refused = expected(wanted).expect_err(wanted);
            assert!(refused.contains(what) && refused.lines().count() == 1, "{wanted}: {refused}");
        }
    }
}
