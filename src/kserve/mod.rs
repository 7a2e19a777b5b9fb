//! What is read of an InferenceService, and nothing more.
//!
//! Goes in: the object as JSON, from an admission review, a watch or a file, well-typed or not. Comes out: an
//! [`InferenceService`] of a few hundred bytes. What stays true: reading never fails on a part that is ill-typed
//! (that part counts as absent, or as no id); one pass over the text, or only over the metadata; both shapes of a predictor, with `model` or
//! with a framework field, give the same runtime.

mod fingerprint;
mod labels;
pub(crate) mod lenient;
mod object;
mod status;

pub use labels::{DEFAULT_PREFIX, LabelKeys, LabelPrefixError};
pub(crate) use object::OursAlone;
pub use object::{InferenceService, Metadata, Predictor, Texts};
pub use status::{Readiness, Status};

/// API group of InferenceService.
pub const GROUP: &str = "serving.kserve.io";
/// Its only served version.
pub const VERSION: &str = "v1beta1";
/// Its kind.
pub const KIND: &str = "InferenceService";
/// Its resource name.
pub const RESOURCE: &str = "inferenceservices";
/// The finalizer that KServe adds before it builds any child of an object.
pub const KSERVE_FINALIZER: &str = "inferenceservice.finalizers";
