//! Registries of every release, odd ones, and two releases behind one address.

use futures::future::join_all;
use isvc_registrar::registry::embedded::{Api, Faults};
use isvc_registrar::registry::{ApiChoice, Connection, RegistryClient};
use rstest::rstest;

use crate::reviews::Review;
use crate::scene::{Scene, registry_with_models};
use crate::upstream::{Fault, Upstream};
use crate::webhook::{Setup, TestWebhook, registry_settings};

#[rstest]
#[case::since_summer(Api::Both, ApiChoice::Auto, "allow set=new")]
#[case::before(Api::V1alpha3, ApiChoice::Auto, "allow set=new")]
#[case::after_the_sunset(Api::V1, ApiChoice::Auto, "allow set=new")]
#[case::told_v1(Api::Both, ApiChoice::V1, "allow set=new")]
#[case::told_v1alpha3(Api::Both, ApiChoice::V1alpha3, "allow set=new")]
#[case::told_v1_before(Api::V1alpha3, ApiChoice::V1, "allow warned")]
#[case::told_v1alpha3_after(Api::V1, ApiChoice::V1alpha3, "allow warned")]
#[tokio::test]
async fn the_api_version_is_found_out(#[case] api: Api, #[case] choice: ApiChoice, #[case] want: &str) {
    let scene = Scene::of("", Setup { api: choice, ..Setup::default() }).await;
    scene.server.registry().set_faults(Faults { api, ..Faults::default() });
    let (answered, told) = scene.review(&Review::create("model=7")).await;
    assert_eq!(told, want, "{}", answered.said());
    if want.contains("set") {
        assert_eq!(scene.review(&Review::create("model=5")).await.1, "deny 422", "missing is still missing");
    }
}

#[tokio::test]
async fn a_registry_may_change_its_version_at_any_time() {
    let scene = Scene::with("").await;
    for (name, api) in [("a", Api::V1alpha3), ("b", Api::Both), ("c", Api::V1), ("d", Api::V1alpha3)] {
        scene.server.registry().set_faults(Faults { api, ..Faults::default() });
        let review = Review::create(&format!("model=7 called={name}"));
        let answered = scene.webhook.review(&review).await;
        assert!(answered.label.is_some(), "{api:?}: {}", answered.said());
    }
    assert_eq!(scene.new_entries().len(), 4);
}

/// An old release and a new one take turns behind one address.
#[tokio::test]
async fn during_a_rolling_upgrade_nothing_is_missing_and_nothing_is_made_twice() {
    let server = registry_with_models().await;
    let upstream = Upstream::start(server.registry()).await;
    upstream.misbehave(Fault::OldReplica, "");
    for _ in 0..5 {
        // A webhook that has just started knows of no version yet.
        let webhook = TestWebhook::start(&upstream.url, Setup::default());
        let reviews =
            (0..20).map(|number| Review::create(&format!("model=7 version=70 called=scorer-{number}")));
        let answers = join_all(reviews.map(|review| {
            let webhook = &webhook;
            async move { webhook.review(&review).await }
        }));
        for answered in answers.await {
            assert!(answered.label.is_some() && answered.warnings.is_empty(), "{}", answered.said());
        }
        let missing = webhook.review(&Review::create("model=5")).await;
        assert_eq!(missing.told(), "deny 422", "{}", missing.said());
    }
    assert_eq!(server.registry().entries().len(), 20, "one entry for each object");
}

/// A registry that takes no notice of `filterQuery` gives other models first.
#[rstest]
#[case::model("model=9", "allow set=")]
#[case::version("model=8 version=80", "allow set=")]
#[case::no_such_model("model=5", "deny 422")]
#[case::no_such_version("model=7 version=5", "deny 422")]
#[tokio::test]
async fn a_registry_that_ignores_filters_is_asked_by_id(#[case] words: &str, #[case] want: &str) {
    let server = registry_with_models().await;
    let upstream = Upstream::start(server.registry()).await;
    upstream.ignore_filters();
    let webhook = TestWebhook::start(&upstream.url, Setup::default());
    let answered = webhook.review(&Review::create(words)).await;
    assert!(answered.told().starts_with(want), "{words}: {}", answered.said());
}

#[tokio::test]
async fn a_look_up_by_id_that_lies_is_not_believed() {
    let server = registry_with_models().await;
    let upstream = Upstream::start(server.registry()).await;
    upstream.ignore_filters();
    // The list is answered, and then the database goes down: the look-up by id says 404.
    upstream.misbehave(Fault::DatabaseDown, "/registered_models/");
    let webhook = TestWebhook::start(&upstream.url, Setup::default());
    let answered = webhook.review(&Review::create("model=9")).await;
    assert_eq!(answered.told(), "allow warned", "it may well be there: {}", answered.said());
}

#[tokio::test]
async fn names_with_wildcards_are_found_exactly() {
    let server = registry_with_models().await;
    let client = RegistryClient::new(registry_settings(&server.url(), &Setup::default()));
    let names = ["team_a", "teamXa", "team%a", "team-long-a", r"team\_a", r"team\a"];
    for name in names {
        assert_eq!(client.environment(name).await, Ok(None), "{name:?} is not there yet");
        client.create_environment(name, Connection::Kept).await.expect("an environment");
    }
    for name in names {
        let found = client.environment(name).await.expect("an answer").expect("the environment");
        assert_eq!(found.name, name);
    }
    for name in ["team_", "%", "_eam-a", "TEAM_A"] {
        assert_eq!(client.environment(name).await, Ok(None), "{name:?} is nobody's name");
    }
}
