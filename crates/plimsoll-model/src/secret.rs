//! Recognises secrets, so that no archive, report or message contains one.

/// The text that replaces a secret.
pub const REDACTED: &str = "<redacted>";

/// Parts of a header's name that make its value a secret. More than the five names that the
/// standards know (Authorization, Proxy-Authorization, Cookie, Set-Cookie, X-Api-Key): hiding a
/// harmless value costs nothing.
const SECRET_NAME_PARTS: [&str; 12] = [
    "authorization",
    "cookie",
    "api-key",
    "apikey",
    "api_key",
    "x-auth",
    "token",
    "secret",
    "password",
    "credential",
    "session",
    "signature",
];

/// Shorter values occur in any text by accident.
const VALUE_CHARS_MIN: usize = 4;

/// Reports whether the value of a header, parameter or field of this name is a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
}

/// Returns `text` without secrets: `known` values, each with and without its first word (`Bearer`), and the values of
/// fields with a secret's name, as `name: value`, `name=value` or `"name": "value"`.
pub fn text_redacted(text: &str, known: &[String]) -> String {
    let mut text = text.to_owned();
    for value in known {
        let rest = value.split_once(' ').map_or("", |(_, rest)| rest.trim());
        for secret in [value.as_str(), rest] {
            if secret.chars().count() >= VALUE_CHARS_MIN {
                text = text.replace(secret, REDACTED);
            }
        }
    }
    fields_redacted(&text)
}

fn fields_redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find([':', '=']) {
        let (before, behind) = rest.split_at(at + 1);
        out.push_str(before);
        rest = behind;
        if is_secret_name(name_before(&before[..at])) {
            let (lead, value, tail) = value_of(rest);
            out.push_str(lead);
            out.push_str(if value.is_empty() { "" } else { REDACTED });
            rest = tail;
        }
    }
    out.push_str(rest);
    out
}

/// Returns the name at the end of `text`, without quotes around it.
fn name_before(text: &str) -> &str {
    let text = text.trim_end_matches([' ', '"', '\'']);
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let bytes: usize = text.chars().rev().take_while(|c| is_of_name(*c)).map(char::len_utf8).sum();
    &text[text.len() - bytes..]
}

/// Splits what follows a name into white space and a quote, the value, and the rest.
fn value_of(text: &str) -> (&str, &str, &str) {
    let spaces = text.len() - text.trim_start_matches([' ', '\t']).len();
    let quote = text[spaces..].chars().next().filter(|c| matches!(c, '"' | '\''));
    let begin = spaces + quote.map_or(0, char::len_utf8);
    let ends = |c: char| match quote {
        Some(quote) => c == quote,
        // An unquoted value may have several words: `Bearer abc`.
        None => matches!(c, '&' | ',' | ';' | '<' | '>' | '"' | '\'' | '\r' | '\n'),
    };
    let end = text[begin..].find(ends).map_or(text.len(), |at| begin + at);
    (&text[..begin], &text[begin..end], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_stays_in_a_text() {
        let known = ["Bearer hunter22".to_owned(), "abc".to_owned()];
        for (text, redacted) in [
            ("the token hunter22 has expired", "the token <redacted> has expired"),
            ("Authorization: Bearer xyz\nHost: a", "Authorization: <redacted>\nHost: a"),
            (r#"{"access_token": "xyz", "id": 7}"#, r#"{"access_token": "<redacted>", "id": 7}"#),
            ("GET /?api_key=xyz&page=2", "GET /?api_key=<redacted>&page=2"),
            ("Set-Cookie:a=b; Path=/", "Set-Cookie:<redacted>; Path=/"),
            ("password=", "password="),
            // Too short to be distinguished from other text, and no secret's name.
            ("abcdef: 17:03 a=b", "abcdef: 17:03 a=b"),
        ] {
            assert_eq!(text_redacted(text, &known), redacted);
        }
    }
}
