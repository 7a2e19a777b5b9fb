//! What the kinds of entities have and may be told: one table for each kind, read by everything else here.
//!
//! What stays true: a field that is in no table is refused with 400, whether on create or on patch; and what a
//! table says cannot be patched never changes after the create.

use super::entity::{Attribute, Attributes};

/// The kinds of entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Environment,
    Model,
    Version,
    Service,
    Serve,
    Artifact,
}

/// The registry keeps its kinds in three tables. Ids and external ids are unique within a table, so a model and
/// an inference service never have the same id, and never the same external id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Contexts,
    Executions,
    Artifacts,
}

/// The form of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Texts,
    /// The id of something else: a string that holds an int32.
    Id,
    OneOf {
        words: &'static [&'static str],
        /// What an absent field becomes, **on a patch too**: a PATCH that omits the state resets it.
        default: Option<&'static str>,
    },
}

/// A field that only some kinds have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) form: Form,
    pub(super) required: bool,
    pub(super) patchable: bool,
}

impl Field {
    const fn required(name: &'static str, form: Form) -> Self {
        Self { name, form, required: true, patchable: false }
    }

    const fn fixed(name: &'static str, form: Form) -> Self {
        Self { name, form, required: false, patchable: false }
    }

    const fn free(name: &'static str, form: Form) -> Self {
        Self { name, form, required: false, patchable: true }
    }
}

/// What an entity without a name gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// Nothing: a name is required.
    Required,
    /// The empty name, which is as unique as any other.
    Empty,
    /// A UUID.
    MadeUp,
}

/// What an entity lives under. A name is unique under one parent, and stored with the parent's id before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    /// The field of the body with its id, where there is one; otherwise only a path can name it.
    pub(super) field: Option<&'static str>,
    /// Only some are looked up before a create.
    pub(super) checked: Option<Kind>,
}

/// A kind's table.
#[derive(Debug)]
pub(super) struct Schema {
    /// The kind in words, for messages.
    pub(super) noun: &'static str,
    pub(super) table: Table,
    pub(super) naming: Naming,
    pub(super) parent: Option<Parent>,
    pub(super) fields: &'static [Field],
    /// Lists of the other kinds take a `filterQuery` and silently ignore it.
    pub(super) filterable: bool,
}

impl Schema {
    /// The field of that name.
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The fields of an entity that was told nothing.
    pub(super) fn defaults(&self) -> Attributes {
        self.fields
            .iter()
            .filter_map(|field| match field.form {
                Form::OneOf { default, .. } => Some((field, Attribute::Word(default?))),
                Form::Text | Form::Texts | Form::Id => None,
            })
            .collect()
    }
}

impl Kind {
    /// How many kinds there are.
    pub(super) const COUNT: usize = Self::Artifact as usize + 1;

    /// Where this kind stands in an array of all kinds.
    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// This kind's table.
    pub(super) fn schema(self) -> &'static Schema {
        match self {
            Self::Environment => &ENVIRONMENT,
            Self::Model => &MODEL,
            Self::Version => &VERSION,
            Self::Service => &SERVICE,
            Self::Serve => &SERVE,
            Self::Artifact => &ARTIFACT,
        }
    }
}

impl Table {
    /// How many tables there are.
    pub(super) const COUNT: usize = Self::Artifacts as usize + 1;

    /// Where this table stands in an array of all tables.
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// The field that holds an inference service's state.
pub(super) const DESIRED_STATE: &str = "desiredState";
/// The field that names a registered model.
pub(super) const REGISTERED_MODEL_ID: &str = "registeredModelId";
/// The field that names a model version.
pub(super) const MODEL_VERSION_ID: &str = "modelVersionId";
/// The field that tells what serves an inference service.
pub(super) const RUNTIME: &str = "runtime";
/// The field that tells a model's artifact from a document.
pub(super) const ARTIFACT_TYPE: &str = "artifactType";
/// The artifact type of a model's files.
pub(super) const MODEL_ARTIFACT: &str = "model-artifact";

const LIVE_OR_ARCHIVED: Form = Form::OneOf { words: &["LIVE", "ARCHIVED"], default: Some("LIVE") };

static ENVIRONMENT: Schema = Schema {
    noun: "serving environment",
    table: Table::Contexts,
    naming: Naming::Required,
    parent: None,
    fields: &[],
    filterable: false,
};

static MODEL: Schema = Schema {
    noun: "registered model",
    table: Table::Contexts,
    naming: Naming::Required,
    parent: None,
    fields: &[
        Field::free("owner", Form::Text),
        Field::free("state", LIVE_OR_ARCHIVED),
        Field::free("readme", Form::Text),
        Field::free("maturity", Form::Text),
        Field::free("language", Form::Texts),
        Field::free("tasks", Form::Texts),
        Field::free("provider", Form::Text),
        Field::free("logo", Form::Text),
        Field::free("license", Form::Text),
        Field::free("licenseLink", Form::Text),
        Field::free("libraryName", Form::Text),
    ],
    filterable: true,
};

static VERSION: Schema = Schema {
    noun: "model version",
    table: Table::Contexts,
    naming: Naming::Required,
    parent: Some(Parent { field: Some(REGISTERED_MODEL_ID), checked: None }),
    fields: &[
        Field::required(REGISTERED_MODEL_ID, Form::Id),
        Field::free("author", Form::Text),
        Field::free("state", LIVE_OR_ARCHIVED),
    ],
    filterable: true,
};

static SERVICE: Schema = Schema {
    noun: "inference service",
    table: Table::Contexts,
    naming: Naming::Empty,
    parent: Some(Parent { field: Some("servingEnvironmentId"), checked: Some(Kind::Environment) }),
    fields: &[
        Field::required(REGISTERED_MODEL_ID, Form::Id),
        Field::required("servingEnvironmentId", Form::Id),
        Field::free(MODEL_VERSION_ID, Form::Id),
        Field::free(RUNTIME, Form::Text),
        Field::free(
            DESIRED_STATE,
            Form::OneOf { words: &["DEPLOYED", "UNDEPLOYED"], default: Some("DEPLOYED") },
        ),
    ],
    filterable: false,
};

static SERVE: Schema = Schema {
    noun: "serve model",
    table: Table::Executions,
    naming: Naming::MadeUp,
    parent: Some(Parent { field: None, checked: Some(Kind::Service) }),
    fields: &[
        Field::required(MODEL_VERSION_ID, Form::Id),
        Field::fixed(
            "lastKnownState",
            Form::OneOf {
                words: &["UNKNOWN", "NEW", "RUNNING", "COMPLETE", "FAILED", "CACHED", "CANCELED"],
                default: Some("UNKNOWN"),
            },
        ),
    ],
    filterable: false,
};

static ARTIFACT: Schema = Schema {
    noun: "artifact",
    table: Table::Artifacts,
    naming: Naming::Empty,
    parent: Some(Parent { field: None, checked: None }),
    fields: &[
        Field::free(ARTIFACT_TYPE, Form::OneOf { words: &[MODEL_ARTIFACT, "doc-artifact"], default: None }),
        Field::free("uri", Form::Text),
        Field::free(
            "state",
            Form::OneOf {
                words: &[
                    "UNKNOWN",
                    "PENDING",
                    "LIVE",
                    "MARKED_FOR_DELETION",
                    "DELETED",
                    "ABANDONED",
                    "REFERENCE",
                ],
                default: None,
            },
        ),
        Field::free("modelFormatName", Form::Text),
        Field::free("modelFormatVersion", Form::Text),
        Field::free("storageKey", Form::Text),
        Field::free("storagePath", Form::Text),
        Field::free("serviceAccountName", Form::Text),
        Field::free("modelSourceKind", Form::Text),
        Field::free("modelSourceClass", Form::Text),
        Field::free("modelSourceGroup", Form::Text),
        Field::free("modelSourceId", Form::Text),
        Field::free("modelSourceName", Form::Text),
    ],
    filterable: true,
};
