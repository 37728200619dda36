//! The body of a target: small ones lie in the plan, large ones in memory that processes share.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::framed::Framed;

/// Largest body, bytes.
pub const BODY_BYTES_MAX: usize = 1 << 30;
/// Largest body that lies in the plan itself, and that is sent out of a copy which each thread has.
pub const SMALL_BODY_BYTES_MAX: usize = 64 << 10;

/// A store of the large bodies of a plan, one behind the other.
pub trait BodyStore: fmt::Debug + Send + Sync {
    /// All of them.
    fn bytes(&self) -> &[u8];
    /// Returns the path by which other processes of this host open it.
    fn path(&self) -> String;
}

/// Bytes that are sent as a body, message or payload.
#[derive(Clone)]
pub struct Body(Place);

#[derive(Clone)]
enum Place {
    /// In the plan.
    Own(Vec<u8>),
    /// In a store.
    Stored { store: Arc<dyn BodyStore>, offset: usize, bytes: usize },
    /// In a store that is not here yet.
    Elsewhere { offset: usize, bytes: usize },
}

/// A body as a plan travels with it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Base64(String),
    Place { offset: usize, bytes: usize },
}

impl Body {
    /// Creates a body that lies in a store, which [`Self::attach`] names.
    pub const fn elsewhere(offset: usize, bytes: usize) -> Self {
        Self(Place::Elsewhere { offset, bytes })
    }

    /// Returns the number of bytes.
    pub const fn len(&self) -> usize {
        match &self.0 {
            Place::Own(own) => own.len(),
            Place::Stored { bytes, .. } | Place::Elsewhere { bytes, .. } => *bytes,
        }
    }

    /// Reports whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reports whether it is sent out of its store, piece by piece.
    pub const fn is_large(&self) -> bool {
        self.len() > SMALL_BODY_BYTES_MAX
    }

    /// Reports whether it lies in the plan.
    pub const fn is_own(&self) -> bool {
        matches!(self.0, Place::Own(_))
    }

    /// Returns the store in which it lies.
    pub const fn store(&self) -> Option<&Arc<dyn BodyStore>> {
        match &self.0 {
            Place::Stored { store, .. } => Some(store),
            Place::Own(_) | Place::Elsewhere { .. } => None,
        }
    }

    /// Takes a body that is elsewhere from `store`; `false` if it does not lie there.
    pub fn attach(&mut self, store: Option<&Arc<dyn BodyStore>>) -> bool {
        let Place::Elsewhere { offset, bytes } = self.0 else { return true };
        let end = offset.checked_add(bytes);
        match store.filter(|store| end.is_some_and(|end| end <= store.bytes().len())) {
            Some(store) => {
                self.0 = Place::Stored { store: Arc::clone(store), offset, bytes };
                true
            }
            None => false,
        }
    }

    /// Returns a copy of at most `most` bytes from the start.
    pub fn truncated(&self, most: usize) -> Self {
        self[..self.len().min(most)].to_vec().into()
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Own(own) => own,
            Place::Stored { store, offset, bytes } => {
                store.bytes().get(*offset..*offset + *bytes).unwrap_or_default()
            }
            Place::Elsewhere { .. } => {
                debug_assert!(false, "a body is read before its store is known");
                &[]
            }
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Place::Own(bytes))
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        text.as_bytes().to_vec().into()
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (
                Place::Elsewhere { offset, bytes },
                Place::Elsewhere { offset: other, bytes: others },
            ) => (offset, bytes) == (other, others),
            (Place::Elsewhere { .. }, _) | (_, Place::Elsewhere { .. }) => false,
            _ => **self == **other,
        }
    }
}

impl Eq for Body {}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.len())
    }
}

impl Framed for Body {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            // A list of numbers would be four times their size.
            Place::Own(own) => Written::Base64(STANDARD.encode(own)),
            Place::Stored { offset, bytes, .. } | Place::Elsewhere { offset, bytes } => {
                Written::Place { offset: *offset, bytes: *bytes }
            }
        }
        .serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Base64(text) => {
                STANDARD.decode(text).map(Self::from).map_err(serde::de::Error::custom)
            }
            Written::Place { offset, bytes } => Ok(Self::elsewhere(offset, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::framed;

    #[derive(Debug)]
    struct Store(&'static [u8]);

    impl BodyStore for Store {
        fn bytes(&self) -> &[u8] {
            self.0
        }

        fn path(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn bodies_travel_by_their_place() {
        let store: Arc<dyn BodyStore> = Arc::new(Store(b"one body and another"));
        let mut stored = Body::elsewhere(4, 4);
        assert!(stored.attach(Some(&store)));
        assert_eq!(*stored, *b"body");
        let written = framed::json(&stored);
        assert_eq!(written, json!({ "offset": 4, "bytes": 4 }));
        let mut read = Body::read(&written).unwrap();
        assert_eq!((read.len(), read.is_own()), (4, false));
        assert_ne!(read, stored);
        assert!(read.attach(Some(&store)));
        assert_eq!(read, stored);
        assert!(read.store().is_some());
        // Others travel as they are.
        let own = Body::from("abc");
        let written = framed::json(&own);
        assert_eq!((written.as_str(), Body::read(&written).ok()), (Some("YWJj"), Some(own)));
    }

    #[test]
    fn a_body_that_is_not_there_is_noticed() {
        let store: Arc<dyn BodyStore> = Arc::new(Store(b"short"));
        for (offset, bytes) in [(0, 6), (5, 1), (usize::MAX, 2)] {
            let mut body = Body::elsewhere(offset, bytes);
            assert!(!body.attach(Some(&store)), "{offset} {bytes}");
        }
        assert!(!Body::elsewhere(0, 1).attach(None));
        assert!(Body::default().attach(None));
    }
}
