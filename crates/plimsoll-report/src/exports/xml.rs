//! XML, as much of it as a test report needs: elements with attributes and text.

use std::io;
use std::io::Write;

/// An element with its content.
#[derive(Debug)]
pub(super) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    text: String,
    children: Vec<Self>,
}

impl Element {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, attributes: Vec::new(), text: String::new(), children: Vec::new() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    pub(super) fn text(self, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..self }
    }

    pub(super) fn children(self, children: impl IntoIterator<Item = Self>) -> Self {
        Self { children: children.into_iter().collect(), ..self }
    }

    /// Writes the whole document, of which this is the root.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        self.write_at(0, out)
    }

    fn write_at(&self, depth: usize, out: &mut dyn Write) -> io::Result<()> {
        let indent = "  ".repeat(depth);
        write!(out, "{indent}<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(out, " {name}=\"{}\"", escaped(value))?;
        }
        if self.text.is_empty() && self.children.is_empty() {
            return writeln!(out, "/>");
        }
        write!(out, ">{}", escaped(&self.text))?;
        if !self.children.is_empty() {
            writeln!(out)?;
            for child in &self.children {
                child.write_at(depth + 1, out)?;
            }
            write!(out, "{indent}")?;
        }
        writeln!(out, "</{}>", self.name)
    }
}

/// Returns the text for content and attributes alike. Characters that XML 1.0 has no place for are replaced; line
/// breaks stay what they are also in attributes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
