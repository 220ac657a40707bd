//! The list of the objects of a bucket, page by page. A store may send much: pages, texts and memory are limited.

use equate_egress::{Displaced, HeldAnswer, RetryPauses};
use tokio::task::spawn_blocking;

use crate::answer::{self, Object, Page};
use crate::azure;
use crate::error::{Error, Problem, Reason};
use crate::google;
use crate::place::{Kind, Target};
use crate::store::Bucket;

/// Objects of a page that is asked for.
const PAGE: &str = "1000";
/// A larger page would keep a thread of the runtime busy for milliseconds.
const PARSED_HERE_BYTES_MAX: usize = 64 << 10;
/// Memory of an object beside its texts.
const OBJECT_BYTES: usize = size_of::<Object>() + 32;

/// The objects of a list.
#[derive(Debug)]
pub struct Listing {
    /// The objects.
    pub objects: Vec<Object>,
    /// Their memory, until it is dropped. When it is over, the objects must be dropped.
    pub held: HeldAnswer,
}

impl Bucket {
    /// The objects whose keys begin with a prefix, page by page.
    ///
    /// # Errors
    /// The list is too long or displaced, or the store fails.
    pub async fn list(&self, prefix: &str) -> Result<Listing, Error> {
        let mut again = self.again();
        loop {
            let held = self.hold();
            let listed = match self.local.clone() {
                Some(local) => {
                    let (prefix, limits) = (prefix.to_owned(), self.inner().limits.clone());
                    let listing = spawn_blocking(move || local.list(&prefix, &limits)).await;
                    listing.unwrap_or_else(|error| Err(broken_off(error)))
                }
                None => held.unless_over(Box::pin(self.pages(prefix, &held))).await,
            };
            match listed {
                Ok(objects) => return Ok(Listing { objects, held }),
                Err(problem) => {
                    drop(held);
                    self.pause(problem, &mut again).await?;
                }
            }
        }
    }

    /// The pauses before a list is asked for again whose memory was over.
    pub fn again(&self) -> RetryPauses {
        RetryPauses::new(self.inner().limits.displaced_pause)
    }

    /// Waits before a list is asked for again whose memory was over.
    ///
    /// # Errors
    /// The time limit ends before.
    pub async fn pause_displaced(&self, again: &mut RetryPauses) -> Result<(), Error> {
        self.pause(Displaced.into(), again).await
    }

    async fn pause(&self, problem: Problem, again: &mut RetryPauses) -> Result<(), Error> {
        if problem.reason != Reason::Displaced || again.pause(self.deadline()).await.is_err() {
            return Err(problem.of(self.kind(), "list", self.name()));
        }
        Ok(())
    }

    fn hold(&self) -> HeldAnswer {
        self.inner().egress().memory().hold(&self.access.namespace)
    }

    async fn pages(&self, prefix: &str, held: &HeldAnswer) -> Result<Vec<Object>, Problem> {
        let limits = &self.inner().limits;
        let too_large = |of: String| Problem::new(Reason::TooLarge, format!("it has more than {of}"));
        let (mut objects, mut next) = (Vec::new(), None::<String>);
        let (mut bytes, mut key_bytes) = (0, 0);
        for _ in 0..limits.pages_max {
            let (page, page_bytes) = self.page(prefix, next.as_deref()).await?;
            bytes += page_bytes;
            let texts: usize = page.objects.iter().map(Object::text_bytes).sum();
            key_bytes += texts;
            let kept = texts + page.objects.len() * OBJECT_BYTES;
            objects.extend(page.objects);
            let excess = match () {
                () if objects.len() > limits.objects_max => Some(format!("{} objects", limits.objects_max)),
                () if key_bytes > limits.key_bytes_max => {
                    Some(format!("{} bytes of keys and etags", limits.key_bytes_max))
                }
                () if bytes > limits.list_bytes_max => {
                    Some(format!("{} bytes in its list", limits.list_bytes_max))
                }
                () => None,
            };
            if let Some(excess) = excess {
                return Err(too_large(format!("{excess}; set spec.prefix")));
            }
            held.add(kept as u64)?;
            // a page that names itself would never end
            match page.next {
                Some(token) if next.as_ref() != Some(&token) => next = Some(token),
                Some(_) => return Err(Problem::new(Reason::Malformed, "a page of its list repeats")),
                None => return Ok(objects),
            }
        }
        Err(too_large(format!("{} pages", limits.pages_max)))
    }

    /// A page and its bytes.
    async fn page(&self, prefix: &str, next: Option<&str>) -> Result<(Page, u64), Problem> {
        let (mut query, token) = match self.kind() {
            Kind::S3 => (
                vec![("list-type", "2"), ("max-keys", PAGE), ("encoding-type", "url")],
                "continuation-token",
            ),
            Kind::Google => (
                vec![("maxResults", PAGE), ("fields", google::LIST_FIELDS)],
                "pageToken",
            ),
            Kind::Azure => (
                vec![("comp", "list"), ("restype", "container"), ("maxresults", PAGE)],
                "marker",
            ),
        };
        if !prefix.is_empty() {
            query.push(("prefix", prefix));
        }
        query.extend(next.map(|next| (token, next)));
        let mut answer = self.get_from(Target::List, &query).await?;
        let bytes_max = self.inner().limits.page_bytes_max;
        let held = self.hold();
        let count = |bytes| Ok(held.add(bytes as u64).map(drop)?);
        let reading = self.counted_body(&mut answer, bytes_max, "list", count);
        let bytes = held.unless_over(reading).await?;
        drop(answer);
        let (kind, length) = (self.kind(), bytes.len());
        let parse = move || match kind {
            Kind::S3 => answer::page(&bytes),
            Kind::Google => google::page(&bytes),
            Kind::Azure => azure::page(&bytes),
        };
        let page = match length > PARSED_HERE_BYTES_MAX {
            true => spawn_blocking(parse)
                .await
                .unwrap_or_else(|error| Err(broken_off(error))),
            false => parse(),
        };
        Ok((page?.checked(kind)?, length as u64))
    }
}

fn broken_off(error: tokio::task::JoinError) -> Problem {
    Problem::new(Reason::Failed, "it broke off").because(error)
}
