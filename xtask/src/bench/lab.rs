//! Whether a search of the laboratory is fast enough, narrow enough, and repeatable.

use std::fmt::Write;

use anyhow::{Result, bail};

use crate::bench::claim::Claim;
use crate::bench::invocation::Invocation;
use crate::bench::page::Section;
use crate::bench::search::Search;
use crate::bench::spread::Spread;
use crate::bench::{Bench, search};
use crate::packages;

/// Longest time of a quick search with everything around it.
const SECONDS_MAX: f64 = 240.0;
/// Widest interval of a quick search; the rest is for what computing with f64 costs.
const WIDTH_MAX: f64 = 0.05 + 1e-9;
/// So many of so many others must agree with the reference.
const AGREEING: (usize, usize) = (4, 5);

/// Measures the lab, and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let repeats = bench.settings.repeats;
    section.method = method(repeats);
    if packages::find("haproxy").is_none() {
        bail!("haproxy: missing (apt-get install haproxy)");
    }
    let words = format!("lab --mode quick --sut haproxy --out {}", search::ARCHIVE);
    let lab = Invocation::new(&words, None);
    section.note_command(lab.shown());
    let mut searches = Vec::new();
    for run in 0..=repeats {
        println!("lab, search {} of {}", run + 1, repeats + 1);
        match Search::make(bench, &lab) {
            Ok(search) => {
                println!("lab, search {}: {}", run + 1, search.line());
                searches.push(search);
            }
            Err(error) => section.fail(format!("lab, search {}: {error:#}", run + 1)),
        }
    }
    section.claims.extend(claims(&searches));
    section.figures = table(&searches);
    Ok(())
}

fn method(repeats: u32) -> String {
    format!(
        "`plimsoll lab --mode quick` with the real HAProxy, TLS in front, once and then {repeats} \
         times more; the lab\npins its clients and its SUT by itself.\n"
    )
}

/// The search that the others are compared with: the first that went its whole way.
fn reference(searches: &[Search]) -> Option<usize> {
    searches.iter().position(|search| search.is_regular() && search.interval.is_some())
}

/// What searches of the same SUT promise.
fn claims(searches: &[Search]) -> Vec<Claim> {
    let time = ("seconds of a quick lab on HAProxy", format!("each below {SECONDS_MAX:.0}"));
    let width = ("width of its interval, %", "each at most 5".to_owned());
    let (some, of) = AGREEING;
    let agreement =
        ("other intervals that overlap or touch the reference", format!("at least {some} of {of}"));
    if searches.is_empty() {
        let claims = [time, width, agreement];
        return claims.map(|(what, aim)| Claim::not_measured(what, aim, "no figures")).into();
    }
    let seconds = Spread::of(searches.iter().map(|search| search.seconds)).decimals(0);
    let known = searches.iter().filter_map(|search| search.interval);
    let widths = Spread::of(known.clone().map(|interval| interval.width() * 100.0));
    let missing = searches.len() - known.count();
    let found = match missing {
        0 => widths.to_string(),
        _ => format!("{widths}; {missing} of {} without both bounds", searches.len()),
    };
    let others = searches.len() - 1;
    let agreeing = reference(searches).map_or(0, |own| {
        let agrees = |search: &&Search| agree(&searches[own], search);
        searches.iter().filter(agrees).count() - 1
    });
    let is_wide = missing > 0 || widths.max > WIDTH_MAX * 100.0;
    vec![
        Claim::new(time.0, time.1, seconds.to_string(), seconds.max < SECONDS_MAX),
        Claim::new(width.0, width.1, found, !is_wide),
        Claim::new(
            agreement.0,
            agreement.1,
            format!("{agreeing} of {others}"),
            others > 0 && agreeing * of >= others * some,
        ),
    ]
}

fn agree(first: &Search, second: &Search) -> bool {
    first.interval.zip(second.interval).is_some_and(|(a, b)| a.overlaps(&b))
}

/// Every search, for the page.
fn table(searches: &[Search]) -> String {
    let columns = search::COLUMNS.join(" | ");
    let mut text =
        format!("| search | {columns} | agrees |\n|---|---|---|---|---|---|---|---|---|---|\n");
    let reference = reference(searches);
    for (index, search) in searches.iter().enumerate() {
        let agrees = match reference {
            Some(own) if own == index => "reference",
            Some(own) if agree(&searches[own], search) => "yes",
            _ => "no",
        };
        let _ = writeln!(text, "| lab {} | {} | {agrees} |", index + 1, search.cells());
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::bench::claim::Outcome;
    use crate::bench::search::Interval;

    use super::*;

    fn search(lower: f64, upper: f64) -> Search {
        Search {
            seconds: 120.0,
            interval: Some(Interval { lower, upper }),
            outcome: "regular".to_owned(),
            trials: 20,
            invalid_trials: 0,
            recovers: "yes".to_owned(),
        }
    }

    fn outcomes(searches: &[Search]) -> Vec<Outcome> {
        claims(searches).iter().map(|claim| claim.outcome).collect()
    }

    #[test]
    fn four_of_five_must_agree_with_the_first_whole_one() {
        let mut searches = vec![search(1_000.0, 1_050.0); 5];
        searches.push(search(2_000.0, 2_100.0));
        assert_eq!(outcomes(&searches), [Outcome::Reached; 3]);
        searches[1] = search(2_000.0, 2_100.0);
        let expected = [Outcome::Reached, Outcome::Reached, Outcome::NotReached];
        assert_eq!(outcomes(&searches), expected);
        assert_eq!(claims(&searches)[2].found, "3 of 5");
        // A search that was cut short is compared with the others, not they with it.
        let mut searches = vec![search(1_000.0, 1_050.0); 6];
        searches[0] =
            Search { outcome: "unfinished: the time budget".to_owned(), ..search(600.0, 630.0) };
        assert_eq!(claims(&searches)[2].found, "4 of 5");
        assert_eq!(outcomes(&searches), [Outcome::Reached; 3]);
        // One search says nothing of the next.
        assert_eq!(outcomes(&searches[..1])[2], Outcome::NotReached);
        assert_eq!(outcomes(&[]), [Outcome::NotMeasured; 3]);
    }

    #[test]
    fn the_slowest_and_the_widest_decide() {
        let mut searches = vec![search(1_000.0, 1_050.0), search(1_000.0, 1_050.0)];
        searches[1].seconds = 240.0;
        assert_eq!(outcomes(&searches)[..2], [Outcome::NotReached, Outcome::Reached]);
        searches[1] = search(1_000.0, 1_051.0);
        assert_eq!(outcomes(&searches)[..2], [Outcome::Reached, Outcome::NotReached]);
    }

    #[test]
    fn a_missing_bound_is_not_a_narrow_interval() {
        let open = Search { interval: None, ..search(5.0, 5.1) };
        let expected = [Outcome::Reached, Outcome::NotReached, Outcome::NotReached];
        assert_eq!(outcomes(&[search(5.0, 5.1), open]), expected);
    }
}
