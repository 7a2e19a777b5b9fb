//! The API, without HTTP: a request goes in, an answer comes out.
//!
//! What stays true: the order in which a request is judged. First what cannot be read (400), then what is missing
//! (422), then the database. **Whatever goes wrong while an entity is read by its id is answered as 404**, a
//! database that is down too: such a 404 says nothing about the entity.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use http::{Method, StatusCode};
use serde::Serialize;

use super::draft::{Draft, Purpose, parse_id};
use super::entity::{Attribute, Entity};
use super::faults::Database;
use super::listing::{Listing, Params};
use super::order::OrderBy;
use super::refusal::{Refusal, RefusalBody};
use super::resource::{Resource, Target};
use super::schema::{ARTIFACT_TYPE, Kind, MODEL_VERSION_ID, Parent, REGISTERED_MODEL_ID};
use super::store::{Change, NewEntity, Store};

/// A request, as far as the API looks at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) method: &'a Method,
    /// What follows the API's version, without the leading slash.
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) body: &'a [u8],
}

/// An answer's status and JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) json: Vec<u8>,
}

/// The database that an operation works on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backend<'a> {
    pub(super) store: &'a RwLock<Store>,
    pub(super) database: Database,
    /// Milliseconds since the epoch.
    pub(super) now: i64,
}

/// Does what a request asks for.
pub(super) fn answer(backend: Backend<'_>, request: Request<'_>) -> Result<Answer, Refusal> {
    let resource = Resource::parse(request.path).ok_or(Refusal::NoSuchPath)?;
    let params = Params::new(request.query);
    let body = request.body;
    match (resource, request.method.as_str()) {
        (Resource::All(target), "GET") => {
            let listing = Listing::read(&params, target.kind, false)?;
            backend.list(target, None, &listing)
        }
        (Resource::All(target), "POST") => backend.create(target, None, body),
        (Resource::Find(target), "GET") => backend.find(target, &params),
        (Resource::One(target, id), "GET") => json(StatusCode::OK, &*backend.get(target, parse_id(id)?)?),
        (Resource::One(target, id), "PATCH") => backend.patch(target, id, body),
        (Resource::Under(kind, parent), "GET") => {
            let listing = Listing::read(&params, kind, true)?;
            backend.list(kind.into(), Some(parse_id(parent)?), &listing)
        }
        (Resource::Under(kind, parent), "POST") => backend.create(kind.into(), Some(parent), body),
        (Resource::ModelOf(id), "GET") => backend.model_of(id),
        (Resource::VersionOf(id), "GET") => backend.version_of(id),
        _ => Err(Refusal::MethodNotAllowed),
    }
}

/// The body that goes with a refusal.
pub(super) fn refusal_json(refusal: &Refusal) -> Vec<u8> {
    let message = refusal.to_string();
    let body = RefusalBody { code: refusal.code(), message: &message };
    serde_json::to_vec(&body).unwrap_or_default()
}

impl Backend<'_> {
    fn list(self, target: Target, parent: Option<i32>, listing: &Listing) -> Result<Answer, Refusal> {
        let (rows, more) = self.read()?.list(target.kind, parent, listing, |entity| target.includes(entity));
        json(StatusCode::OK, &listing.page(rows, more))
    }

    fn find(self, target: Target, params: &Params) -> Result<Answer, Refusal> {
        let schema = target.kind.schema();
        let parent = params.get("parentResourceId");
        let name = params.get("name").filter(|_| schema.parent.is_none() || parent.is_some());
        let found = match (name, params.get("externalId")) {
            (Some(name), _) => {
                let parent = match schema.parent {
                    Some(_) => parent.map(parse_id).transpose()?,
                    None => None,
                };
                self.read()?.find_named(target.kind, parent, name)
            }
            (None, Some(external_id)) => {
                let store = self.read()?;
                Vec::from_iter(store.find_external(target.kind, external_id).cloned())
            }
            (None, None) => {
                let wanted = if schema.parent.is_some() { "(name and parentResourceId)" } else { "name" };
                return Err(Refusal::BadRequest(format!(
                    "invalid parameters call, supply either {wanted}, or externalId"
                )));
            }
        };
        match found.as_slice() {
            [one] if target.includes(one) => json(StatusCode::OK, &**one),
            [] | [_] => Err(Refusal::NotFound(format!("no {} found", schema.noun))),
            _ => Err(Refusal::NotFound(format!("multiple {}s found", schema.noun))),
        }
    }

    /// Reads an entity by its id; see the module's documentation for the 404.
    fn get(self, target: Target, id: i32) -> Result<Arc<Entity>, Refusal> {
        self.read()
            .ok()
            .and_then(|store| store.get(target.kind, id).cloned())
            .filter(|entity| target.includes(entity))
            .ok_or_else(|| Refusal::NotFound(format!("no {} found for id {id}", target.kind.schema().noun)))
    }

    fn create(self, target: Target, path_parent: Option<&str>, body: &[u8]) -> Result<Answer, Refusal> {
        let kind = target.kind;
        let schema = kind.schema();
        // Artifacts are upserted, except through the path that is only for models' files.
        let purpose = if kind == Kind::Artifact && target.artifact_type.is_none() {
            Purpose::Upsert
        } else {
            Purpose::Create
        };
        let mut draft = Draft::read(schema, purpose, body)?;
        if let Some(word) = target.artifact_type {
            draft.default_artifact_type(schema, word);
        }
        if kind == Kind::Artifact && draft.artifact_type().is_none() {
            return Err(Refusal::BadRequest("no artifactType".to_owned()));
        }
        if let Some(id) = draft.id.take() {
            return self.update(target, &id, draft);
        }

        let parent = self.parent_of(schema.parent, path_parent, &mut draft)?;
        let attributes = draft.take_attributes()?;
        if kind == Kind::Serve {
            // Of all the ids that a body can hold, only this one and the environment's are looked up.
            let version = attributes.iter().find(|(field, _)| field.name == MODEL_VERSION_ID);
            if let Some((_, Attribute::Id(version))) = version {
                self.get(Kind::Version.into(), *version)?;
            }
        }
        let new = NewEntity {
            kind,
            id: None,
            parent,
            name: draft.name,
            external_id: draft.external_id,
            description: draft.description,
            properties: draft.properties.unwrap_or_default(),
            attributes,
        };
        let created = self.write()?.create(new, self.now)?;
        json(StatusCode::CREATED, &*created)
    }

    /// The other half of an upsert.
    fn update(self, target: Target, id: &str, draft: Draft) -> Result<Answer, Refusal> {
        let changed = self.change(target, id, draft).map_err(|refusal| match refusal {
            // The registry takes an id that it cannot find for one of another type.
            Refusal::NotFound(why) => Refusal::BadRequest(why),
            other => other,
        })?;
        json(StatusCode::OK, &*changed)
    }

    /// The parent of a new entity: the one in the path has the last word.
    fn parent_of(
        self,
        rule: Option<Parent>,
        path: Option<&str>,
        draft: &mut Draft,
    ) -> Result<Option<i32>, Refusal> {
        let Some(rule) = rule else {
            return Ok(None);
        };
        if let (Some(field), Some(id)) = (rule.field, path) {
            draft.set_id(field, id);
        }
        let Some(text) = path.or_else(|| draft.id_text(rule.field?)) else {
            return Ok(None);
        };
        match rule.checked {
            Some(Kind::Environment) => self.environment_id(text),
            Some(kind) => Ok(self.get(kind.into(), parse_id(text)?)?.id),
            None => parse_id(text),
        }
        .map(Some)
    }

    /// The environment of a new inference service: an id that cannot even be read is 404 here.
    fn environment_id(self, text: &str) -> Result<i32, Refusal> {
        parse_id(text)
            .and_then(|id| self.get(Kind::Environment.into(), id))
            .map(|environment| environment.id)
            .map_err(|_| Refusal::NotFound(format!("no serving environment found for id {text}")))
    }

    fn patch(self, target: Target, id: &str, body: &[u8]) -> Result<Answer, Refusal> {
        let draft = Draft::read(target.kind.schema(), Purpose::Patch, body)?;
        json(StatusCode::OK, &*self.change(target, id, draft)?)
    }

    fn change(self, target: Target, id: &str, mut draft: Draft) -> Result<Arc<Entity>, Refusal> {
        let entity = self.get(target, parse_id(id)?)?;
        let artifact_type = draft.artifact_type();
        if artifact_type.is_some() && artifact_type != entity.text(ARTIFACT_TYPE) {
            return Err(Refusal::BadRequest(format!("artifact {id} is of another type")));
        }
        let change = Change {
            attributes: draft.take_attributes()?,
            external_id: draft.external_id,
            description: draft.description,
            properties: draft.properties,
        };
        self.write()?.patch(target.kind, entity.id, change, self.now)
    }

    fn model_of(self, service: &str) -> Result<Answer, Refusal> {
        let service = self.get(Kind::Service.into(), parse_id(service)?)?;
        let model = service.id_in(REGISTERED_MODEL_ID).unwrap_or_default();
        json(StatusCode::OK, &*self.get(Kind::Model.into(), model)?)
    }

    /// An inference service without a version serves its model's newest.
    fn version_of(self, service: &str) -> Result<Answer, Refusal> {
        let service = self.get(Kind::Service.into(), parse_id(service)?)?;
        if let Some(version) = service.id_in(MODEL_VERSION_ID) {
            return json(StatusCode::OK, &*self.get(Kind::Version.into(), version)?);
        }
        let newest =
            Listing { by: OrderBy::Created, descending: true, page_size: 1, after: None, filter: None };
        let model = service.id_in(REGISTERED_MODEL_ID);
        let (versions, _) = self.read()?.list(Kind::Version, model, &newest, |_| true);
        match versions.first() {
            Some(version) => json(StatusCode::OK, &**version),
            None => Err(Refusal::NotFound(format!(
                "no model versions found for inference service {}",
                service.id
            ))),
        }
    }
}

impl<'a> Backend<'a> {
    fn read(self) -> Result<RwLockReadGuard<'a, Store>, Refusal> {
        self.reach()?;
        Ok(self.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(self) -> Result<RwLockWriteGuard<'a, Store>, Refusal> {
        self.reach()?;
        Ok(self.store.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn reach(self) -> Result<(), Refusal> {
        match self.database {
            Database::Up => Ok(()),
            Database::Down | Database::Booting => Err(Refusal::database_down()),
        }
    }
}

impl Target {
    /// Whether the path that led here is for that entity.
    fn includes(self, entity: &Entity) -> bool {
        self.artifact_type.is_none() || entity.text(ARTIFACT_TYPE) == self.artifact_type
    }
}

fn json<T: Serialize + ?Sized>(status: StatusCode, body: &T) -> Result<Answer, Refusal> {
    serde_json::to_vec(body)
        .map(|json| Answer { status, json })
        .map_err(|error| Refusal::Internal(error.to_string()))
}
