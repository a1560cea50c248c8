//! What the rules promise.
