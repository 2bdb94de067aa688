//! The applications behind the gateway: which one a request is for, and connections to it that are kept.

mod connect;
mod http1;
mod pool;
mod target;

use http::Method;
use hyper::body::Incoming;
use threshold::policy::Policy;
use threshold::route::{Path, Routes};
use threshold_http::body::RequestBody;

pub(super) use connect::ConnectError;
pub(crate) use connect::{Wire, secured};
pub(super) use http1::{Head, Outgoing, only_of_hop};
pub(super) use pool::{Answered, Linked, Pool, SendError, Sent};
pub(super) use target::Targets;

use super::body::Timed;

/// What is sent to an application.
type Sending = RequestBody<Timed<Incoming>>;

/// Which application a request is for.
pub(super) struct Upstreams {
    routes: Routes,
    /// The routes of each application, in the order of the policy.
    by_route: Vec<(Vec<usize>, Targets)>,
    /// For all that no other takes.
    rest: Option<Targets>,
}

impl Upstreams {
    /// The applications of `policy`; `rest` takes what is left.
    pub(super) fn new(policy: &Policy, rest: Option<&str>) -> Result<Self, String> {
        let routes = Routes::compile(&policy.route_specs(), policy.route_options())
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
        let mut by_route = Vec::new();
        for upstream in &policy.upstream {
            let indexes = upstream.route.0.iter().filter_map(|route| routes.index_of(&route.value)).collect();
            let urls: Vec<&str> = upstream.url.0.iter().map(|url| url.value.as_str()).collect();
            by_route.push((indexes, Targets::new(&urls)?));
        }
        let rest = rest.map(|url| Targets::new(&[url])).transpose()?;
        Ok(Self { routes, by_route, rest })
    }

    /// The application for a request.
    pub(super) fn choose(&self, method: &Method, host: Option<&str>, path: &str) -> Option<&Targets> {
        if !self.by_route.is_empty()
            && let Ok(path) = Path::read(path)
        {
            let matches = self.routes.matches(method.as_str(), host, &path);
            let mine =
                |(routes, _): &&(Vec<usize>, Targets)| routes.iter().any(|route| matches.contains(*route));
            if let Some((_, targets)) = self.by_route.iter().find(mine) {
                return Some(targets);
            }
        }
        self.rest.as_ref()
    }
}
