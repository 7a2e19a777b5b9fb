//! Replays the recording of real registries against the embedded one, over both APIs.
//!
//! `ISVC_REGISTRAR_TEST_REGISTRY=URL` replays it against another server instead, which must be empty: then over
//! the API in `ISVC_REGISTRAR_TEST_REGISTRY_API` (v1 by default) alone.
//!
//! In the recording, what differs from one server to the next is a variable: `${ms}` a time, `${token}` a page's
//! token, `${uuid}` a name that the server made up, `${text}` words for people, `${other}` an id that plays no
//! further part; any other is the id that the server first answered in its place.

mod http;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use http::{Reply, client, send};
use isvc_registrar::registry::embedded::{EmbeddedRegistry, Registry};
use serde::Deserialize;
use serde_json::Value;

const RECORDING: &str = include_str!("fixtures/registry.jsonl");

/// The recording says how many there are in its own documentation; a cut file must not pass.
const STEPS: usize = 139;

#[derive(Debug, Deserialize)]
struct Exchange {
    step: String,
    method: String,
    /// Below the API, or below the root when it begins with `!`.
    path: String,
    body: Option<Value>,
    status: u16,
    #[serde(rename = "type")]
    content_type: String,
    answer: Value,
}

/// What the variables stand for on this server.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    /// Puts values in the place of variables.
    fn fill(&self, text: &str) -> String {
        self.0
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }

    /// Whether an answer is what the recording says; what differs is added to `differences` with its place.
    fn compare(&mut self, place: &str, recorded: &Value, got: &Value, differences: &mut Vec<String>) {
        match (recorded, got) {
            (Value::Object(recorded), Value::Object(got)) => {
                for (key, value) in recorded {
                    let place = format!("{place}.{key}");
                    match got.get(key) {
                        Some(got) => self.compare(&place, value, got, differences),
                        None => differences.push(format!("{place}: missing")),
                    }
                }
                for key in got.keys().filter(|key| !recorded.contains_key(*key)) {
                    differences.push(format!("{place}.{key}: not in the recording"));
                }
            }
            (Value::Array(recorded), Value::Array(got)) if recorded.len() == got.len() => {
                for (index, (recorded, got)) in recorded.iter().zip(got).enumerate() {
                    self.compare(&format!("{place}[{index}]"), recorded, got, differences);
                }
            }
            (Value::String(recorded), Value::String(got)) if self.stands_for(recorded, got) => {}
            (recorded, got) if recorded == got => {}
            _ => differences.push(format!("{place}: {got}, recorded {recorded}")),
        }
    }

    /// Whether a recorded text, with its variable if it is one, is what was got.
    fn stands_for(&mut self, recorded: &str, got: &str) -> bool {
        let number = !got.is_empty() && got.bytes().all(|byte| byte.is_ascii_digit());
        let Some(name) = recorded.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
            return recorded == got;
        };
        match name {
            "ms" => number && got.len() == "1790000000000".len(),
            "text" => !got.is_empty(),
            "uuid" => is_uuid(got),
            "other" => number,
            "token" => {
                // The next step that goes on from a page calls its token by this name.
                self.0.insert("page".to_owned(), got.to_owned());
                !got.is_empty()
            }
            _ => number && self.0.entry(name.to_owned()).or_insert_with(|| got.to_owned()) == got,
        }
    }

    /// Whether the whole answer is what the recording says.
    fn differences(&mut self, step: &Exchange, reply: &Reply) -> Vec<String> {
        let mut differences = Vec::new();
        if reply.status != step.status {
            differences.push(format!("status {}, recorded {}", reply.status, step.status));
        }
        if reply.content_type != step.content_type {
            differences.push(format!("type {:?}, recorded {:?}", reply.content_type, step.content_type));
        }
        match (&step.answer, reply.json()) {
            // Words that are no JSON are free.
            (Value::String(_), None) => {}
            (recorded, Some(got)) => self.compare("answer", recorded, &got, &mut differences),
            (_, None) => differences.push(format!("answer is no JSON: {:?}", reply.text)),
        }
        differences
    }
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'))
}

/// The body of a step with its content type: text is sent as it is, and a list of two is a type and a text.
fn body_of(step: &Exchange, names: &Names) -> Option<(String, String)> {
    let json = "application/json";
    let (content_type, text) = match step.body.as_ref()? {
        Value::String(text) => (json, text.clone()),
        Value::Array(pair) => match pair.as_slice() {
            [Value::String(content_type), Value::String(text)] => (content_type.as_str(), text.clone()),
            _ => (json, Value::Array(pair.clone()).to_string()),
        },
        other => (json, other.to_string()),
    };
    Some((content_type.to_owned(), names.fill(&text)))
}

async fn replay(root: &str, api: &str) {
    let client = client();
    let mut names = Names::default();
    let mut failed = Vec::new();
    let mut steps = 0;
    for line in RECORDING.lines() {
        let step: Exchange = serde_json::from_str(line).expect("a line of the recording");
        let url = match step.path.strip_prefix('!') {
            Some(path) => format!("{root}{path}"),
            None => format!("{root}/api/model_registry/{api}{}", names.fill(&step.path)),
        };
        let body = body_of(&step, &names);
        let body = body.as_ref().map(|(content_type, text)| (content_type.as_str(), text.clone()));
        let differences = match send(&client, &step.method, &url, body).await {
            Ok(reply) => names.differences(&step, &reply),
            Err(error) => vec![error.to_string()],
        };
        if !differences.is_empty() {
            failed.push(format!("{}\n    {}", step.step, differences.join("\n    ")));
        }
        steps += 1;
    }
    assert_eq!(steps, STEPS, "the recording is not whole");
    assert!(
        failed.is_empty(),
        "{} of {steps} steps over {api} differ from the recording:\n  {}",
        failed.len(),
        failed.join("\n  ")
    );
}

async fn replay_where_asked(api: &str) {
    if let Ok(url) = std::env::var("ISVC_REGISTRAR_TEST_REGISTRY") {
        let only = std::env::var("ISVC_REGISTRAR_TEST_REGISTRY_API");
        if only.as_deref().unwrap_or("v1") == api {
            replay(url.trim_end_matches('/'), api).await;
        } else {
            println!("left out over {api}: the other registry is empty only once");
        }
        return;
    }
    let server =
        EmbeddedRegistry::start(Registry::new(), (Ipv4Addr::LOCALHOST, 0).into()).await.expect("a free port");
    replay(&server.url(), api).await;
    server.stop().await;
}

#[tokio::test]
async fn the_recording_holds_over_v1() {
    replay_where_asked("v1").await;
}

#[tokio::test]
async fn the_recording_holds_over_v1alpha3() {
    replay_where_asked("v1alpha3").await;
}

#[test]
fn a_changed_answer_is_noticed() {
    let recorded = serde_json::json!({"id": "${m}", "name": "a", "createTimeSinceEpoch": "${ms}", "size": 1});
    let same =
        serde_json::json!({"id": "7", "name": "a", "createTimeSinceEpoch": "1790000000000", "size": 1});
    let mut names = Names(BTreeMap::from([("m".to_owned(), "7".to_owned())]));
    let mut compare = |got: &Value| {
        let mut differences = Vec::new();
        names.compare("", &recorded, got, &mut differences);
        differences
    };
    assert!(compare(&same).is_empty());
    for (key, value) in [
        ("id", Value::from("8")),
        ("id", Value::from(7)),
        ("name", Value::from("b")),
        ("createTimeSinceEpoch", Value::from("soon")),
        ("size", Value::from(2)),
        ("size", Value::from("1")),
        ("surplus", Value::from(1)),
    ] {
        let mut changed = same.clone();
        changed[key] = value;
        assert_eq!(compare(&changed).len(), 1, "{changed}");
    }
    let mut shorter = same.clone();
    shorter.as_object_mut().expect("an object").remove("name");
    assert_eq!(compare(&shorter).len(), 1);
}
