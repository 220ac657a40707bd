//! Fetched trees as artifacts: ignore rules, archives, the store and its server.
