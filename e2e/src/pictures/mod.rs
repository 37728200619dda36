//! The pictures of README and the book, from real runs: `cargo xtask pictures` writes them. Nobody draws by hand.

pub mod bars;
pub mod chart;
pub mod screen;

use crate::browser::Theme;

/// The colours of a picture that is no copy of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    background: &'static str,
    text: &'static str,
    quiet: &'static str,
    blue: &'static str,
    yellow: &'static str,
    cyan: &'static str,
}

impl Palette {
    /// Returns the colours of the report page in the same theme.
    pub(crate) const fn of(theme: Theme) -> Self {
        match theme {
            Theme::Light => Self {
                background: "#ffffff",
                text: "#1a1d21",
                quiet: "#4b5563",
                blue: "#0068a8",
                yellow: "#8a6a00",
                cyan: "#00796b",
            },
            Theme::Dark => Self {
                background: "#12161a",
                text: "#e8ebee",
                quiet: "#9aa4af",
                blue: "#5cb8ff",
                yellow: "#ffe066",
                cyan: "#14b8a0",
            },
        }
    }
}

/// Returns the text within XML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
