//! The expanded keys of the connections that were busy last: a bounded cache.

use aws_lc_rs::error::Unspecified;

use crate::suite::{ExpandedKey, Material, Secret, Suite};

/// Keys that compete for one place. More would make each look-up longer, fewer would throw keys
/// out while others are free.
const WAYS: usize = 4;

/// One key and the secret it was made from.
struct Entry {
    secret: Secret,
    suite: Suite,
    key: ExpandedKey,
    used: u32,
}

/// What [`crate::Workbench::new`] promises.
const _: () = assert!(size_of::<Entry>() <= 1024);

/// A set-associative cache; the key used longest ago makes room.
///
/// An entry belongs to whoever shows its whole secret, so that neither a slot with a new owner
/// nor a KeyUpdate can meet another connection's key, and no entry needs to be given back.
pub(crate) struct Keyring {
    sets: Box<[[Option<Box<Entry>>; WAYS]]>,
    tick: u32,
}

impl Keyring {
    /// Keeps about `keys` keys, at least [`WAYS`]. Memory is taken as they come.
    pub(crate) fn new(keys: usize) -> Self {
        let sets = keys.div_ceil(WAYS).max(1);
        Self { sets: (0..sets).map(|_| [const { None }; WAYS]).collect(), tick: 0 }
    }

    /// The key of `secret`, made if it is not at hand.
    pub(crate) fn key(
        &mut self,
        suite: Suite,
        material: Material,
        secret: &Secret,
    ) -> Result<&ExpandedKey, Unspecified> {
        let (set, way) = match self.find(suite, secret) {
            Ok(found) => found,
            Err(set) => {
                let key = ExpandedKey::new(suite, &suite.key_of(material, secret)?)?;
                (set, self.put(set, suite, secret, key))
            }
        };
        self.tick = self.tick.wrapping_add(1);
        let entry = self.sets[set][way].as_deref_mut().ok_or(Unspecified)?;
        entry.used = self.tick;
        Ok(&entry.key)
    }

    /// Keeps the key of `secret` for soon; `key` is what [`Suite::key_of`] would give.
    pub(crate) fn keep(
        &mut self,
        suite: Suite,
        secret: &Secret,
        key: &Secret,
    ) -> Result<(), Unspecified> {
        if let Err(set) = self.find(suite, secret) {
            self.put(set, suite, secret, ExpandedKey::new(suite, key)?);
        }
        Ok(())
    }

    /// Set and way of an entry, or the set where it belongs.
    fn find(&self, suite: Suite, secret: &Secret) -> Result<(usize, usize), usize> {
        let set = secret.place(self.sets.len());
        let is_it = |entry: &Entry| entry.secret == *secret && entry.suite == suite;
        let way = self.sets[set].iter().position(|way| way.as_deref().is_some_and(is_it));
        way.map(|way| (set, way)).ok_or(set)
    }

    fn put(&mut self, set: usize, suite: Suite, secret: &Secret, key: ExpandedKey) -> usize {
        let entry = Entry { secret: *secret, suite, key, used: self.tick };
        let ways = &mut self.sets[set];
        let age = |way: &Option<Box<Entry>>| {
            way.as_ref().map_or(u32::MAX, |entry| self.tick.wrapping_sub(entry.used))
        };
        let mut oldest = 0;
        for way in 1..WAYS {
            if age(&ways[way]) > age(&ways[oldest]) {
                oldest = way;
            }
        }
        match &mut ways[oldest] {
            Some(old) => **old = entry,
            free => *free = Some(Box::new(entry)),
        }
        oldest
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.sets.iter().flatten().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::SECRET_BYTES;

    fn secret(number: u8) -> Secret {
        let mut bytes = [0; SECRET_BYTES];
        // Only the first four bytes choose the place: these all compete for one.
        bytes[31] = number;
        Secret(bytes)
    }

    #[test]
    fn it_stays_within_its_bound_and_forgets_the_oldest() {
        let mut ring = Keyring::new(8);
        let made = |ring: &mut Keyring, number| {
            ring.key(Suite::Aes128, Material::TrafficSecret, &secret(number)).unwrap().iv
        };
        let first: Vec<_> = (0..100).map(|number| made(&mut ring, number)).collect();
        assert_eq!(ring.len(), WAYS);
        assert!(ring.find(Suite::Aes128, &secret(99)).is_ok());
        assert!(ring.find(Suite::Aes128, &secret(95)).is_err());
        // What was forgotten is made again, the same.
        let again: Vec<_> = (0..100).map(|number| made(&mut ring, number)).collect();
        assert_eq!(first, again);
    }

    #[test]
    fn a_key_in_use_outlives_others() {
        let mut ring = Keyring::new(WAYS);
        for number in 0..50 {
            for wanted in [200, number] {
                ring.key(Suite::Aes256, Material::TrafficSecret, &secret(wanted)).unwrap();
            }
            assert!(ring.find(Suite::Aes256, &secret(200)).is_ok());
        }
    }

    #[test]
    fn the_same_bytes_in_another_suite_are_another_key() {
        let mut ring = Keyring::new(WAYS);
        let secret = secret(1);
        let one = ring.key(Suite::Aes128, Material::TrafficSecret, &secret).unwrap().iv;
        let other = ring.key(Suite::Aes256, Material::TrafficSecret, &secret).unwrap().iv;
        assert_ne!(one, other);
        assert_eq!(ring.len(), 2);
    }
}
