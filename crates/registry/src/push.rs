//! Writing to a repository: blobs and manifests.

use bytes::Bytes;
use oci_spec::image::Digest;
use reqwest::header::{self, HeaderValue};
use reqwest::{Method, StatusCode, Url};

use crate::content;
use crate::error::{Error, Problem, Reason};
use crate::exchange::{Ask, accepted};
use crate::name::Version;
use crate::remote::{Remote, Scope};

impl Remote {
    /// Uploads a blob, unless the registry has it. Returns its digest.
    ///
    /// # Errors
    /// The registry refuses it, or fails.
    pub async fn push_blob(&self, content: Bytes) -> Result<Digest, Error> {
        let digest = content::digest_of(&content);
        let name = self.repository().to_string();
        let done = match digest {
            None => Err(Problem::new(Reason::Digest, "it has no digest")),
            Some(digest) => self.upload(&digest, content).await.map(|()| digest),
        };
        self.told("push a blob to", &name, done)
    }

    async fn upload(&self, digest: &Digest, content: Bytes) -> Result<(), Problem> {
        let blob = Ask {
            method: Method::HEAD,
            scope: Scope::Push,
            ..Ask::get(self.url(&format!("blobs/{digest}")).await?)
        };
        if self.send(&blob).await?.status().is_success() {
            return Ok(());
        }
        let begin = Ask {
            method: Method::POST,
            body: Some(Bytes::new()),
            scope: Scope::Push,
            ..Ask::get(self.url("blobs/uploads/").await?)
        };
        let answer = self
            .send(&begin.with(header::CONTENT_LENGTH, HeaderValue::from_static("0")))
            .await?;
        if answer.status() != StatusCode::ACCEPTED {
            return Err(match answer.status().is_success() {
                true => Problem::new(Reason::Malformed, "it begins no upload"),
                false => answer.problem().await,
            });
        }
        let to = answer
            .header(header::LOCATION)
            .and_then(|to| answer.url.join(to).ok());
        let to = to.ok_or_else(|| Problem::new(Reason::Malformed, "it names no place for the upload"));
        let mut to = accepted(&answer.url, to?)?;
        drop(answer);
        to.query_pairs_mut().append_pair("digest", digest.as_ref());
        self.put(to, "application/octet-stream", content).await
    }

    async fn put(&self, url: Url, kind: &str, content: Bytes) -> Result<(), Problem> {
        let kind = HeaderValue::from_str(kind)
            .map_err(|error| Problem::new(Reason::Malformed, "its media type is malformed").because(error))?;
        let ask = Ask {
            method: Method::PUT,
            body: Some(content),
            scope: Scope::Push,
            ..Ask::get(url)
        };
        let answer = self.send(&ask.with(header::CONTENT_TYPE, kind)).await?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(answer.problem().await),
        }
    }

    /// Writes a manifest under a tag, or under its own digest. Its blobs must be there.
    ///
    /// # Errors
    /// The registry refuses it, or fails.
    pub async fn push_manifest(
        &self,
        version: &Version,
        media_type: &str,
        content: Bytes,
    ) -> Result<Digest, Error> {
        let done = self.write_manifest(version, media_type, content).await;
        self.told("push the manifest of", &self.repository().at(version), done)
    }

    async fn write_manifest(
        &self,
        version: &Version,
        media_type: &str,
        content: Bytes,
    ) -> Result<Digest, Problem> {
        let max = self.limits().manifest_bytes_max;
        if content.len() as u64 > max {
            return Err(Problem::new(
                Reason::TooLarge,
                format!("it is larger than {max} bytes"),
            ));
        }
        let digest = match version {
            Version::Digest(digest) if content::matches(digest, &content) => Some(digest.clone()),
            Version::Digest(_) => None,
            Version::Tag(_) => content::digest_of(&content),
        };
        let digest = digest.ok_or_else(|| Problem::new(Reason::Digest, "its content has another digest"))?;
        let url = self.url(&format!("manifests/{version}")).await?;
        self.put(url, media_type, content).await?;
        Ok(digest)
    }
}
