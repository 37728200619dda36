//! Answers of the simulated backend, computed from request headers. No I/O, no clock.
//!
//! [`Pong`] implements [`Service`] for one worker: `handle_header` collects the headers `sleep`, `sleep-fixed`,
//! `times`, `size` and `push` in [`Asked`], and `handle_request` turns them into one [`Answer`]. A malformed or
//! excessive value is answered with status 400. A random sleep is drawn anew for each piece, up to the nanoseconds in
//! the answer's token; the bit [`FIXED`] marks an exact sleep. Start reading at the implementation of [`Service`].

use fastrand::Rng;

use plimsoll_engine::server::{Answer, Body, Service};
use plimsoll_model::Nanos;
use plimsoll_proto::http1::Request;

/// Longest sleep: 24 hours, in milliseconds.
pub(crate) const SLEEP_MS_MAX: u64 = 24 * 3600 * 1000;
/// Most further pieces.
pub(crate) const TIMES_MAX: u64 = 1_000_000;
/// Largest piece: 1 GiB.
pub(crate) const SIZE_BYTES_MAX: u64 = 1 << 30;

/// Largest message that is pushed: 1 MiB.
const PUSH_BYTES_MAX: u32 = 1 << 20;

const PONG: &[u8] = b"pong";
/// Flag of a token: the sleep is exact. The rest of the token is the sleep in nanoseconds.
const FIXED: u64 = 1 << 63;
const _: () = assert!(SLEEP_MS_MAX * 1_000_000 < FIXED);

/// The behaviour of every backend: `pong`, delayed and sized as asked.
#[derive(Debug)]
pub(crate) struct Pong {
    rng: Rng,
}

impl Pong {
    /// Creates worker `worker` of a backend whose random sleeps follow from `seed`.
    pub(crate) fn new(seed: u64, worker: u32) -> Self {
        // Seeds far apart, so that the first sleeps of workers do not correlate.
        let spread = u64::from(worker).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self { rng: Rng::with_seed(seed ^ spread) }
    }

    fn draw(&mut self, token: u64) -> Nanos {
        let sleep_ns = token & !FIXED;
        Nanos(if token & FIXED != 0 { sleep_ns } else { self.rng.u64(0..=sleep_ns) })
    }
}

/// A request for behaviour, by the headers of one request.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    sleep_ns: Option<u64>,
    sleep_fixed_ns: Option<u64>,
    times: Option<u32>,
    size_bytes: Option<u32>,
    push_every_ms: Option<u32>,
    /// The fault in the first malformed header.
    fault: Option<Box<str>>,
}

impl Asked {
    fn token(&self) -> u64 {
        match self.sleep_fixed_ns {
            Some(sleep_ns) => sleep_ns | FIXED,
            None => self.sleep_ns.unwrap_or(0),
        }
    }

    fn blame(&mut self, name: &str, value: &[u8], expected: &str) {
        const SHOWN_BYTES_MAX: usize = 40;
        let shown = String::from_utf8_lossy(value.get(..SHOWN_BYTES_MAX).unwrap_or(value));
        self.fault
            .get_or_insert_with(|| format!("{name}: {shown:?} is not {expected}").into_boxed_str());
    }
}

impl Service for Pong {
    type Notes = Asked;

    const PATTERN: &'static [u8] = PONG;

    fn handle_header(&mut self, asked: &mut Asked, name: &str, value: &[u8]) {
        const MILLISECONDS: &str = "milliseconds from 0 to 86400000 (24 h)";
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let (name, is_valid, expected) = if is("sleep") {
            asked.sleep_ns = parse_ms(value);
            ("sleep", asked.sleep_ns.is_some(), MILLISECONDS)
        } else if is("sleep-fixed") {
            asked.sleep_fixed_ns = parse_ms(value);
            ("sleep-fixed", asked.sleep_fixed_ns.is_some(), MILLISECONDS)
        } else if is("times") {
            asked.times = parse_count(value, TIMES_MAX);
            ("times", asked.times.is_some(), "a count from 0 to 1000000")
        } else if is("push") {
            asked.push_every_ms = parse_count(value, SLEEP_MS_MAX).filter(|every| *every > 0);
            let is_valid = asked.push_every_ms.is_some();
            ("push", is_valid, "whole milliseconds from 1 to 86400000 (24 h)")
        } else if is("size") {
            asked.size_bytes = parse_count(value, SIZE_BYTES_MAX);
            ("size", asked.size_bytes.is_some(), "bytes from 0 to 1073741824 (1 GiB)")
        } else {
            return;
        };
        if !is_valid {
            asked.blame(name, value, expected);
        }
    }

    fn handle_request(&mut self, asked: &Asked, _request: &Request) -> Answer {
        if let Some(fault) = &asked.fault {
            return Answer::Refusal { status: 400, text: fault.to_string() };
        }
        if asked.push_every_ms.is_some()
            && asked.size_bytes.is_some_and(|size| size > PUSH_BYTES_MAX)
        {
            let text = "size: a pushed message has 1048576 bytes (1 MiB) at most".to_owned();
            return Answer::Refusal { status: 400, text };
        }
        let token = asked.token();
        Answer::Body(Body {
            delay: self.draw(token),
            piece_bytes: asked.size_bytes.unwrap_or(PONG.len() as u32),
            pieces_further: asked.times.unwrap_or(0),
            chunked: asked.times.is_some(),
            token,
            push_every_ms: asked.push_every_ms.unwrap_or(0),
        })
    }

    fn next_delay(&mut self, token: u64) -> Nanos {
        self.draw(token)
    }
}

/// Plain decimal digits only: no sign, no exponent.
fn digits(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn parse_count(value: &[u8], max: u64) -> Option<u32> {
    digits(value.trim_ascii()).filter(|count| *count <= max)?.try_into().ok()
}

/// Milliseconds, whole or with a fraction down to nanoseconds, as nanoseconds.
fn parse_ms(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    let mut parts = value.splitn(2, |byte| *byte == b'.');
    let whole_ns = digits(parts.next()?).filter(|ms| *ms <= SLEEP_MS_MAX)? * 1_000_000;
    let fraction_ns = match parts.next() {
        None => 0,
        Some(fraction) if fraction.len() <= 6 => {
            digits(fraction)? * 10u64.pow(6 - fraction.len() as u32)
        }
        Some(_) => return None,
    };
    Some(whole_ns + fraction_ns).filter(|ns| *ns <= SLEEP_MS_MAX * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request =
        Request { head_method: false, keep_alive: true, http10: false, body_bytes: 0 };

    fn answer(headers: &[(&str, &str)]) -> Answer {
        let mut pong = Pong::new(7, 0);
        let mut asked = Asked::default();
        for (name, value) in headers {
            pong.handle_header(&mut asked, name, value.as_bytes());
        }
        pong.handle_request(&asked, &REQUEST)
    }

    fn body(headers: &[(&str, &str)]) -> Body {
        match answer(headers) {
            Answer::Body(body) => body,
            refusal => panic!("{refusal:?}"),
        }
    }

    #[test]
    fn without_headers_it_is_pong_at_once() {
        let plain = Body {
            delay: Nanos::ZERO,
            piece_bytes: 4,
            pieces_further: 0,
            chunked: false,
            token: 0,
            push_every_ms: 0,
        };
        assert_eq!(body(&[("Host", "x"), ("Sleepy", "9")]), plain);
    }

    #[test]
    fn headers_in_any_spelling_shape_the_answer() {
        let asked = body(&[("Sleep-Fixed", " 2.5 "), ("TIMES", "3"), ("size", "1073741824")]);
        assert_eq!(asked.delay, Nanos(2_500_000));
        assert_eq!((asked.pieces_further, asked.chunked, asked.piece_bytes), (3, true, 1 << 30));
        assert_eq!(Pong::new(0, 0).next_delay(asked.token), Nanos(2_500_000));
        assert!(body(&[("times", "0")]).chunked);
        assert_eq!(body(&[("push", "250"), ("size", "1048576")]).push_every_ms, 250);
        assert!(matches!(answer(&[("push", "1"), ("size", "1048577")]), Answer::Refusal { .. }));
        assert_eq!(body(&[("sleep-fixed", "86400000")]).delay, Nanos::from_secs(86_400));
        assert_eq!(body(&[("sleep-fixed", "5"), ("sleep", "9000")]).delay, Nanos::from_millis(5));
    }

    #[test]
    fn malformed_values_are_refused_with_a_reason() {
        for (name, value) in [
            ("sleep", ""),
            ("sleep", "-1"),
            ("sleep", "+1"),
            ("sleep", "1e3"),
            ("sleep", "soon"),
            ("sleep", "86400001"),
            ("sleep", "86400000.1"),
            ("sleep", "1."),
            ("sleep", ".5"),
            ("sleep", "0.0000001"),
            ("sleep-fixed", "99999999999999999999999"),
            ("times", "1000001"),
            ("times", "1.5"),
            ("size", "1073741825"),
            ("size", "4KiB"),
            ("push", "0"),
            ("push", "86400001"),
        ] {
            match answer(&[(name, value), ("size", "1")]) {
                Answer::Refusal { status: 400, text } => {
                    let start = format!("{name}: {value:?} is not ");
                    assert!(text.starts_with(&start) && !text.contains('\n'), "{text}");
                }
                other => panic!("{name}: {value:?} gave {other:?}"),
            }
        }
        let long = "x".repeat(5_000) + "\n";
        let Answer::Refusal { text, .. } = answer(&[("sleep", &long)]) else { panic!("accepted") };
        assert!(text.len() < 150, "{text}");
    }

    #[test]
    fn random_sleeps_are_uniform_and_repeatable() {
        let max = 10_000_000;
        let draw = |worker| {
            let mut pong = Pong::new(42, worker);
            (0..10_000).map(|_| pong.next_delay(max).0).collect::<Vec<_>>()
        };
        let sleeps = draw(0);
        assert_eq!(sleeps, draw(0));
        assert_ne!(sleeps, draw(1));
        assert!(sleeps.iter().all(|sleep| *sleep <= max));
        // Standard error of the mean of 10,000 draws: 0.3 % of the range; of a decile's share: 0.3 %.
        let mean = sleeps.iter().sum::<u64>() as f64 / 10_000.0;
        assert!((mean / max as f64 - 0.5).abs() < 0.015, "{mean}");
        let first_tenth = sleeps.iter().filter(|sleep| **sleep < max / 10).count();
        assert!((850..1150).contains(&first_tenth), "{first_tenth}");
    }
}
