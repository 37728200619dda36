//! Assets of every page: styles, programs, and the policy that allows exactly these.
//!
//! All assets are compiled in, so a page in a file loads nothing. [`program`] concatenates the scripts of [`OWN`] in
//! an order in which each uses only earlier ones. [`policy`] makes the Content-Security-Policy from SHA-256 hashes of
//! the texts in the page; only [`PLOT_STYLE`] is a fixed hash and changes with the version of Observable Plot.
//! [`Place`] decides whether a page may connect to its server. Start reading at [`policy`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The page's own styles.
pub(super) const STYLE: &str = include_str!("../../assets/page.css");

/// d3 and Observable Plot, unchanged; assets/vendor/VENDOR.toml says which.
pub(super) const LIBRARIES: [&str; 2] = [
    include_str!("../../assets/vendor/d3/d3.min.js"),
    include_str!("../../assets/vendor/plot/plot.umd.min.js"),
];

/// Licences of the embedded libraries.
pub(super) const LICENCES: [(&str, &str); 2] = [
    ("d3 7.9.2", include_str!("../../assets/vendor/d3/LICENSE")),
    ("Observable Plot 0.6.17", include_str!("../../assets/vendor/plot/LICENSE")),
];

/// Our own programs, in the order in which one uses another.
const OWN: [&str; 12] = [
    include_str!("../../assets/format.js"),
    include_str!("../../assets/records.js"),
    include_str!("../../assets/chart.js"),
    include_str!("../../assets/figures.js"),
    include_str!("../../assets/charts_search.js"),
    include_str!("../../assets/charts_storm.js"),
    include_str!("../../assets/charts_time.js"),
    include_str!("../../assets/charts_distribution.js"),
    include_str!("../../assets/charts_hosts.js"),
    include_str!("../../assets/charts_compare.js"),
    include_str!("../../assets/live.js"),
    include_str!("../../assets/page.js"),
];

/// The one style element that Observable Plot 0.6.17 puts into each drawing.
const PLOT_STYLE: &str = "sha256-jSYQUrW7J0b3jPqhZP9C2Xh1PyJKHKXd4s0fpGGKrww=";

/// Returns our own scripts as one.
pub(super) fn program() -> String {
    let mut program = OWN.concat();
    program.push_str("start();\n");
    program
}

/// The place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A page in a file: it connects to no server.
    File,
    /// A page that is served during its run: it fetches the run's document and its events.
    Live,
}

/// Returns the Content-Security-Policy: what is in the page and nothing else.
pub(super) fn policy(place: Place, program: &str) -> String {
    let scripts: Vec<_> = LIBRARIES.iter().copied().chain([program]).map(hash).collect();
    let connect = match place {
        Place::File => "'none'",
        Place::Live => "'self'",
    };
    format!(
        "default-src 'none'; script-src {}; style-src {} '{PLOT_STYLE}'; img-src data:; \
         connect-src {connect}; base-uri 'none'; form-action 'none'",
        scripts.join(" "),
        hash(STYLE),
    )
}

/// Returns the source expression that allows exactly this text.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use sha2::Sha512;

    use super::*;

    /// Returns the values of `key` in VENDOR.toml, in order.
    fn values(key: &str) -> Vec<&'static str> {
        let list = include_str!("../../assets/vendor/VENDOR.toml");
        let lines = list.lines().filter_map(|line| line.split_once(" = "));
        lines.filter(|(name, _)| *name == key).map(|(_, value)| value.trim_matches('"')).collect()
    }

    #[test]
    fn vendored_programs_are_unchanged_and_have_their_licences() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/vendor");
        let (files, hashes) = (values("file"), values("file_sha512"));
        assert_eq!((files.len(), hashes.len()), (LIBRARIES.len(), LIBRARIES.len()));
        for ((file, expected), embedded) in files.iter().zip(hashes).zip(LIBRARIES) {
            let bytes = std::fs::read(folder.join(file)).unwrap();
            assert_eq!(bytes, embedded.as_bytes(), "{file} stands in this order");
            let mut seen = String::new();
            for byte in Sha512::digest(&bytes) {
                write!(seen, "{byte:02x}").unwrap();
            }
            assert_eq!(seen, expected, "{file}");
        }
        for licence in values("licence_file") {
            let text = std::fs::read_to_string(folder.join(licence)).unwrap();
            assert!(text.contains("Permission to use, copy, modify"), "{licence}");
        }
        assert_eq!(values("licence"), ["ISC", "ISC"]);
        for ((named, _), version) in LICENCES.iter().zip(values("version")) {
            assert!(named.ends_with(version), "{named} is {version}");
        }
    }

    #[test]
    fn programs_end_no_element_and_write_no_markup() {
        for text in LIBRARIES.iter().chain(&OWN).chain([&STYLE]) {
            assert!(!text.contains("</script") && !text.contains("</style"));
            assert!(!text.contains("<!--") && !text.contains('\r'));
        }
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "localStorage",
        ] {
            assert!(!OWN.concat().contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn the_style_of_plot_is_the_one_that_the_policy_allows() {
        // As Plot writes it, with the class that it gives by default.
        let class = "plot-d6a7b5";
        let style = format!(
            ":where(.{class}) {{\n  --plot-background: white;\n  display: block;\n  height: auto;\n  \
             height: intrinsic;\n  max-width: 100%;\n}}\n:where(.{class} text),\n\
             :where(.{class} tspan) {{\n  white-space: pre;\n}}"
        );
        assert_eq!(hash(&style), format!("'{PLOT_STYLE}'"));
        assert!(LIBRARIES[1].contains("plot-d6a7b5"));
    }

    #[test]
    fn only_a_live_page_may_ask_for_anything() {
        let program = program();
        assert!(policy(Place::File, &program).contains("connect-src 'none'"));
        assert!(policy(Place::Live, &program).contains("connect-src 'self'"));
        assert!(!policy(Place::File, &program).contains("unsafe"));
    }
}
