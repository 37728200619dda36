//! Enums whose variants have names.

/// Declares an enum with the name of each variant, which flags, JSON, reports and exports use.
macro_rules! named {
    ($(#[$about:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $type {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            /// The name of the variant.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}
