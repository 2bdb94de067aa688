//! A server, and an operator of it.

use std::process::{Command, Output};

use serde_json::Value as Json;

use crate::support::client::{Answered, Client};
use crate::support::server::Server;

/// The token of the environment.
pub(super) const TOKEN: &str = "token-of-the-tests-0123456789";

/// A limit that one client can use up.
pub(super) const POLICY: &str =
    "[[limit]]\nid = \"api\"\nlayer = \"endpoint\"\nper = \"ip\"\nrate = \"2/day\"\n";

/// A running server and who operates it.
pub(super) struct Operated {
    pub(super) server: Server,
    pub(super) client: Client,
    /// Somebody who asks the gateway.
    pub(super) asker: Client,
}

impl Operated {
    pub(super) fn start(policy: &str) -> Self {
        Self::with(policy, &[], &[("THRESHOLD_ADMIN_TOKEN", TOKEN)])
    }

    /// What a wrong password for Alice's account is answered, as an application tells of it.
    pub(super) async fn fails_login(&self) -> u16 {
        let api = Client::new(self.server.api);
        let body = r#"{"account": "Alice@example.com", "ip": "192.0.2.7", "success": false}"#;
        let request = api.request("POST", "/v1/login", &[("content-type", "application/json")], body);
        api.send(request).await.status.as_u16()
    }

    pub(super) fn with(policy: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let server = Server::with(policy, arguments, environment);
        let (client, asker) = (Client::new(server.admin), Client::new(server.gateway));
        Self { server, client, asker }
    }

    /// Asks with a token and further headers.
    pub(super) async fn ask_as(
        &self,
        token: &str,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answered {
        let authorization = format!("Bearer {token}");
        let mut all = vec![("authorization", authorization.as_str())];
        if !body.is_empty() {
            all.push(("content-type", "application/json"));
        }
        all.extend(headers);
        self.client.send(self.client.request(method, &format!("/api/admin/{path}"), &all, body)).await
    }

    pub(super) async fn ask(&self, method: &str, path: &str, body: &str) -> Answered {
        self.ask_as(TOKEN, (method, path), &[], body).await
    }

    /// Asks for what has to be done.
    #[track_caller]
    pub(super) fn told<'a>(
        &'a self,
        method: &'a str,
        path: &'a str,
        body: &'a str,
    ) -> impl Future<Output = Json> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let answer = self.ask(method, path, body).await;
            assert_eq!(answer.status, 200, "{place}: {method} {path}: {}", answer.text());
            answer.json()
        }
    }

    /// What a request through the gateway is answered.
    pub(super) async fn status(&self) -> u16 {
        self.asker.get("/").await.status.as_u16()
    }

    /// Runs a command in the server's folder.
    pub(super) fn run(&self, line: &str, environment: &[(&str, &str)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_threshold"))
            .current_dir(self.server.folder.path())
            .args(line.split(' '))
            .envs(environment.iter().copied())
            .output()
            .unwrap()
    }

    /// Makes a token of `scope`.
    pub(super) fn token(&self, scope: &str) -> String {
        let made = self.run(&format!("token create --scope {scope} --name {scope}"), &[]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    }
}

/// Every route with its method and what its token must allow, as the document tells them; names stand for themselves.
pub(super) fn routes() -> Vec<(String, String, String)> {
    let text = include_str!("../../src/admin/openapi.json");
    let document: Json = serde_json::from_str(text).unwrap();
    let mut routes = Vec::new();
    for (path, verbs) in document["paths"].as_object().unwrap() {
        for (method, about) in verbs.as_object().unwrap() {
            if let (Some(scope), Some(path)) = (about["x-scope"].as_str(), path.strip_prefix("/api/admin/")) {
                let path = path.replace(['{', '}'], "");
                routes.push((method.to_uppercase(), path, scope.to_owned()));
            }
        }
    }
    assert!(routes.len() > 20, "{routes:?}");
    routes
}

#[track_caller]
pub(super) fn assert_problem(answer: &Answered, status: u16, error: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let body = answer.json();
    assert_eq!(body["error"], error, "{body}");
    assert!(body["detail"].as_str().is_some_and(|detail| detail.contains([';', '.', ' '])), "{body}");
}
