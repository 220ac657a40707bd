//! The HTTP client of an API server. Every answer has a deadline for its head, and for its end unless it is
//! a watch. Answers and the events of a watch have limits of bytes. A cluster of a tenant is dialled by
//! [`Egress`], without a worker.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use equate_apply::cluster::Cluster;
use equate_egress::{Egress, HeldAnswer, Outcome, WatchSlot};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt as _};

use crate::kit::queue::without_worker;

/// The deadlines and limits of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerLimits {
    /// From the request to the head of the answer. Admission webhooks have up to 30 s.
    pub head: Duration,
    /// The same for a discovery request, which waits for no webhook.
    pub discovery_head: Duration,
    /// From the head of an answer to its end, unless it is a watch.
    pub body: Duration,
    /// The largest answer.
    pub bytes: usize,
    /// The largest answer to a discovery request.
    pub discovery_bytes: usize,
    /// The largest event of a watch.
    pub event_bytes: usize,
    /// The bytes of a watch in a second, on average; the others wait in the connection.
    pub watch_bytes_per_second: usize,
}

impl AnswerLimits {
    /// For the cluster of this process, which is trusted to be finite.
    pub const OWN: AnswerLimits = AnswerLimits {
        head: Duration::from_secs(40),
        discovery_head: Duration::from_secs(8),
        body: Duration::from_secs(60),
        bytes: 512 << 20,
        discovery_bytes: 64 << 20,
        event_bytes: 16 << 20,
        watch_bytes_per_second: usize::MAX,
    };

    /// For clusters that tenants name.
    pub const FOREIGN: AnswerLimits = AnswerLimits {
        head: Duration::from_secs(40),
        discovery_head: Duration::from_secs(8),
        body: Duration::from_secs(60),
        bytes: 32 << 20,
        discovery_bytes: 16 << 20,
        event_bytes: 4 << 20,
        watch_bytes_per_second: 4 << 20,
    };
}

/// Why an answer is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// There is no head in time.
    #[error("the API server did not answer within {}s", .0.as_secs())]
    NoHead(Duration),
    /// The body is not complete in time.
    #[error("the API server's answer is not complete after {}s", .0.as_secs())]
    Slow(Duration),
    /// The body is too long.
    #[error("the API server's answer is larger than {0} bytes")]
    Large(usize),
    /// An event of a watch is too long.
    #[error("an event of the API server is larger than {0} bytes")]
    LargeEvent(usize),
    /// All answers of other hosts together are too long.
    #[error(
        "the API server's answer was ended, because all answers together need too much memory; it is asked again later"
    )]
    Displaced,
}

/// Adds [`AnswerLimits`] to a client.
#[derive(Debug, Clone, Copy)]
pub struct LimitLayer(pub AnswerLimits);

impl<S> Layer<S> for LimitLayer {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited {
            inner,
            limits: self.0,
        }
    }
}

/// A client with limits.
#[derive(Debug, Clone)]
pub struct Limited<S> {
    inner: S,
    limits: AnswerLimits,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<LimitedBody>, BoxError>> + Send>>;

impl<S, B> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<LimitedBody>;
    type Error = BoxError;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        let limits = self.limits;
        let expected = request.extensions().get().copied();
        let expected = expected.unwrap_or_else(|| Expected::of(&request));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let limit = match expected {
                Expected::Discovery => limits.discovery_head,
                Expected::Whole | Expected::Watch => limits.head,
            };
            let answer = timeout(limit, answer).await;
            let answer = answer.map_err(|_| AnswerError::NoHead(limit))?;
            Ok(answer
                .map_err(Into::into)?
                .map(|body| expected.limit(body, &limits)))
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Whole,
    Discovery,
    Watch,
}

impl Expected {
    fn of(request: &Request<Body>) -> Self {
        let uri = request.uri();
        let is_watch = |pair: &str| matches!(pair, "watch=true" | "watch=1");
        if request.method() == Method::GET && uri.query().unwrap_or_default().split('&').any(is_watch) {
            return Self::Watch;
        }
        // from the start: an object or a namespace may have the name `api`
        let parts: Vec<&str> = uri.path().trim_matches('/').splitn(4, '/').collect();
        match parts[..] {
            ["api"] | ["api", _] | ["apis"] | ["apis", _] | ["apis", _, _] => Self::Discovery,
            _ => Self::Whole,
        }
    }

    fn limit<B>(self, body: B, limits: &AnswerLimits) -> LimitedBody
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (deadline, limit) = match self {
            Self::Watch => (None, limits.event_bytes),
            Self::Whole => (Some(limits.body), limits.bytes),
            Self::Discovery => (Some(limits.body), limits.discovery_bytes),
        };
        LimitedBody {
            body: body.map_err(Into::into).boxed_unsync(),
            deadline: deadline.map(|time| (Box::pin(sleep(time)), time)),
            limit,
            taken: 0,
            rate: (self == Self::Watch).then(|| Rate::new(limits.watch_bytes_per_second)),
            _watch: None,
            _held: None,
        }
    }
}

/// The body of an answer, within its limits.
pub struct LimitedBody {
    body: http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>,
    deadline: Option<(Pin<Box<Sleep>>, Duration)>,
    limit: usize,
    /// Bytes so far; of a watch, those since the last line ended.
    taken: usize,
    /// Only of a watch.
    rate: Option<Rate>,
    /// Only of a watch of another cluster.
    _watch: Option<WatchSlot>,
    /// Only of a whole answer of another cluster.
    _held: Option<HeldAnswer>,
}

/// The bytes of the present second.
struct Rate {
    per_second: usize,
    left: usize,
    second: Instant,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Rate {
    fn new(per_second: usize) -> Self {
        Self {
            per_second,
            left: per_second,
            second: Instant::now(),
            pause: None,
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            (self.pause, self.second, self.left) = (None, Instant::now(), self.per_second);
        }
        Poll::Ready(())
    }

    fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        if self.left == 0 {
            self.pause = Some(Box::pin(sleep_until(self.second + Duration::from_secs(1))));
        }
    }
}

impl std::fmt::Debug for LimitedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LimitedBody")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl http_body::Body for LimitedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
        if let Some((deadline, time)) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Some(Err(AnswerError::Slow(*time).into())));
        }
        if let Some(rate) = &mut self.rate {
            ready!(rate.poll_ready(cx));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            if let Some(rate) = &mut self.rate {
                rate.take(data.len());
            }
            let (before, is_watch) = (self.taken, self.rate.is_some());
            self.taken = match data.iter().rposition(|byte| is_watch && *byte == b'\n') {
                Some(at) => data.len() - at - 1,
                None => before.saturating_add(data.len()),
            };
            if before.max(self.taken) > self.limit {
                let error = match is_watch {
                    true => AnswerError::LargeEvent(self.limit),
                    false => AnswerError::Large(self.limit),
                };
                return Poll::Ready(Some(Err(error.into())));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// A client of a cluster that a tenant of this namespace names.
pub(crate) fn foreign(config: &Config, egress: &Egress, namespace: &str) -> Result<Client, kube::Error> {
    let connector = config.rustls_https_connector_with_connector(egress.connector())?;
    let hyper: HyperClient<_, Body> = HyperClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(LimitLayer(AnswerLimits::FOREIGN))
        .service(hyper);
    let share = Share {
        egress: egress.clone(),
        namespace: namespace.into(),
        host: host_of(&config.cluster_url).into(),
    };
    let service = ServiceBuilder::new().map_err(BoxError::from).service(service);
    let shared = tower::service_fn(move |mut request: Request<Body>| {
        let (share, service) = (share.clone(), service.clone());
        // here, because the server may have a path of its own, which the base URI adds
        let expected = Expected::of(&request);
        request.extensions_mut().insert(expected);
        let is_watch = expected == Expected::Watch;
        let answer: Answering = Box::pin(service.oneshot(request));
        async move { share.send(answer, is_watch).await }
    });
    Ok(ClientBuilder::new(shared, config.default_namespace.clone()).build())
}

/// A foreign cluster, whose users wait without workers for discovery, which they share.
pub(crate) fn foreign_cluster(client: Client) -> Cluster {
    Cluster::waiting(client, Arc::new(|event| Box::pin(without_worker(event))))
}

async fn whole(answer: Response<LimitedBody>, held: HeldAnswer) -> Result<Response<LimitedBody>, BoxError> {
    let (head, mut body) = answer.into_parts();
    let mut bytes = BytesMut::new();
    loop {
        let frame = tokio::select! {
            biased;
            () = held.over() => return Err(AnswerError::Displaced.into()),
            frame = body.frame() => frame,
        };
        let Some(frame) = frame else { break };
        if let Ok(data) = frame?.into_data() {
            held.add(data.len() as u64).map_err(|_| AnswerError::Displaced)?;
            bytes.extend_from_slice(&data);
        }
    }
    let body = LimitedBody {
        limit: bytes.len(),
        body: Full::new(bytes.freeze()).map_err(Into::into).boxed_unsync(),
        deadline: None,
        taken: 0,
        rate: None,
        _watch: None,
        _held: Some(held),
    };
    Ok(Response::from_parts(head, body))
}

/// `host:port`, for two servers at one host fail separately.
fn host_of(url: &http::Uri) -> String {
    let port = url.port_u16().unwrap_or(443);
    format!("{}:{port}", url.host().unwrap_or_default())
}

/// A namespace's share of the requests to a cluster.
#[derive(Clone)]
struct Share {
    egress: Egress,
    namespace: Arc<str>,
    host: Arc<str>,
}

impl Share {
    /// Waits for the whole answer, unless it is a watch.
    async fn send(&self, request: Answering, is_watch: bool) -> Result<Response<LimitedBody>, BoxError> {
        without_worker(async {
            let slot = match is_watch {
                true => Some(self.egress.begin_watch(&self.namespace, &self.host)?),
                false => None,
            };
            let mut admission = self.egress.enter(&self.namespace, &self.host).await?;
            let answer = async {
                let answer = request.await?;
                match slot {
                    Some(_) => Ok(answer.map(|body| LimitedBody { _watch: slot, ..body })),
                    None => whole(answer, self.egress.memory().hold(&self.namespace)).await,
                }
            };
            let answer = answer.await;
            // an error is a connection, TLS or a deadline: answers with error codes are answers
            admission.report(match &answer {
                Ok(_) => Outcome::Answered,
                Err(error) if matches!(error.downcast_ref(), Some(AnswerError::Displaced)) => {
                    Outcome::Answered
                }
                Err(_) => Outcome::Silent,
            });
            answer
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::kit::queue::{self, Queue, Requeue};
    use crate::kit::wake::Reason;
    use equate_egress::Memory;
    use equate_manifest::object::GroupVersionKind;
    use futures::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use std::future;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    const LIMITS: AnswerLimits = AnswerLimits {
        head: Duration::from_secs(40),
        discovery_head: Duration::from_secs(8),
        body: Duration::from_secs(60),
        bytes: 1000,
        discovery_bytes: 100,
        event_bytes: 10,
        watch_bytes_per_second: 10_000,
    };

    type Part = Result<http_body::Frame<Bytes>, BoxError>;

    /// Reads the answer to `path`, whose body is these parts.
    async fn read(
        path: &str,
        parts: impl futures::Stream<Item = Bytes> + Send + 'static,
    ) -> Result<usize, String> {
        let body = StreamBody::new(parts.map(|part| Part::Ok(http_body::Frame::data(part))));
        let mut body = Some(body);
        let server = tower::service_fn(move |_: Request<Body>| {
            let body = body.take().unwrap();
            async move { Ok::<_, BoxError>(Response::new(body)) }
        });
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = LimitLayer(LIMITS).layer(server).oneshot(request).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let whole = answer
            .into_body()
            .collect()
            .await
            .map_err(|error| error.to_string())?;
        Ok(whole.to_bytes().len())
    }

    fn parts(count: usize, text: &'static str) -> impl futures::Stream<Item = Bytes> {
        stream::iter((0..count).map(move |_| Bytes::from_static(text.as_bytes())))
    }

    #[tokio::test(start_paused = true)]
    async fn answers_have_limits_by_their_kind() {
        let list = "/api/v1/pods?limit=500";
        assert_eq!(read(list, parts(10, "0123456789")).await, Ok(100));
        let large = read(list, parts(1000, "0123456789")).await.unwrap_err();
        assert_eq!(large, "the API server's answer is larger than 1000 bytes");
        for path in ["/api", "/apis", "/api/v1", "/apis/apps/v1", "/apis/apps"] {
            let large = read(path, parts(11, "0123456789")).await.unwrap_err();
            assert_eq!(
                large, "the API server's answer is larger than 100 bytes",
                "{path}"
            );
        }
        for path in [
            "/apis/apps/v1/namespaces/shop/deployments/api",
            "/api/v1/namespaces/apis/configmaps",
            "/api/v1/namespaces/api",
        ] {
            assert_eq!(read(path, parts(11, "0123456789")).await, Ok(110), "{path}");
        }
        let watch = "/api/v1/pods?watch=true&resourceVersion=1";
        assert_eq!(
            read(watch, parts(10_000, "0123\n")).await,
            Ok(50_000),
            "a watch has no end"
        );
        let large = read(watch, parts(3, "01234567")).await.unwrap_err();
        assert_eq!(large, "an event of the API server is larger than 10 bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn the_largest_answer_ends_when_all_take_too_much_memory() {
        const MIB: &[u8] = &[0; 1 << 20];
        let memory = Memory::default();
        let read = |mebibytes: usize| {
            let parts = stream::iter(
                (0..mebibytes).map(|_| Part::Ok(http_body::Frame::data(Bytes::from_static(MIB)))),
            );
            let limits = AnswerLimits {
                bytes: usize::MAX,
                ..LIMITS
            };
            let body = Expected::Whole.limit(StreamBody::new(parts), &limits);
            whole(Response::new(body), memory.hold("a"))
        };
        let small = read(20).await.unwrap();
        let large = read(200).await.map(drop).map_err(|error| error.to_string());
        let displaced = AnswerError::Displaced.to_string();
        assert_eq!(large, Err(displaced));
        assert_eq!(
            read(40).await.map(drop).map_err(|error| error.to_string()),
            Ok(())
        );
        drop(small);
        assert!(read(200).await.is_ok(), "it is the only one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_without_pause_waits_in_the_connection() {
        let begun = Instant::now();
        let watch = "/api/v1/pods?watch=true";
        assert_eq!(read(watch, parts(10_000, "0123\n")).await, Ok(50_000));
        assert_eq!(begun.elapsed().as_secs(), 5, "50,000 bytes at 10,000 a second");
        let slow = parts(100, "0123\n").then(|part| async move {
            sleep(Duration::from_secs(1)).await;
            part
        });
        let begun = Instant::now();
        assert_eq!(read(watch, slow).await, Ok(500));
        assert_eq!(begun.elapsed().as_secs(), 100, "a slow one does not wait");
    }

    #[tokio::test]
    async fn watches_of_other_clusters_are_counted_until_they_end() {
        let share = Share {
            egress: Egress::default(),
            namespace: "tenant".into(),
            host: "cluster:6443".into(),
        };
        let send = async |is_watch: bool| {
            let server = tower::service_fn(|_: Request<Body>| async {
                Ok::<_, BoxError>(Response::new(http_body_util::Empty::<Bytes>::new()))
            });
            let path = match is_watch {
                true => "/api/v1/pods?watch=true",
                false => "/api/v1/pods",
            };
            let request = Request::get(path).body(Body::empty()).unwrap();
            let answer: Answering = Box::pin(LimitLayer(LIMITS).layer(server).oneshot(request));
            share.send(answer, is_watch).await
        };
        let mut watches = Vec::new();
        let refused = loop {
            match send(true).await {
                Ok(answer) => watches.push(answer),
                Err(error) => break error.to_string(),
            }
        };
        assert!(
            refused.starts_with("namespace tenant has 128 watches of cluster:6443"),
            "{refused}"
        );
        assert!(send(false).await.is_ok(), "other requests are no watches");
        watches.pop();
        assert!(send(true).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn no_run_holds_a_worker_while_a_silent_cluster_is_discovered() {
        let silent =
            tower::service_fn(|_: Request<Body>| future::pending::<Result<Response<Body>, BoxError>>());
        let cluster = foreign_cluster(Client::new(silent, "default"));
        let kind = GroupVersionKind::new("", "v1", "ConfigMap");
        let settings = queue::Settings {
            workers: 2,
            ..queue::Settings::default()
        };
        let queue = Queue::new(settings);
        let (ended, mut runs) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let (queue, stop) = (queue.clone(), stop.clone());
            async move {
                let handler = move |key: Key, _| {
                    let (cluster, kind, ended) = (cluster.clone(), kind.clone(), ended.clone());
                    async move {
                        let unreached = match &*key.namespace {
                            "tenant" => cluster.resolve(&kind).await.is_err(),
                            _ => false,
                        };
                        ended.send((key, unreached)).ok();
                        Requeue::Wait
                    }
                };
                queue.run(stop, handler).await;
            }
        });
        for number in 0..5 {
            queue.wake(Key::new("tenant", format!("{number}")), Reason::Changed);
        }
        while queue.counts().away < 5 {
            tokio::task::yield_now().await;
        }
        queue.wake(Key::new("other", "honest"), Reason::Changed);
        let begun = Instant::now();
        assert_eq!(runs.recv().await, Some((Key::new("other", "honest"), false)));
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for _ in 0..5 {
            let (key, unreached) = runs.recv().await.unwrap();
            assert!(&*key.namespace == "tenant" && unreached, "{key}");
        }
        stop.cancel();
        running.await.unwrap();
        assert_eq!(queue.counts().away, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_have_deadlines() {
        let slow = || {
            stream::unfold((), |()| async {
                sleep(Duration::from_secs(1)).await;
                Some((Bytes::from_static(b"\n"), ()))
            })
        };
        let late = read("/api/v1/pods", slow()).await.unwrap_err();
        assert_eq!(late, "the API server's answer is not complete after 60s");
        assert_eq!(read("/api/v1/pods?watch=true", slow().take(500)).await, Ok(500));
        let silent =
            tower::service_fn(|_: Request<Body>| future::pending::<Result<Response<Body>, BoxError>>());
        for (path, limit) in [("/api", 8), ("/api/v1/pods", 40), ("/api/v1/pods?watch=true", 40)] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let error = LimitLayer(LIMITS)
                .layer(silent)
                .oneshot(request)
                .await
                .unwrap_err();
            let expected = format!("the API server did not answer within {limit}s");
            assert_eq!(error.to_string(), expected, "{path}");
        }
    }
}
