//! The text of a configuration: lines, each under its reason.

/// Columns of a comment.
const COLUMNS: usize = 96;

/// A configuration file that is being written.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    /// Spaces before each line.
    indent: usize,
}

impl Text {
    /// Writes lines of a configuration. A line that begins with `#` is a reason, with its source in brackets, and is
    /// wrapped.
    pub(super) fn lines(&mut self, lines: &str) {
        for line in lines.lines() {
            let content = line.trim_start();
            let inner = line.len() - content.len();
            self.indent += inner;
            match content.strip_prefix("# ") {
                Some(reason) => self.comment(reason),
                None => self.line(content),
            }
            self.indent -= inner;
        }
    }

    fn line(&mut self, line: &str) {
        if !line.is_empty() {
            self.text.extend(std::iter::repeat_n(' ', self.indent));
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes a wrapped comment.
    pub(super) fn comment(&mut self, words: &str) {
        let mut line = String::from("#");
        for word in words.split(' ') {
            if self.indent + line.len() + 1 + word.len() > COLUMNS {
                self.line(&std::mem::replace(&mut line, String::from("#")));
            }
            line.push(' ');
            line.push_str(word);
        }
        self.line(&line);
    }

    /// Writes the lines of `write`, four spaces further in.
    pub(super) fn block(&mut self, write: impl FnOnce(&mut Self)) {
        self.indent += 4;
        write(self);
        self.indent -= 4;
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}
