//! A folder of one's own, and the binary at work in it.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use threshold::engine::Subjects;
use threshold::{Secret, SqliteLedger};
use threshold_testkit::folder::Folder;

/// A folder with or without a ledger.
pub(crate) struct Place(Folder);

/// What came of a command.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(Folder::new())
    }

    /// The path of `name` in it.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file into it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.at(name), text).unwrap();
    }

    /// Runs `line`, whose words are divided by spaces; `_` in a word stands for a space.
    pub(crate) fn run(&self, line: &str) -> Ran {
        self.run_with(line, &[])
    }

    pub(crate) fn run_with(&self, line: &str, variables: &[(&str, &str)]) -> Ran {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('_', " ")).collect();
        self.run_words(&words.iter().map(String::as_str).collect::<Vec<_>>(), variables)
    }

    pub(crate) fn run_words(&self, words: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = self.command(words);
        Ran::new(&command.envs(variables.iter().copied()).output().unwrap())
    }

    /// Starts `line` and does not wait for it.
    pub(crate) fn start(&self, line: &str) -> Child {
        let words: Vec<&str> = line.split(' ').collect();
        self.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
        command.args(words).current_dir(self.0.path()).env_clear();
        command
    }

    /// Runs `line`, which must succeed, and reads the document that it prints.
    pub(crate) fn json(&self, line: &str) -> Value {
        let ran = self.run(&format!("{line} --json"));
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    }

    pub(crate) fn secret(&self) -> Secret {
        let text = std::fs::read_to_string(self.at("threshold-data/secret")).unwrap();
        Secret::from_text(text.trim())
    }

    /// The ledger, as the server opens it.
    pub(crate) fn open(&self) -> SqliteLedger {
        SqliteLedger::open(&self.at("threshold-data/ledger.sqlite"), &self.secret(), None).unwrap()
    }

    /// The subjects, as the server names them.
    pub(crate) fn subjects(&self) -> Subjects {
        Subjects::new(&self.secret(), 64)
    }
}

impl Ran {
    pub(crate) fn new(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// The line that a command printed which did what it was asked to.
    pub(crate) fn done(&self) -> &str {
        assert_eq!(self.code, 0, "{}", self.err);
        self.out.trim_end()
    }

    /// The line that a command printed which changed nothing.
    pub(crate) fn unchanged(&self) -> &str {
        assert_eq!((self.code, self.err.as_str()), (1, ""));
        self.out.trim_end()
    }

    /// What a command complained about, having done nothing.
    pub(crate) fn refused(&self) -> &str {
        assert_eq!((self.code, self.out.as_str()), (2, ""), "{}", self.err);
        &self.err
    }
}

/// The list in `document`.
pub(crate) fn items(document: &Value) -> &[Value] {
    document.as_array().unwrap()
}
