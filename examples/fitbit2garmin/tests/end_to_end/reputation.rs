//! Who breaks limits has less of them.

use crate::site::{POLICY, Site};

/// The policy with ten more limits of one request each: so many can be broken at once. The limit of all requests is out of
/// the way, which is made smaller like the others.
fn policy() -> String {
    let more: String = (0..10)
        .map(|number| {
            format!(
                "\n[[limit]]\nid = \"extra-{number}\"\nlayer = \"endpoint\"\nroute = \"extra-{number}\"\nper = \"ip\"\n\
                 rate = \"1/hour\"\nalgorithm = \"sliding-window\"\n"
            )
        })
        .collect();
    let routes: String =
        (0..10).map(|number| format!("extra-{number} = \"GET /extra/{number}\"\n")).collect();
    let with_routes = POLICY.replace("[routes]\n", &format!("[routes]\n{routes}"));
    with_routes.replace("rate = \"100/min\"", "rate = \"100000/min\"") + &more
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_worse_reputation_have_the_shares_of_the_document() {
    let site = Site::start(&policy(), &[]);
    let (client, address) = (site.client(), "203.0.113.50");
    let mut next = 0;
    let mut broken = 0;
    // How many violations make which risk, and what of which limit is left then.
    for (violations, risk, score, (method, path), (asked, left)) in [
        (1, "LOW", 90, ("POST", "/api/upload"), (20, 20)),
        (2, "MEDIUM", 50, ("GET", "/api/download/1"), (40, 30)),
        (3, "HIGH", 40, ("POST", "/api/validate"), (20, 9)),
        (5, "CRITICAL", 20, ("POST", "/api/convert"), (5, 1)),
        (10, "CRITICAL", 0, ("GET", "/"), (0, 0)),
    ] {
        while broken < violations {
            assert_eq!(client.passed("GET", &format!("/extra/{next}"), (address, 2)).await, 1);
            (next, broken) = (next + 1, broken + 1);
        }
        // Less than the limit itself is no violation, whatever a bad name has left of it.
        assert_eq!(client.passed(method, path, (address, asked)).await, left, "{risk}");
        let known = site.analytics(&["clients", "--client", address], &["--data-dir", "fitbit2garmin-data"]);
        assert_eq!(known.len(), 1, "{known:?}");
        assert_eq!(
            (&known[0]["risk_level"], &known[0]["reputation_score"], &known[0]["violation_count"]),
            (&risk.into(), &score.into(), &violations.into()),
        );
    }
    let other = client.passed("POST", "/api/convert", ("203.0.113.51", 12)).await;
    assert_eq!(other, 10, "nobody else has less");
}
