//! Instants as text, in UTC. Pure: the caller passes the seconds of its system clock.

/// Seconds in a day; Unix time has no leap seconds.
const DAY_S: u64 = 86_400;
/// 9999-12-31T23:59:59Z, the last instant that RFC 3339 can name.
const LAST_S: u64 = 253_402_300_799;

/// RFC 3339: `2026-11-21T02:15:30Z`. Instants after the year 9999 are shown as its last second.
pub fn rfc3339(unix_s: u64) -> String {
    let t = Civil::from_unix(unix_s);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        t.year, t.month, t.day, t.hour, t.minute, t.second
    )
}

/// For directory names, sorts by time: `20261121T021530Z`.
pub fn compact(unix_s: u64) -> String {
    let t = Civil::from_unix(unix_s);
    format!("{:04}{:02}{:02}T{:02}{:02}{:02}Z", t.year, t.month, t.day, t.hour, t.minute, t.second)
}

struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Civil {
    /// The proleptic Gregorian calendar by Hinnant's method: years begin in March, so that the
    /// leap day is the last of its year, and 400 years have 146,097 days.
    fn from_unix(unix_s: u64) -> Self {
        let unix_s = unix_s.min(LAST_S);
        let days = unix_s / DAY_S + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let in_day = unix_s % DAY_S;
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: in_day / 3_600,
            minute: in_day / 60 % 60,
            second: in_day % 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn days_follow_each_other() {
        let lengths = |year: u64| {
            let leap =
                year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
            [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let mut unix_s = 0;
        for year in 1970..2410 {
            for (month, days) in (1..).zip(lengths(year)) {
                for day in 1..=days {
                    let expected = format!("{year:04}-{month:02}-{day:02}T00:00:00Z");
                    assert_eq!(rfc3339(unix_s), expected);
                    unix_s += DAY_S;
                }
            }
        }
    }
}
