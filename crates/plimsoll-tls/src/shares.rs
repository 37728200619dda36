//! Key shares that are made once per thread and used for every handshake.
//!
//! Making one costs a client about as much as agreeing on a secret with it. Reuse gives up forward secrecy between test
//! connections, which carry no secrets, and a server does not notice; so this is off by default, and reports name it.

use std::cell::OnceCell;
use std::sync::Arc;

use aws_lc_rs::agreement;
use aws_lc_rs::agreement::{Algorithm, PrivateKey, UnparsedPublicKey};
use rustls::crypto::{ActiveKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};

/// The lead byte of an uncompressed point, the only form that TLS has.
const UNCOMPRESSED: u8 = 4;

/// One group, and its place in [`PAIRS`].
#[derive(Clone, Copy, Debug)]
struct Reused {
    place: usize,
    group: NamedGroup,
    algorithm: &'static Algorithm,
}

static REUSED: [Reused; 3] = [
    Reused { place: 0, group: NamedGroup::X25519, algorithm: &agreement::X25519 },
    Reused { place: 1, group: NamedGroup::secp256r1, algorithm: &agreement::ECDH_P256 },
    Reused { place: 2, group: NamedGroup::secp384r1, algorithm: &agreement::ECDH_P384 },
];

thread_local! {
    static PAIRS: [OnceCell<Arc<Pair>>; 3] =
        const { [OnceCell::new(), OnceCell::new(), OnceCell::new()] };
}

/// Returns `group` with one key share per thread; `None` for the post-quantum hybrid, whose share is another kind of
/// encapsulation key.
pub(crate) fn reused(group: NamedGroup) -> Option<&'static dyn SupportedKxGroup> {
    REUSED.iter().find(|reused| reused.group == group).map(|reused| reused as _)
}

struct Pair {
    private: PrivateKey,
    public: Vec<u8>,
}

impl Reused {
    fn pair(self) -> Result<Arc<Pair>, GetRandomFailed> {
        PAIRS.with(|pairs| {
            let place = &pairs[self.place];
            if let Some(pair) = place.get() {
                return Ok(Arc::clone(pair));
            }
            let private = PrivateKey::generate(self.algorithm).map_err(|_| GetRandomFailed)?;
            let public = private.compute_public_key().map_err(|_| GetRandomFailed)?;
            let pair = Pair { private, public: public.as_ref().to_vec() };
            Ok(Arc::clone(place.get_or_init(|| Arc::new(pair))))
        })
    }

    fn is_point(self, bytes: &[u8]) -> bool {
        match self.group {
            NamedGroup::X25519 => bytes.len() == 32,
            _ => bytes.first() == Some(&UNCOMPRESSED),
        }
    }
}

impl SupportedKxGroup for Reused {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        Ok(Box::new(Exchange { group: *self, pair: self.pair()? }))
    }

    fn ffdhe_group(&self) -> Option<rustls::ffdhe_groups::FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        self.group
    }
}

/// A key exchange in progress.
struct Exchange {
    group: Reused,
    pair: Arc<Pair>,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let invalid = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);
        if !self.group.is_point(peer) {
            return Err(invalid);
        }
        let peer = UnparsedPublicKey::new(self.group.algorithm, peer);
        let take = |secret: &[u8]| Ok(SharedSecret::from(secret));
        agreement::agree(&self.pair.private, peer, invalid, take)
    }

    fn pub_key(&self) -> &[u8] {
        &self.pair.public
    }

    fn ffdhe_group(&self) -> Option<rustls::ffdhe_groups::FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        self.group.name()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::plan::Group;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what threads share is the question")]
    fn a_thread_has_one_share_per_group_and_no_other_thread_has_it() {
        for group in REUSED {
            let here = group.start().unwrap().pub_key().to_vec();
            assert_eq!(group.start().unwrap().pub_key(), here);
            let there = std::thread::spawn(move || group.start().unwrap().pub_key().to_vec());
            assert_ne!(there.join().unwrap(), here);
        }
    }

    #[test]
    fn both_ends_agree_and_bad_shares_are_refused() {
        let groups = [Group::X25519, Group::Secp256r1, Group::Secp384r1];
        for (ours, group) in REUSED.into_iter().zip(groups) {
            let theirs = crate::client::kx_group_of(group).start().unwrap();
            let exchange = ours.start().unwrap();
            let (our_share, their_share) = (exchange.pub_key().to_vec(), theirs.pub_key().to_vec());
            let here = exchange.complete(&their_share).unwrap();
            let there = theirs.complete(&our_share).unwrap();
            assert_eq!(here.secret_bytes(), there.secret_bytes());
            for bad in [&their_share[1..], &[], &[2; 33], &[0; 32]] {
                assert!(ours.start().unwrap().complete(bad).is_err(), "{ours:?} {bad:?}");
            }
        }
    }
}
