//! The syncer against the embedded registry and a store of objects in memory: what it writes, and what it must not
//! write whatever happens meanwhile.

mod brakes;
mod guards;
mod leading;
mod lifecycle;
mod ownership;
mod races;
mod scene;
