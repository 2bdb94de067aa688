//! From a request to facts.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{Extensions, HeaderMap, Request, Version, header};
use threshold::figures::Watcher;
use threshold::identify::{Facts, Headers};

/// The other end of a connection, as an extension of its requests: whoever accepts connections puts it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Somebody who wants to see what is decided about this one request, as an extension of it.
#[derive(Clone)]
pub struct Onlooker(pub Arc<dyn Watcher>);

/// Header fields as the engine reads them.
pub struct Fields<'a>(pub &'a HeaderMap);

impl Headers for Fields<'_> {
    fn each<'h>(&'h self, name: &str, visit: &mut dyn FnMut(&'h [u8])) {
        // A look at all names costs less than making the wanted one a key and hashing it.
        let named = self.0.iter().filter(|(other, _)| other.as_str().eq_ignore_ascii_case(name));
        named.for_each(|(_, value)| visit(value.as_bytes()));
    }
}

/// What `request` says, which `peer` sent.
#[must_use]
pub fn facts<'a, B>(request: &'a Request<B>, fields: &'a Fields<'a>, peer: IpAddr) -> Facts<'a> {
    Facts {
        peer,
        method: request.method().as_str(),
        host: host(request),
        path: request.uri().path_and_query().map_or("/", |path| path.as_str()),
        bytes: declared(request),
        headers: fields,
    }
}

/// The host: of the address itself where it has one, as HTTP/2 does, or of the header.
fn host<B>(request: &Request<B>) -> Option<&str> {
    let of_address = || request.uri().authority().map(http::uri::Authority::as_str);
    of_address().or_else(|| request.headers().get(header::HOST)?.to_str().ok())
}

/// The declared length of the body.
fn declared<B>(request: &Request<B>) -> Option<u64> {
    if request.headers().contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    match request.headers().get(header::CONTENT_LENGTH) {
        Some(length) => length.to_str().ok()?.parse().ok(),
        // Without a length a request of HTTP/1 has no body; one of HTTP/2 may.
        None => (request.version() < Version::HTTP_2).then_some(0),
    }
}

/// The peer's address, as whoever accepted the connection wrote it down.
pub(crate) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    let ours = extensions.get::<Peer>().map(|peer| peer.0.ip());
    #[cfg(feature = "axum")]
    let ours =
        ours.or_else(|| extensions.get::<axum::extract::ConnectInfo<SocketAddr>>().map(|info| info.0.ip()));
    ours
}
