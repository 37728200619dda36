//! Recovery of the SUT after an overload.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Nanos;

/// The SUT's recovery: it serves half the lower bound again after an overload, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// At once.
    Yes,
    /// Time from the end of the overload until the SUT was back.
    After(Nanos),
    /// Time from the end of the overload within which the SUT was not back.
    No(Nanos),
}

/// A recovery in JSON: two fields of its answer, `null` if the SUT was not overloaded.
#[derive(Default, Serialize, Deserialize)]
struct Stated {
    recovers: Option<Recovers>,
    recovery_s: Option<f64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Recovers {
    Yes,
    After,
    No,
}

pub(super) fn serialize<S: Serializer>(
    recovery: &Option<Recovery>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let stated = recovery.map_or_else(Stated::default, |recovery| {
        let (recovers, after) = match recovery {
            Recovery::Yes => (Recovers::Yes, Nanos::ZERO),
            Recovery::After(span) => (Recovers::After, span),
            Recovery::No(span) => (Recovers::No, span),
        };
        Stated { recovers: Some(recovers), recovery_s: Some(after.as_secs_f64()) }
    });
    stated.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Recovery>, D::Error> {
    let Stated { recovers, recovery_s } = Stated::deserialize(from)?;
    let span = Nanos::from_secs_f64(recovery_s.unwrap_or_default());
    Ok(recovers.map(|recovers| match recovers {
        Recovers::Yes => Recovery::Yes,
        Recovers::After => Recovery::After(span),
        Recovers::No => Recovery::No(span),
    }))
}
