//! The listeners: TLS for the webhook, plain HTTP for health and metrics.
//!
//! Goes in: routes, and a token that is cancelled when the process is to stop. Comes out: nothing, once every
//! review that had come in is answered. What stays true: while the API server still sends here, it is answered;
//! slow and idle clients hold a bounded number of connections for a bounded time.

mod connections;
pub mod health;
mod limits;
mod signal;
pub mod tls;

pub use health::{Health, Part};
pub use limits::Limits;
pub use signal::stop_signal;
