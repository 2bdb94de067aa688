//! The least that makes a rate-limiting proxy of pingora: one limit by address, one upstream, one thread.
//!
//! Usage: `pingora-proxy-bench LISTEN UPSTREAM`, both as `address:port`.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use async_trait::async_trait;
use pingora::Result;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;
use pingora_limits::rate::Rate;

/// Too many for any client to reach: what is measured are requests that pass.
const LIMIT: isize = 1_000_000_000;

struct Proxy {
    upstream: String,
    rate: Rate,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ();

    fn new_ctx(&self) -> Self::CTX {}

    async fn request_filter(&self, session: &mut Session, _ctx: &mut ()) -> Result<bool> {
        let address = session.client_addr().and_then(|client| client.as_inet()).map(|client| client.ip());
        // The key is the address alone, as in the other proxies, and costs no allocation.
        if self.rate.observe(&address.map_or([0; 16], octets), 1) > LIMIT {
            session.respond_error(429).await?;
            return Ok(true);
        }
        Ok(false)
    }

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(&self.upstream, false, String::new())))
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [listen, upstream] = words.as_slice() else {
        eprintln!("usage: pingora-proxy-bench LISTEN UPSTREAM");
        return ExitCode::FAILURE;
    };
    // One thread is the default; it is said here because the comparison rests on it.
    let conf = ServerConf { threads: 1, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let proxy = Proxy { upstream: upstream.clone(), rate: Rate::new(Duration::from_secs(1)) };
    let mut service = http_proxy_service(&server.configuration, proxy);
    service.add_tcp(listen);
    server.add_service(service);
    server.run_forever()
}
