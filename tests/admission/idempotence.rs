//! Many reviews at once: retries, replicas and dry runs come to one entry for each object and model.

use std::collections::BTreeSet;

use futures::future::join_all;
use isvc_registrar::registry::embedded::Faults;
use rstest::rstest;

use crate::reviews::Review;
use crate::scene::{Scene, registry_with_models};
use crate::upstream::{Fault, Upstream};
use crate::webhook::{Answered, Setup, TestWebhook};

/// As many as an API server has changes in flight.
const AT_ONCE: usize = 200;

/// The registry is slow, so that reviews which come a moment apart are under way together.
fn slow() -> Faults {
    Faults { delay_ms: 200, ..Faults::default() }
}

/// The answers to reviews that are all sent at once.
async fn at_once(webhook: &TestWebhook, reviews: impl IntoIterator<Item = Review>) -> Vec<Answered> {
    join_all(reviews.into_iter().map(|review| async move { webhook.review(&review).await })).await
}

/// The labels that answers set.
fn labels<'a>(answers: impl IntoIterator<Item = &'a Answered>) -> BTreeSet<String> {
    let label = |answered: &Answered| answered.label.clone().expect("every review gets an id");
    answers.into_iter().map(label).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_reviews_of_one_new_object_make_one_entry() {
    let scene = Scene::with("").await;
    scene.server.registry().set_faults(slow());
    let answers = at_once(&scene.webhook, vec![Review::create("model=7"); AT_ONCE]).await;
    assert_eq!(labels(&answers).len(), 1, "all get the same id");
    assert_eq!(scene.new_entries().len(), 1);
    assert_eq!(scene.posted("/inference_services"), 1, "one create is enough");
    assert_eq!(scene.posted("/serving_environments"), 1, "and one for its environment");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reviews_that_differ_get_each_its_own_answer() {
    let scene = Scene::with("").await;
    scene.server.registry().set_faults(slow());
    let (seven, eight) = (Review::create("model=7"), Review::create("model=8"));
    let wrong = Review::create("model=7 version=80");
    let kinds = [seven.clone(), eight.clone(), seven.dry(), eight.dry(), wrong];
    let answers = at_once(&scene.webhook, kinds.iter().cycle().take(AT_ONCE).cloned()).await;
    let of = |kind: usize| answers.iter().skip(kind).step_by(kinds.len());
    let (seven, eight) = (labels(of(0)), labels(of(1)));
    assert_eq!((seven.len(), eight.len()), (1, 1), "one entry for each model");
    for (dry, real) in [(2, &seven), (3, &eight)] {
        for answered in of(dry) {
            match &answered.label {
                Some(label) => assert!(real.contains(label), "a dry run finds what exists by then"),
                None => assert_eq!(answered.warnings.len(), 1, "{answered:?}"),
            }
        }
    }
    assert!(of(4).all(|answered| answered.told() == "deny 422"), "a version of another model is refused");
    let entries = scene.new_entries();
    let served: Vec<_> =
        entries.iter().map(|entry| (entry.id.to_string(), entry.registered_model_id)).collect();
    let of_model =
        |model| served.iter().filter(move |(_, served)| *served == model).map(|(id, _)| id.clone());
    assert_eq!(of_model(7).collect::<BTreeSet<_>>(), seven);
    assert_eq!(of_model(8).collect::<BTreeSet<_>>(), eight);
    assert_eq!(entries.len(), 2, "{entries:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_objects_in_a_new_namespace_make_one_environment() {
    let scene = Scene::with("").await;
    scene.server.registry().set_faults(slow());
    let reviews = (0..AT_ONCE).map(|number| Review::create(&format!("model=7 called=scorer-{number}")));
    let answers = at_once(&scene.webhook, reviews).await;
    assert_eq!(labels(&answers).len(), AT_ONCE, "each has an entry of its own");
    let environments: BTreeSet<_> = scene.new_entries().iter().map(|entry| entry.environment_id).collect();
    assert_eq!(environments.len(), 1);
    assert_eq!(scene.posted("/serving_environments"), 1);
    assert_eq!(scene.posted("/inference_services"), AT_ONCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_that_race_make_one_entry() {
    let scene = Scene::with("").await;
    scene.server.registry().set_faults(slow());
    let second = TestWebhook::start(&scene.server.url(), Setup::default());
    let reviews =
        || (0..AT_ONCE).map(|number| Review::create(&format!("model=7 called=scorer-{}", number % 10)));
    let (one, two) = tokio::join!(at_once(&scene.webhook, reviews()), at_once(&second, reviews()));
    assert_eq!(labels(&one), labels(&two), "both give the same ids");
    let entries = scene.new_entries();
    assert_eq!(entries.len(), 10, "one for each object");
    let environments: BTreeSet<_> = entries.iter().map(|entry| entry.environment_id).collect();
    assert_eq!(environments.len(), 1, "and one environment");
}

/// Both have found nothing, and both create: one comes second.
#[rstest]
#[case::the_entry("POST /api/model_registry/v1/inference_services")]
#[case::the_environment("POST /api/model_registry/v1/serving_environments")]
#[tokio::test]
async fn the_replica_that_comes_second_uses_what_the_first_has_made(#[case] create: &'static str) {
    let server = registry_with_models().await;
    let upstream = Upstream::start(server.registry()).await;
    upstream.misbehave(Fault::Together, create);
    let replicas = [(); 2].map(|()| TestWebhook::start(&upstream.url, Setup::default()));
    let review = Review::create("model=7");
    let (one, two) = tokio::join!(replicas[0].review(&review), replicas[1].review(&review));
    assert_eq!(labels([&one]), labels([&two]), "both give the same id");
    assert_eq!(server.registry().entries().len(), 1);
    let creates = upstream.requests().iter().filter(|request| *request == create).count();
    assert_eq!(creates, 2, "both did create");
}
