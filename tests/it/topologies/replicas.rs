//! Plain replication.
