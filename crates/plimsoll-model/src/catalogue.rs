//! Enums whose variants have a stable name, belong to a group, and are described in words.

/// Defines an enum from its table. Each row gives a variant its name in JSON and its documentation, under its group.
/// `type, group: GroupType` names the accessor of the group; a third entry is the accessor's documentation.
macro_rules! catalogue {
    (
        $(#[$about:meta])*
        $type:ident,
        $(#[$group_doc:meta])* $group:ident: $groups:ident
        $(, $(#[$text_doc:meta])* $text:ident)?;
        $($in_group:ident { $($variant:ident = $name:literal: $words:literal;)* })*
    ) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum $type {
            $($(
                #[doc = $words]
                #[serde(rename = $name)]
                $variant,
            )*)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$($(Self::$variant,)*)*];

            /// Returns the stable name in JSON and exports.
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$variant => $name,)*)* }
            }

            $(#[$group_doc])*
            pub const fn $group(self) -> $groups {
                match self { $($(Self::$variant => $groups::$in_group,)*)* }
            }
        }

        $crate::catalogue::catalogue!(
            @text $type [$($(#[$text_doc])* $text)?] $($($variant = $words,)*)*
        );
    };
    (@text $type:ident [] $($rest:tt)*) => {};
    (
        @text $type:ident [$(#[$text_doc:meta])* $text:ident]
        $($variant:ident = $words:literal,)*
    ) => {
        impl $type {
            $(#[$text_doc])*
            pub const fn $text(self) -> &'static str {
                match self { $(Self::$variant => $words,)* }
            }
        }
    };
}

pub(crate) use catalogue;
