//! The page: what came out of the last run of each claim.

use std::fmt;

const TITLES: &str = "| claim | figure | bound | holds | date |";

/// One line of the table: claim, figure, bound, whether it holds, and when it was looked at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row(pub(crate) [String; 5]);

impl Row {
    fn claim(&self) -> &str {
        &self.0[0]
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} |", self.0.join(" | "))
    }
}

/// The rows of a page. Those of a page that had one date for all of them have that.
pub(crate) fn rows(page: &str) -> Vec<Row> {
    let date = page.lines().find_map(|line| line.strip_prefix("- date: ")).unwrap_or("unknown");
    let table = page.lines().skip_while(|line| !line.starts_with("| --- |")).skip(1);
    table.filter_map(|line| row(line, date)).collect()
}

fn row(line: &str, date: &str) -> Option<Row> {
    // A bar inside a cell has a backslash before it, so it is never taken for the end of one.
    let cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
    let mut cells: Vec<String> = cells.map(str::to_owned).collect();
    if cells.len() == 4 {
        cells.push(date.to_owned());
    }
    Some(Row(cells.try_into().ok()?))
}

/// What was there before, with the rows of this run instead of those with the same claim.
pub(crate) fn merged(mut before: Vec<Row>, run: impl Iterator<Item = Row>) -> Vec<Row> {
    for row in run {
        match before.iter_mut().find(|other| other.claim() == row.claim()) {
            Some(other) => *other = row,
            None => before.push(row),
        }
    }
    before
}

pub(crate) fn text(machine: &[(&str, String)], today: &str, rows: &[Row]) -> String {
    let machine: String = machine.iter().map(|(what, value)| format!("- {what}: {value}\n")).collect();
    let rows: String = rows.iter().map(Row::to_string).collect();
    format!(
        "# Proof\n\n\
         What Threshold claims, measured at full figures. Written by `cargo xtask prove`, whole or in parts; each row has \
         the date of its own run. Not edited by hand.\n\n\
         - date: {today}\n- command: `cargo xtask prove`\n{machine}\n\
         {TITLES}\n| --- | --- | --- | --- | --- |\n{rows}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(claim: &str, figure: &str, date: &str) -> Row {
        Row([claim, figure, "0", "yes", date].map(str::to_owned))
    }

    #[test]
    fn the_page_holds_the_machine_and_every_row() {
        let rows = [one("exact", "0 over", "2026-01-01"), one("fast", "1 ns", "2026-01-02")];
        let text = text(&[("cores", "2".into())], "2026-01-02", &rows);
        assert!(text.starts_with("# Proof\n"), "{text}");
        let head = format!("- date: 2026-01-02\n- command: `cargo xtask prove`\n- cores: 2\n\n{TITLES}");
        assert!(text.contains(&head), "{text}");
        let tail = "| exact | 0 over | 0 | yes | 2026-01-01 |\n| fast | 1 ns | 0 | yes | 2026-01-02 |\n";
        assert!(text.ends_with(tail), "{text}");
    }

    #[test]
    fn a_page_is_read_back_as_it_was_written() {
        let rows = vec![one("a \\| b", "**0**", "2026-01-01"), one("c", "1", "2026-01-02")];
        assert_eq!(super::rows(&text(&[], "2026-01-03", &rows)), rows);
        assert_eq!(super::rows(""), []);
    }

    #[test]
    fn rows_without_a_date_have_that_of_their_page() {
        let page = "# Proof\n\n- date: 2026-11-15\n\n| claim | figure | bound | holds |\n| --- | --- | --- | --- |\n\
                    | exact | 0 over | 0 | yes |\n";
        assert_eq!(rows(page), [one("exact", "0 over", "2026-11-15")]);
    }

    #[test]
    fn a_run_replaces_its_own_rows_and_keeps_the_others() {
        let before = vec![one("a", "1", "old"), one("b", "2", "old")];
        let run = [one("c", "3", "new"), one("a", "4", "new")];
        let expected = [one("a", "4", "new"), one("b", "2", "old"), one("c", "3", "new")];
        assert_eq!(merged(before, run.into_iter()), expected);
    }
}
