//! What happens while the store fails, and who shares it.

use super::super::describe::{is_local, on_store_failure};
use super::super::{Enforce, OnStoreFailure};
use super::{Finding, Lint, View};

/// Logins that nothing limits while the store fails.
pub(super) fn open_logins(lint: &Lint<'_>) -> Vec<Finding> {
    let open = |view: &&View<'_>| {
        on_store_failure(view.limit) == OnStoreFailure::Open
            && view.limit.enforce != Enforce::Observe
            && !is_local(view.limit)
            && view.reads_like_login(lint)
    };
    let what = "it reads like a login, and whoever can disturb the store may guess passwords without a limit";
    let remedy = "use `on_store_failure = \"closed\"`";
    let tell = |view: &View<'_>| {
        let chosen = view.limit.on_store_failure.as_ref()?;
        Some(Finding::warning(chosen, what, remedy).about([view.id()]))
    };
    lint.limits.iter().filter(open).filter_map(tell).collect()
}

/// Nodes that share no store, and a shared store whose nodes are not counted.
pub(super) fn nodes(lint: &Lint<'_>) -> Vec<Finding> {
    let Some(store) = &lint.policy.store else { return Vec::new() };
    let shared = lint.policy.shares_store();
    match (&store.nodes, &store.url) {
        (Some(nodes), _) if nodes.value > 1 && !shared => {
            let what = format!("{} nodes cannot share this store: each counts for itself", nodes.value);
            let remedy =
                "use a store that all of them reach, such as redis:// or postgres://, or remove `nodes`";
            vec![Finding::warning(nodes, what, remedy)]
        }
        (None, Some(url)) if shared && lint.limits.iter().any(shares) => {
            let what = "the store is shared, and `nodes` is not given: while it fails every node takes a whole limit";
            vec![Finding::warning(url, what, "add `nodes = ...`, 1 if there is only one")]
        }
        _ => Vec::new(),
    }
}

fn shares(view: &View<'_>) -> bool {
    !is_local(view.limit) && on_store_failure(view.limit) == OnStoreFailure::Share
}
