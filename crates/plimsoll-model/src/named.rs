//! Types that JSON has as text.

/// Declares an enum with the name of each variant, which flags, JSON, reports and exports use.
macro_rules! named {
    ($(#[$about:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $type {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            /// Every variant, in order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Returns the name of the variant.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

/// Gives enums `FromStr` by the names of their variants; the error says what is expected.
macro_rules! read_by_name {
    ($type:ident: $expected:literal) => {
        impl std::str::FromStr for $type {
            type Err = $crate::units::ParseError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let named = Self::ALL.iter().copied().find(|one| one.name() == text);
                let refused = || Self::Err { text: text.to_owned(), expected: $expected };
                named.ok_or_else(refused)
            }
        }
    };
}

/// Gives types with `Display` and `FromStr` the conversions that `#[serde(into = "String", try_from = "String")]`
/// needs.
macro_rules! written_as_text {
    ($($type:ident),+) => {$(
        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $type {
            type Error = <Self as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }
    )+};
}
