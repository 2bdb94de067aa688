//! The dashboard: a page in the binary, with nothing from anywhere else.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body_util::Full;

/// Where the parts of the page are, beside the page itself at `/`.
const BASE: &str = "/dashboard/";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! script {
    ($name:literal) => {
        ($name, SCRIPT, include_str!(concat!("dashboard/", $name)))
    };
}

/// The parts: name, type and text.
const PARTS: &[(&str, &str, &str)] = &[
    ("style.css", "text/css; charset=utf-8", include_str!("dashboard/style.css")),
    ("icon.svg", "image/svg+xml", include_str!("dashboard/icon.svg")),
    script!("api.js"),
    script!("audit.js"),
    script!("chart.js"),
    script!("dom.js"),
    script!("explain.js"),
    script!("health.js"),
    script!("link.js"),
    script!("lockouts.js"),
    script!("login.js"),
    script!("main.js"),
    script!("overview.js"),
    script!("policy.js"),
    script!("sanctions.js"),
    script!("subjects.js"),
    script!("told.js"),
    script!("words.js"),
];

/// The page runs its own scripts, speaks with its own server, and is part of nobody else's page.
const RULES: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // A new version is seen at the next look.
    (header::CACHE_CONTROL, "no-cache"),
];

/// The page or a part of it, if that is what is at `path`.
pub(crate) fn page(method: &Method, path: &str) -> Option<Response<Full<Bytes>>> {
    let (kind, text) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("dashboard/index.html")),
        _ => {
            let name = path.strip_prefix(BASE)?;
            let (_, kind, text) = PARTS.iter().find(|(part, ..)| *part == name)?;
            (*kind, *text)
        }
    };
    let mut response = Response::new(Full::from(text));
    let headers = response.headers_mut();
    if [Method::GET, Method::HEAD].contains(method) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.extend(RULES.map(|(name, value)| (name, HeaderValue::from_static(value))));
    } else {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        (*response.status_mut(), *response.body_mut()) = (StatusCode::METHOD_NOT_ALLOWED, Full::default());
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every module that a part asks for.
    fn imports(text: &str) -> impl Iterator<Item = &str> {
        text.lines()
            .filter_map(|line| line.split_once("from \"./"))
            .filter_map(|(_, rest)| rest.split_once('"'))
            .map(|(name, _)| name)
    }

    #[test]
    fn the_page_is_whole_and_small() {
        for (name, _, text) in PARTS {
            for wanted in imports(text) {
                assert!(page(&Method::GET, &format!("{BASE}{wanted}")).is_some(), "{name} asks for {wanted}");
            }
        }
        let bytes: usize = PARTS.iter().map(|(_, _, text)| text.len()).sum();
        assert!(bytes < 200_000, "{bytes}");
        assert!(page(&Method::GET, "/dashboard/../Cargo.toml").is_none());
    }

    #[test]
    fn nothing_in_it_comes_from_elsewhere_and_no_text_becomes_markup() {
        let document = include_str!("dashboard/index.html");
        for (name, _, text) in PARTS.iter().chain([&("index.html", "", document)]) {
            let text = text.replace("http://www.w3.org/2000/svg", "").replace("http://127.0.0.1", "");
            for never in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text.contains(never), "{name}: {never}");
            }
        }
    }
}
