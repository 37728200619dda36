//! A command line inside one argument: words as a shell splits and joins them. Quotes and
//! backslashes only; nothing is expanded.

/// Splits at blanks; `'…'` holds anything, `"…"` anything with `\"` and `\\`, and a backslash
/// outside takes the next character as it is. `Err` says what is not closed.
pub(super) fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' | '"' => quoted(letter, &mut letters, word.get_or_insert_default())?,
            '\\' => {
                let next = letters.next().ok_or("a backslash stands at the end")?;
                word.get_or_insert_default().push(next);
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads to the closing `quote`.
fn quoted(
    quote: char,
    letters: &mut std::str::Chars<'_>,
    word: &mut String,
) -> Result<(), &'static str> {
    const OPEN: &str = "a quote is not closed";
    loop {
        match letters.next().ok_or(OPEN)? {
            letter if letter == quote => return Ok(()),
            '\\' if quote == '"' => match letters.next().ok_or(OPEN)? {
                escaped @ ('"' | '\\') => word.push(escaped),
                other => word.extend(['\\', other]),
            },
            letter => word.push(letter),
        }
    }
}

/// One line that [`split`] turns into `words` again.
pub(super) fn join(words: &[String]) -> String {
    let plain =
        |letter: char| letter.is_ascii_alphanumeric() || "-_=.,:;/@%+<>&?*#[]".contains(letter);
    let spelled = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    spelled.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_a_shell_splits_them() {
        for (text, expected) in [
            ("", vec![]),
            ("  lab  --sut\thaproxy ", vec!["lab", "--sut", "haproxy"]),
            ("-H 'sleep: 20' x", vec!["-H", "sleep: 20", "x"]),
            (r#"-H "a \"b\" \n" ''"#, vec!["-H", r#"a "b" \n"#, ""]),
            (r"a\ b --slo=p99'<50 ms'", vec!["a b", "--slo=p99<50 ms"]),
        ] {
            assert_eq!(split(text).unwrap(), expected, "{text}");
        }
        for text in ["'a", "\"a", "\"a\\", "a\\"] {
            assert!(split(text).is_err(), "{text}");
        }
    }

    #[test]
    fn joined_words_split_again() {
        let words = ["load", "https://a/?b=c", "", "it's", "a b", "p99<5ms", "\"\\", "ä\n"];
        let words: Vec<_> = words.map(str::to_owned).to_vec();
        assert_eq!(split(&join(&words)).unwrap(), words);
        assert_eq!(join(&words[..2]), "load https://a/?b=c");
    }
}
