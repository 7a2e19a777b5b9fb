//! What the recording does not show of the embedded registry: its switches, its lists when they are long, its
//! filters, its seeds, and what other code in the process can do with it.

#[path = "../http/mod.rs"]
mod http;

mod entities;
mod faults;
mod lists;
mod process;
mod scene;
