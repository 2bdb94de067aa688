//! How long a file and a function may be: short enough to be read at one sitting, and on one screen.

use proc_macro2::Span;
use syn::visit::{self, Visit};

use super::{File, Finding};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;

pub(crate) fn check(file: &File) -> Vec<Finding> {
    if !file.is_hand_written_rust() {
        return Vec::new();
    }
    match syn::parse_file(&file.text) {
        Ok(syntax) => file_size(file, &syntax).into_iter().chain(function_sizes(file, &syntax)).collect(),
        Err(error) => {
            let what = format!("this is not Rust that xtask can read: {error}");
            vec![Finding::new(&file.path, error.span().start().line, what)]
        }
    }
}

fn file_size(file: &File, syntax: &syn::File) -> Option<Finding> {
    if is_all_tests(file) {
        return None;
    }
    let lines = first_test_line(syntax).map_or(file.text.lines().count(), |line| line - 1);
    let what = format!("{lines} lines before the tests, at most {FILE_LINES}: split the file by concept");
    (lines > FILE_LINES).then(|| Finding::new(&file.path, FILE_LINES + 1, what))
}

/// Tests may be as long as what they judge is broad; their functions are still held to the limit.
fn is_all_tests(file: &File) -> bool {
    file.has_folder("tests") || file.has_folder("benches") || file.path.ends_with("/tests.rs")
}

/// Where the inline test module begins. A `mod tests;` without a body ends nothing: the file goes on after it.
fn first_test_line(syntax: &syn::File) -> Option<usize> {
    syntax
        .items
        .iter()
        .find_map(|item| match item {
            syn::Item::Mod(module) if module.content.is_some() => {
                module.attrs.iter().find(|a| is_cfg_test(a))
            }
            _ => None,
        })
        .map(|attribute| line(attribute.pound_token.span))
}

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
}

fn function_sizes(file: &File, syntax: &syn::File) -> Vec<Finding> {
    let mut functions = Functions::default();
    functions.visit_file(syntax);
    let long = functions.0.into_iter().filter(|function| function.lines > FUNCTION_LINES);
    long.map(|Function { name, line, lines }| {
        let what = format!(
            "`{name}` has {lines} lines, at most {FUNCTION_LINES}: give its parts names of their own"
        );
        Finding::new(&file.path, line, what)
    })
    .collect()
}

struct Function {
    name: String,
    line: usize,
    /// From `fn` to the closing brace: documentation above it is free.
    lines: usize,
}

#[derive(Default)]
struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = line(signature.fn_token.span);
        let last = body.brace_token.span.close().end().line;
        self.0.push(Function { name: signature.ident.to_string(), line: first, lines: last - first + 1 });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

fn line(span: Span) -> usize {
    span.start().line
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{file, lines};
    use super::*;

    const PATH: &str = "crates/a/src/lib.rs";

    fn constants(count: usize) -> String {
        (0..count).map(|index| format!("const C{index}: u8 = 0;\n")).collect()
    }

    fn function(lines: usize) -> String {
        format!("/// Says why.\nfn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_ends_where_its_tests_begin() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", constants(100));
        assert!(check(&file(PATH, &(constants(500) + &tests))).is_empty());
        assert_eq!(lines(&check(&file(PATH, &(constants(501) + &tests)))), [501]);
    }

    #[test]
    fn a_test_module_elsewhere_does_not_end_the_file() {
        let text = format!("#[cfg(test)]\nmod tests;\n{}", constants(500));
        assert_eq!(check(&file(PATH, &text)).len(), 1);
        let text = format!("#[cfg(feature = \"test\")]\nmod extra {{}}\n{}", constants(500));
        assert_eq!(check(&file(PATH, &text)).len(), 1);
    }

    #[test]
    fn files_of_tests_and_generated_files_may_be_long() {
        let long = constants(600);
        assert!(check(&file("crates/a/tests/laws.rs", &long)).is_empty());
        assert!(check(&file("crates/a/src/memory/tests.rs", &long)).is_empty());
        assert!(check(&file("crates/a/src/generated/rls.rs", &(long + &function(90)))).is_empty());
    }

    #[test]
    fn a_function_is_counted_from_its_name_to_its_brace() {
        assert!(check(&file(PATH, &function(70))).is_empty());
        let findings = check(&file(PATH, &function(71)));
        assert_eq!(lines(&findings), [2]);
        assert!(findings[0].to_string().contains("`long` has 71 lines"));
    }

    #[test]
    fn methods_and_default_methods_count_as_well() {
        for outer in ["impl A {", "trait A {", "mod a {"] {
            let text = format!("{outer}\n{}}}\n", function(71));
            assert_eq!(lines(&check(&file("crates/a/tests/b.rs", &text))), [3], "{outer}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_found() {
        assert_eq!(lines(&check(&file(PATH, "fn a() {}\nfn {}\n"))), [2]);
    }
}
