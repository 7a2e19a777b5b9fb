//! Self-managed certificates against an API server in memory: what replicas do together, and what they do when
//! somebody damages what they keep.

mod api_server;
mod clock;
mod damage;
mod provided;
mod replica;
mod rotation;
mod start;
