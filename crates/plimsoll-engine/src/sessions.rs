//! The TLS sessions of a slab, by slot.

use plimsoll_tls::Session;

use crate::slots::slot_mut;

/// Grows with the slots that speak TLS, so that plaintext pays nothing for it.
#[derive(Default)]
pub(crate) struct Sessions {
    slots: Vec<Option<Session>>,
    /// Slots for which memory is reserved with the first session.
    reserved: usize,
}

impl Sessions {
    /// Grows without copying up to `slots`; untouched pages of them cost nothing.
    pub(crate) const fn reserving(slots: usize) -> Self {
        Self { slots: Vec::new(), reserved: slots }
    }

    /// Returns the session of a slot that speaks TLS.
    pub(crate) fn get(&mut self, slot: u32) -> Option<&mut Session> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Reports whether the slot speaks TLS.
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn set(&mut self, slot: u32, session: Session) {
        if self.slots.is_empty() {
            self.slots.reserve_exact(self.reserved);
        }
        *slot_mut(&mut self.slots, slot, || None) = Some(session);
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        if let Some(session) = self.slots.get_mut(slot as usize) {
            *session = None;
        }
    }
}
