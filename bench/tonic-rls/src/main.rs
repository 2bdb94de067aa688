//! Envoy's rate limit service by tonic, as thin as it can be: one that always answers the same, and one that asks the
//! limitador library.
//!
//! Usage: `tonic-rls-bench LISTEN constant HEX|memory|redis URL`

use std::process::ExitCode;

#[cfg(feature = "redis")]
use limitador::AsyncRateLimiter;
use limitador::RateLimiter;
use limitador::limit::{Context, Expression, Limit};
#[cfg(feature = "redis")]
use limitador::storage::redis::AsyncRedisStorage;
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy::service::ratelimit::v3::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What the compiler made of the files, in the modules that it expects.
#[allow(clippy::all, unreachable_pub, unused_qualifications, reason = "it is generated")]
mod envoy {
    pub mod config {
        pub mod core {
            pub mod v3 {
                tonic::include_proto!("envoy.config.core.v3");
            }
        }
    }
    pub mod extensions {
        pub mod common {
            pub mod ratelimit {
                pub mod v3 {
                    tonic::include_proto!("envoy.extensions.common.ratelimit.v3");
                }
            }
        }
    }
    pub mod service {
        pub mod ratelimit {
            pub mod v3 {
                tonic::include_proto!("envoy.service.ratelimit.v3");
            }
        }
    }
    pub mod r#type {
        pub mod v3 {
            tonic::include_proto!("envoy.r#type.v3");
        }
    }
}

/// Who answers.
enum Answering {
    Constant(RateLimitResponse),
    Memory(RateLimiter),
    #[cfg(feature = "redis")]
    Redis(AsyncRateLimiter),
}

#[tonic::async_trait]
impl RateLimitService for Answering {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let request = request.into_inner();
        let limited = match self {
            Self::Constant(answer) => return Ok(Response::new(answer.clone())),
            Self::Memory(limiter) => {
                let context = context(&request);
                let checked = limiter.check_rate_limited_and_update(&request.domain.into(), &context, 1);
                checked.map_err(failed)?.limited
            }
            #[cfg(feature = "redis")]
            Self::Redis(limiter) => {
                let context = context(&request);
                let domain = request.domain.into();
                let checked = limiter.check_rate_limited_and_update(&domain, &context, 1);
                checked.await.map_err(failed)?.limited
            }
        };
        let code = if limited { Code::OverLimit } else { Code::Ok };
        Ok(Response::new(RateLimitResponse { overall_code: code.into(), ..Default::default() }))
    }
}

fn failed(error: impl std::fmt::Debug) -> Status {
    Status::unavailable(format!("{error:?}"))
}

/// The entries as limitador's expressions see them.
fn context(request: &RateLimitRequest) -> Context<'static> {
    let mut context = Context::default();
    let each = request.descriptors.iter().map(|descriptor| {
        descriptor.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
    });
    context.list_binding("descriptors".to_owned(), each.collect());
    context
}

/// One limit that refuses nobody, of each value of one key.
fn limit() -> Outcome<Limit> {
    let variable =
        Expression::parse("descriptors[0].remote_address").map_err(|error| format!("{error:?}"))?;
    Ok(Limit::new("edge", 900_000_000, 60, Vec::new(), [variable]))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tonic-rls-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Outcome<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (listen, answering) = match words.as_slice() {
            [listen, "constant", answer] => {
                (listen, Answering::Constant(RateLimitResponse::decode(&unhex(answer)?[..])?))
            }
            [listen, "memory"] => {
                let limiter = RateLimiter::new(1_000);
                limiter.add_limit(limit()?);
                (listen, Answering::Memory(limiter))
            }
            #[cfg(feature = "redis")]
            [listen, "redis", url] => {
                let storage = AsyncRedisStorage::new(url).await?;
                let limiter = AsyncRateLimiter::new_with_storage(Box::new(storage));
                limiter.add_limit(limit()?);
                (listen, Answering::Redis(limiter))
            }
            _ => return Err("usage: tonic-rls-bench LISTEN constant HEX|memory|redis URL".into()),
        };
        let listener = TcpListener::bind(listen).await?;
        let service = RateLimitServiceServer::new(answering);
        // As its own listener has it: answers are sent at once.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        Server::builder().add_service(service).serve_with_incoming(incoming).await?;
        Ok(())
    })
}

fn unhex(text: &str) -> Outcome<Vec<u8>> {
    let pairs = text
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair)?, 16).map_err(Into::into));
    pairs.collect()
}
