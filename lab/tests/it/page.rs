//! The HTML page in a real browser, with the real agent and a real Redis.
