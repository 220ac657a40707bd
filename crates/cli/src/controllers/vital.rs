//! The runtime of probes, metrics and Leases: they answer in time, no matter how busy tenants keep the other.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::task::AbortOnDropHandle;

/// Ends on drop, without waiting.
#[derive(Debug)]
pub(super) struct Vital(Option<Runtime>, Handle);

impl Vital {
    pub(super) fn start() -> io::Result<Self> {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime
            .worker_threads(1)
            .thread_name("equate-vital")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        Ok(Self(Some(runtime), handle))
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.1
    }

    /// Runs on this runtime's thread: sockets and clients that are made here stay here.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        match AbortOnDropHandle::new(self.1.spawn(work)).await {
            Ok(done) => done,
            // nobody cancels it
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

impl Drop for Vital {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::run::{Listeners, PROBES};
    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    #[test]
    fn probes_answer_while_every_other_thread_is_busy() {
        let busy = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let answer = busy.block_on(async {
            let vital = Vital::start().unwrap();
            let listener = vital.run(TcpListener::bind("127.0.0.1:0")).await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut listeners = Listeners::on(vital.handle());
            let routes = Router::new().route("/healthz", get(async || "ok"));
            listeners.serve(Some(listener), routes, PROBES);
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
            let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
            for _ in 0..2 {
                let (begun, ended) = (begun.clone(), std::sync::Arc::clone(&ended));
                tokio::spawn(async move {
                    begun.send(()).unwrap();
                    drop(ended.lock().map(|ended| ended.recv()));
                });
                begins.recv().await.unwrap();
            }
            let asked = vital.run(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let request = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                stream.write_all(request).await.unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).await.unwrap();
                text
            });
            let answer = asked.await;
            drop(end);
            answer
        });
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
