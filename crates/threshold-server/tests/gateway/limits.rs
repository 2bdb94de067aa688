//! Limits through the gateway.

use crate::support::application::Application;
use crate::support::client::Client;
use crate::support::server::Server;

const HUNDRED: &str = "[[limit]]\nid = \"hundred\"\nlayer = \"user\"\nrate = \"100/day\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_at_once_exactly_a_hundred_are_admitted() {
    let application = Application::plain().await;
    let server = Server::start(HUNDRED, application.address);
    let client = Client::new(server.gateway);
    let asking: Vec<_> = (0..1_000)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get("/").await.status.as_u16() })
        })
        .collect();
    let mut statuses = Vec::new();
    for one in asking {
        statuses.push(one.await.unwrap());
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 100);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 900);
    assert_eq!(application.count(), 100);
}
