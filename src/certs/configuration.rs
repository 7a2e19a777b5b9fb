//! What the live webhook configuration says about whom the API server trusts.
//!
//! Goes in: the object. Comes out: each webhook's bundle and the name it is called by, and the patch that sets
//! their `caBundle`. What stays true: the patch touches `caBundle` alone, and only in the object as it was read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use jsonptr::PointerBuf;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, WebhookClientConfig};
use rustls::pki_types::CertificateDer;
use serde_json::Value;
use time::OffsetDateTime;

use super::bundle::{Bundle, Distrust};
use super::certificate::CertificateError;

/// The webhooks of a configuration, as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    resource_version: String,
    webhooks: Vec<Webhook>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Webhook {
    name: String,
    /// What the API server expects in the certificate.
    server_name: String,
    bundle: Result<Bundle, CertificateError>,
}

/// Why the API server would not trust what is served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTrusted {
    /// There is nothing that calls.
    #[error("the webhook configuration has no webhooks")]
    NoWebhooks,
    /// One of the webhooks would fail.
    #[error("webhook {webhook}: {distrust}")]
    By {
        /// Which.
        webhook: String,
        /// Why.
        distrust: Distrust,
    },
}

impl Configuration {
    /// Reads what there is to know.
    #[must_use]
    pub fn of(object: &MutatingWebhookConfiguration) -> Self {
        let webhook = |webhook: &k8s_openapi::api::admissionregistration::v1::MutatingWebhook| Webhook {
            name: webhook.name.clone(),
            server_name: server_name(&webhook.client_config),
            bundle: match &webhook.client_config.ca_bundle {
                Some(ByteString(pem)) => Bundle::from_pem(pem),
                None => Ok(Bundle::default()),
            },
        };
        Self {
            resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
            webhooks: object.webhooks.iter().flatten().map(webhook).collect(),
        }
    }

    /// Whether the API server trusts this chain in every webhook.
    pub fn trusts(&self, chain: &[CertificateDer<'_>], now: OffsetDateTime) -> Result<(), NotTrusted> {
        if self.webhooks.is_empty() {
            return Err(NotTrusted::NoWebhooks);
        }
        self.webhooks.iter().try_for_each(|webhook| {
            let trusted = match &webhook.bundle {
                Ok(bundle) => bundle.trusts(chain, &webhook.server_name, now),
                Err(error) => Err(Distrust::Malformed(error.clone())),
            };
            trusted.map_err(|distrust| NotTrusted::By { webhook: webhook.name.clone(), distrust })
        })
    }

    /// Whether every webhook has exactly this bundle.
    #[must_use]
    pub fn publishes(&self, bundle: &Bundle) -> bool {
        self.webhooks.iter().all(|webhook| webhook.has(bundle))
    }

    /// What gives every webhook this bundle, if the configuration is still as it was read.
    #[must_use]
    pub fn publication(&self, bundle: &Bundle) -> Patch {
        let value = Value::String(STANDARD.encode(bundle.to_pem()));
        let unchanged = TestOperation {
            path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
            value: Value::String(self.resource_version.clone()),
        };
        let differing = self.webhooks.iter().enumerate().filter(|(_, webhook)| !webhook.has(bundle));
        let set = differing.map(|(index, _)| {
            let path = PointerBuf::from_tokens(["webhooks", &index.to_string(), "clientConfig", "caBundle"]);
            PatchOperation::Add(AddOperation { path, value: value.clone() })
        });
        Patch(std::iter::once(PatchOperation::Test(unchanged)).chain(set).collect())
    }
}

impl Webhook {
    fn has(&self, bundle: &Bundle) -> bool {
        self.bundle.as_ref().is_ok_and(|live| live.is_same(bundle))
    }
}

/// The name that the API server verifies: the Service's, or the URL's host.
fn server_name(config: &WebhookClientConfig) -> String {
    if let Some(service) = &config.service {
        return format!("{}.{}.svc", service.name, service.namespace);
    }
    let url = config.url.as_deref().and_then(|url| url::Url::parse(url).ok());
    url.and_then(|url| url.host_str().map(|host| host.trim_matches(['[', ']']).to_owned()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::certs::issue::Authority;

    fn object(webhooks: &Value) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "registrar", "resourceVersion": "7", "labels": {"a": "b"}},
            "webhooks": webhooks,
        })
    }

    fn webhook(name: &str, client_config: &Value) -> Value {
        json!({"name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": client_config})
    }

    fn read(object: &Value) -> Configuration {
        Configuration::of(&serde_json::from_value(object.clone()).unwrap())
    }

    fn service() -> Value {
        json!({"service": {"namespace": "ns", "name": "a"}})
    }

    #[test]
    fn publishing_sets_ca_bundle_and_nothing_else() {
        let authority = Authority::for_development().unwrap();
        let bundle = Bundle::from_pem(authority.certificate.as_bytes()).unwrap();
        let mut live = object(&json!([
            webhook("absent", &service()),
            webhook("foreign", &json!({"service": {"namespace": "ns", "name": "a"}, "caBundle": "AAAA"})),
        ]));
        let mut expected = live.clone();
        let encoded = serde_json::to_value(ByteString(authority.certificate.into_bytes())).unwrap();
        for index in 0..2 {
            expected["webhooks"][index]["clientConfig"]["caBundle"] = encoded.clone();
        }
        assert!(!read(&live).publishes(&bundle));
        let patch = read(&live).publication(&bundle);
        json_patch::patch(&mut live, &patch).unwrap();
        assert_eq!(live, expected);
        assert!(read(&live).publishes(&bundle));
        assert_eq!(read(&live).publication(&bundle).0.len(), 1, "nothing is left to set");
    }

    #[test]
    fn a_configuration_that_has_changed_is_not_patched() {
        let bundle = Bundle::from_pem(Authority::for_development().unwrap().certificate.as_bytes()).unwrap();
        let mut live = object(&json!([webhook("one", &service())]));
        let patch = read(&live).publication(&bundle);
        live["metadata"]["resourceVersion"] = json!("8");
        assert!(json_patch::patch(&mut live, &patch).is_err());
    }

    #[test]
    fn a_chain_is_trusted_when_every_webhook_trusts_it_by_the_name_it_calls() {
        let authority = Authority::for_development().unwrap();
        let leaf = authority.issue(&["a.ns.svc".into(), "127.0.0.1".into()]).unwrap();
        let chain: Vec<_> = Bundle::from_pem(leaf.certificate.as_bytes())
            .unwrap()
            .authorities()
            .iter()
            .map(|leaf| leaf.der().clone())
            .collect();
        let now = OffsetDateTime::now_utc();
        let encoded = serde_json::to_value(ByteString(authority.certificate.into_bytes())).unwrap();
        let by = |name: &str, mut config: Value| {
            config["caBundle"] = encoded.clone();
            webhook(name, &config)
        };
        let good = by("good", service());
        let local = by("local", json!({"url": "https://127.0.0.1:8443/mutate"}));
        let other = by("other", json!({"service": {"namespace": "ns", "name": "b"}}));
        assert_eq!(read(&object(&json!([good, local]))).trusts(&chain, now), Ok(()));
        let said = |webhooks: Value| read(&object(&webhooks)).trusts(&chain, now).unwrap_err().to_string();
        assert!(said(json!([good, other])).starts_with("webhook other: its caBundle does not trust"));
        assert_eq!(
            said(json!([webhook("bare", &service())])),
            "webhook bare: its caBundle holds no certificate authority that is valid now"
        );
        assert_eq!(said(json!([])), "the webhook configuration has no webhooks");
    }
}
