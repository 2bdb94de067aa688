//! A store that does not answer: nobody is let through unjudged.

use std::sync::Arc;

use threshold::engine::{Engine, Rules, Secrets};
use threshold::policy::Policy;
use threshold::{
    Batch, Health, Key, MemoryStore, Outcome, Store, StoreError, StoreErrorKind, Swept, random_secret,
};
use threshold_http::ThresholdLayer;
use tower_layer::Layer as _;

use crate::wire::{App, ok};
use crate::{ask, per_user, read};

/// A store that is gone.
struct Gone;

fn gone<T>() -> Result<T, StoreError> {
    Err(StoreError::new(StoreErrorKind::Unavailable, "ask the store", "it is gone"))
}

impl Store for Gone {
    async fn apply(&self, _: &Batch) -> Result<Outcome, StoreError> {
        gone()
    }

    async fn peek(&self, _: &Batch) -> Result<Outcome, StoreError> {
        gone()
    }

    async fn refund(&self, _: &Batch, _: &Outcome) -> Result<(), StoreError> {
        gone()
    }

    async fn reset(&self, _: &[Key]) -> Result<(), StoreError> {
        gone()
    }

    async fn sweep(&self, _: usize) -> Result<Swept, StoreError> {
        gone()
    }

    async fn health(&self) -> Health {
        Health::Down { reason: "it is gone".to_owned() }
    }

    async fn close(&self) -> Result<(), StoreError> {
        gone()
    }
}

#[tokio::test]
async fn while_the_store_fails_the_answer_is_503_and_says_when_to_try_again() {
    let environment = |_: &str| None;
    let policy = Policy::read("policy.toml", &per_user("rate = \"1/min\""), &environment).unwrap();
    let secrets = Secrets::new(random_secret());
    let rules = Rules::new(&policy, &secrets, &environment).unwrap();
    let engine = Engine::new(rules, secrets, Gone, MemoryStore::new());
    let service = ThresholdLayer::new(Arc::new(engine)).layer(App(ok));
    let answered = read(&service, ask("alice", "GET", "/")).await;
    assert_eq!((answered.status.as_u16(), answered.header("retry-after")), (503, "1"));
    let body = answered.json();
    assert_eq!(body["error"], "temporarily_unavailable");
    assert!(body["type"].as_str().unwrap().ends_with("#temporary-reduced-capacity"), "{body}");
}
