//! The TLS sessions of a slab, by slot.

use plimsoll_tls::Session;

/// Grows with the slots that speak TLS, so that plaintext pays nothing for it.
#[derive(Default)]
pub(crate) struct Sessions(Vec<Option<Session>>);

impl Sessions {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The session of a slot that speaks TLS.
    pub(crate) fn get(&mut self, slot: u32) -> Option<&mut Session> {
        self.0.get_mut(slot as usize)?.as_mut()
    }

    /// Whether the slot speaks TLS.
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.0.get(slot as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn set(&mut self, slot: u32, session: Session) {
        let slot = slot as usize;
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, || None);
        }
        self.0[slot] = Some(session);
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        if let Some(session) = self.0.get_mut(slot as usize) {
            *session = None;
        }
    }
}
