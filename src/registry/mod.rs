//! Everything about the Model Registry.

pub mod embedded;
