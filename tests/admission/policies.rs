//! Every value of every policy, in every mode.

use isvc_registrar::admission::{Mode, OnMissing, Policies, Severity};
use rstest::rstest;

use crate::reviews::Review;
use crate::scene::Scene;
use crate::webhook::Setup;

/// Nothing listens here: port 1 of an address of its own.
const NOWHERE: &str = "http://127.0.0.66:1";

async fn scene(policies: Policies) -> Scene {
    Scene::of("own other", Setup { policies, ..Setup::default() }).await
}

#[rstest]
#[case::allow(OnMissing::Allow, "allow")]
#[case::warn(OnMissing::Warn, "allow warned")]
#[case::deny(OnMissing::Deny, "deny 403")]
#[tokio::test]
async fn an_object_that_names_nothing(#[case] on_missing: OnMissing, #[case] want: &str) {
    let scene = scene(Policies { on_missing, ..Policies::default() }).await;
    for review in [
        Review::create("team=x"),
        Review::create("unnamed"),
        Review::update("model=7 id=1", "team=x"),
        Review::update("model=7", ""),
    ] {
        assert_eq!(scene.review(&review).await.1, want, "{:?}", review.body());
    }
    let scaled = Review::update("team=x", "team=x replicas=2");
    assert_eq!(
        scene.review(&scaled).await.1,
        "allow",
        "an update that changes nothing of ours is not refused"
    );
}

/// All of --on-invalid's reasons that a label can give.
const INVALID: [&str; 7] = [
    "model=5",
    "model=x",
    "model=7 version=5",
    "model=7 version=80",
    "id=no-entry",
    "id=other",
    "model=7 name=nowhere",
];

#[rstest]
#[case::deny(Severity::Deny, "deny 422")]
#[case::warn(Severity::Warn, "allow warned")]
#[tokio::test]
async fn an_object_that_names_what_is_wrong(#[case] on_invalid: Severity, #[case] want: &str) {
    let scene = scene(Policies { on_invalid, ..Policies::default() }).await;
    for words in INVALID {
        let words = format!("called=new {words}");
        assert_eq!(scene.review(&Review::create(&scene.fill(&words))).await.1, want, "{words}");
    }
    assert_eq!(scene.sent("POST"), 0, "nothing is registered for what is invalid");
}

#[rstest]
#[case::warn(Severity::Warn, "allow set=new warned")]
#[case::deny(Severity::Deny, "deny 422")]
#[tokio::test]
async fn an_object_that_names_what_is_archived(
    #[case] on_archived: Severity,
    #[case] want: &str,
    #[values("called=new model=9", "called=new model=7 version=79")] words: &str,
) {
    let scene = scene(Policies { on_archived, ..Policies::default() }).await;
    let (answered, told) = scene.review(&Review::create(words)).await;
    assert_eq!(told, want);
    assert!(answered.said().contains("is archived"), "{}", answered.said());
}

#[rstest]
#[case::warn(Severity::Warn, "allow warned", "not registered now, it will be later: ")]
#[case::deny(Severity::Deny, "deny 503", "cannot be registered now, try again: ")]
#[tokio::test]
async fn a_registry_that_cannot_be_reached(
    #[case] on_unavailable: Severity,
    #[case] want: &str,
    #[case] consequence: &str,
) {
    let policies = Policies { on_unavailable, ..Policies::default() };
    let webhook = crate::webhook::TestWebhook::start(NOWHERE, Setup { policies, ..Setup::default() });
    for words in ["model=7", "id=9", "model=7 id=9", "unnamed model=7"] {
        let answered = webhook.review(&Review::create(words)).await;
        assert_eq!(answered.told(), want, "{words}");
        assert!(answered.said().starts_with(consequence), "{}", answered.said());
    }
    let dropped = webhook.review(&Review::update("model=7 id=9", "model=7")).await;
    assert_eq!(dropped.told(), "allow set=9 warned", "an id that Git drops goes back, never refused");
    let late = webhook.review(&Review::update("model=7", "model=7 kserve")).await;
    assert_eq!(late.told(), "allow warned", "KServe's finalizer never fails because of us");
}

/// Everything that is denied where it can be.
const STRICT: Policies = Policies {
    mode: Mode::Enforce,
    on_missing: OnMissing::Deny,
    on_invalid: Severity::Deny,
    on_archived: Severity::Deny,
    on_unavailable: Severity::Deny,
};

#[rstest]
#[case::names_nothing("", "deny 403", "allow warned", "deny")]
#[case::invalid("model=5", "deny 422", "allow warned", "deny")]
#[case::no_id("model=x", "deny 422", "allow warned", "deny")]
#[case::archived("called=new model=9", "deny 422", "allow set=new warned", "deny")]
#[case::stranger("id=other", "deny 422", "allow warned", "deny")]
#[case::stale("model=7 id=no-entry", "allow set=own warned", "allow set=own warned", "set")]
#[case::well("model=7", "allow set=own", "allow set=own", "set")]
#[case::new("called=new model=7", "allow set=new", "allow set=new", "register")]
#[tokio::test]
async fn the_mode_says_how_far_it_goes(
    #[case] words: &str,
    #[case] enforce: &str,
    #[case] warn: &str,
    #[case] would: &str,
) {
    for (mode, want) in [(Mode::Enforce, enforce), (Mode::Warn, warn), (Mode::Observe, "allow would")] {
        let scene = scene(Policies { mode, ..STRICT }).await;
        let (answered, told) = scene.review(&Review::create(&scene.fill(words))).await;
        assert_eq!(told, want, "{words} in mode {mode:?}: {}", answered.said());
        if mode == Mode::Observe {
            assert_eq!(scene.sent("POST"), 0, "a registrar that observes creates nothing");
            let noted = answered.audit("would").unwrap_or_default();
            assert!(noted.starts_with(would), "{words} would {would}: {noted}");
        }
    }
}

#[tokio::test]
async fn an_update_that_changes_no_label_of_ours_is_never_refused() {
    let scene = scene(STRICT).await;
    for (old, new) in [
        ("model=5", "model=5 kserve"),
        ("model=x", "model=x kserve"),
        ("called=new model=9", "called=new model=9 kserve"),
        ("", "kserve"),
        ("model=x id=y", "model=x id=y kserve"),
        ("model=7 name=nowhere", "model=7 name=nowhere kserve"),
    ] {
        let (answered, told) = scene.review(&Review::update(old, new)).await;
        assert!(told.starts_with("allow"), "{old} -> {new} is a controller's: {}", answered.said());
    }
}
