//! The addition of counts.

/// Adds the fields of one value to the fields of another.
macro_rules! add_fields {
    ($into:expr, $from:expr, $($($field:ident).+),+ $(,)?) => {
        $($into.$($field).+ += $from.$($field).+;)+
    };
}
