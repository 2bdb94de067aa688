//! The JSON Schema: it is what the repository publishes, and it accepts what the reader accepts.

use serde_json::{Value, json};
use threshold::policy::Policy;
use toml::de::{DeTable, DeValue};

use crate::{examples, files, root};

#[test]
fn the_published_schema_is_fresh() {
    let published = std::fs::read_to_string(root().join("docs/policy.schema.json")).unwrap_or_default();
    let published: Value = serde_json::from_str(&published).unwrap_or_default();
    assert!(
        published == Policy::schema(),
        "docs/policy.schema.json is old; refresh it: \
         cargo run -p threshold-server -- schema > docs/policy.schema.json"
    );
}

#[test]
fn examples_fit_the_schema() {
    for (name, text) in examples() {
        assert_eq!(misfit(&Policy::schema(), &json_of(&text)), None, "{name}");
    }
}

#[test]
fn what_the_environment_fills_in_fits_too() {
    let text = "[store]\nnodes = \"${NODES:-3}\"\n\n[[limit]]\nid = \"a\"\nlayer = \"${LAYER:-user}\"\n\
                rate = \"9/s\"\nsilent = \"${SILENT:-true}\"\nenforce = \"${HOW_FAR:-25%}\"\n";
    assert_eq!(misfit(&Policy::schema(), &json_of(text)), None);
}

#[test]
fn what_is_broken_by_its_form_does_not_fit() {
    let corpus = files(&root().join("crates/threshold/tests/data/bad-policies"));
    for name in [
        "field-misspelt",
        "field-missing-id",
        "limit-as-table",
        "string-empty",
        "number-negative",
        "number-too-large",
        "layer-unknown",
        "algorithm-misspelt",
        "cost-zero",
        "enforce-over-a-hundred",
    ] {
        let (_, text) = corpus.iter().find(|(file, _)| *file == format!("{name}.toml")).expect(name);
        assert_ne!(misfit(&Policy::schema(), &json_of(text)), None, "{name}");
    }
}

fn json_of(text: &str) -> Value {
    let table = DeTable::parse(text).unwrap().into_inner();
    value(&DeValue::Table(table))
}

fn value(toml: &DeValue<'_>) -> Value {
    match toml {
        DeValue::Table(table) => {
            table.iter().map(|(name, inner)| (name.get_ref().to_string(), value(inner.get_ref()))).collect()
        }
        DeValue::Array(items) => items.iter().map(|item| value(item.get_ref())).collect(),
        DeValue::String(text) => json!(text),
        DeValue::Boolean(yes) => json!(yes),
        DeValue::Integer(number) => json!(number.as_str().parse::<i64>().unwrap()),
        DeValue::Float(number) => json!(number.as_str()),
        DeValue::Datetime(when) => json!(when.to_string()),
    }
}

/// Why `value` does not fit `schema`: the part of JSON Schema that the policy uses, and nothing passed over.
fn misfit(schema: &Value, value: &Value) -> Option<String> {
    let words = schema.as_object().unwrap();
    words.iter().find_map(|(word, wanted)| {
        let fits = match word.as_str() {
            "type" => is_type(wanted.as_str().unwrap(), value),
            "properties" => return in_properties(words, value),
            "items" => return value.as_array()?.iter().find_map(|item| misfit(wanted, item)),
            "anyOf" => wanted.as_array().unwrap().iter().any(|one| misfit(one, value).is_none()),
            "enum" => wanted.as_array().unwrap().contains(value),
            "const" => wanted == value,
            "minimum" => value.as_i64().is_none_or(|number| number >= wanted.as_i64().unwrap()),
            "maximum" => value.as_u64().is_none_or(|number| number <= wanted.as_u64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.len() as u64 >= wanted.as_u64().unwrap()),
            "maxLength" => value.as_str().is_none_or(|text| text.len() as u64 <= wanted.as_u64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| matches(wanted.as_str().unwrap(), text)),
            "required" => {
                let names = wanted.as_array().unwrap();
                names.iter().all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "additionalProperties" if words.contains_key("properties") => *wanted == json!(false),
            "additionalProperties" => {
                return value.as_object()?.values().find_map(|inner| misfit(wanted, inner));
            }
            "description" | "examples" | "title" | "$schema" => true,
            other => panic!("this test does not know {other:?}"),
        };
        (!fits).then(|| format!("{value} does not fit {word} {wanted}"))
    })
}

fn in_properties(words: &serde_json::Map<String, Value>, value: &Value) -> Option<String> {
    value.as_object()?.iter().find_map(|(name, inner)| match words["properties"].get(name) {
        Some(schema) => misfit(schema, inner),
        None => Some(format!("{name} is not known")),
    })
}

fn is_type(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("this test does not know the type {other:?}"),
    }
}

/// The three patterns that the schema uses, by hand.
fn matches(pattern: &str, text: &str) -> bool {
    let percent = |text: &str| {
        let number = text.strip_suffix('%').map(|number| number.strip_suffix(' ').unwrap_or(number));
        number.is_some_and(|number| number == "100" || number.len() <= 2 && number.parse::<u8>().is_ok())
    };
    match pattern {
        r"\$\{" => text.contains("${"),
        "^(100|[0-9]{1,2}) ?%$" => percent(text),
        "^(on|off|observe|(100|[0-9]{1,2}) ?%)$" => ["on", "off", "observe"].contains(&text) || percent(text),
        other => panic!("this test does not know the pattern {other:?}"),
    }
}
