//! A bounded cache of the expanded keys of busy connections.
//!
//! [`KeyCache::key`] returns the key of a secret and expands it if it is missing. The index uses the first 8 bytes of
//! the secret, but a hit needs the whole secret and the suite to match: a KeyUpdate or a reused slot never gets the
//! key of another connection. A full cache overwrites the position that bytes of the new secret select. Memory is
//! about `keys_max` times [`KEY_BYTES`]. Start reading at [`KeyCache::key`].

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use aws_lc_rs::error::Unspecified;

use crate::suite::{ExpandedKey, Material, Secret, Suite};

/// One key and the secret it was made from.
struct Entry {
    secret: Secret,
    suite: Suite,
    key: ExpandedKey,
}

/// Memory of one key here: itself, its pointer and its place in the index.
pub(crate) const KEY_BYTES: usize = size_of::<Entry>() + 64;

const _: () = assert!(KEY_BYTES <= 768);

/// When the cache is full, a random key makes room. Connections are used in turn, and if more than fit are in use, the
/// least recently used is the one that comes next.
///
/// An entry is found by its whole secret, so that neither a slot with a new owner
/// nor a KeyUpdate can meet another connection's key, and no entry needs to be given back.
pub(crate) struct KeyCache {
    pub(crate) keys_max: usize,
    /// Position of each secret's key, by the secret's first bytes.
    index: HashMap<u64, u32, BuildHasherDefault<SecretHasher>>,
    /// Boxed, so that none is moved while the cache grows.
    #[expect(clippy::vec_box, reason = "growing would copy megabytes in the middle of a load")]
    entries: Vec<Box<Entry>>,
}

/// Secrets are as good as random: their bytes are their hash.
#[derive(Default)]
struct SecretHasher(u64);

impl Hasher for SecretHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, first: u64) {
        self.0 = first;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl KeyCache {
    /// Keeps `keys_max` keys, at least one. Memory is allocated as they are added.
    pub(crate) fn new(keys_max: usize) -> Self {
        Self { keys_max: keys_max.max(1), index: HashMap::default(), entries: Vec::new() }
    }

    /// Returns the key of `secret`, and makes it if it is not at hand.
    pub(crate) fn key(
        &mut self,
        suite: Suite,
        material: Material,
        secret: &Secret,
    ) -> Result<&ExpandedKey, Unspecified> {
        let place = match self.find(suite, secret) {
            Some(place) => place,
            None => {
                let key = ExpandedKey::new(suite, &suite.key_of(material, secret)?)?;
                self.put(Entry { secret: secret.clone(), suite, key })
            }
        };
        Ok(&self.entries[place].key)
    }

    /// Keeps the key of `secret` for soon; `key` is what [`Suite::key_of`] would give.
    pub(crate) fn keep(
        &mut self,
        suite: Suite,
        secret: &Secret,
        key: &Secret,
    ) -> Result<(), Unspecified> {
        if self.find(suite, secret).is_none() {
            let key = ExpandedKey::new(suite, key)?;
            self.put(Entry { secret: secret.clone(), suite, key });
        }
        Ok(())
    }

    /// Frees all keys.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.keys_max);
    }

    fn find(&self, suite: Suite, secret: &Secret) -> Option<usize> {
        let place = *self.index.get(&secret.number(0))? as usize;
        let entry = self.entries.get(place)?;
        (entry.secret == *secret && entry.suite == suite).then_some(place)
    }

    fn put(&mut self, entry: Entry) -> usize {
        let first = entry.secret.number(0);
        let place = if self.entries.len() < self.keys_max {
            self.entries.push(Box::new(entry));
            self.entries.len() - 1
        } else {
            // The secret itself is the dice: no two places of it have to do with each other.
            let place = (entry.secret.number(1) % self.entries.len() as u64) as usize;
            let old = std::mem::replace(&mut *self.entries[place], entry);
            self.index.remove(&old.secret.number(0));
            place
        };
        self.index.insert(first, place as u32);
        place
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest;

    use super::*;
    use crate::suite::{IV_BYTES, SECRET_BYTES};

    /// Creates a secret as random as real ones.
    fn secret(number: u32) -> Secret {
        let mut bytes = [0; SECRET_BYTES];
        let random = digest::digest(&digest::SHA384, &number.to_le_bytes());
        bytes[..32].copy_from_slice(&random.as_ref()[..32]);
        Secret(bytes)
    }

    fn use_key(cache: &mut KeyCache, number: u32) -> [u8; IV_BYTES] {
        cache.key(Suite::Aes128, Material::TrafficSecret, &secret(number)).unwrap().iv
    }

    #[test]
    fn it_stays_within_its_bound_and_makes_again_what_it_forgot() {
        let mut cache = KeyCache::new(8);
        let first: Vec<_> = (0..100).map(|number| use_key(&mut cache, number)).collect();
        assert_eq!((cache.len(), cache.index.len()), (8, 8));
        let again: Vec<_> = (0..100).map(|number| use_key(&mut cache, number)).collect();
        assert_eq!(first, again);
    }

    #[test]
    fn it_can_be_cleared_and_makes_the_same_keys_again() {
        let mut cache = KeyCache::new(8);
        let first: Vec<_> = (0..4).map(|number| use_key(&mut cache, number)).collect();
        cache.clear();
        assert_eq!((cache.len(), cache.index.len()), (0, 0));
        let again: Vec<_> = (0..4).map(|number| use_key(&mut cache, number)).collect();
        assert_eq!(first, again);
    }

    #[test]
    fn connections_used_in_turn_find_their_keys() {
        let found = |cache: &KeyCache, of: u32| {
            (0..of).filter(|number| cache.find(Suite::Aes128, &secret(*number)).is_some()).count()
        };
        let mut cache = KeyCache::new(2_000);
        for number in 0..2_000 {
            use_key(&mut cache, number);
        }
        assert_eq!(found(&cache, 2_000), 2_000, "all that fit");

        let mut hits = 0;
        for number in (0..3).flat_map(|_| 0..3_000) {
            hits += u32::from(cache.find(Suite::Aes128, &secret(number)).is_some());
            use_key(&mut cache, number);
        }
        assert!(hits > 2_000, "{hits} of 9,000 where half more are used than fit");
    }

    #[test]
    fn the_same_bytes_in_another_suite_are_another_key() {
        let mut cache = KeyCache::new(4);
        let secret = secret(1);
        let one = cache.key(Suite::Aes128, Material::TrafficSecret, &secret).unwrap().iv;
        let other = cache.key(Suite::Aes256, Material::TrafficSecret, &secret).unwrap().iv;
        assert_ne!(one, other);
        let again = cache.key(Suite::Aes128, Material::TrafficSecret, &secret).unwrap().iv;
        assert_eq!(one, again);
    }
}
