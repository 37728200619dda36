//! Serialisation of values that only a frame to an agent may carry.
//!
//! Plans hold credentials: in headers, bodies, users, scripts, keys. Their types have no `Serialize`, so that nothing
//! that is derived for a file, a page or a stream can contain one. A message asks for it by name, with
//! `#[serde(with = "plimsoll_model::framed")]` on the field.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A type that frames carry, and nothing else does.
pub trait Framed: Sized {
    /// Writes it into a frame.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
    /// Reads it from a frame.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Writes a field of a frame.
pub fn serialize<T: Framed, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.write(serializer)
}

/// Reads a field of a frame.
pub fn deserialize<'de, T: Framed, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)
}

/// Gives types [`Framed`] by what serde derives with `#[serde(remote = "Self")]`: functions, and no traits.
macro_rules! framed {
    ($($kind:ty),+ $(,)?) => {$(
        impl $crate::framed::Framed for $kind {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$kind>::serialize(self, serializer)
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$kind>::deserialize(deserializer)
            }
        }
    )+};
}
pub(crate) use framed;

/// An item of a list, on its way into a frame.
struct Item<'a, T>(&'a T);

impl<T: Framed> Serialize for Item<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

/// An item of a list, out of a frame.
struct ReadItem<T>(T);

impl<'de, T: Framed> Deserialize<'de> for ReadItem<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Self)
    }
}

impl<T: Framed> Framed for Vec<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Item))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::<ReadItem<T>>::deserialize(deserializer)?;
        Ok(items.into_iter().map(|item| item.0).collect())
    }
}

impl<T: Framed> Framed for Arc<[T]> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Item))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::read(deserializer).map(Into::into)
    }
}

impl<T: Framed> Framed for Option<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Item).serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let item = Option::<ReadItem<T>>::deserialize(deserializer)?;
        Ok(item.map(|item| item.0))
    }
}

impl<T: Framed> Framed for Box<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).write(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Self::new)
    }
}

/// Returns the JSON that a frame has of `value`.
#[cfg(test)]
pub(crate) fn json<T: Framed>(value: &T) -> serde_json::Value {
    value.write(serde_json::value::Serializer).expect("plans are numbers, texts and lists")
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use serde::Serialize;

    use crate::pace::Shard;
    use crate::plan::{ClientIds, Identity, LoadPlan, MqttPlan, ServePlan, TicketKey, TlsOptions};
    use crate::target::{
        Action, Body, Credentials, Messages, Publish, Script, Step, Subscription, Target,
        TargetUrl, Template, Will,
    };

    /// Detects whether `T` can be written to any format. With `Serialize`, the inherent constant applies, else the
    /// trait's.
    struct Probe<T>(PhantomData<T>);

    impl<T: Serialize> Probe<T> {
        const IS_WRITTEN: bool = true;
    }

    trait Unwritten {
        const IS_WRITTEN: bool = false;
    }

    impl<T> Unwritten for Probe<T> {}

    #[test]
    fn what_may_hold_a_credential_is_written_into_frames_alone() {
        const { assert!(Probe::<Shard>::IS_WRITTEN) };
        let written = [
            Probe::<LoadPlan>::IS_WRITTEN,
            Probe::<ServePlan>::IS_WRITTEN,
            Probe::<TlsOptions>::IS_WRITTEN,
            Probe::<Identity>::IS_WRITTEN,
            Probe::<TicketKey>::IS_WRITTEN,
            Probe::<MqttPlan>::IS_WRITTEN,
            Probe::<ClientIds>::IS_WRITTEN,
            Probe::<Credentials>::IS_WRITTEN,
            Probe::<Publish>::IS_WRITTEN,
            Probe::<Subscription>::IS_WRITTEN,
            Probe::<Will>::IS_WRITTEN,
            Probe::<Target>::IS_WRITTEN,
            Probe::<TargetUrl>::IS_WRITTEN,
            Probe::<Body>::IS_WRITTEN,
            Probe::<Messages>::IS_WRITTEN,
            Probe::<Script>::IS_WRITTEN,
            Probe::<Step>::IS_WRITTEN,
            Probe::<Action>::IS_WRITTEN,
            Probe::<Template>::IS_WRITTEN,
        ];
        assert!(!written.contains(&true), "{written:?}");
    }
}
