//! Entries (the registry's inference services) and their history.

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::RegistryClient;
use super::lookup::{escape_like, none_when_missing};
use super::transport::{Connection, Request};
use crate::registry::{
    EntryId, EntryPatch, EnvironmentId, InferenceService, NewEntry, NewServeModel, Page, PageRequest,
    RegistryError, ServeModel, ServingEnvironment, SortOrder,
};

const INFERENCE_SERVICES: &str = "inference_services";

/// A page as the registry sends it. Items are read one by one, so that one odd entry spoils no list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPage {
    items: Vec<Box<RawValue>>,
    #[serde(default)]
    next_page_token: String,
}

impl RegistryClient {
    /// The entry of this name in this environment.
    pub async fn entry_named(
        &self,
        environment: EnvironmentId,
        name: &str,
    ) -> Result<Option<InferenceService>, RegistryError> {
        let request = Request::get(["inference_service"])
            .query("name", escape_like(name))
            .query("parentResourceId", environment.to_string());
        let found = none_when_missing(self.transport.call::<InferenceService>(request).await)?;
        Ok(found.filter(|entry| entry.name == name && entry.serving_environment_id == environment))
    }

    /// The entry with this id. `None` only when the registry could read its database and has none.
    pub async fn entry(&self, id: EntryId) -> Result<Option<InferenceService>, RegistryError> {
        let found: Option<InferenceService> = self.by_id(INFERENCE_SERVICES, &id.to_string()).await?;
        Ok(found.filter(|entry| entry.id == id))
    }

    /// Creates an entry. A [`RegistryError::Missing`] says that the environment is gone, or the database is down.
    pub async fn create_entry(
        &self,
        entry: &NewEntry,
        over: Connection,
    ) -> Result<InferenceService, RegistryError> {
        let request = Request::send(Method::POST, [INFERENCE_SERVICES], body(entry)).over(over);
        Ok(self.transport.call(request).await?.value)
    }

    /// Changes an entry. A [`RegistryError::Missing`] may also mean that the database is down.
    pub(crate) async fn patch_entry(
        &self,
        id: EntryId,
        patch: &EntryPatch,
    ) -> Result<InferenceService, RegistryError> {
        self.write(Method::PATCH, [INFERENCE_SERVICES, &id.to_string()], &patch.to_body()).await
    }

    /// One page of all entries.
    pub async fn entries(&self, page: &PageRequest) -> Result<Page<InferenceService>, RegistryError> {
        self.page([INFERENCE_SERVICES], page).await
    }

    /// One page of all serving environments.
    pub async fn environments(&self, page: &PageRequest) -> Result<Page<ServingEnvironment>, RegistryError> {
        self.page(["serving_environments"], page).await
    }

    /// One page of the entries of one environment.
    pub async fn entries_of(
        &self,
        environment: EnvironmentId,
        page: &PageRequest,
    ) -> Result<Page<InferenceService>, RegistryError> {
        self.page(["serving_environments", &environment.to_string(), INFERENCE_SERVICES], page).await
    }

    /// Adds a record to an entry's history. A [`RegistryError::Conflict`] says that it is there already.
    pub async fn create_serve_model(
        &self,
        entry: EntryId,
        record: &NewServeModel,
    ) -> Result<ServeModel, RegistryError> {
        self.write(Method::POST, [INFERENCE_SERVICES, &entry.to_string(), "serves"], record).await
    }

    async fn write<B, T, const N: usize>(
        &self,
        method: Method,
        path: [&str; N],
        body: &B,
    ) -> Result<T, RegistryError>
    where
        B: serde::Serialize,
        T: serde::de::DeserializeOwned,
    {
        Ok(self.transport.call(Request::send(method, path, self::body(body))).await?.value)
    }

    async fn page<T, const N: usize>(
        &self,
        path: [&str; N],
        page: &PageRequest,
    ) -> Result<Page<T>, RegistryError>
    where
        T: serde::de::DeserializeOwned,
    {
        let (order_by, sort_order) = match page.order {
            SortOrder::IdAscending => ("ID", "ASC"),
            SortOrder::LastUpdateDescending => ("LAST_UPDATE_TIME", "DESC"),
        };
        let mut request = Request::get(path)
            .query("pageSize", page.size.to_string())
            .query("orderBy", order_by)
            .query("sortOrder", sort_order);
        if let Some(token) = &page.token {
            request = request.query("nextPageToken", token);
        }
        let answer = self.transport.call::<RawPage>(request).await?;
        let RawPage { items, next_page_token } = answer.value;
        let items = items.into_iter().filter_map(|item| match serde_json::from_str(item.get()) {
            Ok(item) => Some(item),
            Err(error) => {
                tracing::warn!(%error, registry = self.name(), "left out an item of a list that cannot be read");
                None
            }
        });
        Ok(Page {
            items: items.collect(),
            next: (!next_page_token.is_empty()).then_some(next_page_token),
            registry_time_ms: answer.registry_time_ms,
        })
    }
}

fn body(entity: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(entity).expect("structs and maps with text keys always fit into JSON")
}
