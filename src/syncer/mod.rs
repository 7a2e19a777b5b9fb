//! placeholder
pub mod object;
pub mod plan;
