//! `threshold top`: what happens just now, in a terminal.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Top {
    /// The server's admin listener [default: http://127.0.0.1:8083].
    #[arg(long, value_name = "URL")]
    pub(crate) admin: Option<String>,
    /// A file with the token [default: the token in THRESHOLD_ADMIN_TOKEN].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

const HELP: &str = "\
Shows what the dashboard shows, in a terminal: traffic second by second, refusals by layer, who is refused most, what
happens, and how the parts are. It needs a token of any scope; `threshold token create` makes one. Where there is no terminal,
`threshold status --json` says how the parts are.

Keys:
  q, Esc, Ctrl-C  ends it
  p, Space        holds the picture still, and goes on

Exit codes:
  0  ended by a key
  2  the command was not understood, there is no terminal, or the server could not be asked

Examples:
  threshold top
  threshold top --admin http://10.0.0.7:8083 --token-file /run/secrets/threshold-token
  ssh -t node1 threshold top";
