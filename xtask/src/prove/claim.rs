//! One claim, as a proving test writes it down.

use serde_json::Value;

use super::page::Row;

/// What was claimed and what came out. Figures are text: their units are the test's business.
#[derive(Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) claim: String,
    pub(crate) figure: String,
    pub(crate) bound: String,
    pub(crate) holds: bool,
}

impl Claim {
    /// The claim's line in the table, as it came out on `date`.
    pub(crate) fn row(&self, date: &str) -> Row {
        let holds = if self.holds { "yes" } else { "**no**" };
        Row([&self.claim, &self.figure, &self.bound, holds, date].map(cell))
    }
}

/// Reads one proof file.
pub(crate) fn parse(text: &str) -> Result<Claim, String> {
    let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(Claim {
        claim: field(&json, "claim")?,
        figure: field(&json, "figure")?,
        bound: field(&json, "bound")?,
        // Never assumed: a missing verdict must not read as a good one.
        holds: json["holds"].as_bool().ok_or("`holds` must be true or false")?,
    })
}

fn field(json: &Value, name: &str) -> Result<String, String> {
    match &json[name] {
        Value::String(text) if !text.trim().is_empty() => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(format!("`{name}` must be text or a number")),
    }
}

/// A bar or a line break would end the cell early.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_read() {
        let text = r#"{"claim": "never over", "figure": 0, "bound": "0", "holds": true, "seconds": 1.2}"#;
        let expected =
            Claim { claim: "never over".into(), figure: "0".into(), bound: "0".into(), holds: true };
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn a_missing_verdict_is_refused() {
        let refusal = parse(r#"{"claim": "c", "figure": "f", "bound": "b"}"#).unwrap_err();
        assert!(refusal.contains("holds"), "{refusal}");
        assert!(parse("").is_err());
    }

    #[test]
    fn a_row_cannot_be_broken_by_its_text() {
        let claim = Claim { claim: "a|b\nc".into(), figure: "1".into(), bound: "2".into(), holds: true };
        assert_eq!(claim.row("2026-01-02").to_string(), "| a\\|b c | 1 | 2 | yes | 2026-01-02 |\n");
    }
}
