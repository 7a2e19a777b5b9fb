//! The HTTP side of admission: reads a body, runs the decision, asks the registry in time, writes the answer.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::time::Instant;
use tracing::{Instrument, Level, Span};

use super::answer::{Answer, Outcome, Verdict};
use super::body::Room;
use super::conclude::{Reply, conclude};
use super::deadline;
use super::decide::{Action, Decision, OurLabels, Question, decide};
use super::policy::{Mode, Policies};
use super::reading::Reading;
use super::respond::respond;
use super::review::Request;
use crate::kserve::LabelKeys;
use crate::metrics::ReviewMetrics;
use crate::namespaces::Namespaces;
use crate::registration::{NotRegistered, Registrar};
use crate::registry::directory::Directory;
use crate::registry::{RegistryClient, Unavailability};

/// Path of the webhook.
pub const PATH: &str = "/mutate";

/// The webhook: what it was told, and whom it asks.
#[derive(Clone)]
pub struct Webhook {
    /// Finds or creates entries.
    pub registrar: Registrar,
    /// The configured registries.
    pub directory: Directory,
    /// The labels of Namespaces, for their modes.
    pub namespaces: Namespaces,
    /// Keys of our labels.
    pub keys: LabelKeys,
    /// What the administrator chose.
    pub policies: Policies,
    /// The most that one review may spend on the registry.
    pub registry_limit: Duration,
    /// Where reviews are counted.
    pub metrics: ReviewMetrics,
}

/// What all requests share.
struct Served {
    webhook: Webhook,
    room: Room,
    reading: Reading,
}

/// The routes of the webhook's port.
pub fn router(webhook: Webhook) -> Router {
    let served = Served { webhook, room: Room::default(), reading: Reading::default() };
    Router::new().route(PATH, post(mutate)).with_state(Arc::new(served))
}

/// Takes the request whole: an extractor would make a copy of its headers for itself.
async fn mutate(State(served): State<Arc<Served>>, request: axum::extract::Request) -> Response {
    let received = Instant::now();
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send an AdmissionReview as application/json\n")
            .into_response();
    }
    let body = match served.room.read(body).await {
        Ok(body) => body,
        Err(error) => return (error.status(), format!("{error}\n")).into_response(),
    };
    let webhook = &served.webhook;
    let deadline = received + deadline::of_review(parts.uri.query()).min(webhook.registry_limit);
    let request = match served.reading.read(body, &webhook.keys, deadline).await {
        Ok(request) => request,
        Err(error) => return (error.status(), format!("{error}\n")).into_response(),
    };
    let answer = webhook.review(&request, deadline).await;
    webhook.metrics.answered(request.operation, answer.outcome, answer.allowed(), received.elapsed());
    ([(header::CONTENT_TYPE, "application/json")], respond(&request, &answer, &webhook.keys)).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

impl Webhook {
    /// The answer to a request, at the latest at the deadline.
    pub async fn review(&self, request: &Request, deadline: Instant) -> Answer {
        let policies = self.policies_in(request.namespace());
        let decision = decide(request, &policies, &self.keys);
        let span = span(request, &decision);
        let answer = match decision {
            Decision::Answer(answer) => answer,
            Decision::Ask(question) => {
                // Boxed, so that a review that asks nobody stays small.
                let asked = Box::pin(self.ask(request, &question, &policies, deadline));
                asked.instrument(span.clone()).await
            }
        };
        span.in_scope(|| log(&answer));
        answer
    }

    /// The policies in a Namespace.
    fn policies_in(&self, namespace: &str) -> Policies {
        let labels = self.namespaces.labels(namespace);
        let label = labels.as_ref().and_then(|labels| labels.get(&self.keys.registrar));
        let mode = label.and_then(|value| Mode::of_label(value)).unwrap_or(self.policies.mode);
        Policies { mode, ..self.policies }
    }

    async fn ask(
        &self,
        request: &Request,
        question: &Question,
        policies: &Policies,
        deadline: Instant,
    ) -> Answer {
        let labels =
            request.object.as_ref().map(|object| OurLabels::of(object, &self.keys)).unwrap_or_default();
        let registry = match self.directory.choose(request.namespace(), &labels.selector()) {
            Ok(registry) => registry,
            Err(error) => return conclude(question, &Reply::NoRegistry(error), "", policies, &self.keys),
        };
        let started = Instant::now();
        let reply =
            tokio::time::timeout_at(deadline, self.reply(&registry, question)).await.unwrap_or_else(|_| {
                let after = started.elapsed();
                Reply::NotRegistered(NotRegistered::Unavailable(Unavailability::TimedOut { after }))
            });
        conclude(question, &reply, registry.name(), policies, &self.keys)
    }

    async fn reply(&self, registry: &RegistryClient, question: &Question) -> Reply {
        let wanted = &question.wanted;
        match question.action {
            Action::Check => match self.registrar.check(registry, wanted).await {
                Ok(archived) => Reply::Checked(archived),
                Err(error) => Reply::NotRegistered(error),
            },
            Action::Register => match self.registrar.register(registry, wanted, question.effects).await {
                Ok(registered) => Reply::Registered(Box::new(registered)),
                Err(error) => Reply::NotRegistered(error),
            },
        }
    }
}

/// The span of a review. One that leaves the object alone is most often not logged, and then costs nothing here.
fn span(request: &Request, decision: &Decision) -> Span {
    macro_rules! span {
        ($level:ident) => {
            tracing::span!(
                Level::$level,
                "review",
                uid = head(&request.uid),
                operation = ?request.operation,
                namespace = request.namespace(),
                name = request.object_name().unwrap_or_default(),
            )
        };
    }
    match decision {
        Decision::Answer(answer) if answer.outcome == Outcome::Untouched => span!(DEBUG),
        _ => span!(INFO),
    }
}

/// Characters of a uid that are logged: more than the 36 that an API server's have.
const LOGGED_UID: usize = 64;

/// The beginning of a text that its sender alone has chosen.
fn head(text: &str) -> &str {
    text.char_indices().nth(LOGGED_UID).map_or(text, |(end, _)| &text[..end])
}

/// One line for each review that was the registrar's business.
fn log(answer: &Answer) {
    let entry = answer.entry.map(tracing::field::display);
    let (row, outcome) = (answer.row.number(), answer.outcome.as_str());
    let said = answer.would.as_deref().or(answer.warnings.first().map(String::as_str));
    match &answer.verdict {
        Verdict::Deny { message, .. } => tracing::info!(row, outcome, said = message, "refused"),
        Verdict::Allow if answer.outcome == Outcome::Untouched && said.is_none() => {
            tracing::debug!(row, outcome, "allowed");
        }
        Verdict::Allow => tracing::info!(row, outcome, entry, said, "allowed"),
    }
}
