//! One line of a script as words.

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Letters and digits, unchanged.
    Bare(String),
    /// Between quotation marks, escapes resolved; an escaped percent sign is doubled, as templates write it.
    Text(Vec<u8>),
    /// Between slashes; only `\/` is resolved.
    Pattern(String),
    /// The path behind `@`.
    File(String),
}

/// Splits a line; a comment begins with `#`. An error says what is wrong.
pub(super) fn split(line: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '#' => break,
            '"' => {
                let (text, after) = quoted(&rest[1..])?;
                (Word::Text(text), after)
            }
            '/' => {
                let (pattern, after) = pattern(&rest[1..])?;
                (Word::Pattern(pattern), after)
            }
            '@' => {
                let (path, after) = bare(&rest[1..]);
                (Word::File(path.to_owned()), after)
            }
            _ => {
                let (word, after) = bare(rest);
                (Word::Bare(word.to_owned()), after)
            }
        };
        if after.chars().next().is_some_and(|next| !next.is_whitespace()) {
            return Err("a word ends without a space behind it".to_owned());
        }
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

fn bare(text: &str) -> (&str, &str) {
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// Returns the text up to the closing quotation mark, and what follows.
fn quoted(text: &str) -> Result<(Vec<u8>, &str), String> {
    let mut bytes = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Ok((bytes, &text[at + 1..])),
            '\\' => match escaped(&mut chars)? {
                b'%' => bytes.extend_from_slice(b"%%"),
                byte => bytes.push(byte),
            },
            _ => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err("the quotation mark is not closed".to_owned())
}

/// Reads the byte that an escape represents.
fn escaped(chars: &mut std::str::CharIndices<'_>) -> Result<u8, String> {
    let mut next = || chars.next().map(|(_, char)| char);
    match next() {
        Some('r') => Ok(b'\r'),
        Some('n') => Ok(b'\n'),
        Some('t') => Ok(b'\t'),
        Some('0') => Ok(0),
        Some('\\') => Ok(b'\\'),
        Some('"') => Ok(b'"'),
        Some('x') => {
            let digit = |char: Option<char>| char.and_then(|char| char.to_digit(16));
            match (digit(next()), digit(next())) {
                (Some(high), Some(low)) => Ok((high * 16 + low) as u8),
                _ => Err("\\x is followed by two hexadecimal digits".to_owned()),
            }
        }
        Some(other) => {
            Err(format!("\\{other} is no escape; there are \\r \\n \\t \\0 \\xHH \\\\ \\\""))
        }
        None => Err("the quotation mark is not closed".to_owned()),
    }
}

/// Splits `text` into the expression up to the closing slash, and the rest.
pub(crate) fn pattern(text: &str) -> Result<(String, &str), String> {
    let mut pattern = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '/' => return Ok((pattern, &text[at + 1..])),
            '\\' => match chars.next() {
                Some((_, '/')) => pattern.push('/'),
                Some((_, other)) => pattern.extend(['\\', other]),
                None => break,
            },
            _ => pattern.push(char),
        }
    }
    Err("the slash of the expression is not closed".to_owned())
}
