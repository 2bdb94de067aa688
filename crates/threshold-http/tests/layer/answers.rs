//! What clients are answered, and what the application is told.

use std::convert::Infallible;
use std::net::IpAddr;

use bytes::Bytes;
use http::Extensions;
use http::{Request, Response};
use http_body_util::Full;
use threshold_http::respond::Shown;
use threshold_http::{Allowed, Client as Sender, ThresholdLayer};
use tower_layer::Layer as _;

use crate::wire::{App, Client, engine, measure, ok, request, serve, streamed};
use crate::{IDENTITY, ask, per_user, read};

#[tokio::test]
async fn refusals_are_written_in_the_applications_own_format() {
    let (engine, _) = engine(&per_user("rate = \"1/min\""));
    let layer = ThresholdLayer::new(engine).respond_by(|answer, parts| {
        let wait = answer.headers()["retry-after"].clone();
        let text = format!("{} at {}: {}", answer.status(), parts.uri.path(), answer.problem()["error"]);
        Response::builder().status(420).header("x-wait", wait).body(Full::from(text)).unwrap()
    });
    let served = serve(layer.layer(App(ok))).await;
    let mut client = Client::connect(served.address).await;
    assert_eq!(client.get("/tea").await.text(), "ok");
    let refused = client.get("/tea").await;
    assert_eq!((refused.status.as_u16(), refused.header("x-wait")), (420, "60"));
    assert_eq!(refused.text(), "429 Too Many Requests at /tea: \"rate_limited\"");
}

/// A body that is cut off on its way is a refusal as well.
#[tokio::test]
async fn so_is_the_refusal_of_a_body_that_was_too_long() {
    let (engine, _) = engine("");
    let layer = ThresholdLayer::new(engine).max_body_bytes(10).respond_by(|answer, _| {
        Response::builder().status(420).body(answer.problem()["error"].to_string().into()).unwrap()
    });
    let served = serve(layer.layer(App(measure))).await;
    let declared =
        Client::connect(served.address).await.send(request("POST", "/", &[], vec![b'x'; 11])).await;
    let undeclared = Client::connect(served.address).await.send(streamed("/", [6, 6])).await;
    for refused in [declared, undeclared] {
        assert_eq!((refused.status.as_u16(), refused.text()), (420, "\"body_too_large\""));
    }
}

/// Where a server of its own kind says who is at the other end.
#[derive(Clone)]
struct Socket(IpAddr);

#[tokio::test]
async fn the_peer_is_read_as_it_is_told() {
    fn of_socket(extensions: &Extensions) -> Option<IpAddr> {
        extensions.get::<Socket>().map(|socket| socket.0)
    }
    let (engine, _) = engine("[[limit]]\nid = \"api\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"1/min\"\n");
    let service = ThresholdLayer::new(engine).peer_by(of_socket).layer(App(ok));
    for (socket, status) in [(Some(1), 200), (Some(1), 429), (Some(2), 200), (None, 500)] {
        let mut asking = ask("alice", "GET", "/");
        asking.extensions_mut().clear();
        if let Some(last) = socket {
            asking.extensions_mut().insert(Socket(IpAddr::from([192, 0, 2, last])));
        }
        assert_eq!(read(&service, asking).await.status, status, "{socket:?}");
    }
}

#[tokio::test]
async fn without_a_peer_the_answer_says_what_to_do() {
    let (engine, _) = engine(&per_user("rate = \"1/min\""));
    let service = ThresholdLayer::new(engine).layer(App(ok));
    let mut nobodys = ask("alice", "GET", "/");
    nobodys.extensions_mut().clear();
    let answered = read(&service, nobodys).await;
    assert_eq!(answered.status, 500);
    assert_eq!(answered.json()["error"], "peer_unknown");
    let detail = answered.json()["detail"].as_str().unwrap().to_owned();
    assert!(["`Peer`", "`ConnectInfo`", "`peer_by`"].iter().all(|way| detail.contains(way)), "{detail}");
    assert_eq!(read(&service, ask("alice", "GET", "/")).await.left(), Some(0), "nothing was charged for it");
}

/// Says what it was told.
async fn tell<Q>(request: Request<Q>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (sender, allowed) = (request.extensions().get::<Sender>(), request.extensions().get::<Allowed>());
    let text = match (sender, allowed) {
        (Some(sender), Some(allowed)) => format!(
            "{} {:?} {} {:?} {}",
            sender.address,
            sender.user,
            sender.verified,
            allowed.quota.map(|quota| (quota.limit, quota.capacity, quota.remaining)),
            allowed.warned
        ),
        (None, None) => "nothing".to_owned(),
        _ => "half of it".to_owned(),
    };
    Ok(Response::new(Full::from(text)))
}

#[tokio::test]
async fn the_application_is_told_who_asks_and_what_is_left() {
    let (engine, _) = engine(&format!("{}\n[ladder]\n", per_user("rate = \"2/min\"")));
    let served = serve(ThresholdLayer::new(engine).layer(App(tell))).await;
    let mut client = Client::connect(served.address).await;
    let headers = [("x-forwarded-for", "192.0.2.9"), ("x-user", "alice")];
    let mut told = Vec::new();
    for _ in 0..3 {
        let answered = client.send(request("GET", "/", &headers, "")).await;
        told.push((answered.text().to_owned(), answered.header("x-ratelimit-warning").to_owned()));
    }
    let line = |left, warned: bool| {
        let warning = if warned { "true" } else { "" };
        let text = format!("192.0.2.9 Some(\"alice\") true Some((\"api\", 2, {left})) {warned}");
        (text, warning.to_owned())
    };
    assert_eq!(told[..2], [line(1, false), line(0, false)]);
    // Grace let it pass, and the limit that is told is the one with grace.
    assert!(told[2].0.ends_with("true") && told[2].1 == "true", "{told:?}");
}

#[tokio::test]
async fn or_is_told_nothing_and_then_clients_still_see_their_headers() {
    let (engine, _) = engine(&per_user("rate = \"2/min\""));
    let served = serve(ThresholdLayer::new(engine).without_extensions().layer(App(tell))).await;
    let answered = Client::connect(served.address).await.get("/").await;
    assert_eq!((answered.text(), answered.left()), ("nothing", Some(1)));
}

#[tokio::test]
async fn headers_of_old_are_shown_unless_they_are_switched_off() {
    let (engine, _) = engine(&per_user("rate = \"1/min\""));
    for (legacy, policy) in [(true, "1"), (false, "")] {
        let layer = ThresholdLayer::new(engine.clone()).showing(Shown { legacy });
        let served = serve(layer.layer(App(ok))).await;
        for _ in 0..2 {
            let answered = Client::connect(served.address).await.get("/").await;
            assert_eq!(answered.header("x-ratelimit-limit"), policy);
            assert_eq!(answered.header("ratelimit-policy"), "\"api\";q=1;w=60");
        }
    }
}

/// Forged headers of somebody who is no proxy change nothing.
#[tokio::test]
async fn only_the_proxy_is_believed() {
    let (engine, _) = engine(&IDENTITY.replace("127.0.0.1", "192.0.2.7"));
    let served = serve(ThresholdLayer::new(engine).layer(App(tell))).await;
    let headers = [("x-forwarded-for", "192.0.2.9"), ("x-user", "alice")];
    let answered = Client::connect(served.address).await.send(request("GET", "/", &headers, "")).await;
    assert_eq!(answered.text(), "127.0.0.1 None false None false");
}

/// `RateLimit` and `RateLimit-Policy` are lists: a layer around another must not hide which limit refused.
#[tokio::test]
async fn a_layer_around_another_leaves_what_the_inner_one_says() {
    let (outer, _) = engine(&per_user("rate = \"100/min\"").replace("\"api\"", "\"outer\""));
    let (inner, _) = engine(&per_user("rate = \"1/min\"").replace("\"api\"", "\"inner\""));
    let service = ThresholdLayer::new(inner).layer(App(ok));
    let served = serve(ThresholdLayer::new(outer).layer(service)).await;
    let mut client = Client::connect(served.address).await;
    for status in [200, 429] {
        let answered = client.get("/").await;
        assert_eq!(answered.status, status);
        for name in ["ratelimit", "ratelimit-policy"] {
            let lines = answered.headers.get_all(name).iter().map(|line| line.to_str().unwrap());
            let said = lines.collect::<Vec<_>>().join(", ");
            assert!(said.contains("\"inner\""), "{status} with {name}: {said}");
        }
    }
}
