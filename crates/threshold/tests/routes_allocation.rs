//! Matching takes nothing from the heap, nor does reading a path of ordinary length.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../threshold-store/tests/common/heap.rs"]
mod heap;

use heap::allocations_in;
use threshold::route::{Path, RouteOptions, RouteSpec, Routes};

/// A table of 1,002 routes, some of which match.
fn table() -> Routes {
    let many =
        (0..1_000).map(|index| RouteSpec::new(format!("r{index}"), [&*format!("GET /r/{index}/*/**")]));
    let wide =
        [RouteSpec::new("all", ["* /**"]), RouteSpec::new("below", []).on_host("*.example.com", "* /r/**")];
    Routes::compile(&many.chain(wide).collect::<Vec<_>>(), RouteOptions::default()).unwrap()
}

fn allocations(routes: &Routes, target: &str) -> usize {
    let mut found = 0;
    let allocations = allocations_in(|| {
        let path = Path::read(target).unwrap();
        found = routes.matches("GET", Some("a.b.example.com:80"), &path).iter().count();
    });
    assert!(found >= 1, "{target}");
    allocations
}

#[test]
fn a_normal_path_of_any_length_costs_no_allocation() {
    let routes = table();
    let long = format!("/r/999/{}/", "x".repeat(8_000));
    for target in ["/", "/r/7/x/y", "/R/999/x?q=%zz", "//r//3//x/", "http://h/r/1/x", "*", &long] {
        assert_eq!(allocations(&routes, target), 0, "{target}");
    }
}

#[test]
fn an_unusual_path_of_ordinary_length_costs_no_allocation() {
    let routes = table();
    for target in ["/r/7/caf%c3%a9", "/r/./8/x/../y", "/r%2f9/a%2fb;v=1", "\\r\\1\\..\\2\\x"] {
        assert_eq!(allocations(&routes, target), 0, "{target}");
    }
}

#[test]
fn a_refusal_costs_no_allocation() {
    let refused = allocations_in(|| assert!(Path::read("/r/%2561/%zz").is_err()));
    assert_eq!(refused, 0);
}
