//! What operators look at agrees with itself: the page that lists the metrics, and the alerts and the dashboard that are
//! made of them.

use std::collections::BTreeSet;

use serde_json::Value;

const PAGE: &str = include_str!("../docs/metrics.md");
const ALERTS: &str = include_str!("../charts/isvc-registrar/files/alerts.yaml");
const DASHBOARD: &str = include_str!("../charts/isvc-registrar/files/dashboard.json");

/// Begin the names of all metrics that may be made use of: this program's, and the API server's.
const PREFIXES: [&str; 2] = ["isvc_registrar_", "apiserver_"];

/// The metrics that the page lists; a unit test holds it against what the program exposes.
fn listed() -> BTreeSet<String> {
    let first_cells =
        PAGE.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()));
    first_cells.filter(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix))).collect()
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words
        .filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)))
        .map(|word| word.strip_suffix("_bucket").unwrap_or(word).to_owned())
        .collect()
}

/// An alert on a metric that is not there never fires, and nobody notices.
#[test]
fn alerts_and_dashboard_are_made_of_metrics_that_are_there() {
    let known = listed();
    for (what, text) in [("an alert", ALERTS), ("the dashboard", DASHBOARD)] {
        let used = names(text);
        assert!(!used.is_empty());
        let unknown: Vec<&String> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{what} uses what docs/metrics.md does not list: {unknown:?}");
    }
}

fn alerts() -> Vec<Value> {
    let file: Value = serde_norway::from_str(ALERTS).expect("the alerts are well-formed");
    let groups = file["groups"].as_array().expect("there are groups");
    groups.iter().flat_map(|group| group["rules"].as_array().expect("there are rules").clone()).collect()
}

/// People are woken up for these two alone.
#[test]
fn only_failing_calls_and_a_certificate_that_ends_are_pages() {
    let critical: BTreeSet<String> = alerts()
        .iter()
        .filter(|alert| alert["labels"]["severity"] != "warning")
        .map(|alert| alert["alert"].as_str().unwrap_or_default().to_owned())
        .collect();
    let expected = ["IsvcRegistrarCallsFail", "IsvcRegistrarCertificateEnds"].map(str::to_owned);
    assert_eq!(critical, BTreeSet::from(expected));
}

#[test]
fn every_alert_is_explained() {
    for alert in alerts() {
        let name = alert["alert"].as_str().expect("it has a name");
        let severity = alert["labels"]["severity"].as_str().expect("it has a severity");
        let row = format!("| `{name}` | {severity} |");
        assert!(PAGE.contains(&row), "docs/metrics.md has no row {row:?}");
        for annotation in ["summary", "description"] {
            assert!(alert["annotations"][annotation].is_string(), "{name} has no {annotation}");
        }
    }
}

#[test]
fn the_dashboard_is_well_formed() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("it is JSON");
    for panel in dashboard["panels"].as_array().expect("it has panels") {
        let queried = panel["type"] == "row" || panel["targets"][0]["expr"].is_string();
        assert!(queried, "panel {} asks for nothing", panel["title"]);
    }
}
