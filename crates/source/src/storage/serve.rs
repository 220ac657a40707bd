//! Artifacts over HTTP, at the paths where Flux serves its own.
//!
//! Only what the store knows to be whole is served: a request names a place and a file, both are looked up
//! in the index, and no path is ever made from what was asked. There are no listings.

use std::fs::File;
use std::io::Read;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::routing::get;
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Method, Response, StatusCode, header};

use super::record::{Fingerprint, file_digest};
use super::{Place, Storage};

/// How much of a file is read at a time, by a thread that may block.
const CHUNK_BYTES: usize = 256 << 10;

impl Storage {
    /// Serves `GET` and `HEAD` of `/<kind>/<namespace>/<name>/<file>.tar.gz`, and of `latest.tar.gz` there.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/{kind}/{namespace}/{name}/{file}", get(serve))
            .with_state(self.clone())
    }
}

async fn serve(
    State(storage): State<Storage>,
    Path((kind, namespace, name, file)): Path<(String, String, String, String)>,
    method: Method,
) -> Response<Body> {
    let opened = tokio::task::spawn_blocking(move || {
        let place = Place::new(&kind, &namespace, &name)
            .ok()
            .filter(|place| place.path().starts_with(&kind))?;
        storage.open_whole(&place, &file)
    });
    match opened.await {
        Ok(Some(whole)) => whole.answer(&method),
        _ => plain(StatusCode::NOT_FOUND, "no such artifact\n"),
    }
}

/// An archive that was verified and is open: it is served whole even if it is removed meanwhile.
struct Whole {
    file: File,
    size: u64,
    digest: String,
}

impl Storage {
    fn open_whole(&self, place: &Place, file: &str) -> Option<Whole> {
        let record = match file {
            "latest.tar.gz" => self.places().get(place)?.last()?.clone(),
            file => self.record(place, file)?,
        };
        let path = self.shared.root.join(place.path()).join(&record.file);
        let digest = record.digest.clone()?;
        let file = File::open(&path).ok()?;
        if !record.verified(&path) {
            let fingerprint = Fingerprint::of(&path).ok();
            if file_digest(&path).ok().flatten().as_ref() != Some(&digest) {
                tracing::warn!(path = %path.display(), "artifact is damaged and not served");
                return None;
            }
            self.replace(
                place,
                super::Record {
                    fingerprint,
                    ..record.clone()
                },
            );
        }
        Some(Whole {
            file,
            size: record.size,
            digest,
        })
    }
}

impl Whole {
    fn answer(self, method: &Method) -> Response<Body> {
        let Whole { file, size, digest } = self;
        let body = if *method == Method::HEAD {
            Body::empty()
        } else {
            Body::from_stream(stream::try_unfold(file, chunk))
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/gzip"));
        headers.insert(header::CONTENT_LENGTH, size.into());
        if let Ok(tag) = HeaderValue::try_from(format!("\"{digest}\"")) {
            headers.insert(header::ETAG, tag);
        }
        response
    }
}

async fn chunk(mut file: File) -> std::io::Result<Option<(Bytes, File)>> {
    let read = tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; CHUNK_BYTES];
        let read = file.read(&mut buffer)?;
        buffer.truncate(read);
        std::io::Result::Ok((Bytes::from(buffer), file))
    });
    let (bytes, file) = read.await.map_err(std::io::Error::other)??;
    Ok((!bytes.is_empty()).then_some((bytes, file)))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}
