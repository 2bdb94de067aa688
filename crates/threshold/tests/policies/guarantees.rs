//! What is promised, word for word.

use threshold::policy::LimitGuarantee;

use crate::policy;

/// The only guarantee of a policy with one limit.
fn only(before: &str, limit: &str) -> LimitGuarantee {
    let text = format!("{before}\n[[limit]]\nid = \"a\"\n{limit}\n");
    let mut all = policy(&text).guarantees();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn user(limit: &str) -> LimitGuarantee {
    only("", &format!("layer = \"user\"\nper = \"ip\"\n{limit}"))
}

#[test]
fn in_normal_running() {
    for (limit, normal) in [
        ("rate = \"100/min\"", "at most 199 in any 1min: 100 at once, then 100 per 1min"),
        ("rate = \"100/min\"\nalgorithm = \"sliding-log\"", "at most 100 in any 1min"),
        (
            "rate = \"50MB/day\"\nalgorithm = \"fixed-window\"",
            "at most 50MB in each window of 1d, so at most 100MB in any 1d",
        ),
        ("rate = \"9/s\"\nenforce = \"observe\"", "no bound: it counts and never refuses"),
        ("rate = \"9/s\"\nenforce = \"off\"", "switched off: it neither counts nor refuses"),
        (
            "rate = \"9/s\"\nalgorithm = \"sliding-log\"\nenforce = \"25%\"",
            "for 25 of 100 subjects at most 9 in any 1s; the others are counted and never refused",
        ),
        (
            "rate = \"9/s\"\nalgorithm = \"sliding-log\"\nconsistency = \"local\"",
            "per node, at most 9 in any 1s",
        ),
    ] {
        assert_eq!(user(limit).normal, normal);
    }
}

#[test]
fn while_the_store_fails() {
    for (limit, failure) in [
        ("rate = \"100/min\"\non_store_failure = \"closed\"", "nothing is admitted"),
        ("rate = \"100/min\"\non_store_failure = \"open\"", "no bound: everything is admitted"),
        ("rate = \"100/min\"", "at most twice that over all nodes: 398 in any 1min"),
        (
            "rate = \"10 per 30s\"\nalgorithm = \"concurrency\"",
            "at most twice that over all nodes: 20 at the same time",
        ),
        (
            "rate = \"9/s\"\nenforce = \"25%\"\non_store_failure = \"closed\"",
            "nothing is admitted for those subjects",
        ),
        ("rate = \"9/s\"\nconsistency = \"local\"", "the same: it needs no store"),
        ("rate = \"9/s\"\nenforce = \"observe\"", "the same: it never refuses"),
    ] {
        assert_eq!(user(limit).store_failure, failure);
    }
    assert_eq!(only("", "layer = \"edge\"\nrate = \"9/s\"").store_failure, "the same: it needs no store");
}

const REDIS: &str = "[store]\nurl = \"redis://localhost\"\nsecret = \"0123456789abcdef\"\n";

#[test]
fn while_a_shared_store_fails() {
    let ten = |store: &str, limit: &str| {
        only(&format!("{store}nodes = 10\n"), &format!("layer = \"user\"\n{limit}")).store_failure
    };
    let postgres = REDIS.replace("redis://", "postgres://");
    let twice = "at most twice that over all nodes: 398 in any 1min";
    assert_eq!(ten(&postgres, "rate = \"100/min\""), twice);
    assert_eq!(
        ten(REDIS, "rate = \"100/min\""),
        format!("{twice}; a Redis that comes back without its data starts afresh each time")
    );
    let leased = "rate = \"100/min\"\nconsistency = \"leased\"\non_store_failure = \"closed\"";
    assert_eq!(
        ten(REDIS, leased),
        "nothing is admitted beyond the leases that nodes hold, which are within the limit"
    );
    for none in ["rate = \"2/min\"", "rate = \"40/min\"\ncost = 5"] {
        assert_eq!(
            ten(REDIS, none),
            "nothing is admitted: shared by 10 nodes, nothing is left of it for each",
            "{none}"
        );
    }
    let cache = format!("{REDIS}cache = \"redis://elsewhere\"\n");
    assert!(
        ten(&cache, "rate = \"2/min\"").starts_with("at most twice that"),
        "the second store has half of it"
    );
}

#[test]
fn a_slice_of_a_window_lasts_no_longer_than_it() {
    for (rate, life) in [("100/s", "1s"), ("100/min", "10s")] {
        let limit = format!(
            "layer = \"user\"\nrate = \"{rate}\"\nalgorithm = \"fixed-window\"\nconsistency = \"leased\""
        );
        let notes = only(&format!("{REDIS}lease = \"10s\"\n"), &limit).notes;
        assert_eq!(
            notes,
            [format!(
                "nodes hold leases: together they stay within it, and what one of them does not use of its slice within {life} is lost"
            )]
        );
    }
}

#[test]
fn nodes_that_count_for_themselves_multiply_it() {
    let limit = "layer = \"edge\"\nrate = \"10/min\"\nalgorithm = \"sliding-log\"";
    assert_eq!(only("", limit).normal, "per node, at most 10 in any 1min");
    let three = "[store]\nurl = \"redis://localhost\"\nsecret = \"0123456789abcdef\"\nnodes = 3";
    assert_eq!(
        only(three, limit).normal,
        "per node, at most 10 in any 1min; over 3 nodes, at most 30 in any 1min"
    );
    let exact = limit.replace("edge", "user");
    assert_eq!(only(three, &exact).normal, "at most 10 in any 1min");
    let leased = only(three, "layer = \"user\"\nrate = \"10/min\"\nconsistency = \"leased\"");
    assert_eq!(
        leased.notes,
        [
            "nodes hold leases: together they stay within it; at once they have 9 of it, and what one of them does not use of its slice within 1s is lost"
        ]
    );
    // A store in memory is no other node's.
    let memory = only("[store]\nnodes = 3", &exact);
    assert_eq!(memory.normal, "per node, at most 10 in any 1min; over 3 nodes, at most 30 in any 1min");
    assert_eq!(memory.store_failure, "at most twice that over all nodes: 60 in any 1min");
}

#[test]
fn whom_it_counts_by() {
    let identity = "[identity]\ntrusted_proxies = [\"10.0.0.0/8\"]\ntenant = { header = \"t\" }\nuser = { cookie = \"u\" }";
    for (per, subject) in [
        ("\"ip\"", "each address"),
        ("\"tenant\"", "each tenant; the unknown by address"),
        ("\"user\"", "each user; the anonymous by address"),
        ("\"everyone\"", "everyone together"),
        ("[\"account\", \"ip\"]", "each account and address"),
        ("[\"tenant\", \"user\"]", "each tenant and user; the unknown and the anonymous by address"),
    ] {
        let limit = format!("layer = \"user\"\nrate = \"9/s\"\nper = {per}");
        assert_eq!(only(identity, &limit).subject, subject);
    }
    assert_eq!(only("", "layer = \"user\"\nrate = \"9/s\"").subject, "each address");
}

#[test]
fn a_limit_by_tier_promises_something_for_each() {
    let text = "[identity]\ntenant = { host_label = true }\nunknown_tier = \"free\"\n\n\
                [tiers.free]\nai = \"25/day\"\n\n[tiers.paid]\nai = \"100/day\"\n\n\
                [[limit]]\nid = \"ai\"\nlayer = \"tenant\"\ncategory = \"ai\"\n";
    let all = policy(text).guarantees();
    let told: Vec<(&str, &str)> = all.iter().map(|one| (one.subject.as_str(), one.normal.as_str())).collect();
    assert_eq!(
        told,
        [
            (
                "each tenant of tier `free`; the unknown by address",
                "at most 49 in any 1d: 25 at once, then 25 per 1d"
            ),
            ("each tenant of tier `paid`", "at most 199 in any 1d: 100 at once, then 100 per 1d"),
        ]
    );
}

#[test]
fn what_belongs_to_it() {
    assert_eq!(user("rate = \"9/s\"\nblock_for = \"5min\"").notes, ["once over, refused for 5min"]);
    assert_eq!(user("rate = \"9/s\"\ncost = 3").notes, ["each request counts as 3"]);
    assert_eq!(user("rate = \"1MB/s\"").notes, ["counts the bytes of request bodies"]);
    assert_eq!(
        user("rate = \"9 per 30s\"\nalgorithm = \"concurrency\"").notes,
        ["surfaces that cannot see a request end pass it over"]
    );
    let account = only("", "layer = \"user\"\nrate = \"9/s\"\nper = [\"account\", \"ip\"]");
    assert_eq!(account.notes, ["requests that name no account are passed over"]);
}

#[test]
fn larger_networks_have_a_sentence_of_their_own() {
    let aggregates = "[identity]\nipv6_aggregates = [{ prefix = 56, times = 8 }]";
    let limit = only(aggregates, "layer = \"user\"\nrate = \"100/min\"\nper = \"ip\"");
    // Not 8 times 199: the bucket is one of 800.
    assert_eq!(
        limit.notes,
        ["and 8 times the rate for each IPv6 /56: at most 1599 in any 1min: 800 at once, then 800 per 1min"]
    );
    assert!(only(aggregates, "layer = \"user\"\nrate = \"100/min\"").notes.is_empty());
}

#[test]
fn grace_is_part_of_it_where_the_ladder_warns() {
    let limit = "layer = \"user\"\nrate = \"100/min\"\nper = \"ip\"";
    let grace = "the ladder's grace lets at most 10 more through in each 1min";
    assert_eq!(only("[ladder]", limit).notes, [grace]);
    assert_eq!(
        only("[ladder]", &limit.replace("100/", "5/")).notes,
        ["the ladder's grace lets at most 1 more through in each 1min"]
    );
    assert!(only("[ladder]\nrungs = [{ strikes = 1, ban = \"1h\" }]", limit).notes.is_empty());
    assert!(only("[ladder]", "layer = \"edge\"\nrate = \"100/min\"").notes.is_empty());
    let leased = only("[ladder]", &format!("{limit}\nconsistency = \"leased\"")).notes;
    assert!(leased.len() == 1 && leased[0].contains("hold leases"), "grace is for exact limits: {leased:?}");
}

#[test]
fn remarks_say_what_holds_for_all() {
    let text =
        "[identity]\nipv6_prefix = 56\n\n[lists]\nallow = [\"10.0.0.0/8\"]\nallow_users = [\"a\", \"b\"]\n";
    assert_eq!(
        policy(text).remarks(),
        [
            "An address is one IPv4 address or one IPv6 /56.",
            "No limit binds the listed: 1 network, 2 users.",
            "The store is this process's memory: it fails only with the process, and counters then start afresh.",
        ]
    );
}

#[test]
fn what_abuse_is_answered_with_is_said_in_words() {
    let ready_made = policy("[ladder]\n[reputation]\n[login]\n").remarks().join("\n");
    for told in [
        "5 strikes: banned for 1d, reported",
        "4 strikes: refused for 5min, answers held back for 1h, reported",
        "have 60 %, 30 % and 10 % of the limits",
        "3 for 1min, 5 for 5min, 10 for 1h",
        "100/hour",
    ] {
        assert!(ready_made.contains(told), "{told:?} in {ready_made}");
    }
    let own =
        policy("[ladder]\nrungs = [{ strikes = 2, warn = true, shadow = \"2h\" }]\n[login]\nlockout = []\n");
    let own = own.remarks().join("\n");
    assert!(own.contains("2 strikes: grace with a warning, answers held back for 2h"), "{own}");
    assert!(own.contains("failures lock nobody out"), "{own}");
}

#[test]
fn of_descriptors() {
    let of =
        |rest: &str| only("", &format!("layer = \"endpoint\"\ndomain = \"edge\"\nrate = \"9/s\"\n{rest}"));
    let each = of("descriptor = [\"database=users\", \"remote_address\", \"path=/api/*\"]");
    assert_eq!(each.subject, "each remote_address and path like /api/*");
    assert_eq!(each.requests, "descriptors (database=users, remote_address, path=/api/*) of domain \"edge\"");
    let together = of("descriptor = [\"path=/api/*\"]\nshared = [\"path\"]\ncost = 2");
    assert_eq!(together.subject, "all of them together");
    assert_eq!(together.notes, ["each hit counts as 2"]);
}
