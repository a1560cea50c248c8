//! The API: its parameters, its answers, and the accuracy of its description.

mod document;
mod events;
mod guide;
mod hostile;
mod schema;
mod tasks;
