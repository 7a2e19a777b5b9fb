//! Whose entry an id label names: nobody gets at another's, and nobody loses his own.

use isvc_registrar::registry::embedded::EmbeddedRegistry;
use rstest::rstest;

use crate::reviews::{NAMESPACE, Review, object};
use crate::scene::{Scene, registry_with_models};
use crate::webhook::{Setup, TestWebhook};

/// Entries that an object `scorer` of model 7 in `team-a` of this cluster has no right to.
#[rstest]
#[case::of_another_object("other")]
#[case::of_another_object_by_the_go_controller("other-go")]
#[case::of_another_namespace("elsewhere")]
#[case::of_another_namespace_by_the_go_controller("elsewhere-go")]
#[case::of_another_namespace_made_by_hand("elsewhere-by-hand")]
#[case::of_another_cluster("west")]
#[case::of_another_tool("tool")]
#[case::of_another_model("own-of-8")]
#[case::of_another_model_by_the_go_controller("go-of-8")]
#[case::none("no-entry")]
#[tokio::test]
async fn an_id_that_names_another_s_entry_gives_no_right_to_it(#[case] entry: &str) {
    let known = entry.replace("no-entry", "");
    let id = format!("id={entry}");
    let alone = Scene::with(&known).await;
    if !entry.ends_with("of-8") {
        let (answered, told) = alone.review(&Review::create(&alone.fill(&id))).await;
        assert_eq!(told, "deny 422", "row 6, without a model: {}", answered.said());
        let update = Review::update("id=77", &alone.fill(&id));
        assert_eq!(alone.review(&update).await.1, "deny 422", "row 9, without a model");
    }
    for (row, review) in [
        (6, Review::create(&alone.fill(&format!("model=7 {id}")))),
        (9, Review::update("model=7", &alone.fill(&format!("model=7 {id}")))),
        (10, Review::update(&alone.fill(&format!("model=7 {id}")), "model=7")),
    ] {
        let scene = Scene::with(&known).await;
        let (answered, told) = scene.review(&review).await;
        assert_eq!(told, "allow set=new warned", "row {row}: {}", answered.said());
        let [warning] = answered.warnings.as_slice() else { panic!("one warning: {answered:?}") };
        assert!(warning.contains("names no entry of this object"), "{warning}");
    }
}

#[rstest]
#[case::ours("own")]
#[case::of_the_go_controller("go")]
#[case::made_by_hand("by-hand")]
#[tokio::test]
async fn an_id_that_names_the_object_s_own_entry_stays(#[case] entry: &str) {
    let scene = Scene::with(entry).await;
    for words in [format!("id={entry}"), format!("model=7 id={entry}")] {
        let review = Review::create(&scene.fill(&words));
        assert_eq!(scene.review(&review).await.1, "allow", "{words}");
    }
    let dropped = Review::update(&scene.fill(&format!("model=7 id={entry}")), "model=7");
    assert_eq!(scene.review(&dropped).await.1, format!("allow set={entry}"), "what Git drops goes back");
}

#[tokio::test]
async fn an_entry_of_the_go_controller_is_found_by_the_object_s_uid_and_kept() {
    let scene = Scene::with("go").await;
    let late = Review::update("model=7", "model=7 kserve");
    assert_eq!(scene.review(&late).await.1, "allow set=go", "the update knows the uid");
    let again = Review::create("model=7");
    assert_eq!(
        scene.review(&again).await.1,
        "allow set=new",
        "created again, it has another uid: a new entry"
    );
}

#[tokio::test]
async fn an_entry_made_by_hand_is_not_taken_by_an_object_that_does_not_name_it() {
    let scene = Scene::with("by-hand").await;
    assert_eq!(scene.review(&Review::create("model=7")).await.1, "allow set=new");
}

#[tokio::test]
async fn names_that_others_have_taken_are_left_to_them() {
    let scene = Scene::with("west").await;
    assert_eq!(scene.review(&Review::create("model=7")).await.1, "allow set=new");
    assert_eq!(scene.new_entries()[0].name, "scorer/7", "another cluster has the first name");
    let scene = Scene::with("west west-of-7").await;
    assert_eq!(scene.review(&Review::create("model=7")).await.1, "allow set=new");
    assert_eq!(scene.new_entries()[0].name, "scorer/7/east", "another cluster has the first two names");
}

#[tokio::test]
async fn two_clusters_that_share_a_registry_never_share_an_entry() {
    let scene = Scene::with("").await;
    let west = TestWebhook::start(&scene.server.url(), Setup { cluster: "west", ..Setup::default() });
    let review = Review::create("model=7");
    let east = scene.webhook.review(&review).await.label.expect("an entry for the object in the east");
    let far = west.review(&review).await.label.expect("an entry for the object in the west");
    assert_ne!(east, far);
    let stolen = Review::create(&format!("model=7 id={east}"));
    assert_eq!(west.review(&stolen).await.label, Some(far), "a manifest carried over gets its own entry");
    assert_eq!(scene.webhook.review(&review).await.label, Some(east), "and nobody loses his");
}

/// The manifest of one object, with the id that it got, applied under another name or in another Namespace.
#[rstest]
#[case::another_name("called=copy", NAMESPACE)]
#[case::another_namespace("", "team-b")]
#[tokio::test]
async fn a_copied_manifest_gets_an_entry_of_its_own(#[case] words: &str, #[case] namespace: &str) {
    let scene = Scene::with("own").await;
    let copy = Review::create(&scene.fill(&format!("model=7 id=own {words}"))).in_namespace(namespace);
    let (answered, told) = scene.review(&copy).await;
    assert_eq!(told, "allow set=new warned", "{}", answered.said());
    let entry = &scene.new_entries()[0];
    let name = object(words)["metadata"]["name"].as_str().expect("a name").to_owned();
    assert_eq!((&entry.name, entry.environment.as_str()), (&name, namespace));
}

#[tokio::test]
async fn a_restored_manifest_finds_the_entry_that_the_object_had() {
    let scene = Scene::with("own").await;
    let restored = Review::create(&scene.fill("model=7 id=own"));
    assert_eq!(scene.review(&restored).await.1, "allow", "deleted and restored from a backup");
}

/// A registry that was restored from a backup older than the entries knows none of them, and gives their ids to
/// others.
#[tokio::test]
async fn ids_that_a_restored_registry_gives_out_again_are_not_trusted() {
    let before = Scene::with("").await;
    let lost = before.review(&Review::create("model=7")).await.0.label.expect("an entry");
    let restored: EmbeddedRegistry = registry_with_models().await;
    let webhook = TestWebhook::start(&restored.url(), Setup::default());
    let taken = webhook.review(&Review::create("model=7 called=other")).await.label.expect("an entry");
    assert_eq!(taken, lost, "the restored registry gives the same id to another object");

    let dropped = Review::update(&format!("model=7 id={lost}"), "model=7");
    let answered = webhook.review(&dropped).await;
    let own = answered.label.clone().expect("an entry of its own");
    assert_ne!(own, taken, "{}", answered.said());
    assert_eq!(answered.warnings.len(), 1, "the user is told: {answered:?}");
    let entries = restored.registry().entries();
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert!(
        restored.registry().requests().iter().all(|sent| sent.method != "PATCH"),
        "admission never changes an entry"
    );
}
