//! The rows of single operations.

use plimsoll_model::Nanos;
use plimsoll_model::row::{Row, RowEnd};

use super::Meter;
use crate::load::conn::Op;
use crate::load::conns::Conns;

impl Meter {
    /// Records the current operation of the connection, which has ended with this answer, or in this class without one.
    #[inline]
    pub(crate) fn record(
        &mut self,
        conns: &Conns,
        index: u32,
        end: RowEnd,
        status: u16,
        body: u64,
        now: Nanos,
    ) {
        if self.rows.records(index) {
            let hot = &conns[index];
            let (intended, target) = (hot.intended, hot.target);
            let op = Op { intended, target, is_recorded: true, again: 0 };
            let sent = Some(hot.since);
            self.push_row(op, sent, now, (end, status, body));
        }
    }

    /// Records an operation that has ended without a connection.
    pub(crate) fn record_unattached(&mut self, op: Op, end: RowEnd, now: Nanos) {
        if op.is_recorded {
            self.push_row(op, None, now, (end, 0, 0));
        }
    }

    #[cold]
    fn push_row(
        &mut self,
        op: Op,
        sent: Option<Nanos>,
        now: Nanos,
        (end, status, body_bytes): (RowEnd, u16, u64),
    ) {
        let epoch = self.epoch;
        let [intended, ended] = [op.intended, now].map(|at| at.since(epoch));
        let sent = sent.map(|at| at.since(epoch));
        let target = op.target;
        self.rows.push(Row { intended, sent, ended, status, end, body_bytes, target });
    }
}
