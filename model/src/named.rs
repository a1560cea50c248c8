//! Enums whose variants have names: in metrics, JSON, logs, recordings or the configuration.

/// Declares such an enum. Each name stands beside its variant.
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $enum:ident { $($(#[$of_variant:meta])* $variant:ident = $name:literal,)+ }
    ) => {
        $(#[$about])*
        pub enum $enum { $($(#[$of_variant])* $variant,)+ }

        impl $enum {
            /// All of them, in the order of declaration.
            pub const ALL: [$enum; [$($name),+].len()] = [$($enum::$variant),+];

            /// What it is called.
            pub fn name(self) -> &'static str {
                match self { $($enum::$variant => $name),+ }
            }
        }
    };
}
