// SPDX-License-Identifier: Apache-2.0
//! A controller that is gone for an hour, in virtual time: client and server are real, the wire
//! between them is in memory.

use crate::agent::config;
use crate::controller::service;
use cachepilot_agent::exporter::AgentMetrics;
use cachepilot_agent::node::Observation;
use cachepilot_agent::session::backoff::Backoff;
use cachepilot_agent::session::dial::{Dial, with_keep_alive};
use cachepilot_agent::session::outgoing::{MAX_MESSAGE_BYTES, Outgoing};
use cachepilot_agent::session::{Down, Session, Up};
use cachepilot_agent::wire;
use hyper_util::rt::TokioIo;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Server};

const HOUR: Duration = Duration::from_secs(3600);

/// Nobody is there before `back`.
struct Gone {
    back: Instant,
    server: mpsc::Sender<io::Result<DuplexStream>>,
}

impl Dial for Gone {
    async fn dial(&self) -> Result<Channel, String> {
        if Instant::now() < self.back {
            return Err("connection refused".into());
        }
        let (near, far) = duplex(1 << 16);
        self.server.send(Ok(far)).await.map_err(|e| e.to_string())?;
        let mut near = Some(near);
        let connector = tower::service_fn(move |_| {
            let end = near
                .take()
                .map(TokioIo::new)
                .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
            std::future::ready(end)
        });
        let endpoint = with_keep_alive(Endpoint::from_static("http://controller:1"));
        endpoint.connect_with_connector(connector).await.map_err(|e| e.to_string())
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_controller_is_a_bounded_number_of_attempts() {
    let (service, sessions) = service();
    let (server, connections) = mpsc::channel(1);
    tokio::spawn(
        Server::builder()
            .add_service(service)
            .serve_with_incoming(ReceiverStream::new(connections)),
    );
    let began = Instant::now();
    let metrics = Arc::new(AgentMetrics::default());
    let (_hello, say_hello) = watch::channel(wire::Hello { last_epoch: 9, ..Default::default() });
    let (down, mut events) = mpsc::channel(8);
    let times = config(Path::new("/tmp"), "127.0.0.1:1".parse().unwrap(), "").times;
    let session = Session {
        dial: Gone { back: began + HOUR, server },
        times,
        hello: say_hello,
        down,
        backoff: Backoff::new(Duration::from_secs(10), || 0.5),
        outgoing: Outgoing::new(MAX_MESSAGE_BYTES),
        metrics: Arc::clone(&metrics),
    };
    let session = tokio::spawn(session.run());

    tokio::time::sleep(HOUR).await;
    let mut conversation = sessions.welcome(1000).await;
    let away = began.elapsed();
    assert!(away >= HOUR && away < HOUR + Duration::from_secs(11), "{away:?}");
    // Some at first, then one in 7.5 seconds.
    assert!((480..=500).contains(&metrics.sessions_failed.get()), "{metrics:?}");
    assert_eq!(conversation.hello.last_epoch, 9);
    let Some(Down::Connected { interval, up }) = events.recv().await else { panic!() };
    assert_eq!(interval, Duration::from_secs(1));
    up.send(Up::Observation(1, Arc::new(Observation::default()))).await.unwrap();
    assert_eq!(conversation.snapshot().await.sequence, 1);
    drop((up, events));
    assert!(conversation.hear().await.is_none());
    session.await.unwrap();
}
