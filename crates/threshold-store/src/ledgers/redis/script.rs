//! The scripts, and the one key that all of them are sent to.

use redis::{Cmd, RedisResult, Value};

use crate::redis::line::Line;

/// What every script begins with.
const ROWS: &str = include_str!("script/rows.lua");

/// A script's own part.
#[derive(Clone, Copy)]
pub(super) struct Script(&'static str);

pub(super) const OPEN: Script = Script(include_str!("script/open.lua"));
pub(super) const LOAD: Script = Script(include_str!("script/load.lua"));
pub(super) const VIOLATIONS: Script = Script(include_str!("script/violations.lua"));
pub(super) const COMMIT: Script = Script(include_str!("script/commit.lua"));
pub(super) const SWEEP: Script = Script(include_str!("script/sweep.lua"));
pub(super) const LIST: Script = Script(include_str!("script/list.lua"));
pub(super) const CHANGES: Script = Script(include_str!("script/changes.lua"));

/// What all keys of the ledger begin with.
pub(super) fn base(line: &Line) -> String {
    format!("{}:{{ledger}}:", line.place().prefix)
}

impl Script {
    /// The script with its arguments. Its text is sent each time: a server that was restarted does not know it.
    pub(super) fn call(self, base: &str) -> Cmd {
        let mut cmd = Cmd::new();
        cmd.arg("EVAL").arg(format!("{ROWS}{}", self.0)).arg(1).arg(format!("{base}meta")).arg(base);
        cmd
    }
}

/// A command's answer as the type that it should have.
pub(super) async fn ask<T: redis::FromRedisValue>(line: &Line, cmd: Cmd) -> RedisResult<T> {
    let answer: Value = line.ask(cmd).await?;
    Ok(T::from_redis_value(answer)?)
}
