//! Enums whose variants have one name each.

/// Defines an enum whose variants have one name each: in JSON, in flags and in reports.
macro_rules! named {
    ($(#[$meta:meta])* $type:ident { $($(#[$about:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $type {
            $($(#[$about])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            /// Every one.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name in flags, reports and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}
