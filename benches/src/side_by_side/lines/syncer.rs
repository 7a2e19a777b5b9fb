//! The syncer in a cluster of 10,000 objects: its memory, its cold start, and deletions that it has missed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use registrar_benches::reviews::NAMESPACE;
use serde::Deserialize;

use super::growth::megabytes;
use crate::side_by_side::cluster::{Cluster, Objects, name_of};
use crate::side_by_side::connection::{Connection, request};
use crate::side_by_side::scene::{Listening, Scene};
use crate::side_by_side::syncer::Syncer;
use crate::side_by_side::table::{Goal, Line, Unit};
use crate::side_by_side::target::API;

/// Objects, few and many.
const FEW: u64 = 1_000;
const MANY: u64 = 10_000;
/// Deletions missed in one round.
const MISSED: u64 = 1_000;

/// What the syncer's `--workers` is by default.
const WORKERS: usize = 8;
/// A page of a list, as the syncer asks for it.
const PAGE: u64 = 500;

const MOST_BYTES_AN_OBJECT: f64 = 2_000.0;
const MOST_MEGABYTES: f64 = 50.0;
const MOST_START: f64 = 1.5;
const MOST_DELETIONS: f64 = 1.3;

/// Rounds: each takes many seconds, and what is deleted does not come back.
const ROUNDS: usize = 3;

pub(super) fn measure(scene: &Scene) -> anyhow::Result<Vec<Line>> {
    let cluster = Cluster::start()?;
    let registry = scene.registry(0)?;
    let webhook = scene.webhook(&registry)?;
    let objects = cluster.objects(NAMESPACE)?;
    objects.put_before(scene, &webhook)?;
    let place = Place { scene, cluster: &cluster, registry: &registry };
    let rounds = scene.effort.rounds.min(ROUNDS);

    let (few, many) = (scene.effort.operations(FEW), scene.effort.operations(MANY));
    let mut ids = objects.create_all(0..few)?;
    place.settle(few)?;
    let with_few = place.started()?.program.memory()?;
    ids.extend(objects.create_all(few..many)?);
    place.settle(many)?;

    let (mut start, mut each, mut peak) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begun = Instant::now();
        let syncer = place.started()?;
        let ours = begun.elapsed();
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        each.push((syncer.program.memory()? as f64 - with_few as f64) / (many - few) as f64);
        peak.push(megabytes(syncer.program.peak_memory()?));
        drop(syncer);
        let begun = Instant::now();
        cluster.block_on(list_both(&place, &objects))?;
        start.push(ours.as_secs_f64() / begun.elapsed().as_secs_f64());
    }
    let missed = missed_deletions(&place, &objects, &ids, rounds)?;

    let line = |what: &str, against, goal, unit, figures| Line {
        what: format!("syncer, 10,000 objects: {what}"),
        against,
        goal,
        unit,
        figures,
    };
    Ok(vec![
        Line {
            what: "syncer, 1,000 objects: memory".to_owned(),
            against: "",
            goal: Goal::Told,
            unit: Unit::Megabytes,
            figures: vec![megabytes(with_few)],
        },
        line("memory of one object", "with 1,000", Goal::AtMost(MOST_BYTES_AN_OBJECT), Unit::Bytes, each),
        line("peak memory", "", Goal::AtMost(MOST_MEGABYTES), Unit::Megabytes, peak),
        line(
            "cold start, all agreeing",
            "listing both, done alone",
            Goal::AtMost(MOST_START),
            Unit::Ratio,
            start,
        ),
        line(
            "1,000 deletions missed",
            "the same lists and calls, made directly",
            Goal::AtMost(MOST_DELETIONS),
            Unit::Ratio,
            missed,
        ),
    ])
}

/// Where the syncer works.
struct Place<'a> {
    scene: &'a Scene,
    cluster: &'a Cluster,
    registry: &'a Listening,
}

impl Place<'_> {
    fn syncer(&self) -> anyhow::Result<Syncer> {
        Syncer::start(self.scene, self.cluster, NAMESPACE, self.registry, &[])
    }

    /// A syncer that has compared everything.
    fn started(&self) -> anyhow::Result<Syncer> {
        let mut syncer = self.syncer()?;
        syncer.wait_until_compared()?;
        Ok(syncer)
    }

    /// Has a syncer stamp all entries.
    fn settle(&self, objects: u64) -> anyhow::Result<()> {
        self.started()?.wait_until_registered(NAMESPACE, objects)
    }
}

/// Deletes while no syncer runs, then has the direct client retire one half and a syncer the other.
fn missed_deletions(
    place: &Place<'_>,
    objects: &Objects<'_>,
    ids: &[String],
    rounds: usize,
) -> anyhow::Result<Vec<f64>> {
    let missed = place.scene.effort.operations(MISSED);
    let mut figures = Vec::new();
    let mut next = 0;
    for _ in 0..rounds {
        let (for_direct, for_us) = (next..next + missed, next + missed..next + 2 * missed);
        next += 2 * missed;
        objects.delete_all(for_direct.start..for_us.end)?;

        let begun = Instant::now();
        place.cluster.block_on(async {
            list_both(place, objects).await?;
            retire(place, objects, ids, for_direct).await
        })?;
        let direct = begun.elapsed();

        let begun = Instant::now();
        let mut syncer = place.syncer()?;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        syncer.wait_for("isvc_registrar_syncer_writes_total", missed as f64)?;
        figures.push(begun.elapsed().as_secs_f64() / direct.as_secs_f64());
    }
    Ok(figures)
}

/// What is read of a page of objects.
#[derive(Deserialize)]
struct ObjectPage {
    metadata: ObjectPageMetadata,
}

#[derive(Deserialize)]
struct ObjectPageMetadata {
    r#continue: Option<String>,
}

/// What is read of a page of entries.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryPage {
    next_page_token: String,
}

/// Lists the entries and then the objects, as the syncer has to: an object that is made meanwhile must not be taken for
/// missing.
async fn list_both(place: &Place<'_>, objects: &Objects<'_>) -> anyhow::Result<()> {
    let client = place.cluster.client()?;
    let list_objects = async {
        let mut token = String::new();
        loop {
            let target = format!("{}?limit={PAGE}&continue={token}", path_of(objects));
            let page = client.request_text(http::Request::get(target).body(Vec::new())?).await?;
            match serde_json::from_str::<ObjectPage>(&page)?.metadata.r#continue {
                Some(next) if !next.is_empty() => token = next,
                _ => return anyhow::Ok(()),
            }
        }
    };
    let list_entries = async {
        let mut connection = Connection::open(place.registry.address, None).await?;
        let mut token = String::new();
        loop {
            let target = format!(
                "{API}/inference_services?pageSize={PAGE}&orderBy=ID&sortOrder=ASC&nextPageToken={token}"
            );
            let page = connection.exchange(&request("GET", &target, b"")).await?;
            token = serde_json::from_slice::<EntryPage>(page.body)?.next_page_token;
            if token.is_empty() {
                return anyhow::Ok(());
            }
        }
    };
    list_entries.await?;
    list_objects.await
}

/// For each: the object is asked for, the entry is asked for, the entry is changed.
async fn retire(
    place: &Place<'_>,
    objects: &Objects<'_>,
    ids: &[String],
    numbers: std::ops::Range<u64>,
) -> anyhow::Result<()> {
    let client = place.cluster.client()?;
    let next = AtomicU64::new(numbers.start);
    let work = async || {
        let mut registry = Connection::open(place.registry.address, None).await?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return anyhow::Ok(());
            }
            let target = format!("{}/{}", path_of(objects), name_of(number));
            let object = client.request_text(http::Request::get(target).body(Vec::new())?).await;
            ensure!(
                matches!(object, Err(kube::Error::Api(status)) if status.code == 404),
                "it is still there"
            );
            let id =
                usize::try_from(number).ok().and_then(|at| ids.get(at)).context("an object without an id")?;
            let entry = format!("{API}/inference_services/{id}");
            let found = registry.exchange(&request("GET", &entry, b"")).await?;
            ensure!(found.status == 200, "no entry {id}");
            let body = br#"{"desiredState":"UNDEPLOYED"}"#;
            let changed = registry.exchange(&request("PATCH", &entry, body)).await?;
            ensure!(changed.status == 200, "{}", String::from_utf8_lossy(changed.body));
        }
    };
    stream::iter(0..WORKERS).map(|_| work()).buffer_unordered(WORKERS).try_collect().await
}

fn path_of(objects: &Objects<'_>) -> String {
    format!("/apis/serving.kserve.io/v1beta1/namespaces/{}/inferenceservices", objects.namespace())
}
