//! Who may do what: tokens, of which only hashes are kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use threshold::{Clock as _, SystemClock, random_token};

/// The name of the file, in the data folder.
const FILE: &str = "admin-tokens.json";
/// The variable that a token may stand in.
pub(crate) const VARIABLE: &str = "THRESHOLD_ADMIN_TOKEN";
/// What is asked of a token that somebody thought up: fewer characters can be tried out.
const FEWEST: usize = 16;
/// The most tokens.
const MOST: usize = 1_000;
/// Who the token of the environment, and the first one, belong to.
const ENVIRONMENT: &str = "environment";
const FIRST: &str = "first";

/// What a token allows; each scope allows what those before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// To look.
    Read,
    /// To change what is held against somebody, what limits count, and how parts are used.
    Operate,
    /// To change the policy, and to forget somebody.
    Admin,
}

impl Scope {
    pub(crate) const ALL: [Self; 3] = [Self::Read, Self::Operate, Self::Admin];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// A token as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    /// SHA-256 of the token, in hexadecimal digits. The token has 256 random bits: nothing slower is needed.
    pub(crate) hash: String,
    pub(crate) created: String,
}

/// Who shows a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    /// Which token it is: one of the same name that was made anew is another.
    hash: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Document {
    tokens: Vec<Kept>,
}

/// The file of tokens.
#[derive(Clone, Debug)]
pub(crate) struct TokenFile(PathBuf);

impl TokenFile {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self(data_dir.join(FILE))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The tokens that there are; none if there is no file.
    pub(crate) fn read(&self) -> Result<Vec<Kept>, String> {
        let text = match fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed("be read", &error)),
        };
        let document: Document = serde_json::from_slice(&text).map_err(|error| {
            let file = self.0.display();
            format!(
                "{file}: this is no file of tokens ({error}); put it right, or move it away and make new ones"
            )
        })?;
        Ok(document.tokens)
    }

    /// Makes a token for `name` and says what it is: nobody can say that later.
    pub(crate) fn create(&self, name: &str, scope: Scope) -> Result<String, String> {
        let token = random_token();
        self.change(|tokens| {
            if tokens.iter().any(|kept| kept.name == name) || name == ENVIRONMENT {
                return Err(format!(
                    "there is a token called {name:?} already; choose another name, or revoke that one first"
                ));
            }
            if tokens.len() >= MOST {
                return Err(format!("there are {MOST} tokens already; revoke those that nobody uses"));
            }
            tokens.push(kept(name, scope, &token));
            Ok(())
        })?;
        Ok(token)
    }

    /// Makes the first token, unless there is one.
    fn create_first(&self) -> Result<Option<String>, String> {
        let (token, mut made) = (random_token(), false);
        self.change(|tokens| {
            made = tokens.is_empty();
            if made {
                tokens.push(kept(FIRST, Scope::Admin, &token));
            }
            Ok(())
        })?;
        Ok(made.then_some(token))
    }

    /// Forgets the token of `name`; false if there is none.
    pub(crate) fn revoke(&self, name: &str) -> Result<bool, String> {
        let mut found = false;
        self.change(|tokens| {
            let before = tokens.len();
            tokens.retain(|kept| kept.name != name);
            found = tokens.len() < before;
            Ok(())
        })?;
        Ok(found)
    }

    /// Changes the file as a whole: a reader sees what was or what is, and of two who change it one waits.
    fn change(&self, change: impl FnOnce(&mut Vec<Kept>) -> Result<(), String>) -> Result<(), String> {
        let lock =
            private(&self.0.with_extension("lock")).map_err(|error| self.failed("be written", &error))?;
        lock.lock().map_err(|error| self.failed("be written", &error))?;
        let mut document = Document { tokens: self.read()? };
        change(&mut document.tokens)?;
        let write = || -> io::Result<()> {
            let new = self.0.with_extension("new");
            let mut file = private(&new)?;
            file.set_len(0)?;
            file.write_all(format!("{:#}\n", serde_json::json!(document)).as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.0)
        };
        write().map_err(|error| self.failed("be written", &error))
    }

    fn failed(&self, what: &str, error: &io::Error) -> String {
        format!(
            "{}: the tokens cannot {what} ({error}); run as their owner, name another folder with --data-dir, or set \
             {VARIABLE}",
            self.0.display()
        )
    }
}

/// A file that only its owner reads.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn kept(name: &str, scope: Scope, token: &str) -> Kept {
    let created = SystemClock::new().now().to_string();
    Kept { name: name.to_owned(), scope, hash: hash(token.as_bytes()), created }
}

fn hash(token: &[u8]) -> String {
    digest(&SHA256, token).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The tokens that a server knows: those of its file, as the file is now, and that of its environment.
pub(crate) struct Tokens {
    file: TokenFile,
    seen: Mutex<Seen>,
}

/// What tells one version of a file from another.
type Stamp = Option<(SystemTime, u64, u64)>;

struct Seen {
    stamp: Stamp,
    tokens: Vec<Kept>,
    /// Those that stand in no file.
    own: Vec<Kept>,
    /// What has changed since somebody asked.
    changes: Vec<TokenChange>,
}

/// A token that was made or revoked, by whoever may write the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenChange {
    Made(String, Scope),
    Revoked(String, Scope),
}

impl Seen {
    /// Takes over the tokens of the file as it is now.
    fn take_over(&mut self, stamp: Stamp, tokens: Vec<Kept>) {
        // One of the same name that was made anew is another.
        let missing = |one: &Kept, among: &[Kept]| !among.iter().any(|other| other.hash == one.hash);
        let of = |kept: &Kept| (kept.name.clone(), kept.scope);
        let gone = self.tokens.iter().filter(|kept| missing(kept, &tokens)).map(of);
        let new = tokens.iter().filter(|kept| missing(kept, &self.tokens)).map(of);
        let revoked = gone.map(|(name, scope)| TokenChange::Revoked(name, scope));
        let changes: Vec<TokenChange> =
            revoked.chain(new.map(|(name, scope)| TokenChange::Made(name, scope))).collect();
        self.changes.extend(changes);
        (self.stamp, self.tokens) = (stamp, tokens);
    }
}

/// A token that was made just now.
pub(crate) struct Made {
    pub(crate) token: String,
    /// Why it ends with the process, if it does.
    pub(crate) unkept: Option<String>,
}

impl Tokens {
    /// Reads the file.
    pub(crate) fn open(data_dir: &Path, environment: Option<&str>) -> Result<Self, String> {
        let file = TokenFile::new(data_dir);
        let mut own = Vec::new();
        if let Some(token) = environment {
            if token.len() < FEWEST {
                return Err(format!(
                    "{VARIABLE}: this token can be guessed; use at least {FEWEST} characters, drawn at random"
                ));
            }
            own.push(kept(ENVIRONMENT, Scope::Admin, token));
        }
        let (stamp, tokens) = (stamp(&file.0), file.read()?);
        Ok(Self { file, seen: Mutex::new(Seen { stamp, tokens, own, changes: Vec::new() }) })
    }

    /// Makes a token where there is none at all. Ask only when it can be shown: nobody can say later what it was.
    pub(crate) fn make_first(&self) -> Option<Made> {
        {
            let seen = self.look();
            if !(seen.own.is_empty() && seen.tokens.is_empty()) {
                return None;
            }
        }
        first(&self.file).unwrap_or_else(|what| {
            let token = random_token();
            let mut seen = self.look();
            seen.own.push(kept(FIRST, Scope::Admin, &token));
            seen.changes.push(TokenChange::Made(FIRST.to_owned(), Scope::Admin));
            Some(Made { token, unkept: Some(what) })
        })
    }

    /// What was made and revoked since the last time this was asked.
    pub(crate) fn changes(&self) -> Vec<TokenChange> {
        std::mem::take(&mut self.look().changes)
    }

    /// The tokens as the file has them now.
    fn look(&self) -> MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&self.file.0);
        if now != seen.stamp
            && let Ok(tokens) = self.file.read()
        {
            // What cannot be read leaves those in force that could.
            seen.take_over(now, tokens);
        }
        seen
    }

    /// Who shows `token`. Every hash is compared whole, so that the time it takes tells nothing about them.
    pub(crate) fn find(&self, token: &[u8]) -> Option<Caller> {
        let shown = hash(token);
        let seen = self.look();
        let same = |kept: &&Kept| verify_slices_are_equal(kept.hash.as_bytes(), shown.as_bytes()).is_ok();
        let mut found = None;
        for kept in seen.own.iter().chain(&seen.tokens) {
            if same(&kept) {
                let (name, hash) = (kept.name.clone(), kept.hash.clone());
                found = Some(Caller { name, scope: kept.scope, hash });
            }
        }
        found
    }

    /// Whether `caller`, who was let in once, still would be.
    pub(crate) fn knows(&self, caller: &Caller) -> bool {
        let seen = self.look();
        let same = |kept: &Kept| kept.hash == caller.hash && kept.scope == caller.scope;
        seen.own.iter().chain(&seen.tokens).any(same)
    }
}

/// Makes the first token in the file; none if another process was faster.
fn first(file: &TokenFile) -> Result<Option<Made>, String> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    // If it cannot be made, neither can the file, which says why.
    let _ = file.0.parent().map(|folder| builder.recursive(true).create(folder));
    Ok(file.create_first()?.map(|token| Made { token, unkept: None }))
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let number = 0;
    Some((metadata.modified().ok()?, metadata.len(), number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use threshold_testkit::folder::Folder;

    #[test]
    fn tokens_are_kept_as_hashes_and_found_until_they_are_revoked() {
        let folder = Folder::new();
        let tokens = Tokens::open(folder.path(), None).unwrap();
        assert!(!folder.path().join(FILE).exists(), "nobody has seen one yet");
        let first = tokens.make_first().unwrap();
        assert!(first.unkept.is_none());
        let found = tokens.find(first.token.as_bytes()).unwrap();
        assert_eq!((found.name.as_str(), found.scope), (FIRST, Scope::Admin));
        let file = TokenFile::new(folder.path());
        let token = file.create("grafana", Scope::Read).unwrap();
        let grafana = tokens.find(token.as_bytes()).unwrap();
        assert_eq!(grafana.scope, Scope::Read, "without a new start");
        assert!(tokens.knows(&grafana));
        assert!(file.create("grafana", Scope::Admin).is_err_and(|what| what.contains("already")));
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains(&token) && !text.contains(&first.token), "{text}");
        assert!(file.revoke("grafana").unwrap() && !file.revoke("grafana").unwrap());
        assert_eq!(tokens.find(token.as_bytes()), None);
        assert!(!tokens.knows(&grafana) && tokens.knows(&found));
        let (made, revoked) = (TokenChange::Made, TokenChange::Revoked);
        let changes = [
            made(FIRST.to_owned(), Scope::Admin),
            made("grafana".to_owned(), Scope::Read),
            revoked("grafana".to_owned(), Scope::Read),
        ];
        assert_eq!((tokens.changes(), tokens.changes()), (changes.to_vec(), Vec::new()), "each is told once");
        let again = Tokens::open(folder.path(), None).unwrap();
        assert!(again.make_first().is_none() && tokens.make_first().is_none(), "the first is told once");
    }

    #[test]
    fn only_the_owner_reads_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new();
        Tokens::open(folder.path(), None).unwrap().make_first().unwrap();
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_environment_gives_one_and_no_other_is_made() {
        let folder = Folder::new();
        let tokens = Tokens::open(folder.path(), Some("drawn-at-random-1234")).unwrap();
        assert!(tokens.make_first().is_none() && !folder.path().join(FILE).exists());
        assert_eq!(tokens.find(b"drawn-at-random-1234").unwrap().scope, Scope::Admin);
        assert_eq!(tokens.find(b"drawn-at-random-1235"), None);
        assert!(Tokens::open(folder.path(), Some("short")).is_err_and(|what| what.contains("16")));
    }

    #[test]
    fn a_broken_file_is_told_with_a_remedy() {
        let folder = Folder::new();
        fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(Tokens::open(folder.path(), None).is_err_and(|what| what.contains("move it away")));
    }
}
