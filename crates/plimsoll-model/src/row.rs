//! Records of single operations, one of every N.
//!
//! The choice of operations is known before their outcome, so that shares and quantiles of the rows are valid for all
//! operations; counts and rates are one in [`RowPlan::every`].

use serde::{Deserialize, Serialize};

use crate::{ErrorClass, Nanos};

/// The choice of the operations that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowPlan {
    /// Each thread records one of `every` operations of its schedule, from a place that the seed decides; 1
    /// records all.
    pub every: u32,
}

/// The end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowEnd {
    /// With a complete answer below 400.
    Ok,
    /// The operation was never sent.
    Unsent,
    /// In this class.
    #[serde(untagged)]
    Failed(ErrorClass),
}

impl RowEnd {
    /// Returns `ok`, `unsent`, or the name of the class.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed(class) => class.name(),
            Self::Unsent => "unsent",
        }
    }
}

/// One operation. A list of figures in files and frames, in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RowList", into = "RowList")]
pub struct Row {
    /// Time at which it was due, since the load's epoch.
    pub intended: Nanos,
    /// Time at which it was sent; without keep-alive, at which its connection was begun.
    pub sent: Option<Nanos>,
    /// Time at which it ended.
    pub ended: Nanos,
    /// Status of a complete answer; 0 if there was none.
    pub status: u16,
    /// The operation's end.
    pub end: RowEnd,
    /// Bytes of the answer's body.
    pub body_bytes: u64,
    /// Index into the plan's targets.
    pub target: u32,
}

type RowList = (Nanos, Option<Nanos>, Nanos, u16, RowEnd, u64, u32);

impl From<Row> for RowList {
    fn from(row: Row) -> Self {
        (row.intended, row.sent, row.ended, row.status, row.end, row.body_bytes, row.target)
    }
}

impl From<RowList> for Row {
    fn from((intended, sent, ended, status, end, body_bytes, target): RowList) -> Self {
        Self { intended, sent, ended, status, end, body_bytes, target }
    }
}

/// Rows that a thread recorded in a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowBatch {
    /// In the order in which they ended.
    pub rows: Vec<Row>,
    /// Rows that found the buffer full.
    pub dropped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_list_of_figures() {
        let mut row = Row {
            intended: Nanos(5),
            sent: Some(Nanos(7)),
            ended: Nanos(90),
            status: 200,
            end: RowEnd::Ok,
            body_bytes: 4,
            target: 0,
        };
        let text = serde_json::to_string(&row).expect("serialises");
        assert_eq!(text, r#"[5,7,90,200,"ok",4,0]"#);
        assert_eq!(serde_json::from_str::<Row>(&text).expect("a row"), row);
        for end in [RowEnd::Unsent, RowEnd::Failed(ErrorClass::ResetByPeer)] {
            (row.sent, row.status, row.end) = (None, 0, end);
            let text = serde_json::to_string(&row).expect("serialises");
            assert_eq!(serde_json::from_str::<Row>(&text).expect("a row"), row, "{text}");
        }
        assert!(serde_json::from_str::<Row>(r#"[5,7,90,200,"lost",4,0]"#).is_err());
    }
}
