//! A server that is asked for decisions, and what its callers do.

use serde_json::{Value as Json, json};

use crate::support::client::{Answered, Client};
use crate::support::server::Server;

pub(super) const JSON: (&str, &str) = ("content-type", "application/json");

/// A running server, and a caller of its API.
pub(super) struct Api {
    pub(super) server: Server,
    pub(super) client: Client,
}

impl Api {
    pub(super) fn start(policy: &str) -> Self {
        Self::with(policy, &[])
    }

    /// The same with variables of the `environment`.
    pub(super) fn with(policy: &str, environment: &[(&str, &str)]) -> Self {
        let server = Server::with(policy, &[], environment);
        let client = Client::new(server.api);
        Self { server, client }
    }

    pub(super) async fn ask(&self, path: &str, question: &Json) -> Answered {
        ask(&self.client, path, question).await
    }

    /// Asks with the key `key`.
    pub(super) async fn ask_as(&self, key: &str, path: &str, question: &Json) -> Answered {
        let headers = [JSON, ("x-threshold-key", key)];
        self.client.send(self.client.request("POST", path, &headers, &question.to_string())).await
    }

    pub(super) async fn check(&self, question: &Json) -> Answered {
        self.ask("/v1/check", question).await
    }

    /// Charges, which has to make sense.
    pub(super) async fn consume(&self, question: &Json) -> Json {
        self.told("/v1/consume", question).await
    }

    /// Looks, which has to make sense.
    pub(super) async fn peek(&self, question: &Json) -> Json {
        self.told("/v1/peek", question).await
    }

    async fn told(&self, path: &str, question: &Json) -> Json {
        let answer = self.ask(path, question).await;
        assert_eq!(answer.status, 200, "{question}: {}", answer.text());
        answer.json()
    }

    /// Asks all of `questions` at the same time, each on a connection of its own if need be.
    pub(super) async fn ask_at_once(&self, path: &'static str, questions: Vec<Json>) -> Vec<Answered> {
        let asking: Vec<_> = questions
            .into_iter()
            .map(|question| {
                let client = self.client.clone();
                tokio::spawn(async move { ask(&client, path, &question).await })
            })
            .collect();
        let mut answers = Vec::new();
        for one in asking {
            answers.push(one.await.unwrap());
        }
        answers
    }

    /// Puts another policy in place and waits until it is in force.
    pub(super) fn change_policy(&mut self, policy: &str) {
        let before = self.server.count("policy reloaded");
        self.server.write_policy(policy);
        self.server.hang_up();
        self.server.hears("policy reloaded", before + 1);
    }
}

pub(super) async fn ask(client: &Client, path: &str, question: &Json) -> Answered {
    client.send(client.request("POST", path, &[JSON], &question.to_string())).await
}

/// A request of the address 192.0.2.7 for `path`.
pub(super) fn request_for(path: &str) -> Json {
    json!({ "ip": "192.0.2.7", "method": "GET", "path": path })
}

/// `question` with the members of `more` as well.
pub(super) fn with(question: &Json, more: &Json) -> Json {
    let mut all = question.clone();
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

/// A problem of this kind, as RFC 9457 has it.
#[track_caller]
pub(super) fn assert_problem(answer: &Answered, status: u16, error: &str) -> Json {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(answer.header("cache-control"), "no-store");
    let body = answer.json();
    assert_eq!((&body["status"], &body["error"]), (&json!(status), &json!(error)), "{body}");
    for member in ["type", "title"] {
        assert!(body[member].is_string(), "{member}: {body}");
    }
    body
}

/// How many of `answers` say that they are allowed.
pub(super) fn admitted(answers: &[Answered]) -> usize {
    answers.iter().filter(|answer| answer.json()["allowed"] == true).count()
}
