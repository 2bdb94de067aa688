//! A service of gRPC that says what it is told. Messages are texts as they stand, so there is nothing to generate.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _};
use http::Extensions;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::server::TcpConnectInfo;
use tonic::{Request, Response, Status};
use tower_service::Service;

/// The other end of a connection, as tonic notes it down.
pub(crate) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    Some(extensions.get::<TcpConnectInfo>()?.remote_addr()?.ip())
}

/// The service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "example.Echo";
}

impl UnaryService<String> for Echo {
    type Response = String;
    type Future = std::future::Ready<Result<Response<String>, Status>>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        std::future::ready(Ok(Response::new(request.into_inner())))
    }
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move { Ok(Grpc::new(Texts).unary(Self, request).await) })
    }
}

/// Messages that are texts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Texts;

impl Codec for Texts {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Texts {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, item: String, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(item.as_bytes());
        Ok(())
    }
}

impl Decoder for Texts {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        let text =
            String::from_utf8(bytes.into()).map_err(|_| Status::invalid_argument("this is no text"))?;
        Ok(Some(text))
    }
}
