//! Paths with `{environment}` and `{service}`.

use equate_kustomize::{EntryKind, Tree};
use std::fmt;

/// The most directories that a pattern may name.
pub(crate) const PLACES_MAX: usize = 20_000;

const ENVIRONMENT: &str = "{environment}";
const SERVICE: &str = "{service}";

/// A path with one `{environment}` and at most one `{service}`, each a whole segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Plain(String),
    Environment,
    Service,
}

/// A directory that a pattern names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The environment.
    pub environment: String,
    /// The service, if the pattern has one.
    pub service: Option<String>,
    /// The directory.
    pub directory: String,
}

impl Pattern {
    /// Reads a pattern; an error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut segments = Vec::new();
        for segment in text.trim_start_matches("./").trim_matches('/').split('/') {
            segments.push(match segment {
                ENVIRONMENT => Segment::Environment,
                SERVICE => Segment::Service,
                "" | "." | ".." => return Err(format!("{text:?} is not a path inside the repository")),
                other if other.contains(['{', '}']) => {
                    return Err(format!("{other:?} is neither {ENVIRONMENT} nor {SERVICE}"));
                }
                other => Segment::Plain(other.to_owned()),
            });
        }
        let count = |wanted: &Segment| segments.iter().filter(|segment| *segment == wanted).count();
        match (count(&Segment::Environment), count(&Segment::Service)) {
            (0, _) => Err(format!("the pattern has no {ENVIRONMENT}")),
            (1, 0 | 1) => Ok(Self { segments }),
            _ => Err("the pattern names the same thing twice".to_owned()),
        }
    }

    /// Whether it has a `{service}`.
    pub fn has_service(&self) -> bool {
        self.segments.contains(&Segment::Service)
    }

    /// The directory of an environment and service.
    pub fn directory(&self, environment: &str, service: &str) -> String {
        let segments = self.segments.iter().map(|segment| match segment {
            Segment::Plain(name) => name.as_str(),
            Segment::Environment => environment,
            Segment::Service => service,
        });
        segments.collect::<Vec<_>>().join("/")
    }

    /// The directory whose directories are the services of an environment, if the pattern ends with them.
    pub(crate) fn services_of(&self, environment: &str) -> Option<String> {
        let (last, above) = self.segments.split_last()?;
        if *last != Segment::Service {
            return None;
        }
        let segments = above.iter().map(|segment| match segment {
            Segment::Plain(name) => name.as_str(),
            Segment::Environment | Segment::Service => environment,
        });
        Some(segments.collect::<Vec<_>>().join("/"))
    }

    /// The directory that it names and that contains a path, or is it. Hidden ones are left out, as in
    /// [`Self::places`].
    pub fn place_of(&self, environments: &[&str], path: &str) -> Option<Place> {
        let mut place = Place {
            environment: String::new(),
            service: None,
            directory: String::new(),
        };
        let mut names = path.split('/');
        for segment in &self.segments {
            let name = names.next().filter(|name| segment.fits(environments, name))?;
            match segment {
                Segment::Plain(_) => {}
                Segment::Environment => name.clone_into(&mut place.environment),
                Segment::Service => place.service = Some(name.to_owned()),
            }
            place.directory = join(&place.directory, name);
        }
        Some(place)
    }

    /// Whether a directory is one that it names, or one above.
    pub fn leads_to_place(&self, environments: &[&str], directory: &str) -> bool {
        let mut segments = self.segments.iter();
        directory.split('/').all(|name| {
            let segment = segments.next();
            segment.is_some_and(|segment| segment.fits(environments, name))
        })
    }

    /// The directories of a tree that it names, of these environments.
    pub fn places(&self, tree: &dyn Tree, environments: &[&str]) -> Vec<Place> {
        let mut places = Vec::new();
        for environment in environments {
            let mut found: Vec<(Option<String>, String)> = vec![(None, String::new())];
            for segment in &self.segments {
                let mut next = Vec::new();
                for (service, directory) in found {
                    let names = match segment {
                        Segment::Plain(name) => vec![name.clone()],
                        Segment::Environment => vec![(*environment).to_owned()],
                        Segment::Service => children(tree, &directory),
                    };
                    for name in names {
                        let below = join(&directory, &name);
                        if !is_directory(tree, &below) || next.len() >= PLACES_MAX {
                            continue;
                        }
                        let service = match segment {
                            Segment::Service => Some(name),
                            Segment::Plain(_) | Segment::Environment => service.clone(),
                        };
                        next.push((service, below));
                    }
                }
                found = next;
            }
            places.extend(found.into_iter().map(|(service, directory)| Place {
                environment: (*environment).to_owned(),
                service,
                directory,
            }));
        }
        places
    }
}

impl Segment {
    fn fits(&self, environments: &[&str], name: &str) -> bool {
        match self {
            Self::Plain(plain) => plain == name,
            Self::Environment => environments.contains(&name),
            Self::Service => !name.starts_with('.'),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.directory(ENVIRONMENT, SERVICE))
    }
}

pub(crate) fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        directory => format!("{directory}/{name}"),
    }
}

pub(crate) fn is_directory(tree: &dyn Tree, path: &str) -> bool {
    tree.stat(path)
        .is_some_and(|stat| stat.kind == EntryKind::Directory)
}

/// The names of the directories in a directory. Hidden ones are left out.
pub(crate) fn children(tree: &dyn Tree, directory: &str) -> Vec<String> {
    let entries = tree.list(directory).unwrap_or_default();
    entries
        .into_iter()
        .filter(|(name, stat)| stat.kind == EntryKind::Directory && !name.starts_with('.'))
        .map(|(name, _)| name)
        .collect()
}
