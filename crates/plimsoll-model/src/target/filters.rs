//! The subscriptions that match a topic (MQTT 5.0, 4.7 and 4.8.2).

use std::collections::{HashMap, HashSet};

/// Filters that begin so have a group, of which one member gets each message.
const SHARED: &str = "$share/";

/// Reports whether a subscription to `filter` gets what is published to `topic`.
pub fn filter_matches(filter: &str, topic: &str) -> bool {
    let filter = shared_filter(filter).unwrap_or(filter);
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = topic.split('/');
    for wanted in filter.split('/') {
        match (wanted, levels.next()) {
            // Also of the level above.
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (wanted, Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

/// Returns the filter of a group that shares its subscription; `None` if `filter` names no group.
pub fn shared_filter(filter: &str) -> Option<&str> {
    let (group, filter) = filter.strip_prefix(SHARED)?.split_once('/')?;
    (!group.is_empty()).then_some(filter)
}

/// Subscriptions, counted. A group of shared ones counts as one.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// By the levels that a filter begins with, a slash behind each.
    levels: HashMap<String, Ends>,
    /// Shared filters that were added.
    groups: HashSet<String>,
}

/// Filters that end behind some levels.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    here: u64,
    /// With `#`.
    below: u64,
}

impl Filters {
    /// Adds `count` subscriptions to `filter`.
    pub fn add(&mut self, filter: &str, count: u64) {
        let (filter, count) = match shared_filter(filter) {
            None => (filter, count),
            Some(_) if !self.groups.insert(filter.to_owned()) => return,
            Some(filter) => (filter, count.min(1)),
        };
        let mut prefix = String::new();
        let mut ends = self.levels.entry(String::new()).or_default();
        for level in filter.split('/') {
            if level == "#" {
                ends.below += count;
                return;
            }
            prefix.push_str(level);
            prefix.push('/');
            ends = self.levels.entry(prefix.clone()).or_default();
        }
        ends.here += count;
    }

    /// Returns the number of them that get a publish to `topic`.
    pub fn matching(&self, topic: &str) -> u64 {
        let mut count = 0;
        let mut prefixes = vec![String::new()];
        for (depth, level) in topic.split('/').enumerate() {
            let takes_wildcards = depth > 0 || !level.starts_with('$');
            let mut longer = Vec::new();
            for prefix in prefixes {
                if takes_wildcards {
                    count += self.ends(&prefix).below;
                }
                let wanted = [Some(level), takes_wildcards.then_some("+")];
                let behind =
                    wanted.into_iter().flatten().map(|wanted| format!("{prefix}{wanted}/"));
                longer.extend(behind.filter(|prefix| self.levels.contains_key(prefix)));
            }
            prefixes = longer;
        }
        let ends = prefixes.iter().map(|prefix| self.ends(prefix));
        count + ends.map(|ends| ends.here + ends.below).sum::<u64>()
    }

    fn ends(&self, prefix: &str) -> Ends {
        self.levels.get(prefix).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn filters_match_as_the_standard_says() {
        for (filter, topic, matches) in [
            ("a/b", "a/b", true),
            ("a/b", "a/b/c", false),
            ("a/b/c", "a/b", false),
            ("a/+", "a/b", true),
            ("a/+", "a", false),
            ("a/+", "a/", true),
            ("+/+", "/a", true),
            ("+", "/a", false),
            ("#", "a/b", true),
            ("a/#", "a", true),
            ("a/#", "ab", false),
            ("#", "$SYS/x", false),
            ("+/x", "$SYS/x", false),
            ("$SYS/#", "$SYS/x", true),
            ("$share/g/a/+", "a/b", true),
            ("$share/g/#", "$SYS/x", false),
            ("$share//a", "a", false),
        ] {
            assert_eq!(filter_matches(filter, topic), matches, "{filter} {topic}");
            let mut filters = Filters::default();
            filters.add(filter, 1);
            assert_eq!(filters.matching(topic), u64::from(matches), "{filter} {topic}");
        }
    }

    #[test]
    fn a_group_counts_as_one() {
        let mut filters = Filters::default();
        for _ in 0..3 {
            filters.add("$share/g/a/#", 5);
            filters.add("$share/h/a/#", 1);
            filters.add("a/b", 2);
        }
        assert_eq!((filters.matching("a/b"), filters.matching("a/c")), (8, 2));
    }

    proptest! {
        #[test]
        fn together_they_match_as_each_alone(
            filters in prop::collection::btree_set("(\\$share/g/)?[ab+$]?(/[ab+]?){0,3}(/#)?", 0..8),
            topic in "[ab$]?(/[ab]?){0,3}",
        ) {
            let mut together = Filters::default();
            for filter in &filters {
                together.add(filter, 1);
            }
            let alone = filters.iter().filter(|filter| filter_matches(filter, &topic)).count();
            prop_assert_eq!(together.matching(&topic), alone as u64);
        }
    }
}
