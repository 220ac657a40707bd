//! Repositories that are read from directories of this machine ([`equate_egress::Substitutes`]).
//!
//! An image has one layer. Its manifest is made of that, so equal content has an equal digest. Nothing is
//! signed: what requires a signature is refused.

use std::error::Error as StdError;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use equate_egress::Substitute;
use oci_spec::image::{Descriptor, Digest, MediaType};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::content;
use crate::error::{Problem, Reason};
use crate::name::{DEFAULT_TAG, Version};
use crate::pull::Manifest;

/// The layer of content that stands for a layer of any media type.
pub const STAND_IN_LAYER: &str = "application/vnd.equate.content.v1.tar+gzip";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The empty configuration of the image specification.
const NO_CONFIG: &[u8] = b"{}";
/// Tags that an error names.
const TAGS_SHOWN: usize = 10;

/// The content of an image in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalImage {
    /// Its tag; `None` for content that stands for every tag.
    pub tag: Option<String>,
    /// The media type of its layer.
    pub media_type: &'static str,
    /// The layer.
    pub content: Bytes,
}

/// Reads the images at a place, the newest last. Blocks.
pub type ReadImages =
    Arc<dyn Fn(&Substitute) -> Result<Vec<LocalImage>, Box<dyn StdError + Send + Sync>> + Send + Sync>;

/// A repository in a directory. It is read once.
pub(crate) struct Local {
    place: Substitute,
    read: ReadImages,
    images: OnceCell<Vec<Made>>,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Local").field(&self.place).finish()
    }
}

struct Made {
    tag: Option<String>,
    manifest: Manifest,
    layer: Digest,
    content: Bytes,
}

impl Local {
    pub(crate) fn new(place: Substitute, read: ReadImages) -> Self {
        Self {
            place,
            read,
            images: OnceCell::new(),
        }
    }

    /// The directory for errors.
    fn shown(&self) -> String {
        self.place.path().display().to_string()
    }

    async fn images(&self) -> Result<&[Made], Problem> {
        let reading = async || {
            let (read, place) = (Arc::clone(&self.read), self.place.clone());
            let unreadable = || format!("{}, which stands for it, cannot be read", self.shown());
            let failed = |error| Problem::new(Reason::Failed, unreadable()).because(error);
            let reading = tokio::task::spawn_blocking(move || read(&place)).await;
            let images = reading.map_err(|error| failed(error.into()))?.map_err(failed)?;
            images.into_iter().map(made).collect::<Result<Vec<_>, Problem>>()
        };
        Ok(self.images.get_or_try_init(reading).await?)
    }

    pub(crate) async fn tags(&self) -> Result<Vec<String>, Problem> {
        let images = self.images().await?.iter();
        Ok(images.map(|image| tag(image).to_owned()).collect())
    }

    pub(crate) async fn manifest(&self, version: &Version) -> Result<Manifest, Problem> {
        let images = self.images().await?;
        let found = match version {
            Version::Digest(digest) => images.iter().find(|image| image.manifest.digest == *digest),
            Version::Tag(tag) => tagged(images, tag),
        };
        found.map(|image| image.manifest.clone()).ok_or_else(|| {
            let digest = |image: &Made| image.manifest.digest.to_string();
            let known = images.iter().rev().take(TAGS_SHOWN).map(|image| match version {
                Version::Digest(_) => digest(image),
                Version::Tag(_) => tag(image).to_owned(),
            });
            let known: Vec<String> = known.collect();
            let text = format!("{}, which stands for it, has {}", self.shown(), known.join(", "));
            Problem::new(Reason::Failed, text)
        })
    }

    pub(crate) async fn blob(&self, blob: &Descriptor, out: &mut (dyn Write + Send)) -> Result<(), Problem> {
        let mut images = self.images().await?.iter();
        let found = images.find(|image| image.layer == *blob.digest());
        let found = found.ok_or_else(|| {
            Problem::new(
                Reason::Failed,
                format!("{}, which stands for it, changed", self.shown()),
            )
        })?;
        let written = out.write_all(&found.content).and_then(|()| out.flush());
        written.map_err(|error| Problem::new(Reason::Write, "its content cannot be written").because(error))
    }

    pub(crate) fn unsigned(&self) -> Problem {
        let text = format!(
            "{}, which stands for it, has no signatures; remove spec.verify",
            self.shown()
        );
        Problem::new(Reason::Failed, text)
    }
}

fn tag(image: &Made) -> &str {
    image.tag.as_deref().unwrap_or(DEFAULT_TAG)
}

/// The exact tag; `latest` is the newest, and content without a tag stands for every one.
fn tagged<'a>(images: &'a [Made], wanted: &str) -> Option<&'a Made> {
    let all = || images.iter().rev();
    all()
        .find(|image| image.tag.as_deref() == Some(wanted))
        .or_else(|| all().find(|image| image.tag.is_none() || wanted == DEFAULT_TAG))
}

fn made(image: LocalImage) -> Result<Made, Problem> {
    let LocalImage {
        tag,
        media_type,
        content,
    } = image;
    let digest = |bytes: &[u8]| {
        let digest = content::digest_of(bytes);
        digest.ok_or_else(|| Problem::new(Reason::Malformed, "its content has no digest"))
    };
    let layer = digest(&content)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.oci.empty.v1+json",
            "digest": content::sha256(NO_CONFIG),
            "size": NO_CONFIG.len(),
        },
        "layers": [{ "mediaType": media_type, "digest": layer.as_ref(), "size": content.len() }],
    });
    let bytes = manifest.to_string().into_bytes();
    Ok(Made {
        tag,
        manifest: Manifest {
            digest: digest(&bytes)?,
            media_type: MediaType::ImageManifest,
            bytes,
        },
        layer,
        content,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn local(images: Vec<LocalImage>) -> Local {
        let place = Substitute {
            directory: PathBuf::from("/charts"),
            below: "app".to_owned(),
            name: "app".to_owned(),
        };
        Local::new(place, Arc::new(move |_| Ok(images.clone())))
    }

    fn image(tag: Option<&str>, content: &'static str) -> LocalImage {
        LocalImage {
            tag: tag.map(str::to_owned),
            media_type: STAND_IN_LAYER,
            content: Bytes::from_static(content.as_bytes()),
        }
    }

    #[tokio::test]
    async fn tags_of_a_directory_are_found() {
        let versions = local(vec![
            image(Some("1.0.0"), "a"),
            image(Some("1.1.0_x"), "b"),
            image(Some("2.0.0"), "c"),
        ]);
        let any = local(vec![image(None, "d")]);
        assert_eq!(versions.tags().await.unwrap(), ["1.0.0", "1.1.0_x", "2.0.0"]);
        assert_eq!(any.tags().await.unwrap(), ["latest"]);
        for (local, tag, want) in [
            (&versions, "1.0.0", Some("a")),
            (&versions, "1.1.0_x", Some("b")),
            (&versions, "1.1.0", None),
            (&versions, "latest", Some("c")),
            (&versions, "3.0.0", None),
            (&any, "3.0.0", Some("d")),
        ] {
            let manifest = local.manifest(&Version::Tag(tag.to_owned())).await;
            let want = want.map(|content| content::sha256(content.as_bytes()));
            match (manifest, want) {
                (Ok(manifest), Some(layer)) => {
                    let text = String::from_utf8(manifest.bytes.clone()).unwrap();
                    assert!(text.contains(&layer), "{tag}: {text}");
                    let by_digest = Version::Digest(manifest.digest.clone());
                    assert_eq!(local.manifest(&by_digest).await.unwrap(), manifest);
                }
                (Err(problem), None) => assert_eq!(
                    problem.text,
                    "/charts/app, which stands for it, has 2.0.0, 1.1.0_x, 1.0.0"
                ),
                (found, want) => panic!("{tag}: {found:?}, {want:?}"),
            }
        }
    }
}
