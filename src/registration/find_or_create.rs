//! The calls that find an entry or create it, in as few rounds as can be.

use super::identity::ClusterId;
use super::naming;
use super::outcome::{Archived, Effects, Invalid, NotRegistered, Origin, Registered, Wanted};
use super::ownership::{Claimant, Tie, properties, tie};
use crate::registry::{
    Connection, DesiredState, EnvironmentId, InferenceService, LifecycleState, ModelVersion, ModelVersionId,
    NewEntry, RegisteredModel, RegisteredModelId, RegistryClient, RegistryError, ServingEnvironment,
    Unavailability,
};

impl From<RegistryError> for NotRegistered {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Refused { message, .. } => Invalid::RefusedByRegistry(message).into(),
            RegistryError::Unavailable(reason) => reason.into(),
            // Where these two are answers they have been dealt with. What is left contradicts an answer of a
            // moment ago, as a registry does whose database went down in between.
            RegistryError::Missing { message } => {
                Unavailability::Status { status: 404, excerpt: message }.into()
            }
            RegistryError::Conflict { message } => {
                Unavailability::Status { status: 409, excerpt: message }.into()
            }
        }
    }
}

/// The model and the version that an object names, as far as it names them.
struct Named {
    model: Option<RegisteredModel>,
    version: Option<ModelVersion>,
}

/// Looks up both at once.
async fn look_up(registry: &RegistryClient, wanted: &Wanted) -> Result<Named, RegistryError> {
    let model = async {
        match wanted.model {
            Some(id) => registry.registered_model(id).await,
            None => Ok(None),
        }
    };
    let version = async {
        match wanted.version {
            Some(id) => registry.model_version(id).await,
            None => Ok(None),
        }
    };
    let (model, version) = tokio::try_join!(model, version)?;
    Ok(Named { model, version })
}

/// Holds what was named against what there is; says what of it is archived.
fn judge(wanted: &Wanted, named: &Named) -> Result<Option<Archived>, NotRegistered> {
    if let (Some(id), None) = (wanted.model, &named.model) {
        return Err(Invalid::NoSuchModel(id).into());
    }
    if let Some(id) = wanted.version {
        let version = named.version.as_ref().ok_or(Invalid::NoSuchVersion(id))?;
        if let Some(model) = wanted.model {
            belongs_to(version, model)?;
        }
    }
    let archived_model = named.model.as_ref().filter(|model| model.state == LifecycleState::Archived);
    let archived_version = named.version.as_ref().filter(|version| version.state == LifecycleState::Archived);
    let archived = archived_model
        .map(|model| Archived::Model(model.id))
        .or(archived_version.map(|version| Archived::Version(version.id)));
    match archived {
        Some(archived) if wanted.refuse_archived => Err(NotRegistered::Archived(archived)),
        archived => Ok(archived),
    }
}

fn belongs_to(version: &ModelVersion, wanted: RegisteredModelId) -> Result<(), Invalid> {
    if version.registered_model_id == wanted {
        return Ok(());
    }
    Err(Invalid::VersionOfAnotherModel {
        version: version.id,
        belongs_to: version.registered_model_id,
        wanted,
    })
}

/// Checks the model and the version alone.
pub(super) async fn check(
    registry: &RegistryClient,
    wanted: &Wanted,
) -> Result<Option<Archived>, NotRegistered> {
    judge(wanted, &look_up(registry, wanted).await?)
}

/// What became of an id label.
pub(super) enum Labelled {
    /// Its entry belongs to the object and serves the model.
    Good(Box<Registered>),
    /// It does not; the reason counts when there is no model to register by.
    Bad(Invalid),
}

/// Checks the entry that an object's id label names.
pub(super) async fn check_labelled(
    registry: &RegistryClient,
    cluster: &ClusterId,
    wanted: &Wanted,
    id: crate::registry::EntryId,
) -> Result<Labelled, NotRegistered> {
    let (named, environment, entry) = tokio::try_join!(
        look_up(registry, wanted),
        registry.environment(&wanted.object.namespace),
        registry.entry(id),
    )?;
    let archived = judge(wanted, &named)?;
    let Some(entry) = entry else {
        return Ok(Labelled::Bad(Invalid::NoSuchEntry(id)));
    };
    let claimant = Claimant {
        cluster,
        object: &wanted.object,
        environment: environment.map(|environment| environment.id),
        labelled: Some(id),
    };
    let serves = wanted.model.is_none_or(|model| entry.registered_model_id == model);
    let Some(tie) = tie(&entry, &claimant).filter(|_| serves) else {
        return Ok(Labelled::Bad(Invalid::EntryOfAnother(id)));
    };
    if let (None, Some(version)) = (wanted.model, &named.version) {
        belongs_to(version, entry.registered_model_id)?;
    }
    Ok(Labelled::Good(Box::new(Registered { entry, origin: Origin::Labelled, tie, archived })))
}

/// Finds the entry of an object that names a model, or creates it.
///
/// `known_environment` is the environment's id as it was last seen; `ensure_environment` gives the id of one that
/// is created now.
pub(super) async fn find_or_create<E>(
    registry: &RegistryClient,
    cluster: &ClusterId,
    wanted: &Wanted,
    effects: Effects,
    environments: &E,
) -> Result<Registered, NotRegistered>
where
    E: Environments,
{
    let model = wanted.model.ok_or(Invalid::NothingNamed)?;
    let search = Search { registry, cluster, wanted, model, version: wanted.version };
    // First round: everything that can be asked without knowing an answer.
    let known = environments.known(&wanted.object.namespace);
    let (named, environment, early) = tokio::try_join!(
        look_up(registry, wanted),
        registry.environment(&wanted.object.namespace),
        search.early(known),
    )?;
    let archived = judge(wanted, &named)?;
    let environment = match environment {
        Some(ServingEnvironment { id, .. }) => id,
        None if effects == Effects::ReadOnly => return Err(NotRegistered::WouldCreate { archived }),
        None => {
            if let Some(stale) = known {
                environments.forget(&wanted.object.namespace, stale);
            }
            environments.create(&wanted.object.namespace).await?
        }
    };
    environments.remember(&wanted.object.namespace, environment);
    let early = early.filter(|_| known == Some(environment));
    let found = search.find_or_create(environment, early, effects).await?;
    let Some((entry, origin, tie)) = found else {
        return Err(NotRegistered::WouldCreate { archived });
    };
    Ok(Registered { entry, origin, tie, archived })
}

/// The serving environments, by Namespace: what is known of them, and how to make one.
pub(super) trait Environments {
    /// The id as it was last seen.
    fn known(&self, namespace: &str) -> Option<EnvironmentId>;
    /// Notes an id.
    fn remember(&self, namespace: &str, id: EnvironmentId);
    /// Forgets an id that turned out to be stale; not one that was noted meanwhile.
    fn forget(&self, namespace: &str, stale: EnvironmentId);
    /// Creates the environment, or finds the one that somebody else has just created.
    fn create(&self, namespace: &str) -> impl Future<Output = Result<EnvironmentId, NotRegistered>> + Send;
}

/// Answers of the first round that hold only for an environment that was guessed.
struct Early {
    by_uid: Option<InferenceService>,
    by_name: Option<InferenceService>,
}

struct Search<'a> {
    registry: &'a RegistryClient,
    cluster: &'a ClusterId,
    wanted: &'a Wanted,
    model: RegisteredModelId,
    version: Option<ModelVersionId>,
}

type Found = Option<(InferenceService, Origin, Tie)>;

impl Search<'_> {
    /// The look-ups by name, where the environment's id is known from before.
    async fn early(&self, known: Option<EnvironmentId>) -> Result<Option<Early>, RegistryError> {
        let Some(environment) = known else { return Ok(None) };
        self.by_first_names(environment).await.map(Some)
    }

    async fn by_first_names(&self, environment: EnvironmentId) -> Result<Early, RegistryError> {
        let by_uid = async {
            match &self.wanted.uid {
                Some(uid) => {
                    let name = naming::by_uid(&self.wanted.object, uid);
                    self.registry.entry_named(environment, &name).await
                }
                None => Ok(None),
            }
        };
        let by_name = self.registry.entry_named(environment, &self.wanted.object.name);
        let (by_uid, by_name) = tokio::try_join!(by_uid, by_name)?;
        Ok(Early { by_uid, by_name })
    }

    /// Goes through the names; `None` when one is free and nothing may be created.
    async fn find_or_create(
        &self,
        environment: EnvironmentId,
        early: Option<Early>,
        effects: Effects,
    ) -> Result<Found, NotRegistered> {
        let names = naming::candidates(&self.wanted.object, self.model, self.cluster);
        let first = match early {
            Some(early) => early,
            None => self.by_first_names(environment).await?,
        };
        if let Some(found) = first.by_uid.and_then(|entry| self.usable(environment, entry)) {
            return Ok(Some(found));
        }
        let mut looked_up = Some(first.by_name);
        for name in &names {
            if !naming::fits(environment, name) {
                return Err(Invalid::NameTooLong(name.clone()).into());
            }
            let there = match looked_up.take() {
                Some(there) => there,
                None => self.registry.entry_named(environment, name).await?,
            };
            match there {
                Some(entry) => {
                    if let Some(found) = self.usable(environment, entry) {
                        return Ok(Some(found));
                    }
                }
                None if effects == Effects::ReadOnly => return Ok(None),
                None => {
                    if let Some(found) = self.create(environment, name).await? {
                        return Ok(Some(found));
                    }
                }
            }
        }
        Err(Invalid::NoNameLeft(names[0].clone()).into())
    }

    /// The entry, when it belongs to the object and serves the model.
    fn usable(&self, environment: EnvironmentId, entry: InferenceService) -> Found {
        let claimant = Claimant {
            cluster: self.cluster,
            object: &self.wanted.object,
            environment: Some(environment),
            labelled: None,
        };
        let tie = tie(&entry, &claimant).filter(|_| entry.registered_model_id == self.model)?;
        Some((entry, Origin::Found, tie))
    }

    /// Creates the entry under a name that was free; `None` when somebody else has taken it meanwhile.
    async fn create(&self, environment: EnvironmentId, name: &str) -> Result<Found, NotRegistered> {
        let entry = NewEntry {
            name: name.to_owned(),
            registered_model_id: self.model,
            serving_environment_id: environment,
            model_version_id: self.version,
            runtime: self.wanted.runtime.clone(),
            desired_state: DesiredState::Deployed,
            custom_properties: properties(self.cluster, &self.wanted.object, self.wanted.uid.as_deref()),
        };
        let mut over = Connection::Kept;
        loop {
            let error = match self.registry.create_entry(&entry, over).await {
                Ok(created) => return Ok(Some((created, Origin::Created, Tie::Ours))),
                Err(error) => error,
            };
            match error {
                // Another replica, or a retry of this very request, was faster; or the name is another's.
                RegistryError::Conflict { .. } => {
                    return match self.registry.entry_named(environment, name).await? {
                        Some(there) => Ok(self.usable(environment, there)),
                        // The registry contradicts itself; another name would make a second entry of this object.
                        None => Err(error.into()),
                    };
                }
                // Refused for good; or missing: the environment was there a moment ago, so the database is down.
                RegistryError::Refused { .. } | RegistryError::Missing { .. } => return Err(error.into()),
                // The answer is lost, and maybe the request too: what there is tells which. Once more, then, for a
                // kept connection may have been closed by the other side; what a new one loses stays lost.
                RegistryError::Unavailable(_) => {
                    if let Some(there) = self.registry.entry_named(environment, name).await? {
                        return Ok(self.usable(environment, there));
                    }
                    if over == Connection::New {
                        return Err(error.into());
                    }
                    over = Connection::New;
                }
            }
        }
    }
}
