//! Enums whose variants have names for metrics, JSON, logs, recordings or the configuration.

/// Declares such an enum. The name of each variant stands beside it.
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $enum:ident { $($(#[$of_variant:meta])* $variant:ident = $name:literal,)+ }
    ) => {
        $(#[$about])*
        pub enum $enum { $($(#[$of_variant])* $variant,)+ }

        impl $enum {
            /// All variants, in declaration order.
            pub const ALL: [$enum; [$($name),+].len()] = [$($enum::$variant),+];

            /// The variant's name.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$variant => $name),+ }
            }
        }
    };
    // Variants with fields.
    (
        $(#[$about:meta])*
        pub enum $enum:ident {
            $(
                $(#[$of_variant:meta])*
                $variant:ident $({ $($fields:tt)* })? $(($fields_of:ty))? = $name:literal,
            )+
        }
    ) => {
        $(#[$about])*
        pub enum $enum {
            $($(#[$of_variant])* $variant $({ $($fields)* })? $(($fields_of))?,)+
        }

        impl $enum {
            /// The names of all variants, in declaration order.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// The variant's name.
            pub const fn name(&self) -> &'static str {
                match self { $($enum::$variant { .. } => $name),+ }
            }
        }
    };
}
