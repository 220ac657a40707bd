//! Reading a repository: tags, manifests, blobs, referrers.

use std::io::Write;
use std::str::FromStr as _;

use oci_spec::image::{Arch, Descriptor, Digest, ImageIndex, ImageManifest, MediaType, Os};
use reqwest::header::{self, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;

use crate::content::{self, Hasher};
use crate::entries::{Entries, Listed};
use crate::error::{Error, Problem, Reason};
use crate::exchange::{Answer, Ask};
use crate::name::{TAG_CHARS_MAX, Version};
use crate::remote::Remote;

/// Every kind of manifest that Flux asks for.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// An index in an index is followed once.
const INDEXES_MAX: usize = 2;
/// How often a broken download goes on without any new byte.
const RESUMES_MAX: usize = 3;
/// Entries of a page that is asked for. ECR answers more with an error.
const PAGE: usize = 1000;
/// A larger page would keep a thread of the runtime busy for milliseconds.
const PARSED_HERE_BYTES_MAX: usize = 256 << 10;
/// Memory of a tag beside its text.
const TAG_BYTES: usize = 64;

/// A manifest as the registry sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its digest, of the bytes.
    pub digest: Digest,
    /// Its media type.
    pub media_type: MediaType,
    /// The bytes.
    pub bytes: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    media_type: Option<String>,
    #[serde(default)]
    manifests: Option<serde::de::IgnoredAny>,
}

impl Manifest {
    /// Whether it lists other manifests.
    #[must_use]
    pub fn is_index(&self) -> bool {
        matches!(&self.media_type, MediaType::ImageIndex)
            || self.media_type.as_ref() == "application/vnd.docker.distribution.manifest.list.v2+json"
    }

    fn parse<T: DeserializeOwned>(&self, name: &str) -> Result<T, Problem> {
        let parsed = serde_json::from_slice(&self.bytes);
        parsed.map_err(|error| {
            Problem::new(Reason::Malformed, format!("its {name} is malformed")).because(error)
        })
    }
}

/// An image: a manifest with layers, and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest of the manifest.
    pub digest: Digest,
    /// The manifest.
    pub manifest: ImageManifest,
}

#[derive(Deserialize)]
struct Tags {
    /// Null for an empty list.
    tags: Option<Vec<String>>,
}

/// An index of referrers; annotations are not read.
#[derive(Deserialize, Default)]
struct Referrers {
    manifests: Vec<Referrer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Referrer {
    media_type: MediaType,
    digest: Digest,
    size: u64,
    artifact_type: Option<MediaType>,
}

impl Referrer {
    fn text_bytes(&self) -> usize {
        let artifact_type = self.artifact_type.as_ref();
        let artifact_type = artifact_type.map(|kind| kind.as_ref().len());
        self.media_type.as_ref().len() + self.digest.as_ref().len() + artifact_type.unwrap_or_default()
    }
}

impl From<Referrers> for Vec<Descriptor> {
    fn from(referrers: Referrers) -> Self {
        let descriptor = |found: Referrer| {
            let mut descriptor = Descriptor::new(found.media_type, found.size, found.digest);
            descriptor.set_artifact_type(found.artifact_type);
            descriptor
        };
        referrers.manifests.into_iter().map(descriptor).collect()
    }
}

impl Remote {
    /// All tags, page by page. The list ends where a page is empty: some registries send a link after the
    /// last one. Tags that are too long are left out.
    ///
    /// # Errors
    /// The list is too long or displaced, or the registry fails.
    pub async fn tags(&self) -> Result<Entries<String>, Error> {
        let mut again = self.again();
        loop {
            let held = self.hold();
            let list = Box::pin(self.list_tags(Listed::new(&held)));
            let done = held.unless_over(list).await;
            if let Some(done) = self.listed(held, done, &mut again).await {
                return self.told("list the tags of", &self.repository().to_string(), done);
            }
        }
    }

    async fn list_tags(&self, mut listed: Listed<'_>) -> Result<Vec<String>, Problem> {
        if let Some(local) = self.local() {
            return local.tags().await;
        }
        let mut tags = Vec::new();
        let mut next = Some(self.url(&format!("tags/list?n={PAGE}")).await?);
        while let Some(url) = next.take() {
            let (page, link) = self.page::<Tags>("page of tags", &mut listed, url).await?;
            let mut page = page.tags.unwrap_or_default();
            if page.is_empty() {
                break;
            }
            let count = page.len();
            page.retain(|tag| tag.len() <= TAG_CHARS_MAX);
            let text_bytes = page.iter().map(String::len).sum();
            listed.count(self, "tags", count, text_bytes, TAG_BYTES)?;
            tags.extend(page);
            next = link;
        }
        Ok(tags)
    }

    /// One page, and the link to the next.
    async fn page<T: DeserializeOwned + Send + 'static>(
        &self,
        name: &str,
        listed: &mut Listed<'_>,
        url: Url,
    ) -> Result<(T, Option<Url>), Problem> {
        let limits = self.limits();
        if listed.pages == limits.pages_max {
            return Err(Problem::new(
                Reason::TooLarge,
                format!("its list has more than {} pages", limits.pages_max),
            ));
        }
        listed.pages += 1;
        let mut answer = self.send(&Ask::get(url.clone())).await?;
        if !answer.status().is_success() {
            return Err(answer.problem().await);
        }
        let link = self.next_page(&answer)?;
        let held = self.hold();
        let reading = answer.counted(name, limits.page_bytes_max, &held);
        let body = held.unless_over(reading).await?;
        drop(answer);
        listed.bytes += body.len() as u64;
        if listed.bytes > limits.list_bytes_max {
            return Err(Problem::new(
                Reason::TooLarge,
                format!("its list is larger than {} bytes", limits.list_bytes_max),
            ));
        }
        let page = parsed(body).await;
        let page = page.map_err(|error| {
            Problem::new(Reason::Malformed, format!("its {name} is malformed")).because(error)
        })?;
        // a page that links to itself would never end
        Ok((page, link.filter(|link| *link != url)))
    }

    /// The link to the next page (RFC 8288), which must be of the registry.
    fn next_page(&self, answer: &Answer<'_>) -> Result<Option<Url>, Problem> {
        let Some(target) = answer.header(header::LINK).and_then(next_link) else {
            return Ok(None);
        };
        let next = answer.url.join(target).ok();
        match next.filter(|next| next.scheme() == answer.url.scheme() && self.is_own(next)) {
            Some(next) => Ok(Some(next)),
            None => Err(Problem::new(Reason::Refused, "its next page is on another host")),
        }
    }

    /// The digest of a tag, from the head of the answer if the registry sends it there. A digest is not
    /// asked for.
    ///
    /// # Errors
    /// The registry has no such tag, or fails.
    pub async fn resolve(&self, version: &Version) -> Result<Digest, Error> {
        let done = match version {
            Version::Digest(digest) => Ok(digest.clone()),
            Version::Tag(_) => self.head(version).await,
        };
        self.told("resolve", &self.repository().at(version), done)
    }

    async fn head(&self, version: &Version) -> Result<Digest, Problem> {
        if let Some(local) = self.local() {
            return Ok(local.manifest(version).await?.digest);
        }
        let ask = Ask {
            method: Method::HEAD,
            ..self.ask_manifest(version).await?
        };
        let answer = self.send(&ask).await?;
        if answer.status().is_success()
            && let Some(digest) = told_digest(&answer)
        {
            return Ok(digest);
        }
        drop(answer);
        // the answer to HEAD has no reason for a failure, and some registries know no HEAD
        Ok(self.get(version).await?.digest)
    }

    async fn ask_manifest(&self, version: &Version) -> Result<Ask, Problem> {
        let url = self.url(&format!("manifests/{version}")).await?;
        Ok(Ask::get(url).with(header::ACCEPT, HeaderValue::from_static(MANIFESTS)))
    }

    /// A manifest or index. Its digest is checked.
    ///
    /// # Errors
    /// The registry has no such manifest, sends another one, or fails.
    pub async fn manifest(&self, version: &Version) -> Result<Manifest, Error> {
        let done = self.get(version).await;
        self.told("get the manifest of", &self.repository().at(version), done)
    }

    async fn get(&self, version: &Version) -> Result<Manifest, Problem> {
        if let Some(local) = self.local() {
            return local.manifest(version).await;
        }
        let ask = self.ask_manifest(version).await?;
        let mut answer = self.send(&ask).await?;
        if !answer.status().is_success() {
            return Err(answer.problem().await);
        }
        let told = told_digest(&answer);
        let kind = answer.header(header::CONTENT_TYPE).map(str::to_owned);
        let bytes = answer.bytes("manifest", self.limits().manifest_bytes_max).await?;
        let wrong = |wanted: &Digest| {
            let text = format!(
                "its manifest has digest {}, not {wanted}",
                content::sha256(&bytes)
            );
            Problem::new(Reason::Digest, text)
        };
        let computed = content::digest_of(&bytes);
        let digest = match (version, told, computed) {
            (Version::Digest(digest), ..) if content::matches(digest, &bytes) => digest.clone(),
            (Version::Digest(digest), ..) => return Err(wrong(digest)),
            (Version::Tag(_), Some(told), _) if content::matches(&told, &bytes) => told,
            (Version::Tag(_), Some(told), _) => return Err(wrong(&told)),
            (Version::Tag(_), None, Some(computed)) => computed,
            (Version::Tag(_), None, None) => {
                return Err(Problem::new(Reason::Malformed, "its manifest has no digest"));
            }
        };
        Ok(Manifest {
            digest,
            media_type: media_type(&bytes, kind.as_deref())?,
            bytes,
        })
    }

    /// An image. From an index it is the one for `linux/amd64`, as in Flux; an entry without a platform
    /// counts as such.
    ///
    /// # Errors
    /// The registry has no such image, sends another one, or fails.
    pub async fn image(&self, version: &Version) -> Result<Image, Error> {
        let done = self.get_image(version).await;
        self.told("get the manifest of", &self.repository().at(version), done)
    }

    async fn get_image(&self, version: &Version) -> Result<Image, Problem> {
        let mut manifest = self.get(version).await?;
        for _ in 0..INDEXES_MAX {
            if !manifest.is_index() {
                break;
            }
            let index: ImageIndex = manifest.parse("index")?;
            let child = index.manifests().iter().find(|child| is_default_platform(child));
            let Some(child) = child else {
                let text = "no child with platform linux/amd64 in its index";
                return Err(Problem::new(Reason::NotFound, text));
            };
            let child = checked(child.digest())?;
            manifest = self.get(&Version::Digest(child)).await?;
        }
        match manifest.is_index() {
            true => Err(Problem::new(
                Reason::Malformed,
                "its indexes are nested too deeply",
            )),
            false => Ok(Image {
                digest: manifest.digest.clone(),
                manifest: manifest.parse("manifest")?,
            }),
        }
    }

    /// Writes a blob to `out` while it arrives, and checks size and digest at the end: on failure, the
    /// content must not be used. A broken download goes on where it ended, if the registry knows ranges.
    ///
    /// # Errors
    /// The registry has no such blob, sends another one, or fails; or `out` does.
    pub async fn blob(&self, blob: &Descriptor, out: &mut (dyn Write + Send)) -> Result<(), Error> {
        let done = self.get_blob(blob, out).await;
        let name = format!("{}@{}", self.repository(), blob.digest());
        self.told("download", &name, done)
    }

    async fn get_blob(&self, blob: &Descriptor, out: &mut (dyn Write + Send)) -> Result<(), Problem> {
        let (digest, size) = (checked(blob.digest())?, blob.size());
        let max = self.limits().blob_bytes_max;
        if size > max {
            return Err(Problem::new(
                Reason::TooLarge,
                format!("it is larger than {max} bytes"),
            ));
        }
        if let Some(local) = self.local() {
            return local.blob(blob, out).await;
        }
        let unknown = || Problem::new(Reason::Digest, "its digest is of an unknown algorithm");
        let mut receiving = Receiving {
            out,
            hasher: Hasher::of(&digest).ok_or_else(unknown)?,
            received: 0,
            size,
        };
        let url = self.url(&format!("blobs/{digest}")).await?;
        let mut without_progress = 0;
        loop {
            let before = receiving.received;
            let Err(problem) = self.receive(&url, &mut receiving).await else {
                break;
            };
            if problem.reason != Reason::Unreachable || receiving.received == 0 {
                return Err(problem);
            }
            without_progress = match receiving.received > before {
                true => 1,
                false => without_progress + 1,
            };
            if without_progress > RESUMES_MAX {
                return Err(problem);
            }
        }
        let Receiving {
            hasher,
            received,
            out,
            ..
        } = receiving;
        if received != size {
            let text = format!("it has {received} bytes, not {size}");
            return Err(Problem::new(Reason::Digest, text));
        }
        let found = hasher.finish();
        if found != digest.as_ref() {
            return Err(Problem::new(
                Reason::Digest,
                format!("its content has digest {found}"),
            ));
        }
        out.flush()
            .map_err(|error| Problem::new(Reason::Write, "its content cannot be written").because(error))
    }

    /// The rest of a blob.
    async fn receive(&self, url: &Url, receiving: &mut Receiving<'_>) -> Result<(), Problem> {
        let from = receiving.received;
        if from == receiving.size && from > 0 {
            return Ok(());
        }
        let mut ask = Ask::get(url.clone());
        if from > 0 {
            let range = HeaderValue::try_from(format!("bytes={from}-"));
            let range = range.map_err(|error| Problem::new(Reason::Malformed, "no range").because(error))?;
            ask = ask.with(header::RANGE, range);
        }
        let mut answer = self.send(&ask).await?;
        // a registry that knows no ranges begins again
        let mut skip = match answer.status() {
            StatusCode::PARTIAL_CONTENT => 0,
            status if status.is_success() => from,
            _ => return Err(answer.problem().await),
        };
        if answer.status() == StatusCode::PARTIAL_CONTENT
            && !answer
                .header(header::CONTENT_RANGE)
                .is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
        {
            return Err(Problem::new(
                Reason::Malformed,
                "it sends another range than requested",
            ));
        }
        while let Some(chunk) = answer.chunk().await? {
            let skipped = usize::try_from(skip).unwrap_or(usize::MAX).min(chunk.len());
            skip -= skipped as u64;
            receiving.take(&chunk[skipped..])?;
        }
        Ok(())
    }

    /// A small blob in memory: a configuration, a signature.
    ///
    /// # Errors
    /// As [`Remote::blob`], and a blob that is larger than `max`.
    pub async fn small_blob(&self, blob: &Descriptor, max: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        if blob.size() > max {
            let problem = Problem::new(Reason::TooLarge, format!("it is larger than {max} bytes"));
            return Err(problem.of("download", format!("{}@{}", self.repository(), blob.digest())));
        }
        self.blob(blob, &mut bytes).await?;
        Ok(bytes)
    }

    /// The manifests that refer to a manifest: signatures, for example; without annotations. A registry without the
    /// API has a tag for them; none of either is an empty list.
    ///
    /// # Errors
    /// The list is too long or displaced, or the registry fails.
    pub async fn referrers(
        &self,
        subject: &Digest,
        artifact_type: Option<&str>,
    ) -> Result<Entries<Descriptor>, Error> {
        let mut again = self.again();
        loop {
            let held = self.hold();
            let list = Box::pin(self.list_referrers(subject, artifact_type, Listed::new(&held)));
            let done = held.unless_over(list).await;
            if let Some(done) = self.listed(held, done, &mut again).await {
                let name = format!("{}@{subject}", self.repository());
                return self.told("list the referrers of", &name, done);
            }
        }
    }

    async fn list_referrers(
        &self,
        subject: &Digest,
        artifact_type: Option<&str>,
        mut listed: Listed<'_>,
    ) -> Result<Vec<Descriptor>, Problem> {
        if let Some(local) = self.local() {
            return Err(local.unsigned());
        }
        let mut url = self.url(&format!("referrers/{subject}")).await?;
        if let Some(artifact_type) = artifact_type {
            url.query_pairs_mut().append_pair("artifactType", artifact_type);
        }
        // the registry may ignore the filter
        let is_wanted = |found: &Descriptor| match (artifact_type, found.artifact_type()) {
            (None, _) => true,
            (Some(wanted), Some(own)) => own.as_ref() == wanted,
            (Some(_), None) => false,
        };
        let (mut found, mut next) = (Vec::new(), Some(url));
        while let Some(url) = next.take() {
            let page = self
                .page::<Referrers>("page of referrers", &mut listed, url)
                .await;
            let (page, link) = match page {
                Ok(page) => page,
                Err(problem) if listed.pages == 1 && is_unknown(&problem) => {
                    (self.tagged_referrers(subject).await?, None)
                }
                Err(problem) => return Err(problem),
            };
            let count = page.manifests.len();
            if count == 0 {
                break;
            }
            let text_bytes = page.manifests.iter().map(Referrer::text_bytes).sum();
            listed.count(self, "referrers", count, text_bytes, size_of::<Descriptor>())?;
            found.extend(Vec::from(page).into_iter().filter(is_wanted));
            next = link;
        }
        Ok(found)
    }

    /// The tag scheme: `sha256-<hex>` names an index.
    async fn tagged_referrers(&self, subject: &Digest) -> Result<Referrers, Problem> {
        let tag = subject.as_ref().replacen(':', "-", 1);
        let tag: String = tag.chars().take(128).collect();
        match self.get(&Version::Tag(tag)).await {
            Ok(manifest) if manifest.is_index() => manifest.parse("index"),
            Ok(_) => Ok(Referrers::default()),
            Err(problem) if is_unknown(&problem) => Ok(Referrers::default()),
            Err(problem) => Err(problem),
        }
    }
}

async fn parsed<T: DeserializeOwned + Send + 'static>(
    page: Vec<u8>,
) -> Result<T, Box<dyn std::error::Error + Send + Sync>> {
    let is_large = page.len() > PARSED_HERE_BYTES_MAX;
    let parse = move || serde_json::from_slice(&page);
    let parsed = match is_large {
        true => spawn_blocking(parse).await?,
        false => parse(),
    };
    Ok(parsed?)
}

/// Whether the registry knows no such page or manifest.
fn is_unknown(problem: &Problem) -> bool {
    problem.reason == Reason::NotFound || matches!(problem.status, Some(400 | 405))
}

struct Receiving<'a> {
    out: &'a mut (dyn Write + Send),
    hasher: Hasher,
    received: u64,
    size: u64,
}

impl Receiving<'_> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let size = self.size;
        if self.received + bytes.len() as u64 > size {
            let text = format!("it is larger than the {size} bytes of its descriptor");
            return Err(Problem::new(Reason::Digest, text));
        }
        self.hasher.update(bytes);
        self.received += bytes.len() as u64;
        self.out
            .write_all(bytes)
            .map_err(|error| Problem::new(Reason::Write, "its content cannot be written").because(error))
    }
}

/// A digest of the registry that can be verified, and is safe in a URL.
fn checked(digest: &Digest) -> Result<Digest, Problem> {
    match Version::digest(digest.as_ref()) {
        Ok(Version::Digest(digest)) => Ok(digest),
        _ => {
            let text = format!("its digest {digest} is not SHA-256 or SHA-512");
            Err(Problem::new(Reason::Digest, text))
        }
    }
}

fn told_digest(answer: &Answer<'_>) -> Option<Digest> {
    let text = answer.header("docker-content-digest")?;
    Digest::from_str(text).ok().filter(content::is_verifiable)
}

/// The media type in the content counts, then that of the header.
fn media_type(bytes: &[u8], header: Option<&str>) -> Result<MediaType, Problem> {
    let kind: Kind = serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(Reason::Malformed, "its manifest is malformed").because(error))?;
    let header = header.and_then(|text| text.split(';').next()).map(str::trim);
    let known = header.filter(|text| text.contains("manifest") || text.contains("index"));
    Ok(match (kind.media_type.as_deref(), known, kind.manifests) {
        (Some(own), ..) => MediaType::from(own),
        (None, Some(header), _) => MediaType::from(header),
        (None, None, Some(_)) => MediaType::from(INDEX),
        (None, None, None) => MediaType::ImageManifest,
    })
}

fn is_default_platform(child: &Descriptor) -> bool {
    child
        .platform()
        .as_ref()
        .is_none_or(|platform| *platform.os() == Os::Linux && *platform.architecture() == Arch::Amd64)
}

/// `<...>; rel="next"`.
fn next_link(header: &str) -> Option<&str> {
    header.split(',').find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.split(';').any(|parameter| {
            let parameter = parameter.trim().replace('"', "");
            parameter.eq_ignore_ascii_case("rel=next")
        });
        is_next.then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_linked() {
        let check = |header, want| assert_eq!(next_link(header), want, "{header}");
        check(
            "</v2/a/tags/list?n=1&last=x>; rel=\"next\"",
            Some("/v2/a/tags/list?n=1&last=x"),
        );
        check("</a>; rel=\"prev\", </b>; rel=next", Some("/b"));
        check("</a>", None);
        check("garbage", None);
    }

    #[test]
    fn the_kind_of_a_manifest_is_found() {
        #[track_caller]
        fn check(body: &str, header: Option<&str>, is_index: bool) {
            let manifest = Manifest {
                digest: content::digest_of(body.as_bytes()).unwrap(),
                media_type: media_type(body.as_bytes(), header).unwrap(),
                bytes: body.into(),
            };
            assert_eq!(manifest.is_index(), is_index, "{body}");
        }
        check("{}", None, false);
        check("{\"manifests\": []}", None, true);
        check(
            "{\"manifests\": []}",
            Some("application/vnd.oci.image.manifest.v1+json"),
            false,
        );
        check(
            &format!("{{\"mediaType\": \"{INDEX}\"}}"),
            Some("text/html"),
            true,
        );
        check(
            "{}",
            Some("application/vnd.docker.distribution.manifest.list.v2+json; charset=utf-8"),
            true,
        );
    }
}
