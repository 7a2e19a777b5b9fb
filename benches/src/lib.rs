//! What all benchmarks share: reviews that look like those of a real API server, and the path they take.
//!
//! `micro/review.rs` times that path, `src/instructions` counts its instructions, and `src/side_by_side` holds the
//! built program against bare references. [`docs/performance.md`](../../docs/performance.md) tells what came of it.

pub mod path;
pub mod reviews;
