//! A bucket of S3, or of whatever speaks like it: files put there, listed and read.
//!
//! Signed addresses come from `rusty-s3`; the requests are our own. An object is there whole or not at all: S3 shows one only
//! after its last byte.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Credentials, S3Action as _, UrlStyle};

use crate::outbound::{Asked, Guard, Url, send};

/// How long one request may take, how long its signature is good, and the largest answers.
const TIMEOUT: Duration = Duration::from_secs(30);
const SIGNED_FOR: Duration = Duration::from_secs(300);
const LONGEST_LISTING: usize = 8 << 20;
const LONGEST_OBJECT: usize = 256 << 20;
/// How much of a refusal is shown.
const SHOWN: usize = 200;

/// Where a bucket is, and who may write there.
#[derive(Clone)]
pub(crate) struct BucketPlace {
    pub(crate) endpoint: String,
    pub(crate) region: String,
    pub(crate) path_style: bool,
    pub(crate) name: String,
    /// What all keys begin with, without a slash at its end; may be empty.
    pub(crate) prefix: String,
    /// Key, secret and the token of a session.
    pub(crate) credentials: (String, String, Option<String>),
}

/// Without its secrets.
impl std::fmt::Debug for BucketPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self} at {}", self.endpoint)
    }
}

impl std::fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3://{}", self.name)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

/// A bucket.
pub(crate) struct Bucket {
    bucket: rusty_s3::Bucket,
    credentials: Credentials,
    prefix: String,
    /// The address is part of how the server is set up, as a store's is: it may be anywhere.
    guard: Guard,
}

impl Bucket {
    pub(crate) fn new(place: &BucketPlace) -> Result<Self, String> {
        let wrong = |what: &str| format!("--archive {place}: {what}");
        let endpoint = place.endpoint.parse().map_err(|_| wrong("[archive].endpoint is no address"))?;
        let style = if place.path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let bucket = rusty_s3::Bucket::new(endpoint, style, place.name.clone(), place.region.clone());
        let bucket = bucket.map_err(|error| {
            wrong(&format!("{error}; `path_style = true` in [archive] names the bucket in the path"))
        })?;
        let (key, secret, token) = place.credentials.clone();
        let credentials = match token {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        let prefix = if place.prefix.is_empty() { String::new() } else { format!("{}/", place.prefix) };
        Ok(Self { bucket, credentials, prefix, guard: Guard::open() })
    }

    /// Puts an object at `key`, in the place of one that is there.
    pub(super) async fn put(&self, key: &str, bytes: Bytes) -> Result<(), String> {
        let key = format!("{}{key}", self.prefix);
        let url = self.bucket.put_object(Some(&self.credentials), &key).sign(SIGNED_FOR);
        self.ask(Method::PUT, url.as_str(), bytes, LONGEST_LISTING).await.map(|_| ())
    }

    /// The object at `key`.
    pub(super) async fn get(&self, key: &str) -> Result<Bytes, String> {
        let key = format!("{}{key}", self.prefix);
        let url = self.bucket.get_object(Some(&self.credentials), &key).sign(SIGNED_FOR);
        self.ask(Method::GET, url.as_str(), Bytes::new(), LONGEST_OBJECT).await
    }

    /// Removes the object at `key`.
    pub(super) async fn delete(&self, key: &str) -> Result<(), String> {
        let key = format!("{}{key}", self.prefix);
        let url = self.bucket.delete_object(Some(&self.credentials), &key).sign(SIGNED_FOR);
        self.ask(Method::DELETE, url.as_str(), Bytes::new(), LONGEST_LISTING).await.map(|_| ())
    }

    /// The keys that begin with `folder`, come after `after` and before `before`, in order.
    pub(super) async fn list(
        &self,
        folder: &str,
        after: &str,
        before: Option<&str>,
    ) -> Result<Vec<String>, String> {
        let (mut keys, mut next) = (Vec::<String>::new(), None::<String>);
        loop {
            let mut list = self.bucket.list_objects_v2(Some(&self.credentials));
            list.with_prefix(format!("{}{folder}", self.prefix));
            match &next {
                Some(token) => list.with_continuation_token(token.clone()),
                None => list.with_start_after(format!("{}{after}", self.prefix)),
            }
            let url = list.sign(SIGNED_FOR);
            let listing = self.ask(Method::GET, url.as_str(), Bytes::new(), LONGEST_LISTING).await?;
            let listing = ListObjectsV2::parse_response(&String::from_utf8_lossy(&listing))
                .map_err(|error| format!("the listing cannot be read: {error}"))?;
            let own = |key: String| Some(key.strip_prefix(&self.prefix)?.to_owned());
            keys.extend(listing.contents.into_iter().filter_map(|object| own(object.key)));
            next = listing.next_continuation_token;
            if let Some(before) = before {
                let read = keys.len();
                keys.truncate(keys.partition_point(|key| key.as_str() < before));
                // They come in order: all others are later.
                next = next.filter(|_| keys.len() == read);
            }
            if next.is_none() {
                return Ok(keys);
            }
        }
    }

    async fn ask(&self, method: Method, url: &str, body: Bytes, longest: usize) -> Result<Bytes, String> {
        let url = Url::read(url)?;
        let asked = Asked { method, headers: HeaderMap::new(), body, timeout: TIMEOUT, longest };
        let answer = send(&url, &self.guard, asked).await.map_err(|failure| format!("{url}: {failure}"))?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        let said: String = String::from_utf8_lossy(&answer.body).chars().take(SHOWN).collect();
        let hint = match answer.status.as_u16() {
            301 | 307 => "; see whether [archive].region and endpoint are right",
            401 | 403 => "; see whether AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY may write there",
            404 => "; see whether there is such a bucket",
            _ => "",
        };
        Err(format!("{url} answered {}: {said}{hint}", answer.status.as_u16()))
    }
}
