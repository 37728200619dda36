//! Limits that a server announces in its answers, and answers that are all of one kind.

use serde::{Deserialize, Serialize};

/// Limits of connections that the server announced. Limits of the operations on one connection are in
/// [`StreamCounts`](crate::tally::StreamCounts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncedLimits {
    /// Connections that it announced to end without an error: `Connection: close` with an answer, GOAWAY of HTTP/2.
    pub ends: u64,
    /// The fewest requests that it served on one of these.
    pub requests_min: u64,
    /// The most.
    pub requests_max: u64,
    /// The shortest time after which it closes an idle connection, seconds (`Keep-Alive: timeout`); 0 if it announced
    /// none.
    pub idle_s: u32,
}

impl AnnouncedLimits {
    /// Reports whether nothing was announced.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Notes that the server ends a connection on which it serves `requests`.
    pub const fn note_end(&mut self, requests: u64) {
        self.merge(&Self { ends: 1, requests_min: requests, requests_max: requests, idle_s: 0 });
    }

    /// Notes that the server closes a connection that is idle for `seconds`.
    pub const fn note_idle(&mut self, seconds: u32) {
        if seconds > 0 && (self.idle_s == 0 || seconds < self.idle_s) {
            self.idle_s = seconds;
        }
    }

    /// Adds what was announced to another thread, or later.
    pub(crate) const fn merge(&mut self, other: &Self) {
        if other.ends > 0 {
            if self.ends == 0 || other.requests_min < self.requests_min {
                self.requests_min = other.requests_min;
            }
            if other.requests_max > self.requests_max {
                self.requests_max = other.requests_max;
            }
            self.ends += other.ends;
        }
        self.note_idle(other.idle_s);
    }
}

/// Answers that are all of one kind which is no success. A server makes them at another cost than real answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniform {
    /// Redirects, which plimsoll does not follow.
    Redirects,
    /// One status of 4xx for every request.
    Refusal(u16),
}

impl Uniform {
    /// Returns the kind that all answers have; `statuses` are counts by status.
    pub fn of(statuses: impl IntoIterator<Item = (u16, u64)>) -> Option<Self> {
        let mut statuses =
            statuses.into_iter().filter(|(_, count)| *count > 0).map(|(code, _)| code);
        match statuses.next()? {
            first @ 400..500 if statuses.next().is_none() => Some(Self::Refusal(first)),
            301..=303 | 307 | 308 if statuses.all(is_redirect) => Some(Self::Redirects),
            _ => None,
        }
    }
}

/// Reports whether a status sends the client to another URL; 304 does not.
const fn is_redirect(status: u16) -> bool {
    matches!(status, 301..=303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_and_the_most_requests_are_kept() {
        let (mut one, mut other) = (AnnouncedLimits::default(), AnnouncedLimits::default());
        assert!(one.is_none());
        for requests in [100, 98, 100] {
            one.note_end(requests);
        }
        other.note_end(120);
        other.note_idle(5);
        one.merge(&AnnouncedLimits::default());
        one.merge(&other);
        one.note_idle(15);
        let merged = AnnouncedLimits { ends: 4, requests_min: 98, requests_max: 120, idle_s: 5 };
        assert_eq!(one, merged);
    }

    #[test]
    fn uniform_answers() {
        for (statuses, kind) in [
            (&[(301, 4), (302, 1)][..], Some(Uniform::Redirects)),
            (&[(308, 4)], Some(Uniform::Redirects)),
            (&[(404, 9)], Some(Uniform::Refusal(404))),
            (&[(404, 9), (200, 0)], Some(Uniform::Refusal(404))),
            (&[(404, 9), (403, 1)], None),
            (&[(200, 1), (302, 9)], None),
            (&[(302, 9), (404, 1)], None),
            (&[(304, 9)], None),
            (&[(200, 9)], None),
            (&[(503, 9)], None),
            (&[], None),
        ] {
            assert_eq!(Uniform::of(statuses.iter().copied()), kind, "{statuses:?}");
        }
    }
}
