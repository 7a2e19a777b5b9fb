//! Admission as an API server sees it: reviews over real TLS, against a registry that is well, or is not.
//!
//! `reviews` writes reviews in words, `webhook` serves the real router and holds every answer to what is true of
//! all of them, `scene` puts the embedded registry behind it, `upstream` stands between the two and misbehaves.

mod reviews;
mod scene;
mod upstream;
mod webhook;

mod connections;
mod faults;
mod idempotence;
mod input;
mod nginx;
mod ownership;
mod policies;
mod rows;
mod versions;
