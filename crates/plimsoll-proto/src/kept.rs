//! The first bytes of what comes in pieces.

/// The first bytes of something, at most `N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept<const N: usize> {
    bytes: [u8; N],
    count: u8,
}

impl<const N: usize> Default for Kept<N> {
    fn default() -> Self {
        const { assert!(N <= u8::MAX as usize) };
        Self { bytes: [0; N], count: 0 }
    }
}

impl<const N: usize> Kept<N> {
    /// Adds as many of these bytes as have room.
    #[inline]
    pub(crate) fn extend(&mut self, fresh: &[u8]) {
        let room = self.bytes.iter_mut().skip(usize::from(self.count));
        for (to, from) in room.zip(fresh) {
            *to = *from;
            self.count += 1;
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.count)).unwrap_or_default()
    }
}
