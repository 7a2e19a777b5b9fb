//! Certificates that the program makes itself: one authority and one leaf, in a Secret that all replicas share.
//!
//! Goes in: the Secret and the webhook configuration, read anew at every look. Comes out: at most one step per
//! look, by the table in [`plan`], until nothing is left to do. What stays true: no replica remembers anything that
//! the next look depends on, save what it serves, whom it last trusted, and since when the bundle is published;
//! every write is refused when somebody else was faster, and then everything is read again; nothing that goes
//! wrong here stops what is served.

mod budget;
pub mod content;
pub mod plan;

use std::convert::Infallible;
use std::time::Duration;

use futures::future::join;
use k8s_openapi::api::core::v1::Secret;
use time::OffsetDateTime;
use tokio::sync::Notify;

use self::budget::Budget;
use self::content::{Content, Defect, Entries};
use self::plan::{Cause, Lifetimes, Seen, Step, Waiting};
use super::api::{ApiError, ConfigurationApi, SecretApi};
use super::bundle::Bundle;
use super::certificate::{Certificate, CertificateError, Validity};
use super::configuration::Configuration;
use super::issue::{Authority, IssueError};
use super::serving::{Live, Serving};
use crate::metrics;
use crate::metrics::CertificateWrite;
use crate::namespaced_name::NamespacedName;

/// How often everything is looked at when nothing seems to change: the clock brings what no watch does, and a
/// watch that has gone silent costs this much.
const MAX_PERIOD: Duration = Duration::from_secs(30);

/// Of a leaf's life, the time between two looks is at most this part: a third is there for the renewal.
const PERIOD_AT_MOST_ONE_OF: i32 = 20;

/// The first pause after something went wrong; doubled up to the period.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// What to manage.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The Secret that holds everything.
    pub secret: NamespacedName,
    /// The `MutatingWebhookConfiguration` that names the webhook.
    pub configuration: String,
    /// The Service that the API server calls.
    pub service: NamespacedName,
    /// How long things last.
    pub lifetimes: Lifetimes,
}

/// Why a look came to nothing.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(
        "the Secret or the caBundle is written by something else too, again and again: see managedFields of both"
    )]
    Contention,
}

/// Keeps the certificate, for as long as it runs.
pub struct SelfManaged {
    names: Vec<String>,
    lifetimes: Lifetimes,
    secret: SecretApi,
    configuration: ConfigurationApi,
    serving: Serving,
    live: Live,
    /// Trusted when the Secret was last in order.
    known: Bundle,
    /// Which bundle is published, and since when.
    published: Option<(Bundle, OffsetDateTime)>,
    budget: Budget,
    period: Duration,
}

impl SelfManaged {
    /// Everything that is needed, with nothing looked at yet.
    #[must_use]
    pub fn new(client: &kube::Client, settings: Settings, serving: Serving) -> Self {
        let longest = settings.lifetimes.leaf / PERIOD_AT_MOST_ONE_OF;
        Self {
            names: names(&settings.service),
            lifetimes: settings.lifetimes,
            secret: SecretApi::new(client, settings.secret),
            live: Live::NotRead(settings.configuration.clone()),
            configuration: ConfigurationApi::new(client, settings.configuration),
            serving,
            known: Bundle::default(),
            published: None,
            budget: Budget::default(),
            period: MAX_PERIOD.min(longest.unsigned_abs()),
        }
    }

    /// Looks again with this time between two looks.
    #[must_use]
    pub fn every(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    /// Keeps the certificate, for ever.
    pub async fn run(mut self) -> Infallible {
        let changed = Notify::new();
        let (secret, configuration) = (self.secret.clone(), self.configuration.clone());
        let mut watches = std::pin::pin!(join(secret.wake(&changed), configuration.wake(&changed)));
        let mut complaint = String::new();
        let mut retry = FIRST_RETRY;
        loop {
            let looked = self.look().await;
            self.serving.judge(&self.live);
            let pause = match looked {
                Ok(Step::Wait(_)) => {
                    if !std::mem::take(&mut complaint).is_empty() {
                        tracing::info!("the certificate is in order again");
                    }
                    retry = FIRST_RETRY;
                    self.period
                }
                Ok(_) => continue,
                Err(error) => {
                    self.complain(&error, &mut complaint);
                    let pause = retry.min(self.period);
                    retry = (retry * 2).min(self.period);
                    pause
                }
            };
            tokio::select! {
                // Polled by reference: dropping this arm drops nothing.
                (never, _) = &mut watches => match never {},
                // A notification that comes while nobody waits is kept for the next wait.
                () = changed.notified() => {}
                // The next look starts a new pause whatever ended this one.
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Reads everything and takes one step.
    async fn look(&mut self) -> Result<Step, LookError> {
        let (secret, configuration) = join(self.secret.read(), self.configuration.read()).await;
        // First, so that readiness knows whom the API server trusts also while the Secret cannot be read.
        let configuration = configuration?;
        self.live = match &configuration {
            Some(configuration) => Live::Known(configuration.clone()),
            None => Live::Missing(self.configuration.name().to_owned()),
        };
        let secret = secret?;
        let now = self.serving.now();
        let data = secret.data.clone().unwrap_or_default();
        let content = Content::read(&data, &self.names, now);
        if content.authority.is_ok() {
            self.known = content.bundle.clone();
        }
        self.note_publication(configuration.as_ref(), &content.bundle, now);
        let since = self.published.as_ref().map(|(_, since)| *since);
        let seen = Seen::of(&content, configuration.as_ref(), &self.serving.chain(), since, now);
        let step = plan::next_step(&seen, &self.lifetimes, now);
        self.take(&step, secret, &content, configuration.as_ref(), now).await.or_else(
            |error| match error {
                // The step is not needed any more, or needed again: the next look will tell.
                LookError::Api(ApiError::Changed(object)) => {
                    tracing::debug!(object, "another writer was faster, reading again");
                    Ok(())
                }
                error => Err(error),
            },
        )?;
        Ok(step)
    }

    async fn take(
        &mut self,
        step: &Step,
        secret: Secret,
        content: &Content,
        configuration: Option<&Configuration>,
        now: OffsetDateTime,
    ) -> Result<(), LookError> {
        match step {
            Step::Wait(Waiting::Change) => Ok(()),
            Step::Wait(Waiting::Settling) => {
                tracing::debug!("waiting until every API server knows the new bundle");
                Ok(())
            }
            Step::Serve => {
                if let Ok(leaf) = &content.leaf {
                    self.serving.serve(leaf.pair.clone());
                }
                Ok(())
            }
            Step::IssueAuthority(cause) => {
                self.say(cause, "issuing a certificate authority");
                let validity = Validity::starting(now, self.lifetimes.authority);
                let authority = Authority::new(&authority_name(now), validity)?;
                let new = Certificate::all_from_pem(authority.certificate.as_bytes())?;
                let bundle = content.bundle_after(&new, &self.known, now);
                let entries = content::entries_of_authority(&authority, &bundle);
                self.write(secret, entries, CertificateWrite::Authority).await
            }
            Step::IssueLeaf(cause) => {
                // The plan issues a leaf only where there is an authority.
                let Ok(authority) = &content.authority else { return Ok(()) };
                self.say(cause, "issuing a certificate");
                let leaf = authority.issue_for(&self.names, Validity::starting(now, self.lifetimes.leaf))?;
                self.write(secret, content::entries_of_leaf(leaf), CertificateWrite::Leaf).await
            }
            Step::DropExpired => {
                tracing::info!("dropping a certificate authority that is over");
                let entries = content::entries_of_bundle(&content.bundle.without_expired(now));
                self.write(secret, entries, CertificateWrite::Bundle).await
            }
            Step::Publish => {
                // The plan publishes only where there is a configuration.
                let Some(configuration) = configuration else { return Ok(()) };
                self.spend()?;
                tracing::info!(configuration = self.configuration.name(), "writing the caBundle");
                self.configuration.publish(configuration, &content.bundle).await?;
                self.serving.metrics().wrote(CertificateWrite::CaBundle);
                Ok(())
            }
        }
    }

    async fn write(
        &mut self,
        secret: Secret,
        entries: Entries,
        what: CertificateWrite,
    ) -> Result<(), LookError> {
        self.spend()?;
        self.secret.write(secret, entries).await?;
        self.serving.metrics().wrote(what);
        Ok(())
    }

    fn spend(&mut self) -> Result<(), LookError> {
        if self.budget.take(self.serving.now()) { Ok(()) } else { Err(LookError::Contention) }
    }

    fn note_publication(
        &mut self,
        configuration: Option<&Configuration>,
        bundle: &Bundle,
        now: OffsetDateTime,
    ) {
        let is_published = configuration.is_some_and(|configuration| configuration.publishes(bundle));
        let is_known = self.published.as_ref().is_some_and(|(known, _)| known.is_same(bundle));
        if !is_published {
            self.published = None;
        } else if !is_known {
            self.published = Some((bundle.clone(), now));
        }
    }

    /// A Secret that is empty is to be filled; one that is damaged is to be heard of.
    fn say(&self, cause: &Cause, what: &'static str) {
        match cause {
            Cause::Defect(Defect::Absent) => tracing::info!(reason = "there is none yet", "{what}"),
            Cause::Due => tracing::info!(reason = "two thirds of its life are over", "{what}"),
            Cause::NewAuthority => tracing::info!(reason = "the authority is a new one", "{what}"),
            Cause::Defect(defect) => {
                tracing::warn!(reason = %defect, "what the Secret holds cannot be used, the last good pair stays; {what}");
                self.serving.metrics().failed(metrics::CertificateError::Secret);
            }
        }
    }

    /// Counts every error, and says each once.
    fn complain(&self, error: &LookError, last: &mut String) {
        self.serving.metrics().failed(match error {
            LookError::Api(ApiError::NoSecret(_)) => metrics::CertificateError::Secret,
            LookError::Api(_) | LookError::Issue(_) | LookError::Certificate(_) => {
                metrics::CertificateError::Api
            }
            LookError::Contention => metrics::CertificateError::Contention,
        });
        let said = error.to_string();
        if said != *last {
            tracing::warn!(error = said, "cannot look after the certificate, the last good pair stays");
            *last = said;
        }
    }
}

/// The names that a Service is called by; the first is what the API server verifies.
fn names(service: &NamespacedName) -> Vec<String> {
    let NamespacedName { namespace, name } = service;
    vec![
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}.svc.cluster.local"),
        format!("{name}.{namespace}"),
    ]
}

/// An authority and the one after it have different names: a verifier that looks for an issuer by its name finds
/// the right one at once.
fn authority_name(now: OffsetDateTime) -> String {
    format!("isvc-registrar CA {}", now.unix_timestamp())
}
