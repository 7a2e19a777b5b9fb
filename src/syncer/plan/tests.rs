//! The table, row by row, in its order and by its numbers.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::kserve::{InferenceService as View, LabelKeys};
use crate::registration::ownership::{self, MANAGED_BY};
use crate::registry::{CustomProperties, LastKnownState};

const NOW_MS: i64 = 1_000_000_000;
const GRACE: Duration = Duration::from_mins(5);
/// Longer ago than the grace.
const LONG_AGO: i64 = NOW_MS - 3_600_000;
const SERVED: &str = "http://scorer.team-a.example";

/// What a test says of a case; the rest is an object that is settled.
struct Scene {
    object: Value,
    sight: Sight,
    moved: bool,
    held: Duration,
    home: Vec<InferenceService>,
    elsewhere: Vec<InferenceService>,
    rules: Rules,
    watched: bool,
    former_cluster: Option<ClusterId>,
    clock: Option<i64>,
}

#[derive(Clone, Copy)]
enum Sight {
    Live,
    Deleting,
    Gone,
    NeverSeen,
    Unknown,
}
use Sight::{Deleting, Gone, NeverSeen};

impl Scene {
    fn new(sight: Sight, home: Vec<InferenceService>) -> Self {
        Self {
            object: object(
                json!({"registered-model-id": "7", "inference-service-id": "100"}),
                &json!({"url": SERVED}),
            ),
            sight,
            moved: false,
            held: Duration::ZERO,
            home,
            elsewhere: Vec::new(),
            rules: Rules { grace: GRACE, retire: true },
            watched: true,
            former_cluster: None,
            clock: Some(NOW_MS),
        }
    }

    fn live(object: Value, home: Vec<InferenceService>) -> Self {
        Self { object, ..Self::new(Sight::Live, home) }
    }

    fn plan(&self) -> Plan {
        let view: View = serde_json::from_value(self.object.clone()).unwrap();
        let (name, object) = Object::read(&view, &LabelKeys::default(), None).unwrap();
        let with = |home, entries| Shelf { home, environment: "3".parse().ok(), now_ms: self.clock, entries };
        plan(&Case {
            cluster: &cluster(),
            former_cluster: self.former_cluster.as_ref(),
            name: &name,
            watched: self.watched,
            sighting: match self.sight {
                Sight::Live => Sighting::Live(Live {
                    object: &object,
                    status_moved: self.moved,
                    outcome_held: self.held,
                }),
                Deleting => Sighting::Deleting(&object),
                Gone => Sighting::Gone(&object),
                NeverSeen => Sighting::NeverSeen,
                Sight::Unknown => Sighting::Unknown,
            },
            registries: &[with(true, &self.home), with(false, &self.elsewhere)],
            refused_version: None,
            recorded: None,
            rules: self.rules,
        })
    }

    /// Rows and entries of what is planned.
    fn writes(&self) -> Vec<(u8, Option<u32>)> {
        self.plan().writes.iter().map(|write| (write.row.number(), write.entry().map(EntryId::get))).collect()
    }
}

fn cluster() -> ClusterId {
    ClusterId::new("east").unwrap()
}

/// An InferenceService team-a/scorer with these labels under our prefix.
fn object(labels: Value, status: &Value) -> Value {
    let Value::Object(labels) = labels else { panic!("labels are a map") };
    let labels: serde_json::Map<_, _> = labels
        .into_iter()
        .map(|(name, value)| (format!("{}/{name}", crate::kserve::DEFAULT_PREFIX), value))
        .collect();
    json!({
        "metadata": {"namespace": "team-a", "name": "scorer", "uid": "u-1", "labels": labels},
        "spec": {"predictor": {"model": {"runtime": "triton"}}},
        "status": status,
    })
}

/// An entry of model 7 in the object's environment, last touched long ago, that nobody has stamped.
fn entry(id: u32, name: &str) -> InferenceService {
    serde_json::from_value(json!({
        "id": id.to_string(), "name": name, "registeredModelId": "7", "servingEnvironmentId": "3",
        "runtime": "triton", "desiredState": "DEPLOYED", "lastUpdateTimeSinceEpoch": LONG_AGO.to_string(),
    }))
    .unwrap()
}

/// The entry as the syncer leaves it.
fn settled() -> InferenceService {
    let place = ObjectName::new("team-a", "scorer");
    let mut entry = entry(100, "scorer");
    entry.custom_properties = ownership::properties(&cluster(), &place, Some("u-1"));
    entry.custom_properties.set_string("url", SERVED);
    entry.custom_properties.set_string("ready", "Unknown");
    entry
}

fn with(mut entry: InferenceService, change: impl FnOnce(&mut InferenceService)) -> InferenceService {
    change(&mut entry);
    entry
}

fn undeployed(entry: InferenceService) -> InferenceService {
    with(entry, |entry| entry.desired_state = DesiredState::Undeployed)
}

fn property(entry: InferenceService, key: &str, value: &str) -> InferenceService {
    with(entry, |entry| entry.custom_properties.set_string(key, value))
}

/// One of ours under another name, for another model.
fn former() -> InferenceService {
    with(settled(), |entry| {
        entry.id = "101".parse().unwrap();
        entry.name = "scorer/9".into();
        entry.registered_model_id = "9".parse().unwrap();
    })
}

fn ready(url: &str) -> Value {
    json!({"url": url, "conditions": [{"type": "Ready", "status": "True"}]})
}

#[rstest]
#[case::gone(Gone, settled(), true)]
#[case::being_deleted(Deleting, settled(), true)]
#[case::retired_already(Gone, undeployed(settled()), false)]
#[case::of_another_model(Gone, former(), true)]
#[case::of_another_cluster(Gone, property(settled(), "cluster", "west"), false)]
#[case::of_another_namespace(Gone, property(settled(), "namespace", "team-b"), false)]
#[case::go_controller(Gone, entry(100, "scorer/u-1"), true)]
#[case::go_controller_of_an_object_before_it(Gone, entry(99, "scorer/u-0"), true)]
#[case::by_hand_and_labelled(Gone, entry(100, "fraud in production"), true)]
#[case::by_hand_and_not_labelled(Gone, entry(99, "fraud in production"), false)]
#[case::another_tool_s_of_the_same_model(Gone, property(entry(99, "scorer"), MANAGED_BY, "tool"), true)]
#[case::another_tool_s_of_another_model(
    Gone,
    with(entry(99, "scorer"), |entry| entry.registered_model_id = "9".parse().unwrap()),
    false
)]
fn row_1(#[case] sight: Sight, #[case] entry: InferenceService, #[case] retired: bool) {
    let want = if retired { vec![(1, Some(entry.id.get()))] } else { vec![] };
    assert_eq!(Scene::new(sight, vec![entry]).writes(), want);
}

#[test]
fn row_1_takes_nobody_s_entry_for_an_object_that_never_opted_in() {
    let scene = Scene { object: object(json!({}), &json!({})), ..Scene::new(Gone, vec![entry(9, "scorer")]) };
    assert_eq!(scene.writes(), []);
}

#[test]
fn row_1_reaches_every_registry_but_only_for_what_is_ours() {
    let mut scene = Scene::new(Gone, vec![]);
    scene.elsewhere = vec![settled(), entry(5, "scorer/u-1")];
    assert_eq!(scene.writes(), [(1, Some(100))]);
}

#[rstest]
#[case::ours(settled(), vec![(2, Some(100))])]
#[case::retired_already(undeployed(settled()), vec![])]
#[case::not_stamped(entry(100, "scorer"), vec![])]
#[case::of_another_cluster(property(settled(), "cluster", "west"), vec![])]
fn row_2(#[case] entry: InferenceService, #[case] want: Vec<(u8, Option<u32>)>) {
    assert_eq!(Scene::live(object(json!({}), &json!({})), vec![entry]).writes(), want);
}

#[rstest]
#[case::no_entry(json!({"registered-model-id": "7"}), vec![], vec![(3, None)])]
#[case::a_stranger_s_entry_labelled(
    json!({"registered-model-id": "7", "inference-service-id": "100"}),
    vec![property(settled(), "cluster", "west")],
    vec![(3, None)]
)]
#[case::only_a_former_model_s(json!({"registered-model-id": "7"}), vec![former()], vec![(3, None)])]
#[case::no_model_to_register_by(json!({"inference-service-id": "100"}), vec![], vec![])]
#[case::a_malformed_model(json!({"registered-model-id": "x"}), vec![settled()], vec![])]
fn row_3(
    #[case] labels: Value,
    #[case] entries: Vec<InferenceService>,
    #[case] want: Vec<(u8, Option<u32>)>,
) {
    assert_eq!(Scene::live(object(labels, &json!({})), entries).writes(), want);
}

#[rstest]
#[case::nothing(settled(), &[])]
#[case::state(undeployed(settled()), &["desiredState"])]
#[case::runtime(with(settled(), |entry| entry.runtime = None), &["runtime"])]
#[case::url(property(settled(), "url", "http://old"), &["url"])]
#[case::ready(property(settled(), "ready", "True"), &["ready"])]
#[case::uid_of_the_object_before(property(settled(), "uid", "u-0"), &["uid"])]
#[case::never_stamped(
    entry(100, "scorer/u-1"),
    &["url", "ready", "managedBy", "cluster", "namespace", "name", "uid"]
)]
#[case::another_tool_s_is_not_stamped(property(entry(100, "scorer"), MANAGED_BY, "tool"), &["url", "ready"])]
fn row_4(#[case] entry: InferenceService, #[case] want: &[&str]) {
    let scene = Scene::new(Sight::Live, vec![entry]);
    let plan = scene.plan();
    match plan.writes.as_slice() {
        [] => assert!(want.is_empty(), "nothing is planned"),
        [Write { row: Row::Settle, action: Action::Patch { patch, differs, .. }, .. }] => {
            assert_eq!(differs, want);
            assert_eq!(patch.desired_state, DesiredState::Deployed);
        }
        more => panic!("one PATCH was to be planned: {more:?}"),
    }
}

#[test]
fn row_4_writes_the_labelled_version_and_never_clears_one() {
    let labels = json!({"registered-model-id": "7", "model-version-id": "12"});
    let scene = Scene::live(object(labels, &json!({"url": SERVED})), vec![settled()]);
    let Action::Patch { patch, differs, .. } = &scene.plan().writes[0].action else { panic!("a PATCH") };
    assert_eq!((patch.model_version_id, differs.as_slice()), ("12".parse().ok(), &["modelVersionId"][..]));

    let versioned = with(settled(), |entry| entry.model_version_id = "12".parse().ok());
    assert_eq!(Scene::new(Sight::Live, vec![versioned]).writes(), []);
}

#[test]
fn row_4_keeps_what_others_wrote() {
    let entry = property(property(settled(), "url", "http://old"), "team", "fraud");
    let plan = Scene::new(Sight::Live, vec![entry]).plan();
    let Action::Patch { patch, .. } = &plan.writes[0].action else { panic!("a PATCH") };
    let properties = patch.custom_properties.as_ref().unwrap();
    assert_eq!(properties.string("team"), Some("fraud"));
    assert_eq!(properties.string("url"), Some(SERVED));
}

#[test]
fn row_4_takes_the_labelled_entry_before_the_one_of_that_name() {
    let other = with(settled(), |entry| {
        entry.id = "99".parse().unwrap();
        entry.runtime = None;
    });
    let labelled = with(undeployed(settled()), |entry| entry.name = "scorer/7".into());
    assert_eq!(Scene::new(Sight::Live, vec![other, labelled]).writes(), [(4, Some(100)), (5, Some(99))]);
}

#[rstest]
#[case::former_model(former(), Some(NOW_MS), vec![(5, Some(101))], None)]
#[case::within_the_grace(
    with(former(), |entry| entry.last_update_ms = NOW_MS - 60_000),
    Some(NOW_MS), vec![], Some(Duration::from_mins(4))
)]
#[case::clock_not_known(former(), None, vec![], Some(GRACE))]
#[case::from_the_future(
    with(former(), |entry| entry.last_update_ms = NOW_MS + 60_000),
    Some(NOW_MS), vec![], Some(GRACE)
)]
#[case::retired_already(undeployed(former()), Some(NOW_MS), vec![], None)]
#[case::not_stamped(with(entry(101, "scorer/9"), |entry| entry.registered_model_id = "9".parse().unwrap()),
    Some(NOW_MS), vec![], None)]
#[case::of_another_cluster(property(former(), "cluster", "west"), Some(NOW_MS), vec![], None)]
fn row_5(
    #[case] other: InferenceService,
    #[case] clock: Option<i64>,
    #[case] want: Vec<(u8, Option<u32>)>,
    #[case] due_in: Option<Duration>,
) {
    let scene = Scene { clock, ..Scene::new(Sight::Live, vec![settled(), other]) };
    assert_eq!(scene.writes(), want);
    assert_eq!(scene.plan().due_in, due_in);
}

#[test]
fn row_5_reaches_a_former_registry() {
    let there = with(settled(), |entry| entry.id = "9".parse().unwrap());
    let scene = Scene { elsewhere: vec![there], ..Scene::new(Sight::Live, vec![settled()]) };
    let plan = scene.plan();
    assert_eq!((plan.writes.len(), plan.writes[0].row, plan.writes[0].registry), (1, Row::Former, 1));
}

#[rstest]
#[case::ready(ready(SERVED), "", false, 0, Some(LastKnownState::Running))]
#[case::failed(
    json!({"url": SERVED, "modelStatus": {"transitionStatus": "InvalidSpec"}}), "", false, 0,
    Some(LastKnownState::Failed)
)]
#[case::neither(json!({"url": SERVED}), "", false, 0, None)]
#[case::recorded(ready(SERVED), "u-1/12/RUNNING", false, 0, None)]
#[case::recorded_of_the_object_before(
    ready(SERVED),
    "u-0/12/RUNNING",
    false,
    0,
    Some(LastKnownState::Running)
)]
#[case::recovered(ready(SERVED), "u-1/12/FAILED", false, 0, Some(LastKnownState::Running))]
#[case::version_just_changed(ready(SERVED), "u-1/11/RUNNING", false, 9, None)]
#[case::version_changed_and_status_since(
    ready(SERVED),
    "u-1/11/RUNNING",
    true,
    0,
    Some(LastKnownState::Running)
)]
#[case::version_changed_and_ready_for_long(
    ready(SERVED),
    "u-1/11/RUNNING",
    false,
    10,
    Some(LastKnownState::Running)
)]
fn row_6(
    #[case] status: Value,
    #[case] recorded: &str,
    #[case] moved: bool,
    #[case] held_minutes: u64,
    #[case] want: Option<LastKnownState>,
) {
    let labels = json!({"registered-model-id": "7", "model-version-id": "12"});
    let versioned = with(property(settled(), RECORDED, recorded), |entry| {
        entry.model_version_id = "12".parse().ok();
    });
    let held = Duration::from_mins(held_minutes);
    let scene = Scene { moved, held, ..Scene::live(object(labels, &status), vec![versioned]) };
    let writes = scene.plan().writes;
    let record = writes.iter().find_map(|write| match &write.action {
        Action::Record { record, .. } => Some(record),
        _ => None,
    });
    assert_eq!(record.map(|record| record.last_known_state), want);
    if let Some(record) = record {
        assert_eq!(record.model_version_id, "12".parse().unwrap());
        assert!(record.name.starts_with("u-1/12/"), "{}", record.name);
    }
}

#[test]
fn row_6_needs_a_version_label() {
    let versioned = with(settled(), |entry| entry.model_version_id = "12".parse().ok());
    let labels = json!({"registered-model-id": "7"});
    assert_eq!(Scene::live(object(labels, &ready(SERVED)), vec![versioned]).writes(), [(4, Some(100))]);
}

#[rstest]
#[case::ours(settled(), vec![(7, Some(100))], None)]
#[case::within_the_grace(
    with(settled(), |entry| entry.last_update_ms = NOW_MS - 60_000), vec![], Some(Duration::from_mins(4))
)]
#[case::retired_already(undeployed(settled()), vec![], None)]
#[case::of_another_cluster(property(settled(), "cluster", "west"), vec![], None)]
#[case::of_another_tool(property(settled(), MANAGED_BY, "tool"), vec![], None)]
#[case::go_controller(entry(100, "scorer/u-1"), vec![], None)]
#[case::made_by_hand(entry(100, "scorer"), vec![], None)]
fn row_7(
    #[case] entry: InferenceService,
    #[case] want: Vec<(u8, Option<u32>)>,
    #[case] due_in: Option<Duration>,
) {
    let scene = Scene::new(NeverSeen, vec![entry]);
    assert_eq!(scene.writes(), want);
    assert_eq!(scene.plan().due_in, due_in);
}

#[rstest]
#[case::namespace_not_watched(Scene { watched: false, ..Scene::new(Gone, vec![settled()]) })]
#[case::never_seen_in_a_namespace_not_watched(Scene { watched: false, ..Scene::new(NeverSeen, vec![settled()]) })]
#[case::lists_not_complete(Scene::new(Sight::Unknown, vec![settled()]))]
#[case::told_to_retire_nothing(Scene { rules: Rules { grace: GRACE, retire: false }, ..Scene::new(Gone, vec![settled()]) })]
fn nothing_is_written_outside_the_table(#[case] scene: Scene) {
    assert_eq!(scene.plan(), Plan::default());
}

#[rstest]
#[case::of_the_former_cluster(Sight::Live, property(settled(), "cluster", "before"), vec![(8, Some(100))])]
#[case::retired_there(Sight::Live, undeployed(property(settled(), "cluster", "before")), vec![(8, Some(100))])]
#[case::of_a_third_cluster(Sight::Live, property(settled(), "cluster", "west"), vec![(3, None)])]
#[case::of_another_object(
    Sight::Live,
    property(property(settled(), "cluster", "before"), "name", "other"),
    vec![(3, None)]
)]
#[case::without_an_object(NeverSeen, property(settled(), "cluster", "before"), vec![])]
#[case::of_an_object_that_goes(Deleting, property(settled(), "cluster", "before"), vec![])]
fn row_8(#[case] sight: Sight, #[case] entry: InferenceService, #[case] writes: Vec<(u8, Option<u32>)>) {
    let scene = Scene { former_cluster: ClusterId::new("before").ok(), ..Scene::new(sight, vec![entry]) };
    assert_eq!(scene.writes(), writes);
}

#[test]
fn row_8_changes_the_cluster_and_nothing_else() {
    let before = undeployed(property(settled(), "cluster", "before"));
    let scene =
        Scene { former_cluster: ClusterId::new("before").ok(), ..Scene::new(Sight::Live, vec![before]) };
    let Action::Patch { patch, differs, .. } = &scene.plan().writes[0].action else { panic!("a PATCH") };
    assert_eq!(*differs, ["cluster"]);
    assert_eq!(patch.desired_state, DesiredState::Undeployed);
    assert_eq!(patch.custom_properties.as_ref(), Some(&settled().custom_properties));
}

#[test]
fn row_5_knows_an_entry_of_a_registry_that_is_configured_twice() {
    let scene = Scene { elsewhere: vec![settled()], ..Scene::new(Sight::Live, vec![settled()]) };
    assert_eq!(scene.writes(), []);
    // Another registry may have given out the same id.
    let other = with(settled(), |entry| entry.last_update_ms -= 1);
    let scene = Scene { elsewhere: vec![other], ..Scene::new(Sight::Live, vec![settled()]) };
    assert_eq!(scene.writes(), [(5, Some(100))]);
}

#[test]
fn an_entry_of_somebody_else_is_reported_and_left_alone() {
    let labels = json!({"inference-service-id": "100"});
    let scene = Scene::live(object(labels, &json!({})), vec![property(settled(), "cluster", "west")]);
    assert_eq!(scene.plan().stranger, "100".parse().ok());
    assert_eq!(scene.writes(), []);
}

#[test]
fn a_plan_that_was_carried_out_leaves_nothing_to_plan() {
    let labels = json!({"registered-model-id": "7", "model-version-id": "12"});
    let mut entry = entry(100, "scorer/u-1");
    for _ in 0..2 {
        let plan = Scene::live(object(labels.clone(), &json!({"url": SERVED})), vec![entry.clone()]).plan();
        for write in &plan.writes {
            let Action::Patch { patch, .. } = &write.action else { panic!("only a PATCH is needed") };
            entry.desired_state = patch.desired_state;
            entry.model_version_id = patch.model_version_id.or(entry.model_version_id);
            entry.runtime = patch.runtime.clone().or(entry.runtime);
            entry.custom_properties = patch.custom_properties.clone().unwrap_or_default();
        }
    }
    let settled = Scene::live(object(labels, &json!({"url": SERVED})), vec![entry]);
    assert_eq!(settled.plan(), Plan::default());
}

#[test]
fn a_retirement_carries_the_whole_map_where_there_is_one() {
    let plan = Scene::new(Gone, vec![property(settled(), "team", "fraud")]).plan();
    let Action::Patch { patch, .. } = &plan.writes[0].action else { panic!("a PATCH") };
    assert_eq!(patch.custom_properties.as_ref().and_then(|all| all.string("team")), Some("fraud"));
    let bare = Scene::new(Gone, vec![entry(100, "scorer/u-1")]).plan();
    let Action::Patch { patch, .. } = &bare.writes[0].action else { panic!("a PATCH") };
    assert_eq!(patch.custom_properties, None::<CustomProperties>);
}
