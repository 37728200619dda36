//! The place of a run's page, and its access rules.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::OnceLock;

use plimsoll_sys::process;

use super::Inputs;
use super::publish::listen_address;
use crate::exit::{Result, Stop};
use crate::flags::values::ListenAt;

/// Holds the token, which a command line would show to everybody on this host.
const TOKEN_VARIABLE: &str = "PLIMSOLL_LIVE_TOKEN";
/// Characters of a token: 128 bits in base64url are 22.
const TOKEN_CHARS: std::ops::RangeInclusive<usize> = 22..=128;

/// The place of a run's page, and its access rules.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveJob {
    pub(crate) address: SocketAddr,
    /// The host as it was typed: browsers may ask for it.
    pub(crate) name: String,
    /// The first part of every path; none on loopback, unless there is one.
    pub(crate) token: Option<String>,
}

static TOKEN: OnceLock<Option<OsString>> = OnceLock::new();

/// Takes the token out of the environment, which every program that is started from here on would inherit: servers
/// under test, ssh, kubectl. Belongs before everything else.
pub(crate) fn take_token() {
    TOKEN.get_or_init(|| process::take_variable(TOKEN_VARIABLE));
}

/// Resolves `--live`.
pub(super) fn build(at: &ListenAt, inputs: &Inputs) -> Result<LiveJob> {
    let address = listen_address(at, "--live", inputs)?;
    let token = match TOKEN.get().cloned().flatten() {
        Some(given) => Some(checked(given)?),
        None if address.ip().is_loopback() => None,
        None => Some(new_token()?),
    };
    Ok(LiveJob { address, name: at.host.clone(), token })
}

fn checked(token: OsString) -> Result<String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_token =
        |token: &String| TOKEN_CHARS.contains(&token.len()) && token.chars().all(is_known);
    token.into_string().ok().filter(is_token).ok_or_else(|| {
        usage!("{TOKEN_VARIABLE} is not 22 to 128 letters, digits, - or _";
            "unset it to have one made")
    })
}

/// Returns a token of 128 random bits.
fn new_token() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Stop::CannotRun(format!("--live: no token can be made: {error}")))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_harmless() {
        let made = new_token().unwrap();
        assert_eq!((made.len(), checked(made.clone().into())), (32, Ok(made.clone())));
        assert_ne!(made, new_token().unwrap());
        for bad in ["", "short", "0123456789012345678901/", "0123456789012345678901 2"] {
            let stop = checked(bad.into()).unwrap_err();
            assert_eq!(stop.code(), 2);
            // It may have been meant as one.
            assert!(bad.is_empty() || !stop.complaint().unwrap().contains(bad));
        }
    }
}
