//! Every Rust block of the README and the guide is run by a test.

use super::{File, Finding};

/// The tests that run them.
const RUN_BY: [&str; 2] = ["crates/threshold/tests/guide.rs", "crates/threshold-http/tests/guide.rs"];

/// Finds blocks that the test does not contain. White space does not count: the formatter moves it.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let tests = files.iter().filter(|file| RUN_BY.contains(&file.path.as_str()));
    let test: String = tests.map(|file| dense(&file.text)).collect();
    let pages = files.iter().filter(|file| file.path == "README.md" || file.path.starts_with("docs/guide/"));
    pages.flat_map(|page| missing(page, &test)).collect()
}

fn missing(page: &File, test: &str) -> Vec<Finding> {
    let unrun = blocks(&page.text).into_iter().filter(|(_, code)| !test.contains(&dense(code)));
    let what = format!("this block is not run: put it into {} as it stands", RUN_BY.join(" or "));
    unrun.map(|(line, _)| Finding::new(&page.path, line, what.as_str())).collect()
}

/// The Rust blocks of a page, each with the line it starts at.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line) {
            (None, "```rust") => open = Some((index + 1, String::new())),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some((_, code)), line) => *code += line,
            (None, _) => {}
        }
    }
    blocks
}

/// Without white space and trailing commas, both of which the formatter moves.
fn dense(text: &str) -> String {
    let packed: String = text.split_whitespace().collect();
    packed.replace(",)", ")").replace(",}", "}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_block_that_no_test_runs_is_found() {
        let page = file("README.md", "text\n```rust\nlet a = 1;\n```\n```toml\nb = 2\n```\n");
        let test = file(RUN_BY[0], "fn a() {\n    let a =\n        1;\n}");
        assert_eq!(check(&[page, test]), []);
        let page = file("docs/guide/x.md", "```rust\nlet c = 1;\n```\n");
        assert_eq!(check(&[page]).len(), 1);
    }
}
