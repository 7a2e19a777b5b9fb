//! The syncer against the embedded registry and a store of objects in memory: what it writes, and what it must not
//! write whatever happens meanwhile.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too, which the lint cannot see")]

mod audit;
mod brakes;
mod growth;
mod guards;
mod leading;
mod lifecycle;
mod neighbour;
mod ownership;
mod races;
mod registries;
mod scene;
mod standing;
mod supervised;
