//! A registry that is not well: the answer still comes before the API server's deadline, is what the policy says,
//! and nothing is taken for missing that was not said to be.
//!
//! The client of these tests leaves when the API server would, so an answer that comes too late fails them.

use std::time::Duration;

use isvc_registrar::admission::{Policies, Severity};
use isvc_registrar::registry::ClientSettings;
use isvc_registrar::registry::embedded::{Database, EmbeddedRegistry, Faults};
use rstest::rstest;
use serde_json::json;

use crate::reviews::Review;
use crate::scene::{Scene, registry_with_models};
use crate::upstream::{
    BOOTING_503, ERROR_500, FORBIDDEN_403, FOREIGN_200, FOREIGN_404, Fault, HUGE_BYTES, LOGIN_200,
    NOT_FOUND_404, REDIRECT_302, TOO_MANY_429, UNAUTHORIZED_401, Upstream,
};
use crate::webhook::{Setup, TestWebhook, registry_settings};

/// Short, so that a registry that says nothing does not hold up the tests.
const REGISTRY_LIMIT: Duration = Duration::from_millis(500);

/// What the chart gives a review, in seconds.
const REVIEW_TIMEOUT: u64 = 5;

/// A review is given up by then, far beyond the probe's interval of a second.
const LONG_ENOUGH: Duration = Duration::from_secs(30);

fn setup(on_unavailable: Severity) -> Setup {
    let policies = Policies { on_unavailable, ..Policies::default() };
    Setup { policies, registry_limit: REGISTRY_LIMIT, timeout: REVIEW_TIMEOUT, ..Setup::default() }
}

/// A registry, and something in front of it that misbehaves.
struct Disturbed {
    server: EmbeddedRegistry,
    upstream: Upstream,
}

impl Disturbed {
    async fn new() -> Self {
        let server = registry_with_models().await;
        let upstream = Upstream::start(server.registry()).await;
        Self { server, upstream }
    }

    fn webhook(&self, on_unavailable: Severity) -> TestWebhook {
        TestWebhook::start(&self.upstream.url, setup(on_unavailable))
    }

    fn entries(&self) -> usize {
        self.server.registry().entries().len()
    }
}

/// Each fault, at each call that a new object needs.
#[rstest]
#[tokio::test]
async fn an_object_is_answered_as_the_policy_says_and_registered_once_all_is_well(
    #[values(
        Fault::Reset,
        Fault::Silence,
        Fault::HeadersAlone,
        Fault::Trickle,
        Fault::CutShort,
        Fault::HalfJson,
        Fault::Huge,
        Fault::DatabaseDown,
        ERROR_500,
        BOOTING_503,
        UNAUTHORIZED_401,
        FORBIDDEN_403,
        TOO_MANY_429,
        NOT_FOUND_404,
        FOREIGN_404,
        LOGIN_200,
        FOREIGN_200,
        REDIRECT_302
    )]
    fault: Fault,
    #[values(
        "",
        "/registered_models",
        "/serving_environment?",
        "/serving_environments",
        "/inference_service?",
        "/inference_services"
    )]
    at: &'static str,
) {
    let scene = Disturbed::new().await;
    scene.upstream.misbehave(fault, at);
    let review = Review::create("model=7");
    for (policy, want) in [(Severity::Warn, "allow warned"), (Severity::Deny, "deny 503")] {
        let answered = scene.webhook(policy).review(&review).await;
        assert_eq!(answered.told(), want, "{fault:?} at {at:?}: {}", answered.said());
        assert!(!answered.said().contains("does not exist"), "nobody said so: {}", answered.said());
    }
    assert_eq!(scene.entries(), 0, "nothing is created while {fault:?} at {at:?}");

    scene.upstream.behave();
    scene.server.registry().set_faults(Faults::default());
    let answered = scene.webhook(Severity::Warn).review(&review).await;
    assert!(answered.label.is_some(), "all is well again: {}", answered.said());
    assert_eq!(scene.entries(), 1);
}

/// The look-up by id, which rows 6, 9 and 10 need, is the one whose 404 lies.
#[rstest]
#[tokio::test]
async fn an_entry_is_not_taken_for_missing(
    #[values(
        Fault::Reset,
        Fault::Silence,
        Fault::Trickle,
        Fault::HalfJson,
        Fault::DatabaseDown,
        ERROR_500,
        UNAUTHORIZED_401,
        NOT_FOUND_404,
        FOREIGN_404,
        LOGIN_200
    )]
    fault: Fault,
) {
    let scene = Disturbed::new().await;
    let webhook = scene.webhook(Severity::Warn);
    let id = webhook.review(&Review::create("model=7")).await.label.expect("an entry");
    scene.upstream.misbehave(fault, "/inference_services/");
    let labelled = format!("model=7 id={id}");
    let kept = webhook.review(&Review::create(&labelled)).await;
    assert_eq!(kept.told(), "allow warned", "row 6, {fault:?}: the id stays: {}", kept.said());
    for words in [&labelled, &format!("id={id}")] {
        let refused = scene.webhook(Severity::Deny).review(&Review::create(words)).await;
        assert_eq!(refused.told(), "deny 503", "row 6, {words}, {fault:?}: {}", refused.said());
        scene.server.registry().set_faults(Faults::default());
    }
    let dropped = scene.webhook(Severity::Deny).review(&Review::update(&labelled, "model=7")).await;
    assert_eq!(dropped.told(), format!("allow set={id} warned"), "row 10, {fault:?}: {}", dropped.said());
    assert_eq!(scene.entries(), 1, "and no second entry is made");
}

#[rstest]
#[case::down(Database::Down)]
#[case::booting(Database::Booting)]
#[tokio::test]
async fn a_registry_without_its_database_is_unavailable(#[case] database: Database) {
    let scene = Scene::with("own").await;
    let faults = Faults { database, ..Faults::default() };
    scene.server.registry().set_faults(faults);
    for words in ["model=7", "model=7 version=70", "id=own", "model=7 id=own", "unnamed model=7"] {
        let (answered, told) = scene.review(&Review::create(&scene.fill(words))).await;
        assert_eq!(told, "allow warned", "{words}: {}", answered.said());
        assert!(!answered.said().contains("does not exist"), "{}", answered.said());
    }
}

#[rstest]
#[case::warn(Severity::Warn, "allow warned")]
#[case::deny(Severity::Deny, "deny 503")]
#[tokio::test]
async fn a_registry_that_refuses_connections(#[case] policy: Severity, #[case] want: &str) {
    let scene = Disturbed::new().await;
    // An address of its own, so that nobody else takes the port meanwhile.
    let gone = Upstream::start_at(scene.server.registry(), ([127, 0, 0, 67], 0).into()).await;
    let url = gone.url.clone();
    drop(gone);
    let webhook = TestWebhook::start(&url, setup(policy));
    assert_eq!(webhook.review(&Review::create("model=7")).await.told(), want);
    let address = url.strip_prefix("http://").and_then(|address| address.parse().ok()).expect("an address");
    let _back = Upstream::start_at(scene.server.registry(), address).await;
    let answered = webhook.review(&Review::create("model=7")).await;
    assert!(answered.label.is_some(), "it is back: {}", answered.said());
}

#[tokio::test]
async fn a_kept_connection_that_has_died_costs_the_user_nothing() {
    let scene = Disturbed::new().await;
    let webhook = scene.webhook(Severity::Deny);
    scene.upstream.misbehave(Fault::ResetWhenUsedBefore, "");
    for name in ["first", "second", "third"] {
        let answered = webhook.review(&Review::create(&format!("model=7 called={name}"))).await;
        assert!(answered.label.is_some(), "{name}: {}", answered.said());
        assert_eq!(answered.warnings, Vec::<String>::new(), "{name}");
    }
    assert_eq!(scene.entries(), 3);
}

/// The time that the API server gives is kept when it is shorter than the limit for the registry.
#[rstest]
#[tokio::test]
async fn the_api_server_s_deadline_is_kept(
    #[values(Fault::Silence, Fault::HeadersAlone, Fault::Trickle)] fault: Fault,
    #[values("model=7", "model=7 id=9", "unnamed model=7")] words: &str,
) {
    let scene = Disturbed::new().await;
    scene.upstream.misbehave(fault, "");
    let setup = Setup { registry_limit: 10 * LONG_ENOUGH, timeout: 2, ..Setup::default() };
    let webhook = TestWebhook::start(&scene.upstream.url, setup);
    let answered = webhook.review(&Review::create(words)).await;
    assert_eq!(answered.told(), "allow warned", "{}", answered.said());
}

#[tokio::test]
async fn an_answer_larger_than_any_is_not_read_to_its_end() {
    let scene = Disturbed::new().await;
    scene.upstream.misbehave(Fault::Huge, "/registered_models");
    // Time enough to read all of it.
    let webhook = TestWebhook::start(&scene.upstream.url, Setup::default());
    let answered = webhook.review(&Review::create("model=7")).await;
    assert!(answered.said().contains("sent more than"), "{}", answered.said());
    let sent = scene.upstream.huge_bytes_sent();
    assert!(sent < HUGE_BYTES, "all {sent} bytes were read");
}

/// Bytes of a large review: four of them leave no room for a fifth body.
const LARGE_BYTES: usize = 7 << 20;

#[tokio::test]
async fn large_reviews_that_wait_for_the_registry_keep_no_further_one_out() {
    const MORE_THAN_THERE_IS_ROOM_FOR: usize = 6;
    let scene = Disturbed::new().await;
    scene.upstream.misbehave(Fault::Silence, "/inference_service?");
    let webhook = TestWebhook::start(&scene.upstream.url, Setup::default());
    let mut waiting = Vec::new();
    for number in 0..MORE_THAN_THERE_IS_ROOM_FOR {
        let name = format!("large-{number}");
        let review = Review::create("model=7")
            .with("/request/name", json!(name))
            .with("/request/object/metadata/name", json!(name))
            .with("/request/options", json!("x".repeat(LARGE_BYTES)));
        let request = webhook.client.post(webhook.url()).header("content-type", "application/json");
        waiting.push(tokio::spawn(request.body(review.body().to_string()).send()));
        let asked = async {
            while !scene.upstream.requests().iter().any(|request| request.contains(&name)) {
                tokio::time::sleep(REGISTRY_LIMIT / 50).await;
            }
        };
        let asked = tokio::time::timeout(LONG_ENOUGH, asked).await;
        asked.unwrap_or_else(|_| panic!("the registry is asked for {name} while the reviews before it wait"));
    }
    assert!(waiting.iter().all(|review| !review.is_finished()), "all of them wait for the registry");
}

/// Whether a call ends by its own limit, or is given up before by a review that has come to the end of its own.
#[rstest]
#[case::by_the_limit_of_a_call(REGISTRY_LIMIT / 2)]
#[case::by_the_limit_of_the_review(REGISTRY_LIMIT * 8 / 5)]
#[tokio::test]
async fn after_repeated_time_outs_it_is_not_asked_until_a_probe_is_answered(#[case] call_limit: Duration) {
    let scene = Disturbed::new().await;
    let setup = setup(Severity::Warn);
    let registry = ClientSettings { timeout: call_limit, ..registry_settings(&scene.upstream.url, &setup) };
    let webhook = TestWebhook::start_with(registry, setup);
    let review = Review::create("model=7");
    scene.upstream.misbehave(Fault::Silence, "");
    let suspended = "has stopped answering";
    let mut asked = 0;
    while !webhook.review(&review).await.said().contains(suspended) {
        asked += 1;
        assert!(asked < 10, "the breaker is still closed after {asked} reviews without an answer");
    }
    let before = scene.upstream.requests().len();
    for _ in 0..20 {
        let answered = webhook.review(&review).await;
        assert!(answered.said().contains(suspended), "{}", answered.said());
    }
    let probes = scene.upstream.requests().split_off(before);
    assert!(probes.iter().all(|probe| probe.ends_with("pageSize=1")), "only probes are sent: {probes:?}");

    scene.upstream.behave();
    let registered = async {
        while webhook.review(&review).await.label.is_none() {
            tokio::time::sleep(REGISTRY_LIMIT / 10).await;
        }
    };
    tokio::time::timeout(LONG_ENOUGH, registered).await.expect("the breaker closes after a probe");
}

/// The connection breaks before the registry has heard of it.
#[rstest]
#[case::of_the_entry("/inference_services")]
#[case::of_the_environment("/serving_environments")]
#[tokio::test]
async fn a_create_that_never_arrived_is_sent_again(#[case] path: &'static str) {
    let scene = Disturbed::new().await;
    let webhook = scene.webhook(Severity::Deny);
    scene.upstream.misbehave(Fault::ResetOnce, path);
    let answered = webhook.review(&Review::create("model=7")).await;
    assert!(answered.label.is_some(), "{}", answered.said());
    assert_eq!(scene.entries(), 1);
}

/// The work is done and the answer lost: once, for the entry or for its environment.
#[rstest]
#[case::of_the_entry("/inference_services")]
#[case::of_the_environment("/serving_environments")]
#[tokio::test]
async fn a_create_whose_answer_was_lost_is_found_again(#[case] path: &str) {
    let scene = Scene::of("", setup(Severity::Deny)).await;
    scene.server.registry().set_faults(Faults {
        drop: true,
        method: Some("POST".to_owned()),
        path: Some(path.to_owned()),
        times: Some(1),
        ..Faults::default()
    });
    let (answered, told) = scene.review(&Review::create("model=7")).await;
    assert_eq!(told, "allow set=new", "{}", answered.said());
    assert_eq!(scene.posted(path), 1, "what was done is not done again");
    assert_eq!(scene.new_entries().len(), 1);
}

#[tokio::test]
async fn a_create_that_could_not_be_looked_up_again_is_found_by_the_next_review() {
    let scene = Disturbed::new().await;
    let webhook = scene.webhook(Severity::Deny);
    scene.upstream.misbehave(Fault::DatabaseDownAfterwards, "/inference_services");
    let refused = webhook.review(&Review::create("model=7")).await;
    assert_eq!(refused.told(), "deny 503", "{}", refused.said());
    assert_eq!(scene.entries(), 1, "the registry did what it was asked before it went down");
    scene.upstream.behave();
    scene.server.registry().set_faults(Faults::default());
    let answered = webhook.review(&Review::create("model=7")).await;
    assert!(answered.label.is_some(), "{}", answered.said());
    assert_eq!(scene.entries(), 1, "and it is not done again");
}
