//! Instants as text, in UTC. Pure: the caller passes the seconds of its system clock.

use std::time::{Duration, UNIX_EPOCH};

use plimsoll_model::Nanos;

/// 9999-12-31T23:59:59Z, the last instant that RFC 3339 can name.
const LAST_S: u64 = 253_402_300_799;

/// Formats a time by RFC 3339: `2026-11-21T02:15:30Z`. Instants after the year 9999 are shown as its last second.
pub fn rfc3339(unix_s: u64) -> String {
    let instant = UNIX_EPOCH + Duration::from_secs(unix_s.min(LAST_S));
    humantime::format_rfc3339_seconds(instant).to_string()
}

/// Formats an instant with milliseconds, of ns: `2026-11-21T02:15:30.250Z`.
pub fn rfc3339_ms(unix_ns: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_nanos(unix_ns)).to_string()
}

/// Formats an instant to the ns, as JSON of programs in Go has it.
pub fn rfc3339_ns(unix_ns: u64) -> String {
    humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(unix_ns)).to_string()
}

/// Returns a span to the second, or to the minute from an hour on: `45 s`, `3 m 30 s`, `1 h 30 m`. Below ten
/// seconds as [`Nanos`] shows it.
pub fn rounded(span: Nanos) -> String {
    let seconds = span.as_secs_f64().round() as u64;
    let two = |most: u64, large: &str, least: u64, small: &str| match least {
        0 => format!("{most} {large}"),
        least => format!("{most} {large} {least} {small}"),
    };
    match seconds {
        0..10 => span.to_string(),
        10..=60 => format!("{seconds} s"),
        61..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        _ => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
    }
}

/// Formats a time for directory names, which sort by time: `20261121T021530Z`.
pub fn compact(unix_s: u64) -> String {
    rfc3339(unix_s).replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_at_most_two_units() {
        for (seconds, text) in [
            (0.5, "500 ms"),
            (15.0, "15 s"),
            (60.0, "60 s"),
            (70.0, "1 m 10 s"),
            (210.0, "3 m 30 s"),
            (5_400.0, "1 h 30 m"),
            (86_400.0, "24 h"),
        ] {
            assert_eq!(rounded(Nanos::from_secs_f64(seconds)), text);
        }
    }

    #[test]
    fn known_instants() {
        // From `date -u -d @N +%FT%TZ`.
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_234_567_890, "2009-02-13T23:31:30Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(unix_s), text);
        }
        assert_eq!(compact(1_234_567_890), "20090213T233130Z");
    }
}
