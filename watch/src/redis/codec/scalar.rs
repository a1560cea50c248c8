//! The plain values that are read, and their forms.

use alloc::string::String;

use lockwatch_judge::named;

/// A plain value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer of any width up to 64 bits.
    Int(i64),
    /// A text.
    Text(String),
}

named! {
    /// What a program handed to its serializer. The same word has other bytes in each form.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Form {
        /// A text.
        Text = "text",
        /// A text behind the mark that Kryo sets when it keeps references.
        MarkedText = "marked_text",
        /// `true` or `false`.
        Bool = "bool",
        /// An integer of 32 bits.
        Int = "int",
        /// An integer of 64 bits.
        Long = "long",
        /// An integer of 16 bits.
        Short = "short",
        /// An integer of 8 bits.
        Byte = "byte",
    }
}
