// SPDX-License-Identifier: Apache-2.0
//! A controller of which the test says every word, behind a real gRPC server.

use cachepilot_agent::wire;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Server, server::Router};
use tonic::{Request, Response, Status, Streaming};
use wire::agent_message::Message as Said;
use wire::controller_message::Message as Heard;
use wire::fleet_server::{Fleet, FleetServer};

/// Long enough for a busy machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// One session as the controller has it.
pub struct Conversation {
    pub hello: wire::Hello,
    pub heard: Streaming<wire::AgentMessage>,
    say: mpsc::Sender<Result<wire::ControllerMessage, Status>>,
}

struct Service(mpsc::Sender<Conversation>);

#[tonic::async_trait]
impl Fleet for Service {
    type SessionStream = ReceiverStream<Result<wire::ControllerMessage, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<wire::AgentMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let mut heard = request.into_inner();
        let first = heard.message().await?.and_then(|m| m.message);
        let Some(Said::Hello(hello)) = first else {
            return Err(Status::invalid_argument("no hello"));
        };
        let (say, said) = mpsc::channel(64);
        let conversation = Conversation { hello, heard, say };
        self.0.send(conversation).await.map_err(|_| Status::unavailable("no test"))?;
        Ok(Response::new(ReceiverStream::new(said)))
    }
}

/// Sessions, in the order in which agents began them.
pub struct Sessions(Mutex<mpsc::Receiver<Conversation>>);

/// The service to put behind a server, and what comes to it.
pub fn service() -> (FleetServer<impl Fleet>, Sessions) {
    let (to, sessions) = mpsc::channel(64);
    (FleetServer::new(Service(to)), Sessions(Mutex::new(sessions)))
}

impl Sessions {
    /// The next session, not yet welcome.
    pub async fn next(&self) -> Conversation {
        in_time(async { self.0.lock().await.recv().await }).await.unwrap()
    }

    /// The next session, welcome.
    pub async fn welcome(&self, interval_ms: u32) -> Conversation {
        let conversation = self.next().await;
        conversation.say(Heard::Welcome(wire::Welcome { interval_ms })).await;
        conversation
    }
}

/// A controller that listens.
pub struct Controller {
    pub address: SocketAddr,
    pub sessions: Arc<Sessions>,
    server: JoinHandle<()>,
}

impl Controller {
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), Server::builder()).await
    }

    pub async fn start_at(address: SocketAddr, mut server: Server) -> Self {
        let (service, sessions) = service();
        Self::serve(address, server.add_service(service), sessions).await
    }

    async fn serve(address: SocketAddr, router: Router, sessions: Sessions) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let _ = router.serve_with_incoming(TcpListenerStream::new(listener)).await;
        });
        Self { address, sessions: Arc::new(sessions), server }
    }

    /// The controller dies; its address can be listened on again when this returns.
    pub async fn kill(self) -> SocketAddr {
        self.server.abort();
        let _ = self.server.await;
        self.address
    }
}

impl Conversation {
    pub async fn say(&self, message: Heard) {
        let message = wire::ControllerMessage { message: Some(message) };
        // The agent may be gone already; who listens for its answer notices.
        let _ = in_time(self.say.send(Ok(message))).await;
    }

    pub async fn plan(&self, plan: wire::Plan) {
        self.say(Heard::Plan(plan)).await;
    }

    /// The next message; `None` when the agent ended the session or the connection broke.
    pub async fn hear(&mut self) -> Option<Said> {
        in_time(self.heard.message()).await.ok().flatten().and_then(|m| m.message)
    }

    /// The next snapshot; acknowledgements before it are skipped.
    pub async fn snapshot(&mut self) -> wire::Snapshot {
        loop {
            match self.hear().await {
                Some(Said::Snapshot(snapshot)) => return snapshot,
                Some(Said::Ack(_)) => {}
                other => panic!("no snapshot: {other:?}"),
            }
        }
    }

    /// The next acknowledgement; snapshots before it are answered by nothing.
    pub async fn ack(&mut self) -> wire::Ack {
        loop {
            match self.hear().await {
                Some(Said::Ack(ack)) => return ack,
                Some(Said::Snapshot(_)) => {}
                other => panic!("no ack: {other:?}"),
            }
        }
    }
}

pub async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("in time")
}

/// Waits until something is so.
pub async fn until(what: impl Fn() -> bool) {
    let polled = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    in_time(polled).await;
}
