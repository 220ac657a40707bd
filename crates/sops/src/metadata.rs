//! The fields below `sops`: recipients, the rule for encrypted values, and the MAC.

use crate::rules::{Rule, regex};
use crate::tree::{Entry, Node, get};

/// The key in YAML and JSON; with `_`, the prefix in dotenv.
pub(crate) const KEY: &str = "sops";

const GROUPS_MAX: usize = 255;
const RECIPIENTS_MAX: usize = 1_000;

/// The reason why a document's metadata is invalid.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// There is none.
    #[error("it has no SOPS metadata, so it is not encrypted")]
    Missing,
    /// A field has another shape.
    #[error("sops{field} is {found} and not {wanted}")]
    Type {
        /// The path below `sops`, with dots.
        field: String,
        /// The expected kind.
        wanted: &'static str,
        /// The found kind.
        found: &'static str,
    },
    /// A required field is missing.
    #[error("sops.{0} is missing")]
    Field(String),
    /// There is more than one rule.
    #[error("sops has both {0} and {1}, and only one rule may be set")]
    TwoRules(&'static str, &'static str),
    /// An expression is invalid.
    #[error("sops.{field} is not a valid regular expression")]
    Regex {
        /// The field.
        field: &'static str,
        /// The reason.
        #[source]
        source: Box<regex::Error>,
    },
    /// There is no recipient.
    #[error("sops names no recipient of its data key")]
    NoRecipients,
    /// There are too many groups.
    #[error("sops has more than {GROUPS_MAX} key groups")]
    TooManyGroups,
    /// There are too many recipients.
    #[error("sops has more than {RECIPIENTS_MAX} recipients")]
    TooManyRecipients,
    /// Two keys of flattened metadata contradict each other.
    #[error("{0} contradicts another key about the same value")]
    Flattened(String),
}

#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) groups: Vec<Vec<Recipient>>,
    /// The number of groups needed, if there are several.
    pub(crate) threshold: usize,
    pub(crate) rule: Rule,
    pub(crate) mac: String,
    pub(crate) mac_only_encrypted: bool,
    /// The additional data of the MAC.
    pub(crate) last_modified: String,
}

/// A recipient of the data key, or of a group's share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recipient {
    Age {
        recipient: String,
        sealed: String,
    },
    Pgp {
        fingerprint: String,
        sealed: String,
    },
    Transit {
        address: String,
        engine: String,
        key: String,
        sealed: String,
    },
    /// A service that is not supported yet.
    Other {
        service: &'static str,
        name: String,
    },
}

/// The services, their lists, and the field that names a key, in the order they are tried: local ones
/// first.
const SERVICES: [(&str, &str, &str); 7] = [
    ("age", "age", "recipient"),
    ("PGP", "pgp", "fp"),
    ("Vault", "hc_vault", "key_name"),
    ("AWS KMS", "kms", "arn"),
    ("GCP KMS", "gcp_kms", "resource_id"),
    ("Azure Key Vault", "azure_kv", "vault_url"),
    ("Huawei Cloud KMS", "hckms", "key_id"),
];

const RULES: [&str; 6] = [
    "unencrypted_suffix",
    "encrypted_suffix",
    "unencrypted_regex",
    "encrypted_regex",
    "unencrypted_comment_regex",
    "encrypted_comment_regex",
];

impl Metadata {
    pub(crate) fn read(entries: &[Entry]) -> Result<Self, MetadataError> {
        let top = Fields {
            entries,
            place: String::new(),
        };
        let mut groups = vec![recipients(&top)?];
        if groups[0].is_empty() {
            groups = top
                .list("key_groups", GROUPS_MAX, MetadataError::TooManyGroups)?
                .iter()
                .map(recipients)
                .collect::<Result<_, _>>()?;
        }
        let count: usize = groups.iter().map(Vec::len).sum();
        if count == 0 {
            return Err(MetadataError::NoRecipients);
        }
        if count > RECIPIENTS_MAX {
            return Err(MetadataError::TooManyRecipients);
        }
        Ok(Self {
            groups,
            threshold: top.number("shamir_threshold")?,
            rule: rule(&top)?,
            mac: top.text("mac")?,
            mac_only_encrypted: top.flag("mac_only_encrypted")?,
            last_modified: top.text("lastmodified")?,
        })
    }
}

fn recipients(group: &Fields<'_>) -> Result<Vec<Recipient>, MetadataError> {
    let mut all = Vec::new();
    for (service, list, name) in SERVICES {
        for item in group.list(list, RECIPIENTS_MAX, MetadataError::TooManyRecipients)? {
            all.push(match list {
                "age" => Recipient::Age {
                    recipient: item.text("recipient")?,
                    sealed: item.text("enc")?,
                },
                "pgp" => Recipient::Pgp {
                    fingerprint: item.text("fp")?,
                    sealed: item.text("enc")?,
                },
                "hc_vault" => Recipient::Transit {
                    address: item.text("vault_address")?,
                    engine: item.text("engine_path")?,
                    key: item.text("key_name")?,
                    sealed: item.text("enc")?,
                },
                _ => Recipient::Other {
                    service,
                    name: item.text(name)?,
                },
            });
        }
    }
    Ok(all)
}

fn rule(top: &Fields<'_>) -> Result<Rule, MetadataError> {
    let mut found: Option<(&'static str, String)> = None;
    for field in RULES {
        let text = top.optional(field)?.unwrap_or_default();
        if text.is_empty() {
            continue;
        }
        if let Some((first, _)) = found {
            return Err(MetadataError::TwoRules(first, field));
        }
        found = Some((field, text));
    }
    let Some((field, text)) = found else {
        return Ok(Rule::default());
    };
    let compiled = || {
        regex(&text).map_err(|error| MetadataError::Regex {
            field,
            source: Box::new(error),
        })
    };
    Ok(match field {
        "unencrypted_suffix" => Rule::UnencryptedSuffix(text),
        "encrypted_suffix" => Rule::EncryptedSuffix(text),
        "unencrypted_regex" => Rule::UnencryptedRegex(compiled()?),
        "encrypted_regex" => Rule::EncryptedRegex(compiled()?),
        "unencrypted_comment_regex" => Rule::UnencryptedComment(compiled()?),
        _ => Rule::EncryptedComment(compiled()?),
    })
}

struct Fields<'e> {
    entries: &'e [Entry],
    /// With a trailing dot.
    place: String,
}

impl<'e> Fields<'e> {
    fn wrong(&self, field: &str, wanted: &'static str, found: &Node) -> MetadataError {
        MetadataError::Type {
            field: format!(".{}{field}", self.place),
            wanted,
            found: found.kind(),
        }
    }

    fn optional(&self, field: &str) -> Result<Option<String>, MetadataError> {
        match get(self.entries, field) {
            None | Some(Node::Null) => Ok(None),
            Some(node) => match node.as_str() {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(self.wrong(field, "a string", node)),
            },
        }
    }

    fn text(&self, field: &str) -> Result<String, MetadataError> {
        self.optional(field)?
            .ok_or_else(|| MetadataError::Field(format!("{}{field}", self.place)))
    }

    /// Also accepts text, because dotenv has nothing else.
    fn number(&self, field: &str) -> Result<usize, MetadataError> {
        match get(self.entries, field) {
            None | Some(Node::Null) => Ok(0),
            Some(node) => {
                let number = match node {
                    Node::Int(number) => usize::try_from(*number).ok(),
                    node => node.as_str().and_then(|text| text.parse().ok()),
                };
                number.ok_or_else(|| self.wrong(field, "a count", node))
            }
        }
    }

    fn flag(&self, field: &str) -> Result<bool, MetadataError> {
        match get(self.entries, field) {
            None | Some(Node::Null) => Ok(false),
            Some(Node::Bool(flag)) => Ok(*flag),
            Some(node) => match node.as_str() {
                Some("true") => Ok(true),
                Some("false" | "") => Ok(false),
                _ => Err(self.wrong(field, "a boolean", node)),
            },
        }
    }

    fn list(
        &self,
        field: &str,
        max: usize,
        too_many: MetadataError,
    ) -> Result<Vec<Fields<'e>>, MetadataError> {
        let items = match get(self.entries, field) {
            None | Some(Node::Null) => return Ok(Vec::new()),
            Some(Node::List(items)) => items,
            Some(node) => return Err(self.wrong(field, "a list", node)),
        };
        if items.len() > max {
            return Err(too_many);
        }
        let values = items.iter().filter(|item| !matches!(item, Node::Comment(_)));
        values
            .enumerate()
            .map(|(at, item)| match item {
                Node::Map(entries) => Ok(Fields {
                    entries,
                    place: format!("{}{field}[{at}].", self.place),
                }),
                node => Err(self.wrong(&format!("{field}[{at}]"), "a mapping", node)),
            })
            .collect()
    }
}

/// Each document has its own metadata; the first counts.
pub(crate) fn take(documents: &mut [Vec<Entry>]) -> Result<Metadata, MetadataError> {
    let mut first = None;
    for (at, document) in documents.iter_mut().enumerate() {
        let mut rest = Vec::with_capacity(document.len());
        for entry in document.drain(..) {
            match entry {
                Entry::Pair { key, value } if key == KEY => {
                    if at == 0 && first.is_none() {
                        first = Some(value);
                    }
                }
                entry => rest.push(entry),
            }
        }
        *document = rest;
    }
    match first {
        Some(Node::Map(entries)) => Metadata::read(&entries),
        Some(node) => Err(MetadataError::Type {
            field: String::new(),
            wanted: "a mapping",
            found: node.kind(),
        }),
        None => Err(MetadataError::Missing),
    }
}
