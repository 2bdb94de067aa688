//! Tables with aligned columns.

use super::{Output, Style, harmless};

/// Prints `rows` below `headings`. Cells may hold what others wrote.
pub(crate) fn table<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    rows: &[[String; COLUMNS]],
    output: &mut Output,
) {
    let rows: Vec<[String; COLUMNS]> =
        rows.iter().map(|row| row.each_ref().map(|cell| harmless(cell))).collect();
    let mut widths = headings.map(width);
    for row in &rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    let heading = output.styled(Style::Heading, &line(&headings, &widths));
    output.line(&heading);
    rows.iter().for_each(|row| output.line(&line(row, &widths)));
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// The last cell is not filled up: it would only wrap.
fn line(cells: &[impl AsRef<str>], widths: &[usize]) -> String {
    let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{:<width$}", cell.as_ref()));
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let widths = [4, 2];
        assert_eq!(line(&["a", "b"], &widths), "a     b");
        assert_eq!(line(&["müde", ""], &widths), "müde");
    }
}
