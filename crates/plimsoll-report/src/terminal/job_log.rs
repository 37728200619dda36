//! Log syntax of GitHub Actions and GitLab CI beside text: parts that are folded, and lines that
//! stand beside the job.

/// The service whose log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobLog {
    /// GitHub Actions.
    GitHub,
    /// GitLab CI.
    GitLab {
        /// The time, in seconds since 1970, which the start and the end of a part must have.
        unix_s: u64,
    },
}

impl JobLog {
    /// Returns the line before a part that is folded under `title`.
    pub(crate) fn begin(self, title: &str) -> String {
        match self {
            Self::GitHub => format!("::group::{title}"),
            Self::GitLab { unix_s } => {
                let name = name(title);
                format!("\x1b[0Ksection_start:{unix_s}:{name}[collapsed=true]\r\x1b[0K{title}")
            }
        }
    }

    /// Returns the line behind it.
    pub(crate) fn end(self, title: &str) -> String {
        match self {
            Self::GitHub => "::endgroup::".to_owned(),
            Self::GitLab { unix_s } => {
                format!("\x1b[0Ksection_end:{unix_s}:{}\r\x1b[0K", name(title))
            }
        }
    }
}

/// Returns a part's name in GitLab: letters, digits and `_`.
fn name(title: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    title.chars().map(letter).collect()
}

/// Returns a line beside a job of GitHub Actions, of `level` `error` or `warning`.
pub(super) fn github_line(level: &str, title: &str, text: &str) -> String {
    let escaped = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    format!("::{level} title={title}::{escaped}")
}
