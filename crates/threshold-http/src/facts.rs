//! From a request to facts.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{HeaderMap, Version, header};
use threshold::identify::{Facts, Headers};

/// The other end of a connection, as an extension of its requests: whoever accepts connections puts it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Header fields as the engine reads them.
pub struct Fields<'a>(pub &'a HeaderMap);

impl Headers for Fields<'_> {
    fn each<'h>(&'h self, name: &str, visit: &mut dyn FnMut(&'h [u8])) {
        self.0.get_all(name).iter().for_each(|value| visit(value.as_bytes()));
    }
}

/// What the request `parts` says, which `peer` sent.
#[must_use]
pub fn facts<'a>(parts: &'a Parts, fields: &'a Fields<'a>, peer: IpAddr) -> Facts<'a> {
    Facts {
        peer,
        method: parts.method.as_str(),
        host: host(parts),
        path: parts.uri.path_and_query().map_or("/", |path| path.as_str()),
        bytes: declared(parts),
        headers: fields,
    }
}

/// The host: of the address itself where it has one, as HTTP/2 does, or of the header.
pub(crate) fn host(parts: &Parts) -> Option<&str> {
    let of_address = || parts.uri.authority().map(http::uri::Authority::as_str);
    of_address().or_else(|| parts.headers.get(header::HOST)?.to_str().ok())
}

/// The declared length of the body.
fn declared(parts: &Parts) -> Option<u64> {
    if parts.headers.contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    match parts.headers.get(header::CONTENT_LENGTH) {
        Some(length) => length.to_str().ok()?.parse().ok(),
        // Without a length a request of HTTP/1 has no body; one of HTTP/2 may.
        None => (parts.version < Version::HTTP_2).then_some(0),
    }
}

/// The peer's address, as whoever accepted the connection wrote it down.
pub(crate) fn peer(parts: &Parts) -> Option<IpAddr> {
    let ours = parts.extensions.get::<Peer>().map(|peer| peer.0.ip());
    #[cfg(feature = "axum")]
    let ours = ours
        .or_else(|| parts.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>().map(|info| info.0.ip()));
    ours
}
