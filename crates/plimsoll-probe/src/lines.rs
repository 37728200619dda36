//! Files of `/proc` whose lines begin with a name: `VmSize:    23456 kB`.

/// Returns the first word after `name`, in the line that begins with it.
pub(crate) fn word<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()
}

/// Returns the value as a number.
pub(crate) fn number(text: &str, name: &str) -> Option<u64> {
    word(text, name)?.parse().ok()
}

/// Returns the value, given in kB, in bytes.
pub(crate) fn bytes(text: &str, name: &str) -> Option<u64> {
    number(text, name)?.checked_mul(1024)
}
