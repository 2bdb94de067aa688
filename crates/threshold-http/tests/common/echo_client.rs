//! A client of the echo in `examples/support`.

use std::net::SocketAddr;

use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::echo::Texts;

/// Where the service is called.
const PATH: &str = "/example.Echo/Say";

/// A client of it.
pub(crate) struct EchoClient(Grpc<Channel>);

impl EchoClient {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Self(Grpc::new(channel))
    }

    /// Says `text`; gives what came back.
    pub(crate) async fn say(&mut self, text: &str) -> Result<Response<String>, Status> {
        self.0.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        self.0.unary(Request::new(text.to_owned()), PathAndQuery::from_static(PATH), Texts).await
    }
}
