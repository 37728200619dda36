//! Certificate chains that were found good lately: a load meets the same one thousands of times a
//! second.
//!
//! Only the chain is cached. That the peer has the certificate's key, which is what the
//! signature in each handshake proves, is checked each time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// Distinct chains cached. They are compared byte for byte, which for a chain of 4 kB costs 0.1 us;
/// hashing it would cost more.
const CHAINS_MAX: usize = 64;
/// A chain that expires is noticed after this time at the latest.
const TRUSTED_FOR: Duration = Duration::from_secs(10);

/// Asks `inner` once about each chain and name, and again when the answer is old.
#[derive(Debug)]
pub(crate) struct RememberedChains {
    inner: Arc<dyn ServerCertVerifier>,
    good: Mutex<Vec<Good>>,
}

/// A chain that was found good for a name.
#[derive(Debug)]
struct Good {
    name: ServerName<'static>,
    end_entity: CertificateDer<'static>,
    intermediates: Vec<CertificateDer<'static>>,
    checked: UnixTime,
}

impl Good {
    /// Reports whether a time is recent, and not in the future either: the host's clock may have been set back.
    fn is_fresh(&self, now: UnixTime) -> bool {
        let age_s = now.as_secs().checked_sub(self.checked.as_secs());
        age_s.is_some_and(|age_s| age_s < TRUSTED_FOR.as_secs())
    }
}

impl RememberedChains {
    pub(crate) fn new(inner: Arc<dyn ServerCertVerifier>) -> Self {
        Self { inner, good: Mutex::default() }
    }

    fn remember(&self, fresh: Good) {
        // Nothing in here can panic half way, so a poisoned list is still a sound one.
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        good.retain(|good| good.is_fresh(fresh.checked));
        if good.len() == CHAINS_MAX {
            good.remove(0);
        }
        good.push(fresh);
    }
}

impl ServerCertVerifier for RememberedChains {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_known = |good: &Good| {
            good.is_fresh(now)
                && good.end_entity == *end_entity
                && good.intermediates == intermediates
                && good.name == *server_name
        };
        // An OCSP response may revoke a known chain.
        if ocsp_response.is_empty()
            && self.good.lock().unwrap_or_else(PoisonError::into_inner).iter().any(is_known)
        {
            return Ok(ServerCertVerified::assertion());
        }
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        self.remember(Good {
            name: server_name.to_owned(),
            end_entity: end_entity.clone().into_owned(),
            intermediates: intermediates.iter().map(|der| der.clone().into_owned()).collect(),
            checked: now,
        });
        Ok(verified)
    }

    signatures_as!(inner);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    /// Trusts what begins with 1, and counts how often it is asked.
    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    impl ServerCertVerifier for Counting {
        fn verify_server_cert(
            &self,
            end_entity: &CertificateDer<'_>,
            _intermediates: &[CertificateDer<'_>],
            _server_name: &ServerName<'_>,
            _ocsp_response: &[u8],
            _now: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            self.0.fetch_add(1, Relaxed);
            match end_entity.first() {
                Some(1) => Ok(ServerCertVerified::assertion()),
                _ => Err(Error::General("not trusted".to_owned())),
            }
        }

        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("no signature is trusted".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.verify_tls12_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            Vec::new()
        }
    }

    struct Asked<'a> {
        end_entity: &'a [u8],
        intermediates: Vec<CertificateDer<'a>>,
        name: &'a str,
        ocsp: &'a [u8],
        at_s: u64,
    }

    fn asked<'a>(end_entity: &'a [u8], name: &'a str) -> Asked<'a> {
        Asked { end_entity, intermediates: vec![], name, ocsp: b"", at_s: 1000 }
    }

    fn ask(chains: &RememberedChains, asked: &Asked<'_>) -> bool {
        let name = ServerName::try_from(asked.name).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(asked.at_s));
        let end_entity = CertificateDer::from(asked.end_entity);
        chains.verify_server_cert(&end_entity, &asked.intermediates, &name, asked.ocsp, now).is_ok()
    }

    #[test]
    fn each_chain_is_asked_about_once_while_the_answer_is_fresh() {
        let inner = Arc::new(Counting::default());
        let chains = RememberedChains::new(Arc::<Counting>::clone(&inner));
        let questions = || inner.0.load(Relaxed);
        for _ in 0..5 {
            assert!(ask(&chains, &asked(&[1, 2], "one.test")));
        }
        assert_eq!(questions(), 1);
        // Another name, chain, or OCSP response is another question.
        let intermediates = vec![CertificateDer::from(vec![9])];
        for other in [
            asked(&[1, 2], "two.test"),
            asked(&[1, 3], "one.test"),
            Asked { intermediates, ..asked(&[1, 2], "one.test") },
            Asked { ocsp: b"x", ..asked(&[1, 2], "one.test") },
        ] {
            let before = questions();
            assert!(ask(&chains, &other));
            assert_eq!(questions(), before + 1);
        }
        // So is the same one later, or with a clock that was set back.
        for at_s in [1010, 999] {
            let before = questions();
            assert!(ask(&chains, &Asked { at_s, ..asked(&[1, 2], "one.test") }));
            assert_eq!(questions(), before + 1, "{at_s}");
        }
    }

    #[test]
    fn what_is_bad_is_not_remembered_and_the_list_is_bounded() {
        let inner = Arc::new(Counting::default());
        let chains = RememberedChains::new(Arc::<Counting>::clone(&inner));
        for _ in 0..3 {
            assert!(!ask(&chains, &asked(&[2], "one.test")));
        }
        assert_eq!(inner.0.load(Relaxed), 3);
        for number in 0..200 {
            assert!(ask(&chains, &asked(&[1, number], "one.test")));
        }
        assert_eq!(chains.good.lock().unwrap().len(), CHAINS_MAX);
        let before = inner.0.load(Relaxed);
        assert!(ask(&chains, &asked(&[1, 199], "one.test")));
        assert_eq!(inner.0.load(Relaxed), before);
    }
}
