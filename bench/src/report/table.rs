//! Markdown tables that also read well in a terminal.

/// Lays out rows, the first being the head: first column to the left, figures to the right.
pub(crate) fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| pad(cell, *width, column))
            .collect();
        text += &format!("| {} |\n", cells.join(" | "));
        if number == 0 {
            text += &rule(&widths);
        }
    }
    text
}

fn pad(cell: &str, width: usize, column: usize) -> String {
    let space = " ".repeat(width - cell.chars().count());
    if column == 0 { format!("{cell}{space}") } else { format!("{space}{cell}") }
}

fn rule(widths: &[usize]) -> String {
    let cells = widths.iter().enumerate().map(|(column, width)| match column {
        0 => "-".repeat(*width),
        _ => format!("{}:", "-".repeat(width - 1)),
    });
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// A row out of anything that prints.
pub(crate) fn row<const N: usize>(cells: [&dyn std::fmt::Display; N]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}

/// Three significant digits are more than the spread deserves.
pub(crate) fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// `1`, `10 k`, `1 M`.
pub(crate) fn keys(count: usize) -> String {
    match count {
        c if c >= 1_000_000 => format!("{} M", c / 1_000_000),
        c if c >= 1_000 => format!("{} k", c / 1_000),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let text = render(&[row([&"peer", &"ns"]), row([&"ours", &figure(12.345)])]);
        assert_eq!(text, "| peer |   ns |\n| ---- | ---: |\n| ours | 12.3 |\n");
    }
}
