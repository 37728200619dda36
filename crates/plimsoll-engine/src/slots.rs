//! Vectors by slot of a connection, which grow with the slots that use them.

/// Returns the element of a slot; `fresh` makes those up to it that are not there yet.
#[inline]
pub(crate) fn slot_mut<T>(all: &mut Vec<T>, slot: u32, fresh: impl FnMut() -> T) -> &mut T {
    let slot = slot as usize;
    if all.len() <= slot {
        all.resize_with(slot + 1, fresh);
    }
    &mut all[slot]
}
