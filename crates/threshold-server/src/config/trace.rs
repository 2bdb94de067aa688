//! Where traces go: a flag beats the environment, and what OpenTelemetry calls its variables works as well.

use http::header::{HeaderName, HeaderValue};

use super::set;
use crate::outbound::Url;
use crate::trace::Settings;

/// Behind the address of a collector.
const PATH: &str = "/v1/traces";
const NAME: &str = "threshold";
const RATIO: &str = "OTEL_TRACES_SAMPLER_ARG";

/// Where traces go, if anywhere.
pub(super) fn traces(flag: Option<&str>) -> Result<Option<Settings>, String> {
    let disabled = set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let ours = || flag.map(|url| ("--otlp", url.to_owned())).or_else(|| named("THRESHOLD_OTLP"));
    let theirs = || match named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        // This one is the whole address.
        Some(whole) => Some((whole, true)),
        None => named("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| (base, false)),
    };
    let found = ours().map(|base| (base, false)).or_else(|| theirs().filter(|_| !disabled));
    let Some(((name, text), whole)) = found else { return Ok(None) };
    for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
        if let Some(other) = set(name).filter(|protocol| protocol != "http/protobuf") {
            return Err(format!(
                "{name}={other}: traces are sent by http/protobuf alone, mostly to port 4318; set it to that"
            ));
        }
    }
    let base = text.trim_end_matches('/');
    let address = if whole || base.ends_with(PATH) { text.clone() } else { format!("{base}{PATH}") };
    let url = Url::read(&address).map_err(|_| {
        format!("{name} {text}: this is no address of a collector; write one such as http://127.0.0.1:4318")
    })?;
    Ok(Some(Settings { url, headers: headers()?, resource: resource()?, ratio: ratio()? }))
}

/// The variable `name`, with its name.
fn named(name: &'static str) -> Option<(&'static str, String)> {
    set(name).map(|value| (name, value))
}

/// The part of requests that are traced.
fn ratio() -> Result<f64, String> {
    let Some(text) = set(RATIO) else { return Ok(1.0) };
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| format!("{RATIO}={text}: this is no part; write a number from 0 to 1, such as 0.1"))
}

/// What is said of this server.
fn resource() -> Result<Vec<(String, String)>, String> {
    let mut said = pairs("OTEL_RESOURCE_ATTRIBUTES")?;
    if let Some(name) = set("OTEL_SERVICE_NAME") {
        said.retain(|(key, _)| key != "service.name");
        said.push(("service.name".to_owned(), name));
    } else if !said.iter().any(|(key, _)| key == "service.name") {
        said.push(("service.name".to_owned(), NAME.to_owned()));
    }
    if !said.iter().any(|(key, _)| key == "service.version") {
        said.push(("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    }
    Ok(said)
}

/// What the collector wants to see, such as a key.
fn headers() -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    // Values may be secrets, and are not shown.
    let wrong = |name: &str| format!("{NAME}: `{name}` cannot be sent as a header; write name=value,...");
    let header = |(name, value): (String, String)| {
        let mut sent = HeaderValue::from_str(&value).map_err(|_| wrong(&name))?;
        sent.set_sensitive(true);
        Ok((name.parse().map_err(|_| wrong(&name))?, sent))
    };
    pairs(NAME)?.into_iter().map(header).collect()
}

/// `key=value,key=value`, with what is percent-encoded decoded.
fn pairs(name: &str) -> Result<Vec<(String, String)>, String> {
    let text = set(name).unwrap_or_default();
    let pair = |pair: &str| {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("{name}: a part of it has no `=`; write key=value,key=value"))?;
        let value = decoded(value.trim()).ok_or_else(|| {
            format!("{name}: what stands for `{}` cannot be decoded; write %25 for %", key.trim())
        })?;
        Ok((key.trim().to_owned(), value))
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(pair).collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_percent_encoded_is_decoded() {
        assert_eq!(decoded("a%20b%2Cc").as_deref(), Some("a b,c"));
        for wrong in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
