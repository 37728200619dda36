//! Tickets that every process of one server accepts, whichever of them issued them.
//!
//! ```text
//! | name of the giver, 16 bytes | number, 8 bytes | state, AES-256-GCM | tag, 16 bytes |
//! ```
//!
//! A giver's key is made of the shared key and its name, and its tickets are numbered, so that no
//! nonce is used twice however many are given. Keys are not rolled: a server of a test lives for
//! as long as the test does.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hmac, rand};
use rustls::server::ProducesTickets;

use plimsoll_model::plan::TicketKey;

use crate::ConfigError;

/// The lifetime of rustls' own tickets: 12 hours.
const LIFETIME_S: u32 = 12 * 60 * 60;
const NAME_BYTES: usize = 16;
const NUMBER_BYTES: usize = 8;

/// Creates a key for the tickets of one server.
pub fn new_ticket_key() -> Result<TicketKey, ConfigError> {
    random().map(TicketKey)
}

/// Returns `N` random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], ConfigError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| ConfigError::refused("no random numbers"))?;
    Ok(bytes)
}

/// Issues tickets under a separate name, and accepts the tickets of all who share the key.
pub(crate) struct SharedTicketer {
    shared: hmac::Key,
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
    given: AtomicU64,
}

impl SharedTicketer {
    pub(crate) fn new(key: &TicketKey) -> Result<Self, ConfigError> {
        let shared = hmac::Key::new(hmac::HMAC_SHA256, &key.0);
        let name = random()?;
        let key =
            key_of(&shared, &name).ok_or_else(|| ConfigError::refused("no key for tickets"))?;
        Ok(Self { shared, name, key, given: AtomicU64::new(0) })
    }
}

/// Returns the key of the giver `name`.
fn key_of(shared: &hmac::Key, name: &[u8]) -> Option<LessSafeKey> {
    let key = hmac::sign(shared, name);
    UnboundKey::new(&AES_256_GCM, key.as_ref()).ok().map(LessSafeKey::new)
}

fn nonce(number: [u8; NUMBER_BYTES]) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - NUMBER_BYTES..].copy_from_slice(&number);
    Nonce::assume_unique_for_key(nonce)
}

impl fmt::Debug for SharedTicketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedTicketer")
    }
}

impl ProducesTickets for SharedTicketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_S
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let number = self.given.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut sealed = plain.to_vec();
        self.key.seal_in_place_append_tag(nonce(number), Aad::from(self.name), &mut sealed).ok()?;
        Some([&self.name[..], &number, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (number, sealed) = rest.split_first_chunk::<NUMBER_BYTES>()?;
        let theirs = if *name == self.name { None } else { Some(key_of(&self.shared, name)?) };
        let key = theirs.as_ref().unwrap_or(&self.key);
        let mut opened = sealed.to_vec();
        let length = key.open_in_place(nonce(*number), Aad::from(*name), &mut opened).ok()?.len();
        opened.truncate(length);
        Some(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_taken_by_those_who_share_the_key() {
        let key = new_ticket_key().unwrap();
        let [one, two] = [&key, &key].map(|key| SharedTicketer::new(key).unwrap());
        let stranger = SharedTicketer::new(&new_ticket_key().unwrap()).unwrap();
        for plain in [&b""[..], b"state", &[7; 2_000]] {
            let ticket = one.encrypt(plain).unwrap();
            assert_eq!(one.decrypt(&ticket).as_deref(), Some(plain));
            assert_eq!(two.decrypt(&ticket).as_deref(), Some(plain));
            assert_eq!(stranger.decrypt(&ticket), None);
            assert_ne!(one.encrypt(plain).unwrap(), ticket);
        }
        assert!(!format!("{one:?} {key:?}").contains(&format!("{:?}", key.0)));
    }

    #[test]
    fn what_is_no_ticket_is_refused() {
        let ticketer = SharedTicketer::new(&new_ticket_key().unwrap()).unwrap();
        let ticket = ticketer.encrypt(b"state").unwrap();
        for length in 0..ticket.len() {
            assert_eq!(ticketer.decrypt(&ticket[..length]), None, "{length}");
        }
        for place in 0..ticket.len() {
            let mut forged = ticket.clone();
            forged[place] ^= 1;
            assert_eq!(ticketer.decrypt(&forged), None, "{place}");
        }
    }
}
