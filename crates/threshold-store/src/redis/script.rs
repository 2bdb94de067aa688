//! The scripts, and the commands that run them.

use redis::Cmd;
use threshold_core::Key;

/// The scripts of a store.
pub(super) struct Script {
    pub(super) judge: Text,
    pub(super) refund: Text,
}

/// A script's text and the name that the server gives it.
pub(super) struct Text {
    text: &'static str,
    name: String,
}

/// What a script is told: the batches; in tests the time and until when states live; and the servers that are known, if only
/// those may judge.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) blob: &'a [u8],
    pub(super) test: Option<(u64, u64)>,
    pub(super) known: Option<&'a str>,
}

impl Script {
    pub(super) fn new() -> Self {
        Self {
            judge: Text::new(concat!(
                include_str!("script/wide.lua"),
                include_str!("script/lists.lua"),
                include_str!("script/judge.lua")
            )),
            refund: Text::new(concat!(include_str!("script/wide.lua"), include_str!("script/refund.lua"))),
        }
    }
}

impl Text {
    fn new(text: &'static str) -> Self {
        Self { text, name: redis::Script::new(text).get_hash().to_owned() }
    }

    pub(super) fn by_name(&self, prefix: &str, keys: &[Key], told: Told<'_>) -> Cmd {
        command("EVALSHA", &self.name, (prefix, keys), told)
    }

    pub(super) fn by_text(&self, prefix: &str, keys: &[Key], told: Told<'_>) -> Cmd {
        command("EVAL", self.text, (prefix, keys), told)
    }
}

fn command(verb: &str, script: &str, (prefix, keys): (&str, &[Key]), told: Told<'_>) -> Cmd {
    let Told { blob, test, known } = told;
    let mut cmd = Cmd::with_capacity(keys.len() + 6, blob.len() + keys.len() * 64 + 64);
    cmd.arg(verb).arg(script).arg(keys.len());
    keys.iter().for_each(|key| {
        cmd.arg(name(prefix, key));
    });
    cmd.arg(blob);
    if let Some((now, lives)) = test {
        cmd.arg(now).arg(lives);
    }
    if let Some(known) = known {
        cmd.arg(known);
    }
    cmd
}

/// A key's name: the prefix, its partition in braces, by which a cluster keeps what belongs together in one place, and its
/// hash.
pub(super) fn name(prefix: &str, key: &Key) -> String {
    format!("{prefix}:{{{:04x}}}:{:032x}", key.partition().0, key.hash())
}
