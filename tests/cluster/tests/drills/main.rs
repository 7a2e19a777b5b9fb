//! Drills: parts of an installation fail on a real API server, and the registry tells the truth again afterwards.
//!
//! After each, `truth` compares the registry's list with the cluster's, entry by entry. Drills that break nothing for
//! good take turns in one installation; the others have a cluster of their own. `gate` stands in front of a registry,
//! `process` finds the program's processes to kill and to stop.

mod api_server;
mod audit;
mod clusters;
mod drill;
mod gate;
mod process;
mod registry;
mod replicas;
mod scale;
mod token;
mod truth;
