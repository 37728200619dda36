//! TLS flags into options: files are read, contradictions refused.

use std::path::PathBuf;

use plimsoll_model::plan::{Group, Identity, TlsOptions, TlsVersion, Trust};

use super::Destination;
use super::distinct::distinct;
use super::inputs::read_pem;
use crate::exit::{Result, Stop};
use crate::flags::shared::{HandshakeFlags, ResumeFlags};

/// Longest host name in DNS.
const NAME_LEN_MAX: usize = 253;

/// Options for a client of `to`.
pub(super) fn options(
    to: &Destination,
    shake: &HandshakeFlags,
    resume: ResumeFlags,
) -> Result<TlsOptions> {
    let trust = &to.server.trust;
    let only_hybrid =
        !shake.groups.is_empty() && shake.groups.iter().all(|g| *g == Group::X25519Mlkem768);
    refuse_if!(only_hybrid && shake.tls == Some(TlsVersion::V1_2);
        "--groups x25519mlkem768 needs TLS 1.3, and --tls 1.2 excludes it";
        "drop --tls, or add a group such as x25519");
    check_sni(trust.sni.as_deref())?;
    Ok(TlsOptions {
        identity: identity(trust.cert.as_ref(), trust.key.as_ref())?,
        trust: match (&to.trust, &trust.cacert) {
            (Some(known), _) => known.clone(),
            _ if trust.insecure => Trust::Insecure,
            (None, Some(path)) => Trust::Roots(read_pem("--cacert", path, "BEGIN CERTIFICATE")?),
            (None, None) => Trust::System,
        },
        version: shake.tls,
        groups: distinct(shake.groups.iter().copied()),
        resume_ratio: resume.resume,
        // By the protocol of the URL.
        offers_http2: false,
        certificate_key: None,
        tickets_max: TlsOptions::TICKETS_MAX,
        reuse_key_share: shake.reuse_key_share,
        state: shake.tls_state.into(),
    })
}

/// Returns the pair that `--cert` and `--key` name.
pub(super) fn identity(cert: Option<&PathBuf>, key: Option<&PathBuf>) -> Result<Option<Identity>> {
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => {
            let identity = Identity {
                chain_pem: read_pem("--cert", cert, "BEGIN CERTIFICATE")?,
                key_pem: read_pem("--key", key, "PRIVATE KEY")?,
            };
            // Checked here, the error can name the files; an agent only has their content.
            plimsoll_tls::check_identity(&identity).map_err(|error| {
                Stop::Usage(format!("--cert {cert:?} with --key {key:?}: {error}"))
            })?;
            Ok(Some(identity))
        }
        (Some(_), None) => refuse!("--cert needs its private key"; "add --key FILE"),
        (None, Some(_)) => refuse!("--key needs its certificate"; "add --cert FILE"),
    }
}

fn check_sni(sni: Option<&str>) -> Result<()> {
    let plain = |name: &str| {
        !name.is_empty()
            && name.len() <= NAME_LEN_MAX
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
    };
    if let Some(name) = sni.filter(|name| !plain(name)) {
        refuse!("--sni {name:?} is not a host name"; "write --sni www.example.com");
    }
    Ok(())
}
