//! Paths as words of a configuration, in the language of each program.

use std::path::Path;

use super::Dialect;

impl Dialect {
    /// Returns `path` as one word: unchanged if no character is special, otherwise in quotes.
    pub fn word(&self, path: &Path) -> String {
        let text = path.to_string_lossy();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
        if text.bytes().all(is_plain) {
            return text.into_owned();
        }
        (self.quote)(&text)
    }
}

/// Returns the first character of `path` that no quotes make an ordinary one: HAProxy expands variables in the
/// paths of sockets, nginx in those of certificates and logs, quoted or not.
pub fn unwritable(path: &Path) -> Option<char> {
    let is_special = |c: &char| *c == '$' || c.is_control() || *c == char::REPLACEMENT_CHARACTER;
    path.to_string_lossy().chars().find(is_special)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::{HAPROXY, NGINX};

    #[test]
    fn paths_are_quoted_where_that_is_needed() {
        for (path, haproxy, nginx) in [
            ("/etc/site.pem", "/etc/site.pem", "/etc/site.pem"),
            ("/a b", "'/a b'", "\"/a b\""),
            ("/it's", r"'/it'\''s'", "\"/it's\""),
            (r#"/"a"\b"#, r#"'/"a"\b'"#, r#""/\"a\"\\b""#),
            ("/a$b;#{c}", "'/a$b;#{c}'", "\"/a$b;#{c}\""),
        ] {
            assert_eq!(HAPROXY.word(Path::new(path)), haproxy);
            assert_eq!(NGINX.word(Path::new(path)), nginx);
        }
    }

    #[test]
    fn what_no_quotes_help_is_named() {
        for (path, named) in [("/a b\"'\\#;{}", None), ("/a$b", Some('$')), ("/\n", Some('\n'))] {
            assert_eq!(unwritable(Path::new(path)), named, "{path}");
        }
    }
}
