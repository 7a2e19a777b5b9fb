//! InferenceServices from the API server.
//!
//! What stays true: every request has a limit, also the start of a watch; objects are read straight into the small
//! view, whatever else they hold; a 404 counts as `NotFound` only when the answer names the object that was asked
//! for, so that a missing CRD, a wrong path or a proxy is no deletion.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use http::Request as HttpRequest;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::api::{GetParams, ListParams, Patch, PatchParams, WatchParams};
use kube::core::{Request, WatchEvent};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde::Deserialize;
use serde_json::json;

use super::{Change, Notice, ObjectPage, Objects, ObjectsError, Scope};
use crate::kserve::{GROUP, InferenceService, KIND, RESOURCE, VERSION};
use crate::registration::ObjectName;

/// Objects on one page of a list, as kubectl asks for them too.
const PAGE: u32 = 500;

/// Limit of one request. An API server ends a slow one itself after a minute, but not a lost connection.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// The API server ends a watch after so long, in seconds; a new one begins where it ended.
const WATCH_LASTS: u32 = 290;

/// HTTP 410: what is asked for lies too far back.
const GONE: u16 = 410;

/// Who says what Events tell.
const REPORTER: &str = "isvc-registrar";

/// The InferenceServices of one cluster.
pub struct ClusterObjects {
    client: Client,
}

/// A list, as far as it is read.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(default)]
    items: Vec<InferenceService>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

impl ClusterObjects {
    /// The objects that this client may see.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    async fn request<T>(&self, request: HttpRequest<Vec<u8>>) -> Result<T, ObjectsError>
    where
        T: for<'de> Deserialize<'de>,
    {
        let answer = tokio::time::timeout(REQUEST_LIMIT, self.client.request(request)).await;
        answer.map_err(|_| out_of_time())?.map_err(read_error)
    }
}

impl Objects for ClusterObjects {
    fn page<'a>(
        &'a self,
        scope: &'a Scope,
        token: Option<String>,
    ) -> BoxFuture<'a, Result<ObjectPage, ObjectsError>> {
        async move {
            let params = ListParams { limit: Some(PAGE), continue_token: token, ..ListParams::default() };
            let request = Request::new(collection(scope)).list(&params).map_err(unusable)?;
            let list: List = self.request(request).await?;
            Ok(ObjectPage {
                items: list.items,
                next: list.metadata.r#continue.filter(|token| !token.is_empty()),
                resource_version: list
                    .metadata
                    .resource_version
                    .ok_or_else(|| ObjectsError::Unavailable("a list without resourceVersion".into()))?,
            })
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        scope: &'a Scope,
        after: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Result<Change, ObjectsError>>, ObjectsError>> {
        async move {
            let params =
                WatchParams { timeout: Some(WATCH_LASTS), bookmarks: true, ..WatchParams::default() };
            let request = Request::new(collection(scope)).watch(&params, after).map_err(unusable)?;
            let begun = tokio::time::timeout(REQUEST_LIMIT, self.client.request_events(request)).await;
            let events = begun.map_err(|_| out_of_time())?.map_err(read_error)?;
            Ok(events.map(|event| event.map_err(read_error).and_then(read_event)).boxed())
        }
        .boxed()
    }

    fn get<'a>(
        &'a self,
        name: &'a ObjectName,
    ) -> BoxFuture<'a, Result<Option<InferenceService>, ObjectsError>> {
        async move {
            // Without a resourceVersion the answer comes from etcd, not from the API server's cache.
            let scope = Scope::Namespace(name.namespace.as_str().into());
            let request =
                Request::new(collection(&scope)).get(&name.name, &GetParams::default()).map_err(unusable)?;
            let answer = tokio::time::timeout(REQUEST_LIMIT, self.client.request(request)).await;
            match answer.map_err(|_| out_of_time())? {
                Ok(object) => Ok(Some(object)),
                Err(kube::Error::Api(status)) if is_not_found(&status, name) => Ok(None),
                Err(error) => Err(read_error(error)),
            }
        }
        .boxed()
    }

    fn release_finalizer<'a>(
        &'a self,
        name: &'a ObjectName,
        uid: &'a str,
        finalizer: &'a str,
        at: usize,
    ) -> BoxFuture<'a, Result<(), ObjectsError>> {
        async move {
            let finalizer_at = format!("/metadata/finalizers/{at}");
            let patch: json_patch::Patch = serde_json::from_value(json!([
                {"op": "test", "path": "/metadata/uid", "value": uid},
                {"op": "test", "path": finalizer_at, "value": finalizer},
                {"op": "remove", "path": finalizer_at},
            ]))
            .map_err(unusable)?;
            let scope = Scope::Namespace(name.namespace.as_str().into());
            let request = Request::new(collection(&scope))
                .patch(&name.name, &PatchParams::default(), &Patch::<()>::Json(patch))
                .map_err(unusable)?;
            let answer =
                tokio::time::timeout(REQUEST_LIMIT, self.client.request::<serde::de::IgnoredAny>(request));
            match answer.await.map_err(|_| out_of_time())? {
                Ok(_) => Ok(()),
                // It has gone, or a `test` of the patch has failed.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {
                    Err(ObjectsError::Changed)
                }
                Err(error) => Err(read_error(error)),
            }
        }
        .boxed()
    }

    fn tell<'a>(&'a self, name: &'a ObjectName, uid: &'a str, notice: &'a Notice) -> BoxFuture<'a, ()> {
        async move {
            let event = Event {
                type_: if notice.reason.is_warning() { EventType::Warning } else { EventType::Normal },
                reason: notice.reason.as_str().into(),
                note: Some(notice.message.clone()),
                action: "Register".into(),
                secondary: None,
            };
            let regarding = ObjectReference {
                api_version: Some(format!("{GROUP}/{VERSION}")),
                kind: Some(KIND.into()),
                namespace: Some(name.namespace.clone()),
                name: Some(name.name.clone()),
                uid: Some(uid.into()),
                ..ObjectReference::default()
            };
            // A new one each time: a recorder that is kept takes a second Event of one reason for a repetition of the
            // first, whose message it keeps. What is no news does not come here.
            let reporter = Reporter { controller: REPORTER.into(), instance: None };
            let recorder = Recorder::new(self.client.clone(), reporter);
            let published = tokio::time::timeout(REQUEST_LIMIT, recorder.publish(&event, &regarding)).await;
            if let Ok(Err(error)) = published {
                tracing::debug!(%error, reason = event.reason, "an Event could not be written");
            }
        }
        .boxed()
    }
}

/// The path of the objects of a scope.
fn collection(scope: &Scope) -> String {
    match scope {
        Scope::All => format!("/apis/{GROUP}/{VERSION}/{RESOURCE}"),
        Scope::Namespace(namespace) => format!("/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{RESOURCE}"),
    }
}

fn read_event(event: WatchEvent<InferenceService>) -> Result<Change, ObjectsError> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Ok(Change::Applied(object)),
        WatchEvent::Deleted(object) => Ok(Change::Deleted(object)),
        WatchEvent::Bookmark(bookmark) => Ok(Change::Bookmark(bookmark.metadata.resource_version)),
        WatchEvent::Error(status) => Err(read_error(kube::Error::Api(status))),
    }
}

/// Whether the API server says that this very object does not exist.
fn is_not_found(status: &kube::core::Status, name: &ObjectName) -> bool {
    status.code == 404
        && status.reason == "NotFound"
        && status.details.as_ref().is_some_and(|details| {
            details.name == name.name && details.group == GROUP && details.kind == RESOURCE
        })
}

fn read_error(error: kube::Error) -> ObjectsError {
    match error {
        kube::Error::Api(status) if status.code == GONE => ObjectsError::Expired,
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
            ObjectsError::Forbidden(status.message)
        }
        error => unusable(error),
    }
}

fn unusable(error: impl std::fmt::Display) -> ObjectsError {
    ObjectsError::Unavailable(error.to_string())
}

fn out_of_time() -> ObjectsError {
    ObjectsError::Unavailable(format!("nothing within {} s", REQUEST_LIMIT.as_secs()))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn status(json: serde_json::Value) -> Status {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn only_a_404_about_this_very_object_says_that_it_is_gone() {
        let name = ObjectName::new("team-a", "scorer");
        let details = |name: &str, kind: &str| json!({"name": name, "group": GROUP, "kind": kind});
        let not_found =
            |details| status(json!({"code": 404, "reason": "NotFound", "message": "no", "details": details}));
        assert!(is_not_found(&not_found(details("scorer", RESOURCE)), &name));
        // The CRD is gone, or the path is wrong.
        assert!(!is_not_found(&not_found(json!({})), &name));
        assert!(!is_not_found(&status(json!({"code": 404, "reason": "NotFound"})), &name));
        assert!(!is_not_found(&not_found(details("other", RESOURCE)), &name));
        assert!(!is_not_found(&not_found(details("scorer", "deployments")), &name));
        // A proxy's page, as kube makes a status of it.
        assert!(!is_not_found(&status(json!({"code": 404, "reason": "Failed to parse error data"})), &name));
    }

    #[test]
    fn a_watch_that_has_expired_is_told_from_other_troubles() {
        let error =
            |code| read_error(kube::Error::Api(Box::new(status(json!({"code": code, "message": "m"})))));
        assert_eq!(error(410), ObjectsError::Expired);
        assert_eq!(error(403), ObjectsError::Forbidden("m".into()));
        assert!(matches!(error(500), ObjectsError::Unavailable(_)));
    }
}
