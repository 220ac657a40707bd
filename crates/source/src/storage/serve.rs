//! Serves artifacts over HTTP at Flux's paths.
//!
//! Only intact artifacts are served. A request is looked up in the index, so no file path is ever built
//! from it. There are no listings.

use std::io::Read;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::routing::get;
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Method, Response, StatusCode, header};

use super::file_name::MediaType;
use super::record::Record;
use super::{Place, Storage, StoredFile};

const CHUNK_BYTES: usize = 256 << 10;

impl Storage {
    /// Serves `GET` and `HEAD` of `/<kind>/<namespace>/<name>/<file>`. `latest.tar.gz` is the newest
    /// archive or chart, `index.yaml` the newest index.
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
        storage.open_named(&place, &file)
    });
    match opened.await {
        Ok(Some(file)) => answer(file, &method),
        _ => plain(StatusCode::NOT_FOUND, "no such artifact\n"),
    }
}

impl Storage {
    fn open_named(&self, place: &Place, file: &str) -> Option<StoredFile> {
        let record = match MediaType::of_newest(file) {
            Some(media_type) => self.newest_record(place, media_type)?,
            None => self.record(place, file)?,
        };
        self.open_whole(place, &record)
    }

    fn newest_record(&self, place: &Place, media_type: MediaType) -> Option<Record> {
        let of_type = |record: &&Record| record.media_type == media_type;
        let places = self.places();
        places.get(place)?.records.iter().rfind(of_type).cloned()
    }
}

fn answer(file: StoredFile, method: &Method) -> Response<Body> {
    let (size, media_type) = (file.size(), file.media_type().as_str());
    let tag = HeaderValue::try_from(format!("\"{}\"", file.digest()));
    let body = if *method == Method::HEAD {
        Body::empty()
    } else {
        Body::from_stream(stream::try_unfold(file, chunk))
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CONTENT_LENGTH, size.into());
    if let Ok(tag) = tag {
        headers.insert(header::ETAG, tag);
    }
    response
}

async fn chunk(mut file: StoredFile) -> std::io::Result<Option<(Bytes, StoredFile)>> {
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
