//! An export as a file for Terraform, and as JSON.

use serde_json::{Value as Json, json};

use super::cloudflare::{Export, Rule};
use super::hcl::{Body, Line, Value, quoted, written};
use crate::cli::Zone;
use crate::output::harmless;

/// How wide comments are.
const WIDTH: usize = 100;

/// The file for Terraform, made from the policy in `file`.
pub(super) fn terraform(export: &Export, file: &str, zone: Option<&Zone>) -> String {
    let mut lines = heading(export, file);
    let zone = match zone {
        None => {
            lines.extend(module());
            Value::Plain("var.zone_id".to_owned())
        }
        Some(Zone::Id(id)) => Value::Text(id.clone()),
        Some(Zone::Reference(reference)) => Value::Plain(reference.clone()),
    };
    let text = |text: &str| Value::Text(text.to_owned());
    let ruleset = vec![
        Line::Is("zone_id", zone),
        Line::Is("name", text("Threshold")),
        Line::Is("description", text("The limits of the edge, made by threshold export cloudflare")),
        Line::Is("kind", text("zone")),
        Line::Is("phase", text("http_ratelimit")),
        Line::Blank,
        Line::Is("rules", Value::List(export.rules.iter().map(rule).collect())),
    ];
    let head = format!("resource {} {}", quoted("cloudflare_ruleset"), quoted("threshold_edge"));
    lines.extend([Line::Blank, Line::Block(head, ruleset)]);
    written(&lines)
}

/// What a file that is a module of its own has besides. Terraform takes it only once, so it is left out where the zone is
/// one that some other file knows.
fn module() -> Body {
    let text = |text: &str| Value::Text(text.to_owned());
    let provider =
        vec![Line::Is("source", text("cloudflare/cloudflare")), Line::Is("version", text("~> 5.0"))];
    let providers = vec![Line::Is("cloudflare", Value::Object(provider))];
    let terraform = vec![Line::Block("required_providers".to_owned(), providers)];
    let about = text("The zone whose requests are limited.");
    let variable = vec![Line::Is("description", about), Line::Is("type", Value::Plain("string".to_owned()))];
    vec![
        Line::Blank,
        Line::Block("terraform".to_owned(), terraform),
        Line::Blank,
        Line::Block(format!("variable {}", quoted("zone_id")), variable),
    ]
}

fn heading(export: &Export, file: &str) -> Body {
    let mut lines = vec![
        Line::Comment(format!(
            "The limits of the edge of {}, for Cloudflare's Terraform provider 5.",
            harmless(file)
        )),
        Line::Comment(
            "Made by `threshold export cloudflare`: change the policy, and make it anew.".to_owned(),
        ),
        Line::Comment(format!("Needs at least Cloudflare's plan {}.", export.plan().name())),
        Line::Comment(String::new()),
        Line::Comment("What differs from the policy, in all rules:".to_owned()),
    ];
    lines.extend(export.remarks.iter().flat_map(|remark| item(remark)));
    if !export.left_out.is_empty() {
        lines.push(Line::Comment(String::new()));
        lines.push(Line::Comment("Left out, and counted by the node alone:".to_owned()));
        lines.extend(export.left_out.iter().flat_map(|left| item(&format!("{}: {}", left.limit, left.why))));
    }
    lines
}

fn rule(rule: &Rule) -> Body {
    let text = |text: &str| Value::Text(text.to_owned());
    let number = |number: u64| Value::Plain(number.to_string());
    let mut lines: Body = rule.notes.iter().flat_map(|note| item(note)).collect();
    lines.extend([
        Line::Is("ref", text(&rule.limit)),
        Line::Is("description", text(&rule.description)),
        Line::Is("expression", text(&rule.expression)),
        Line::Is("action", text(action(rule))),
        Line::Is("enabled", Value::Plain(rule.enabled.to_string())),
    ]);
    if rule.blocks {
        let response = vec![
            Line::Is("status_code", number(429)),
            Line::Is("content_type", text("application/json")),
            Line::Is("content", text(&rule.body)),
        ];
        let response = vec![Line::Is("response", Value::Object(response))];
        lines.push(Line::Is("action_parameters", Value::Object(response)));
    }
    let counted = vec![
        Line::Is("characteristics", Value::Row(vec![text("cf.colo.id"), text("ip.src")])),
        Line::Is("period", number(rule.period)),
        Line::Is("requests_per_period", number(rule.requests)),
        Line::Is("mitigation_timeout", number(rule.timeout)),
    ];
    lines.push(Line::Is("ratelimit", Value::Object(counted)));
    lines
}

const fn action(rule: &Rule) -> &'static str {
    if rule.blocks { "block" } else { "log" }
}

/// A comment with a dash before it, on as many lines as it needs. Nothing in it ends a line.
fn item(text: &str) -> Vec<Line> {
    let mut lines = vec![String::from("-")];
    for word in harmless(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("  {word}")),
        }
    }
    lines.into_iter().map(Line::Comment).collect()
}

/// The JSON document. Its shape is told in the help of the command.
pub(super) fn json(export: &Export, file: &str) -> String {
    let rules: Vec<Json> = export.rules.iter().map(rule_json).collect();
    let left_out: Vec<Json> =
        export.left_out.iter().map(|left| json!({ "limit": left.limit, "why": left.why })).collect();
    let document = json!({
        "file": file, "plan": export.plan().name(), "remarks": export.remarks, "rules": rules,
        "left_out": left_out,
    });
    format!("{document:#}")
}

fn rule_json(rule: &Rule) -> Json {
    json!({
        "limit": rule.limit,
        "description": rule.description,
        "expression": rule.expression,
        "action": action(rule),
        "enabled": rule.enabled,
        "period": rule.period,
        "requests": rule.requests,
        "mitigation_timeout": rule.timeout,
        "body": rule.body,
        "notes": rule.notes,
    })
}
