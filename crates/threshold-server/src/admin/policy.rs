//! The policy in force: shown, checked, changed and taken back.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use threshold::policy::Policy;
use threshold_http::Answer;
use tokio::sync::{Mutex, mpsc, oneshot};

use super::call::Call;
use super::tokens::Scope;
use super::{Admin, Noted};
use crate::api::read::unprocessable;
use crate::commands::report;
use crate::config;

/// The name of the file that the policy before is kept in, in the data folder.
const PREVIOUS: &str = "policy.previous.toml";

/// Who changes the policy's file is whoever may write it: nothing says more.
const WHO: &str = "policy file";

/// Asks for the policy's file to be read again; answered when it is in force, or with what is wrong with it.
pub(crate) type Reload = oneshot::Sender<Result<(), Vec<String>>>;

/// Where the policy is, and how it is changed.
pub(crate) struct PolicyDesk {
    file: Option<PathBuf>,
    data_dir: PathBuf,
    current: ArcSwap<Current>,
    reloads: mpsc::Sender<Reload>,
    /// Held while the file is changed.
    changing: Mutex<()>,
    /// What the file said when it was last refused.
    refused: ArcSwapOption<String>,
    /// What is being written to the file here: who watches it may see that first, and it is nobody else's change.
    writing: ArcSwapOption<String>,
    /// Held while the policy before is kept.
    keeping: std::sync::Mutex<()>,
}

/// What is told of the policy in force.
pub(crate) struct Current {
    /// Names by which the admin listener may be asked.
    pub(crate) hosts: Vec<String>,
    /// As it is written, if it is.
    text: Option<String>,
    /// What it promises.
    report: Json,
    /// The policy itself.
    pub(super) policy: Arc<Policy>,
}

impl Current {
    /// What tells it from other policies, if it is written somewhere.
    fn version(&self) -> Option<String> {
        self.text.as_deref().map(version)
    }

    fn new(file: Option<&Path>, policy: &Policy, text: Option<String>) -> Self {
        let hosts = policy.server.as_ref().map(|server| server.admin_hosts.clone());
        let report = camel(report(&shown(file), policy));
        Self { hosts: hosts.unwrap_or_default(), text, report, policy: Arc::new(policy.clone()) }
    }
}

impl PolicyDesk {
    /// That of `policy`, which is in force.
    pub(crate) fn new(
        (file, data_dir): (Option<&Path>, &Path),
        policy: &Policy,
        reloads: mpsc::Sender<Reload>,
    ) -> Self {
        let text = file.and_then(|file| std::fs::read_to_string(file).ok());
        Self {
            file: file.map(Path::to_owned),
            data_dir: data_dir.to_owned(),
            current: ArcSwap::from_pointee(Current::new(file, policy, text)),
            reloads,
            changing: Mutex::new(()),
            refused: ArcSwapOption::empty(),
            writing: ArcSwapOption::empty(),
            keeping: std::sync::Mutex::new(()),
        }
    }

    /// Another policy is in force.
    pub(crate) fn changed(&self, policy: &Policy, text: Option<String>) {
        self.current.store(Arc::new(Current::new(self.file.as_deref(), policy, text)));
    }

    /// The file says something that cannot be in force.
    pub(crate) fn refused(&self, text: Option<String>) {
        self.refused.store(text.map(Arc::new));
    }

    pub(crate) fn current(&self) -> Arc<Current> {
        self.current.load_full()
    }

    /// The file, if there is one.
    fn file(&self) -> Result<&Path, Box<Answer>> {
        self.file.as_deref().ok_or_else(|| {
            let detail =
                "there is no file to write to: the server runs a demonstration; start it with --config FILE";
            unprocessable("no_policy_file", detail)
        })
    }

    fn previous(&self) -> PathBuf {
        self.data_dir.join(PREVIOUS)
    }

    /// Refuses to change another policy than the one that somebody looked at.
    fn is_still(&self, base: Option<&str>) -> Result<(), Box<Answer>> {
        match (base, self.current().version()) {
            (Some(base), Some(version)) if base != version => Err(changed_meanwhile(&format!(
                "the policy in force is {version} by now, and this was made from {base}; look at it again, and at the audit log for who changed it"
            ))),
            _ => Ok(()),
        }
    }

    /// What the file says, if that is known here: what somebody saved a moment ago must not be lost unseen.
    fn read(&self, file: &Path) -> Result<String, Box<Answer>> {
        let text = std::fs::read_to_string(file).map_err(|error| unwritable(file, &error))?;
        let refused = self.refused.load();
        let known = [self.current().text.as_ref(), refused.as_deref()]
            .into_iter()
            .flatten()
            .any(|known| *known == text);
        match known || self.current().text.is_none() {
            true => Ok(text),
            false => Err(changed_meanwhile(&format!(
                "{} was changed a moment ago, and that is not in force yet; look at it again in a second",
                file.display()
            ))),
        }
    }

    /// Puts `text` in force; what was in force before is kept.
    async fn put(&self, text: &str) -> Result<String, Box<Answer>> {
        let file = self.file()?;
        let before = self.read(file)?;
        let before_kept = self.current().text.clone().unwrap_or_else(|| before.clone());
        let kept = self.keep(&before_kept, || {
            self.writing.store(Some(Arc::new(text.to_owned())));
            true
        });
        let written = kept
            .map_err(|error| unwritable(&self.previous(), &error))
            .and_then(|()| write(file, text, Some(file)).map_err(|error| unwritable(file, &error)));
        let reloaded = match written {
            Ok(()) => Ok(self.reload().await),
            Err(unwritable) => Err(unwritable),
        };
        self.writing.store(None);
        let refused = match reloaded? {
            Ok(()) => return Ok(before_kept),
            Err(problems) => problems,
        };
        // The file says again what is in force.
        write(file, &before, Some(file)).map_err(|error| unwritable(file, &error))?;
        Err(unprocessable("policy_refused", &refused.join("\n")))
    }

    /// Keeps `text` as the policy before, if that is still `wanted`; one at a time.
    fn keep(&self, text: &str, wanted: impl FnOnce() -> bool) -> io::Result<()> {
        let _turn = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted() { write(&self.previous(), text, None) } else { Ok(()) }
    }

    async fn reload(&self) -> Result<(), Vec<String>> {
        let gone = || vec!["the server is stopping; try again when it runs".to_owned()];
        let (reply, answered) = oneshot::channel();
        self.reloads.send(reply).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Puts `text` in the place of `file`, whole or not at all, with the rights of `like`.
fn write(file: &Path, text: &str, like: Option<&Path>) -> io::Result<()> {
    // Behind a link the file itself is meant.
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut opened = options.open(&new)?;
    opened.write_all(text.as_bytes())?;
    if let Some(like) = like {
        opened.set_permissions(std::fs::metadata(like)?.permissions())?;
    }
    opened.sync_all()?;
    std::fs::rename(&new, &file)
}

fn unwritable(file: &Path, error: &io::Error) -> Box<Answer> {
    let detail =
        format!("{}: cannot be written ({error}); let who runs the server write there", file.display());
    Box::new(Answer::new(StatusCode::CONFLICT, "policy_not_writable", &detail))
}

fn changed_meanwhile(detail: &str) -> Box<Answer> {
    Box::new(Answer::new(StatusCode::CONFLICT, "policy_changed", detail))
}

fn shown(file: Option<&Path>) -> String {
    file.map_or_else(|| "the demonstration".to_owned(), |file| file.display().to_string())
}

/// The same document with the names of this API.
fn camel(mut document: Json) -> Json {
    for limit in document["limits"].as_array_mut().into_iter().flatten().filter_map(Json::as_object_mut) {
        if let Some(value) = limit.remove("store_failure") {
            limit.insert("storeFailure".to_owned(), value);
        }
    }
    document
}

/// What is in force. What it is written as is for those who may change it: it may hold secrets.
pub(super) fn show(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let desk = &call.admin.policy;
    let current = desk.current();
    let text = current.text.as_ref().filter(|_| call.caller.scope == Scope::Admin);
    Ok(json!({
        "file": desk.file.as_ref().map(|file| file.display().to_string()),
        "text": text,
        "report": current.report,
        "version": current.version(),
        "canRollBack": desk.previous().exists(),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Proposed {
    policy: String,
}

/// A policy that is to be in force, and the version of the one that it was made from.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Applied {
    policy: String,
    #[serde(default)]
    base: Option<String>,
}

/// The version of the policy that is to be taken back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TakenBack {
    #[serde(default)]
    base: Option<String>,
}

/// Says what a policy would promise, or what is wrong with it.
pub(super) fn validate(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let Proposed { policy } = call.question()?;
    match config::policy_of(&shown(call.admin.policy.file.as_deref()), &policy) {
        Ok(policy) => Ok(camel(report(&shown(call.admin.policy.file.as_deref()), &policy))),
        Err(error) => Ok(crate::commands::broken_report(&error)),
    }
}

/// Writes a policy to its file and puts it in force.
pub(super) async fn apply(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let Applied { policy, base } = call.question()?;
    let desk = &call.admin.policy;
    let changing = desk.changing.lock().await;
    desk.is_still(base.as_deref())?;
    checked(Some(desk.file()?), &policy)?;
    let before = desk.put(&policy).await?;
    drop(changing);
    told(call, "apply", (&before, &policy)).await
}

/// Puts the policy before in force again.
pub(super) async fn roll_back(call: &Call) -> Result<Json, Box<Answer>> {
    call.params.only(&[])?;
    let TakenBack { base } = call.question()?;
    let desk = &call.admin.policy;
    let changing = desk.changing.lock().await;
    desk.is_still(base.as_deref())?;
    let Ok(previous) = std::fs::read_to_string(desk.previous()) else {
        let detail = "there is no policy before this one; it is kept when another comes into force";
        return Err(Box::new(Answer::new(StatusCode::CONFLICT, "no_previous_policy", detail)));
    };
    checked(Some(desk.file()?), &previous)?;
    let before = desk.put(&previous).await?;
    drop(changing);
    told(call, "roll back", (&before, &previous)).await
}

/// The policy that is proposed.
pub(super) fn proposed(call: &Call) -> Result<Policy, Box<Answer>> {
    let Proposed { policy } = call.question()?;
    checked(call.admin.policy.file.as_deref(), &policy)
}

fn checked(file: Option<&Path>, text: &str) -> Result<Policy, Box<Answer>> {
    config::policy_of(&shown(file), text).map_err(|error| {
        let detail = "the policy is broken; put right what `problems` lists";
        let problems = crate::commands::broken_report(&error)["problems"].take();
        let answer = Answer::new(StatusCode::UNPROCESSABLE_ENTITY, "policy_broken", detail);
        Box::new(answer.with("problems", problems))
    })
}

async fn told(call: &Call, action: &str, (before, after): (&str, &str)) -> Result<Json, Box<Answer>> {
    // The texts may hold secrets: what they are is told, not what they say.
    let (before, after) = (fingerprint(before), fingerprint(after));
    let target = shown(call.admin.policy.file.as_deref());
    let answer = json!({ "changed": before != after, "report": call.admin.policy.current().report });
    let noted = Noted { action, target: &format!("policy {target}"), before, after };
    let audited = call.admin.note(call.by(), noted).await;
    let mut answer = answer;
    answer["audited"] = json!(audited);
    Ok(answer)
}

impl Admin {
    /// Somebody changed the policy's file by hand, and what it says is in force instead of `before`: that one is kept and
    /// written down as if it had been changed here.
    pub(crate) async fn took_over(&self, before: &Current) {
        let desk = &self.policy;
        let (Some(before), Some(after)) = (before.text.as_ref(), desk.current().text.clone()) else { return };
        let ours = desk.writing.load().as_deref().is_some_and(|writing| *writing == after);
        if *before == after || ours {
            return;
        }
        // Who is about to put another in force has kept the one of now.
        if let Err(error) = desk.keep(before, || desk.writing.load().is_none()) {
            self.log.warning(&format!(
                "{}: the policy before cannot be kept ({error}); it cannot be gone back to",
                desk.previous().display()
            ));
        }
        let target = format!("policy {}", shown(desk.file.as_deref()));
        let (before, after) = (fingerprint(before), fingerprint(&after));
        self.note(WHO, Noted { action: "take over", target: &target, before, after }).await;
    }
}

/// Names a text.
fn fingerprint(text: &str) -> String {
    format!("sha256 {}, {} bytes", version(text), text.len())
}

/// The first digits of its hash.
fn version(text: &str) -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
