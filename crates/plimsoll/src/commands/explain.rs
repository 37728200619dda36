//! `plimsoll explain`: what an exit code, a check, a cause or a word means, and what to do.

use plimsoll_report::explain;

use super::printed::say;
use crate::exit::Result;
use crate::flags::ExplainFlags;
use crate::screen::Stream;

/// Prints the explanations that were asked for.
pub(crate) fn run(flags: &ExplainFlags) -> Result<()> {
    let style = Stream::Out.style();
    let text = match flags.list {
        true => explain::list(style),
        false => {
            let texts = sections(&flags.id)?.into_iter().map(|section| section.text(style));
            texts.collect::<Vec<_>>().join("\n")
        }
    };
    say(&text)
}

/// Returns the sections of an id that may be typed as several words, or else of several ids.
fn sections(ids: &[String]) -> Result<Vec<explain::Section>> {
    let found = explain::find(&ids.join("-"));
    if !found.is_empty() {
        return Ok(found);
    }
    Ok(ids.iter().map(|id| one(id)).collect::<Result<Vec<_>>>()?.concat())
}

fn one(id: &str) -> Result<Vec<explain::Section>> {
    let found = explain::find(id);
    if !found.is_empty() {
        return Ok(found);
    }
    let near = explain::nearest(id);
    let fix = match near.is_empty() {
        true => "plimsoll explain --list names all".to_owned(),
        false => format!("did you mean {}?", near.join(", ")),
    };
    refuse!("nothing is called {id:?}"; "{fix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;

    #[test]
    fn an_unknown_id_is_answered_by_the_nearest_ones() {
        let explained = |typed: &str| {
            let words: Vec<_> = typed.split(' ').map(str::to_owned).collect();
            sections(&words)
        };
        assert_eq!(explained("safe load").unwrap().len(), 1);
        assert_eq!(explained("97 98").unwrap().len(), 2);
        let stop = explained("send-lga").unwrap_err();
        let line = "plimsoll: nothing is called \"send-lga\"; did you mean send-lag?";
        assert_eq!((stop.code(), stop.complaint().as_deref()), (2, Some(line)));
        let line = "plimsoll: nothing is called \"qqqqqqqqqq\"; plimsoll explain --list names all";
        assert_eq!(explained("qqqqqqqqqq").unwrap_err().complaint().as_deref(), Some(line));
    }

    #[test]
    fn every_exit_code_is_explained_and_no_other_number() {
        let is_number = |section: &explain::Section| section.id.parse::<u8>().ok();
        let explained: Vec<u8> = explain::all().filter_map(|section| is_number(&section)).collect();
        assert_eq!(explained, exit::ALL);
    }
}
