//! Requests to the controllers' own servers (row 8).

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{Attack, attack};
use crate::hostile::ground::{Ground, Sign, Threat};
use crate::hostile::servers::get;

/// Half-sent requests at each port, by the hundred: the probes need a few connections of the 4,096.
const HALF_SENT: [usize; 2] = [5, 20];
/// Requests at once of a flood.
const FLOOD: usize = 8;
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn all() -> Vec<Attack> {
    vec![
        attack("requests: half-sent to all ports", |ground| {
            Box::pin(async move {
                let mut streams = Vec::new();
                for port in ports(ground) {
                    for _ in 0..ground.pick(HALF_SENT[0], HALF_SENT[1]) {
                        let opened = join_all((0..100).map(|_| half_sent(port))).await;
                        streams.extend(opened.into_iter().flatten());
                    }
                }
                Ok(Threat::new(Sign::Launched).holding(streams))
            })
        }),
        attack("requests: floods of all ports", |ground| {
            Box::pin(async move {
                let mut floods = JoinSet::new();
                for (port, path) in ports(ground)
                    .into_iter()
                    .zip(["/readyz", "/metrics", "/gitrepository/a"])
                {
                    for _ in 0..FLOOD {
                        floods.spawn(async move {
                            loop {
                                // a refusal is an answer, too
                                drop(get(port, path, PATIENCE).await);
                            }
                        });
                    }
                }
                Ok(Threat::new(Sign::Launched).holding(floods))
            })
        }),
    ]
}

fn ports(ground: &Ground<'_>) -> [SocketAddr; 3] {
    let session = ground.session;
    [session.health, session.metrics, session.artifacts]
}

async fn half_sent(at: SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(at).await?;
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-")
        .await?;
    Ok(stream)
}
