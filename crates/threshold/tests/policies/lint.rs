//! Each rule of the linter on a policy that breaks it, and on one that does not.

use threshold::policy::Finding;

use crate::policy;

/// The findings whose words contain `part`, as `severity line:column field (limits)`.
fn found(text: &str, part: &str) -> Vec<String> {
    let findings: Vec<Finding> = policy(text).lint();
    let told = findings.iter().filter(|finding| finding.what.contains(part));
    told.map(|finding| {
        let Finding { severity, line, column, field, limits, .. } = finding;
        format!("{severity} {line}:{column} {field} ({})", limits.join(" "))
    })
    .collect()
}

fn limit(rest: &str) -> String {
    format!("[[limit]]\nid = \"a\"\nlayer = \"user\"\n{rest}\n")
}

const USERS: &str = "[identity]\nuser = { cookie = \"u\" }\n";
const NONE: [&str; 0] = [];

#[test]
fn routes_that_no_limit_names() {
    let text = "[routes]\nposts = \"POST /posts\"\nother = \"POST /other\"\n".to_owned();
    let text = text + &limit("rate = \"9/s\"\nroute = \"posts\"");
    assert_eq!(found(&text, "no limit names"), ["warning 3:1 routes.other ()"]);
}

#[test]
fn routes_that_meet() {
    let with =
        |routes: &str| format!("[routes]\n{routes}\n{}", limit("rate = \"9/s\"\nroute = [\"one\", \"two\"]"));
    let meet = |routes: &str| found(&with(routes), "can match this route");
    assert_eq!(meet("one = \"* /api/**\"\ntwo = \"POST /api/posts\""), ["note 2:1 routes.one ()"]);
    assert_eq!(meet("one = \"GET /a/*\"\ntwo = \"HEAD /a/{id}\""), ["note 2:1 routes.one ()"]);
    assert_eq!(meet("one = \"GET /A\"\ntwo = \"GET /a\""), ["note 2:1 routes.one ()"]);
    assert_eq!(meet("one = \"* /api/**\"\ntwo = \"* /api\""), ["note 2:1 routes.one ()"]);
    assert_eq!(meet("one = \"GET /api/**\"\ntwo = \"POST /api/posts\""), NONE);
    assert_eq!(meet("one = \"GET /a/*\"\ntwo = \"GET /a\""), NONE);
    let host = |host: &str| format!("two = {{ host = \"{host}\", path = \"* /**\" }}");
    let one = "one = { host = \"*.example.com\", path = \"* /**\" }\n";
    assert_eq!(meet(&(one.to_owned() + &host("a.example.com"))), ["note 2:1 routes.one ()"]);
    assert_eq!(meet(&(one.to_owned() + &host("example.com"))), NONE);
    // Limits of different layers are meant to meet.
    let apart = "[routes]\none = \"* /**\"\ntwo = \"* /x\"\n".to_owned()
        + &limit("rate = \"9/s\"\nroute = \"one\"")
        + "[[limit]]\nid = \"b\"\nlayer = \"endpoint\"\nrate = \"9/s\"\nroute = \"two\"\n";
    assert_eq!(found(&apart, "can match this route"), NONE);
}

#[test]
fn what_is_left_for_unmatched() {
    let unmatched = limit("rate = \"9/s\"\nroute = \"unmatched\"");
    assert_eq!(found(&unmatched, "for every request"), ["note 5:9 limit[0].route (a)"]);
    let all = "[routes]\nall = \"* /**\"\n".to_owned()
        + &unmatched
        + "[[limit]]\nid = \"b\"\nlayer = \"user\"\nrate = \"9/s\"\nroute = \"all\"\n";
    assert_eq!(found(&all, "for no request"), ["warning 7:9 limit[0].route (a b)"]);
    assert_eq!(found(&all.replace("/**", "/x/**"), "for no request"), NONE);
}

#[test]
fn accounts_where_no_request_names_one() {
    let text = "[routes]\nposts = \"POST /posts\"\nsign = \"POST /auth/token\"\n".to_owned();
    let by_account = |route: &str| {
        text.clone() + &limit(&format!("rate = \"9/s\"\nper = \"account\"\nroute = \"{route}\""))
    };
    assert_eq!(found(&by_account("posts"), "name an account"), ["warning 8:7 limit[0].per (a)"]);
    assert_eq!(found(&by_account("sign"), "name an account"), NONE);
    // Authors are no logins.
    assert_eq!(found(&by_account("sign").replace("/auth/token", "/authors"), "name an account").len(), 1);
}

#[test]
fn users_where_everybody_is_anonymous() {
    let text = limit("rate = \"9/s\"");
    assert_eq!(found(&text, "no request has a user"), ["warning 2:6 limit[0].id (a)"]);
    assert_eq!(found(&(USERS.to_owned() + &text), "no request has a user"), NONE);
    assert_eq!(found(&limit("rate = \"9/s\"\nper = \"ip\""), "no request has a user"), NONE);
}

#[test]
fn headers_that_nobody_is_trusted_to_send() {
    let text = "[identity]\nuser = { header = \"x-user\" }\ntenant = { header = \"x-tenant\" }\n";
    assert_eq!(
        found(text, "only from a trusted proxy"),
        ["warning 2:8 identity.user ()", "warning 3:10 identity.tenant ()"]
    );
    let trusted = text.to_owned() + "trusted_proxies = [\"10.0.0.0/8\"]\n";
    assert_eq!(found(&trusted, "only from a trusted proxy"), NONE);
}

#[test]
fn limits_for_everyone_that_few_can_fill() {
    let all = "[[limit]]\nid = \"all\"\nlayer = \"endpoint\"\nper = \"everyone\"\nrate = \"100/min\"\n";
    assert_eq!(found(all, "one client can use all of it up"), ["warning 4:7 limit[0].per (all)"]);
    let single = |rate: &str| all.to_owned() + &limit(&format!("per = \"ip\"\nrate = \"{rate}\""));
    assert_eq!(found(&single("10/min"), "10 clients"), ["warning 4:7 limit[0].per (all a)"]);
    assert_eq!(found(&single("1/min"), "100 clients").len(), 1);
    assert_eq!(found(&single("59/hour"), "clients"), NONE);
    let canary = all.to_owned() + "enforce = \"25%\"\n";
    assert_eq!(found(&canary, "for all or for none"), ["warning 4:7 limit[0].per (all)"]);
}

const TIERS: &str = "[identity]\ntenant = { host_label = true }\nunknown_tier = \"free\"\n\
                     [tenants]\nacme = \"paid\"\n[tiers.free]\nai = \"25/day\"\n[tiers.paid]\nai = \"100/day\"\n\
                     [[limit]]\nid = \"ai\"\nlayer = \"tenant\"\ncategory = \"ai\"\n";

#[test]
fn tiers_and_tenants_that_nothing_uses() {
    assert_eq!(found(TIERS, "tier"), NONE);
    let no_tenant = TIERS.replace("[tenants]\nacme = \"paid\"\n", "");
    assert_eq!(found(&no_tenant, "no tenant has this tier"), ["note 6:8 tiers.paid ()"]);
    let claimed = no_tenant
        .replace("unknown_tier", "trusted_proxies = [\"::1\"]\ntier = { header = \"t\" }\nunknown_tier");
    assert_eq!(found(&claimed, "no tenant has this tier"), NONE);
    let category = TIERS.replace("[tiers.paid]\n", "[tiers.paid]\nuploads = \"1/day\"\n");
    assert_eq!(found(&category, "no limit takes its rate from"), ["warning 9:1 tiers.paid.uploads ()"]);
    let unasked = "[tenants]\nacme = \"paid\"\n[tiers.paid]\nai = \"9/s\"\n";
    assert_eq!(found(unasked, "no request has one"), ["warning 2:1 tenants.acme ()"]);
    let unasked = unasked.to_owned() + "[identity]\ntenant = { host_label = true }\n";
    assert_eq!(found(&unasked, "no limit asks for them"), ["note 2:1 tenants.acme ()"]);
}

#[test]
fn tenants_that_fall_through_the_tiers() {
    let no_unknown = TIERS.replace("unknown_tier = \"free\"\n", "");
    assert_eq!(found(&no_unknown, "limits by tier pass them over"), ["warning 12:12 limit[0].category (ai)"]);
    let gap = TIERS.replace("[tiers.paid]\nai", "[tiers.paid]\nwrites");
    assert_eq!(found(&gap, "does not bind tenants of `paid`"), ["note 13:12 limit[0].category (ai)"]);
    let periods = TIERS.replace("100/day", "100/hour");
    assert_eq!(found(&periods, "starts afresh"), ["note 9:6 tiers.paid.ai (ai)"]);
}

#[test]
fn blocks_that_are_shorter_than_the_wait() {
    let block = |rest: &str| found(&(USERS.to_owned() + &limit(rest)), "by the limit itself");
    let short = ["note 7:13 limit[0].block_for (a)"];
    assert_eq!(block("rate = \"10/day\"\nblock_for = \"1h\""), short);
    assert_eq!(block("rate = \"10/day\"\nblock_for = \"3h\""), NONE);
    let log = "rate = \"10/hour\"\nblock_for = \"59min\"\nalgorithm = \"sliding-log\"";
    assert_eq!(block(log), short);
    assert_eq!(block(&log.replace("59min", "1h")), NONE);
}

#[test]
fn buckets_whose_burst_nobody_chose() {
    let text = USERS.to_owned() + &limit("rate = \"100/min\"");
    assert_eq!(found(&text, "up to 199 pass in some 1min"), ["note 6:8 limit[0].rate (a)"]);
    let remedy = &policy(&text).lint()[0].remedy;
    assert!(
        remedy.ends_with("write `algorithm = \"sliding-log\"` or `rate = \"91/min burst 10\"`"),
        "{remedy}"
    );
    for chosen in ["\"91/min burst 10\"", "\"100/min\"\nalgorithm = \"token-bucket\"", "\"1/min\""] {
        assert_eq!(found(&(USERS.to_owned() + &limit(&format!("rate = {chosen}"))), "pass in some"), NONE);
    }
    // One finding for all of them.
    let second = text + "[[limit]]\nid = \"b\"\nlayer = \"endpoint\"\nrate = \"5 per 7min\"\n";
    assert_eq!(found(&second, "likewise 1 other limit"), ["note 6:8 limit[0].rate (a b)"]);
}

#[test]
fn logins_that_fail_open() {
    let login = "[[limit]]\nid = \"login\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"9/s\"\non_store_failure = \"open\"\n";
    assert_eq!(found(login, "guess passwords"), ["warning 6:20 limit[0].on_store_failure (login)"]);
    assert_eq!(found(&login.replace("\"open\"", "\"closed\""), "guess passwords"), NONE);
    assert_eq!(found(&login.replace("\"login\"", "\"posts\""), "guess passwords"), NONE);
}

#[test]
fn nodes_and_the_store_they_share() {
    assert_eq!(found("[store]\nnodes = 3\n", "cannot share this store"), ["warning 2:9 store.nodes ()"]);
    let shared = "[store]\nurl = \"redis://localhost\"\nsecret = \"0123456789abcdef\"\n".to_owned();
    let text = shared.clone() + USERS + &limit("rate = \"9/s\"");
    assert_eq!(found(&text, "`nodes` is not given"), ["warning 2:7 store.url ()"]);
    assert_eq!(found(&(shared + "nodes = 3\n" + USERS + &limit("rate = \"9/s\"")), "nodes"), NONE);
}

#[test]
fn a_policy_that_means_what_it_says_has_no_findings() {
    let text = USERS.to_owned() + &limit("rate = \"91/min burst 10\"");
    assert_eq!(policy(&text).lint(), []);
}

#[test]
fn types_that_nobody_tells_apart() {
    let by_type = "[[limit]]\nid = \"chat\"\nlayer = \"user\"\nper = [\"user\", \"type\"]\nrate = \"9/s\"\n";
    let every = format!("{by_type}messages = \"*\"\n");
    assert_eq!(found(&every, "all messages are of one"), ["warning 4:7 limit[0].per ()"]);
    for known in ["costs = { Compute = 5 }\n", "[websocket]\ntypes = [\"Chat\"]\n"] {
        assert!(found(&format!("{every}{known}"), "all messages are of one").is_empty(), "{known}");
    }
    assert!(found(&format!("{by_type}messages = \"Chat\"\n"), "all messages are of one").is_empty());
}

#[test]
fn patterns_that_an_earlier_one_hides() {
    let with = |id: &str, entries: &str| {
        format!(
            "[[limit]]\nid = \"{id}\"\nlayer = \"user\"\ndomain = \"d\"\ndescriptor = {entries}\nrate = \"9/s\"\n"
        )
    };
    let hidden =
        |one: &str, other: &str| found(&(with("a", one) + &with("b", other)), "comes first and takes");
    assert_eq!(
        hidden("[\"path=/api/*\"]", "[\"path=/api/v1/*\"]"),
        ["warning 11:15 limit[1].descriptor[0] (b a)"]
    );
    assert_eq!(hidden("[\"path=/api/v1/*\"]", "[\"path=/api/*\"]"), NONE);
    assert_eq!(hidden("[\"x\", \"path=/a*\"]", "[\"y\", \"path=/a/b*\"]"), NONE);
    assert_eq!(hidden("[\"path=/a*\", \"x\"]", "[\"path=/a*\", \"y\"]"), NONE);
}

#[test]
fn policies_without_a_limit() {
    let none = "there is no limit";
    assert_eq!(found("", none), ["warning 1:1 limit ()"]);
    assert_eq!(found("[server]\ngateway = \"127.0.0.1:0\"\n", none), ["warning 1:1 limit ()"]);
    assert_eq!(
        found("[lists]\ndeny = [\"192.0.2.0/24\"]\n", none),
        ["note 1:1 limit ()"],
        "it may be meant so"
    );
    assert_eq!(found(&limit("rate = \"9/s\""), none), NONE);
}
