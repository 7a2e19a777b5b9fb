//! The chart's page of values, its defaults and its schema say the same.

use std::collections::BTreeMap;

use serde_json::Value;

const PAGE: &str = include_str!("../charts/isvc-registrar/README.md");
const SCHEMA: &str = include_str!("../charts/isvc-registrar/values.schema.json");
const VALUES: &str = include_str!("../charts/isvc-registrar/values.yaml");

/// Helm's own, which every chart has.
const GLOBAL: &str = "global";

/// The schema that a reference means, or the schema itself.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/definitions/")) {
        Some(name) => &root["definitions"][name],
        None => schema,
    }
}

/// The paths of all values that have no others inside.
fn leaves(root: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    let schema = resolved(root, schema);
    let Some(properties) = schema["properties"].as_object() else {
        found.push(path.to_owned());
        return;
    };
    assert_eq!(schema["additionalProperties"], false, "the schema lets anything into {path:?}");
    for (name, schema) in properties.iter().filter(|(name, _)| !path.is_empty() || *name != GLOBAL) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        leaves(root, schema, &path, found);
    }
}

#[test]
fn the_page_lists_every_value_with_its_default() {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let values: Value = serde_norway::from_str(VALUES).expect("the values are YAML");
    let mut paths = Vec::new();
    leaves(&schema, &schema, "", &mut paths);
    let defaults: BTreeMap<String, Value> = paths
        .into_iter()
        .map(|path| {
            let pointer = format!("/{}", path.replace('.', "/"));
            let default = values.pointer(&pointer).cloned();
            let default =
                default.unwrap_or_else(|| panic!("values.yaml has no {path}, which the schema has"));
            (path, default)
        })
        .collect();

    let rows = PAGE.lines().filter_map(|line| {
        let (path, rest) = line.strip_prefix("| `")?.split_once("` | `")?;
        let (default, _) = rest.split_once("` | ")?;
        let default =
            serde_json::from_str(default).unwrap_or_else(|_| panic!("no JSON in the row of {path}"));
        Some((path.to_owned(), default))
    });
    let listed: BTreeMap<String, Value> = rows.collect();
    assert_eq!(listed, defaults, "the chart's README.md on the left, values.yaml on the right");
}
