//! Where the archive is: a flag beats the environment, which beats the policy.

use std::path::{Path, PathBuf};

use threshold::node::BreakerSettings;
use threshold::policy::{Archive, Policy};
use threshold::{Span, random_token};

use super::set;
use crate::archive::{BucketPlace, Settings};

/// How often a file of the archive is written, and how long it is kept.
const EVERY: Span = Span::MINUTE;
const KEEP: Span = Span::from_secs(90 * 24 * 60 * 60);
/// Where files wait until they are sent, in the data folder, and how many bytes of them.
const SPOOL: &str = "archive-spool";
const SPOOL_BYTES: u64 = 256 << 20;
const SCHEME: &str = "s3://";
const REGION: &str = "us-east-1";

/// Where an archive is.
pub(crate) enum ArchivePlace {
    Folder(PathBuf),
    Bucket(BucketPlace),
}

/// The archive that a flag, the environment or the policy names.
pub(crate) fn archive_place(
    flag: Option<&Path>,
    policy: Option<&Policy>,
) -> Result<Option<ArchivePlace>, String> {
    let written = policy.and_then(|policy| policy.archive.as_ref());
    let of_policy = || written?.folder.as_ref().map(PathBuf::from);
    let named =
        flag.map(Path::to_owned).or_else(|| set("THRESHOLD_ARCHIVE").map(PathBuf::from)).or_else(of_policy);
    let Some(named) = named else { return Ok(None) };
    match named.to_str().and_then(|text| text.strip_prefix(SCHEME)) {
        Some(bucket) => bucket_place(bucket, written).map(|place| Some(ArchivePlace::Bucket(place))),
        None => Ok(Some(ArchivePlace::Folder(named))),
    }
}

fn bucket_place(text: &str, written: Option<&Archive>) -> Result<BucketPlace, String> {
    let (name, prefix) = text.split_once('/').unwrap_or((text, ""));
    if name.is_empty() {
        return Err(format!("--archive {SCHEME}{text}: there is no bucket; write {SCHEME}BUCKET/PREFIX"));
    }
    let credential = |name: &str| {
        set(name).ok_or_else(|| {
            format!(
                "--archive {SCHEME}{text}: {name} is not set; set it, and AWS_ACCESS_KEY_ID and \
                                         AWS_SECRET_ACCESS_KEY both, to who may write there"
            )
        })
    };
    let credentials =
        (credential("AWS_ACCESS_KEY_ID")?, credential("AWS_SECRET_ACCESS_KEY")?, set("AWS_SESSION_TOKEN"));
    let region = written.and_then(|archive| archive.region.clone()).or_else(|| set("AWS_REGION"));
    let region = region.unwrap_or_else(|| REGION.to_owned());
    let endpoint = written.and_then(|archive| Some(archive.endpoint.as_ref()?.value.clone()));
    let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    Ok(BucketPlace {
        endpoint,
        region,
        path_style: written.is_some_and(|archive| archive.path_style),
        name: name.to_owned(),
        prefix: prefix.trim_matches('/').to_owned(),
        credentials,
    })
}

/// The archive, if there is to be one. What waits for a bucket does so in `data_dir`.
pub(super) fn archive(
    flag: Option<&Path>,
    policy: &Policy,
    (breaker, data_dir): (BreakerSettings, &Path),
) -> Result<Option<Settings>, String> {
    let Some(place) = archive_place(flag, Some(policy))? else { return Ok(None) };
    let written = policy.archive.as_ref();
    let every = written.and_then(|archive| archive.every.as_ref());
    let keep = policy.privacy.as_ref().and_then(|privacy| privacy.keep_archive);
    let most = written.and_then(|archive| archive.spool_bytes).unwrap_or(SPOOL_BYTES);
    let (folder, bucket) = match place {
        ArchivePlace::Folder(folder) => (folder, None),
        ArchivePlace::Bucket(bucket) => (data_dir.join(SPOOL), Some((bucket, most))),
    };
    let every = every.map_or(EVERY, |every| every.value);
    Ok(Some(Settings { folder, bucket, every, keep: keep.unwrap_or(KEEP), breaker }))
}

/// A folder that nobody else has, for what is gone soon.
pub(crate) fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("threshold-{}", &random_token()[..16]))
}
