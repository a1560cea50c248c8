//! The API: what it takes, what it answers, and that its description is true.

mod document;
mod events;
mod guide;
mod hostile;
mod schema;
mod sse;
mod tasks;
