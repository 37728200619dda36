//! The systems under test (SUT), with one module per kind of server.
//!
//! A module has the [`Description`] of its kind: what a laboratory may expect of it and, for an installed program, the
//! [`Proxy`] that finds, configures and checks it. [`describe`] is the only table of them.

mod caddy;
mod description;
mod haproxy;
mod nginx;
pub(crate) mod own;
mod subject;

use plimsoll_model::SutKind;

pub use description::Description;
pub(crate) use description::{Prepared, Proxy, check_descriptors, several, write};
pub(crate) use haproxy::levers::lever as haproxy_lever;
pub use subject::Sut;

/// Returns the description of a kind of server.
pub fn describe(kind: SutKind) -> &'static Description {
    match kind {
        SutKind::Embedded => &own::DESCRIPTION,
        SutKind::Haproxy => &haproxy::DESCRIPTION,
        SutKind::Nginx => &nginx::DESCRIPTION,
        SutKind::Caddy => &caddy::DESCRIPTION,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_but_our_own_is_an_installed_program() {
        for kind in SutKind::ALL {
            let is_proxy = SutKind::proxies().any(|proxy| proxy == kind);
            assert_eq!(describe(kind).is_proxy(), is_proxy, "{kind}");
        }
    }

    #[test]
    fn options_are_names_or_begin_like_one() {
        let has = |kind, option| describe(kind).has_option(option);
        for option in ["tune.bufsize", "tune.h2.max-frame-size", "tune.ssl_x"] {
            assert!(has(SutKind::Haproxy, option) && !has(SutKind::Nginx, option), "{option}");
        }
        for option in ["tune.", "tune", "tune.bufsize 1", "tune.X", "gzip", "tune.*"] {
            assert!(!has(SutKind::Haproxy, option), "{option}");
        }
        assert!(has(SutKind::Nginx, "gzip") && !has(SutKind::Nginx, "gzip_static"));
        assert!(!has(SutKind::Caddy, "gzip"));
    }
}
