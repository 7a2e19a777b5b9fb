//! Calls to the API server: the Secret, and the webhook configuration.
//!
//! Goes in: names, and what to write. Comes out: the objects as they are now, or an error that says what to do.
//! What stays true: every call has a limit; every write is refused when the object has changed since it was read;
//! no message holds what a Secret holds.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::Notify;

use super::bundle::Bundle;
use super::configuration::Configuration;
use crate::namespaced_name::NamespacedName;

/// Limit of one request to the API server: as long as an overloaded one may need, and short beside the days that
/// every change of a certificate has.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// Named in managedFields as the writer, so that `kubectl apply --server-side` knows whose the fields are.
const FIELD_MANAGER: &str = "isvc-registrar";

/// The API server's answer to a JSON Patch whose test fails.
const UNPROCESSABLE: u16 = 422;

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The Secret is created by the installation, never by this program.
    #[error(
        "Secret {0} does not exist: create it empty (kubectl create secret generic), or install the chart again"
    )]
    NoSecret(NamespacedName),
    /// Somebody else was faster.
    #[error("{0} has changed since it was read")]
    Changed(String),
    /// The API server says no, or nothing.
    #[error("cannot {verb} {object}: {reason}")]
    Failed {
        /// What was tried, as RBAC calls it.
        verb: &'static str,
        /// With what.
        object: String,
        /// What the API server said.
        reason: String,
    },
}

/// The Secret that all replicas share.
#[derive(Clone)]
pub(super) struct SecretApi {
    api: Api<Secret>,
    metadata: Api<PartialObjectMeta<Secret>>,
    name: NamespacedName,
}

/// The webhook configuration.
#[derive(Clone)]
pub(super) struct ConfigurationApi {
    api: Api<MutatingWebhookConfiguration>,
    metadata: Api<PartialObjectMeta<MutatingWebhookConfiguration>>,
    name: String,
}

impl SecretApi {
    pub(super) fn new(client: &kube::Client, name: NamespacedName) -> Self {
        Self {
            api: Api::namespaced(client.clone(), &name.namespace),
            metadata: Api::namespaced(client.clone(), &name.namespace),
            name,
        }
    }

    /// The Secret as it is now.
    pub(super) async fn read(&self) -> Result<Secret, ApiError> {
        let found = self.limited("get", self.api.get_opt(&self.name.name)).await?;
        found.ok_or_else(|| ApiError::NoSecret(self.name.clone()))
    }

    /// Writes entries into the Secret as it was read; everything else in it stays.
    pub(super) async fn write(
        &self,
        mut secret: Secret,
        entries: Vec<(&'static str, String)>,
    ) -> Result<(), ApiError> {
        let entries = entries.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
        secret.data.get_or_insert_default().extend(entries);
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        self.limited("update", self.api.replace(&self.name.name, &params, &secret)).await.map(drop)
    }

    /// Wakes whoever waits when the Secret changes; only its metadata comes along. Never ends.
    pub(super) async fn wake(&self, changed: &Notify) -> Infallible {
        wake(self.metadata.clone(), &self.name.name, &self.object(), changed).await
    }

    async fn limited<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        limited(verb, || self.object(), call).await
    }

    fn object(&self) -> String {
        format!("Secret {}", self.name)
    }
}

impl ConfigurationApi {
    pub(super) fn new(client: &kube::Client, name: String) -> Self {
        Self { api: Api::all(client.clone()), metadata: Api::all(client.clone()), name }
    }

    /// The configuration's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The configuration as it is now, if there is one.
    pub(super) async fn read(&self) -> Result<Option<Configuration>, ApiError> {
        let found = self.limited("get", self.api.get_opt(&self.name)).await?;
        Ok(found.as_ref().map(Configuration::of))
    }

    /// Gives every webhook this bundle, in the configuration as it was read.
    pub(super) async fn publish(&self, read: &Configuration, bundle: &Bundle) -> Result<(), ApiError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let patch = Patch::Json::<MutatingWebhookConfiguration>(read.publication(bundle));
        self.limited("patch", self.api.patch(&self.name, &params, &patch)).await.map(drop)
    }

    /// Wakes whoever waits when the configuration changes. Never ends.
    pub(super) async fn wake(&self, changed: &Notify) -> Infallible {
        wake(self.metadata.clone(), &self.name, &self.object(), changed).await
    }

    async fn limited<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        limited(verb, || self.object(), call).await
    }

    fn object(&self) -> String {
        format!("MutatingWebhookConfiguration {}", self.name)
    }
}

async fn limited<T>(
    verb: &'static str,
    object: impl Fn() -> String,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, ApiError> {
    let failed = |reason| Err(ApiError::Failed { verb, object: object(), reason });
    match tokio::time::timeout(REQUEST_LIMIT, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status)))
            if status.is_conflict() || (verb == "patch" && status.code == UNPROCESSABLE) =>
        {
            tracing::debug!(object = object(), reason = status.message, "not written");
            Err(ApiError::Changed(object()))
        }
        Ok(Err(kube::Error::Api(status))) => failed(status.message),
        Ok(Err(error)) => failed(error.to_string()),
        Err(_) => failed(format!("no answer within {} s", REQUEST_LIMIT.as_secs())),
    }
}

/// A watch is there to be quick: what it misses is seen at the next regular look, so its errors are no more than
/// noted.
async fn wake<K>(api: Api<K>, name: &str, object: &str, changed: &Notify) -> Infallible
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let only_this = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher(api, only_this).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            // The objects of the first list come next.
            Ok(watcher::Event::Init) => {}
            Ok(_) => changed.notify_one(),
            Err(error) => tracing::debug!(object, %error, "the watch was interrupted"),
        }
    }
    std::future::pending().await
}
