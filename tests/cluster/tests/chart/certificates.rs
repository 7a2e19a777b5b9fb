//! The four ways to a certificate: who makes it, and who writes the caBundle. Only one may.

use serde_json::Value;

use super::rendering::{PROVIDED, arguments, object, objects, set};

const CONFIGURATION: &str = "MutatingWebhookConfiguration";
const FILES: &str = "--tls-cert-file=/etc/isvc-registrar/tls/tls.crt";
const CHECKED: &str = "--webhook-configuration=registration.registrar-isvc-registrar";

fn bundles(configuration: &Value) -> Vec<&Value> {
    let webhooks = configuration["webhooks"].as_array().unwrap();
    webhooks.iter().map(|webhook| &webhook["clientConfig"]["caBundle"]).collect()
}

/// The Secret that the certificate's files are mounted from.
fn mounted(deployment: &Value) -> &Value {
    let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    volumes
        .iter()
        .find(|volume| volume["name"] == "tls")
        .map_or(&Value::Null, |tls| &tls["secret"]["secretName"])
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn self_managed_the_program_makes_it_and_writes_the_bundle() {
    let deployment = object("Deployment", &[]).await.unwrap();
    let arguments = arguments(&deployment, "webhook");
    for argument in [
        CHECKED,
        "--tls-secret=serving/registrar-isvc-registrar-tls",
        "--service=serving/registrar-isvc-registrar",
    ] {
        assert!(arguments.contains(&argument), "{arguments:?}");
    }
    assert!(mounted(&deployment).is_null(), "nobody but the program reads the Secret");
    let configuration = object(CONFIGURATION, &[]).await.unwrap();
    assert!(bundles(&configuration).iter().all(|bundle| bundle.is_null()));
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn cert_manager_makes_it_and_writes_the_bundle() {
    let values = set(&["certificate.mode=certManager"]);
    let deployment = object("Deployment", &values).await.unwrap();
    assert!(arguments(&deployment, "webhook").contains(&FILES));
    assert!(arguments(&deployment, "webhook").contains(&CHECKED));
    assert_eq!(mounted(&deployment), "registrar-isvc-registrar-tls");

    let configuration = object(CONFIGURATION, &values).await.unwrap();
    assert!(bundles(&configuration).iter().all(|bundle| bundle.is_null()));
    let annotations = &configuration["metadata"]["annotations"];
    assert_eq!(annotations["cert-manager.io/inject-ca-from"], "serving/registrar-isvc-registrar-tls");

    let objects = objects(&values).await.unwrap();
    assert!(objects.iter().all(|object| object["kind"] != "Secret"), "cert-manager makes the Secret");
    let served = |object: &&Value| {
        object["kind"] == "Certificate" && object["metadata"]["name"] == "registrar-isvc-registrar-tls"
    };
    let certificate = &objects.iter().find(served).unwrap()["spec"];
    assert_eq!(certificate["dnsNames"][0], "registrar-isvc-registrar.serving.svc");
    assert_eq!(certificate["issuerRef"]["name"], "registrar-isvc-registrar-ca");
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn an_issuer_that_is_there_is_taken_instead_of_an_authority_of_its_own() {
    let values = set(&[
        "certificate.mode=certManager",
        "certificate.certManager.issuer.name=company",
        "certificate.certManager.issuer.kind=ClusterIssuer",
    ]);
    let certificate = object("Certificate", &values).await.unwrap();
    assert_eq!(certificate["spec"]["issuerRef"]["name"], "company");
    assert_eq!(certificate["spec"]["issuerRef"]["kind"], "ClusterIssuer");
    assert!(objects(&values).await.unwrap().iter().all(|object| object["kind"] != "Issuer"));
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn openshift_makes_it_and_writes_the_bundle() {
    let values = set(&["certificate.mode=openshift"]);
    let deployment = object("Deployment", &values).await.unwrap();
    assert!(arguments(&deployment, "webhook").contains(&FILES));
    assert_eq!(mounted(&deployment), "registrar-isvc-registrar-tls");
    let service = object("Service", &values).await.unwrap();
    let annotations = &service["metadata"]["annotations"];
    let wanted = "service.beta.openshift.io/serving-cert-secret-name";
    assert_eq!(annotations[wanted], "registrar-isvc-registrar-tls");
    let configuration = object(CONFIGURATION, &values).await.unwrap();
    let annotations = &configuration["metadata"]["annotations"];
    assert_eq!(annotations["service.beta.openshift.io/inject-cabundle"], "true");
    assert!(bundles(&configuration).iter().all(|bundle| bundle.is_null()));
    assert!(objects(&values).await.unwrap().iter().all(|object| object["kind"] != "Secret"));
}

#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn provided_the_bundle_is_rendered() {
    let values = ["--values", PROVIDED];
    let deployment = object("Deployment", &values).await.unwrap();
    assert!(arguments(&deployment, "webhook").contains(&FILES));
    assert_eq!(mounted(&deployment), "isvc-registrar-tls");
    let configuration = object(CONFIGURATION, &values).await.unwrap();
    assert!(bundles(&configuration).iter().all(|bundle| bundle.is_string()));
    assert!(objects(&values).await.unwrap().iter().all(|object| object["kind"] != "Secret"));
}

/// The right to read a Secret and to change the configuration goes only with the way that needs it.
#[tokio::test]
#[ignore = "needs the test control plane: run tests/run"]
async fn only_self_managed_it_may_write() {
    for (mode, may_write) in [("selfManaged", true), ("certManager", false), ("openshift", false)] {
        let mode = format!("certificate.mode={mode}");
        let roles = objects(&set(&[&mode])).await.unwrap();
        let rules = |resource: &str| -> Vec<Value> {
            let rules = roles.iter().filter_map(|role| role["rules"].as_array()).flatten();
            rules.filter(|rule| rule["resources"][0] == resource).cloned().collect()
        };
        assert_eq!(!rules("secrets").is_empty(), may_write, "{mode}");
        let configurations = rules("mutatingwebhookconfigurations");
        let verbs = configurations[0]["verbs"].as_array().unwrap();
        assert_eq!(verbs.contains(&"patch".into()), may_write, "{mode}: {verbs:?}");
    }
}
