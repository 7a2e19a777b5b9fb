//! Models, versions and environments: looked up so that *missing* means missing.
//!
//! A look-up by id answers 404 for everything while the registry's database is down, so models and versions are
//! looked up by list, where an empty 200 is the truth.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::RegistryClient;
use super::transport::{Connection, Request};
use crate::registry::{
    EnvironmentId, ModelVersion, ModelVersionId, RegisteredModel, RegisteredModelId, RegistryError,
    ServingEnvironment,
};

/// A list, as far as a look-up reads it.
#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

impl RegistryClient {
    /// The registered model with this id.
    pub async fn registered_model(
        &self,
        id: RegisteredModelId,
    ) -> Result<Option<RegisteredModel>, RegistryError> {
        self.by_list("registered_models", &id.to_string(), |model: &RegisteredModel| model.id == id).await
    }

    /// The model version with this id, of whatever model.
    pub async fn model_version(&self, id: ModelVersionId) -> Result<Option<ModelVersion>, RegistryError> {
        self.by_list("model_versions", &id.to_string(), |version: &ModelVersion| version.id == id).await
    }

    /// The serving environment of this name.
    pub async fn environment(&self, name: &str) -> Result<Option<ServingEnvironment>, RegistryError> {
        let request = Request::get(["serving_environment"]).query("name", escape_like(name));
        let found = none_when_missing(self.transport.call::<ServingEnvironment>(request).await)?;
        Ok(found.filter(|environment| environment.name == name))
    }

    /// Creates a serving environment.
    pub async fn create_environment(
        &self,
        name: &str,
        over: Connection,
    ) -> Result<EnvironmentId, RegistryError> {
        let body = serde_json::json!({ "name": name }).to_string().into_bytes();
        let request = Request::send(http::Method::POST, ["serving_environments"], body).over(over);
        Ok(self.transport.call::<ServingEnvironment>(request).await?.value.id)
    }

    /// One entity by `filterQuery=id=N`. When another one is among the answers, this registry ignores the filter:
    /// then a 404 by id counts once a list in between has shown that the database can be read.
    async fn by_list<T: DeserializeOwned>(
        &self,
        collection: &str,
        id: &str,
        is_it: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, RegistryError> {
        let request =
            Request::get([collection]).query("filterQuery", format!("id={id}")).query("pageSize", "2");
        let listed = self.transport.call::<Items<T>>(request).await?.value.items;
        if listed.is_empty() {
            return Ok(None);
        }
        match listed.into_iter().find(&is_it) {
            Some(entity) => Ok(Some(entity)),
            None => self.by_id(collection, id).await.map(|found| found.filter(is_it)),
        }
    }

    /// One entity by id; a 404 is believed when the registry says it again after a list that answered.
    pub(super) async fn by_id<T: DeserializeOwned>(
        &self,
        collection: &str,
        id: &str,
    ) -> Result<Option<T>, RegistryError> {
        let request = Request::get([collection, id]);
        if let Some(entity) = none_when_missing(self.transport.call::<T>(request.clone()).await)? {
            return Ok(Some(entity));
        }
        let list = Request::get([collection]).query("pageSize", "1");
        self.transport.call::<Items<serde::de::IgnoredAny>>(list).await?;
        none_when_missing(self.transport.call::<T>(request).await)
    }
}

/// A find or a confirmed GET: *missing* is an answer.
pub(super) fn none_when_missing<T>(
    outcome: Result<super::transport::Answer<T>, RegistryError>,
) -> Result<Option<T>, RegistryError> {
    match outcome {
        Ok(answer) => Ok(Some(answer.value)),
        Err(RegistryError::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Escapes what SQL LIKE takes for a wildcard: the registry's finds by name are LIKE queries.
pub(super) fn escape_like(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for character in name.chars() {
        if matches!(character, '\\' | '_' | '%') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_escaped() {
        assert_eq!(escape_like(r"a_b%c\d-e"), r"a\_b\%c\\d-e");
    }
}
