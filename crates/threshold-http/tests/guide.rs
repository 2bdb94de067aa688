//! Every Rust block of the guide about the middleware, run. `cargo xtask tidy` checks that none is missing here.

use std::error::Error;

#[test]
fn the_middleware() -> Result<(), Box<dyn Error>> {
    use std::sync::Arc;
    use threshold::engine::{Engine, Rules, Secrets};
    use threshold::policy::Policy;
    use threshold::{MemoryStore, random_secret};
    use threshold_http::ThresholdLayer;

    let environment = |_: &str| None;
    let text = "[[limit]]\nid = \"api\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"100/min\"\n";
    let policy = Policy::read("policy.toml", text, &environment)?;
    let secrets = Secrets::new(random_secret());
    let rules = Rules::new(&policy, &secrets, &environment)?;
    let engine = Engine::new(rules, secrets, MemoryStore::new(), MemoryStore::new());
    let layer = ThresholdLayer::new(Arc::new(engine));
    drop(layer);
    Ok(())
}
