//! Name references: a field that names a resource follows its renames.
//!
//! References are updated once, at the root, from each resource's former names. Only resources that were
//! renamed, moved or suffixed have a history, so only they are candidates. Candidates are looked up by former
//! name.

mod name_index;

use crate::budget::Budget;
use crate::collection::Collection;
use crate::error::{BuildError, Exhausted, Fault, FieldProblem, Place};
use crate::field_spec::{ByType, Creation, FieldSpec, Reference, SpecTree};
use crate::loader::at;
use crate::resource::{CLUSTER, DEFAULT_NAMESPACE, Id, Resource, scalar_text};
use crate::schema::Schema;
use name_index::{Group, NameIndex};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

/// The steps to index one former name.
const CANDIDATE_STEPS: usize = 20;
const AFFIX_BYTES: usize = 24;
/// A name with more candidates is also indexed by namespace.
const INDEXED_CANDIDATES_MIN: usize = 8;

/// Updates all references, then runs `then` on each resource while it is cached.
pub(crate) fn fix<'r>(
    resources: &mut Collection,
    references: &'r [Reference],
    schema: &Schema,
    next: &(dyn Fn(&mut Resource) + Sync),
) -> Result<(), BuildError> {
    let renamed = Renamed::new(resources, schema).map_err(Fault::from);
    let renamed = renamed.map_err(at(Place::default()))?;
    let budget = resources.budget();
    let by_kind = by_referrer(references, &budget);
    let fix = |known: &mut ByType<Fields<'r>>, resource: &mut Resource| {
        let kind = resource.original_kind();
        let fields = known.of(resource.object.api_version(), kind, || {
            Fields::new(&by_kind, resource.group_version(), kind, &budget)
        });
        let fixed = Referrer::new(resource, schema, &budget).and_then(|referrer| {
            let fixer = Fixer {
                renamed: &renamed,
                referrer: &referrer,
                budget: &budget,
            };
            fixer.fix(resource, fields)
        });
        fixed.map_err(|fault| at(resource.place())(fault))?;
        next(resource);
        Ok(())
    };
    budget.workers().each(resources.contents_mut(), ByType::new, fix)
}

type Specs<'r> = HashMap<&'r str, Vec<(&'r Reference, &'r FieldSpec)>>;

fn by_referrer<'r>(references: &'r [Reference], budget: &Budget) -> Specs<'r> {
    let mut specs: Specs<'_> = HashMap::new();
    for reference in references {
        budget.owe(10 * reference.fields.len());
        for spec in &reference.fields {
            specs.entry(&spec.kind).or_default().push((reference, spec));
        }
    }
    specs
}

struct Fields<'r> {
    targets: Vec<&'r Reference>,
    spec_tree: SpecTree<'r>,
}

impl<'r> Fields<'r> {
    fn new(by_kind: &Specs<'r>, (group, version): (&str, &str), kind: &str, budget: &Budget) -> Self {
        let lists = [kind, ""].map(|kind| by_kind.get(kind).map_or(&[][..], Vec::as_slice));
        budget.owe(4 * lists.iter().map(|list| list.len()).sum::<usize>());
        let listed = lists.into_iter().flatten();
        let selected = listed
            .filter(|(_, spec)| spec.selects(group, version, kind))
            .copied();
        let (targets, specs) = selected.unzip();
        Self {
            targets,
            spec_tree: SpecTree::new(specs, budget),
        }
    }
}

struct Renamed {
    candidates: Vec<Candidate>,
    by_name: HashMap<String, Vec<usize>>,
    name_indexes: HashMap<String, NameIndex>,
    by_original_namespace: HashMap<String, Moved>,
}

/// Where the resources of one original namespace are now.
#[derive(Default)]
struct Moved {
    effective_namespaces: HashSet<String>,
    /// Namespaces of service accounts, as written.
    account_namespaces: HashSet<String>,
}

struct Candidate {
    kind: String,
    name: String,
    /// As written.
    namespace: String,
    effective_namespace: String,
    original_namespace: String,
    group: String,
    version: String,
    former_names: Vec<String>,
    former_kinds: Vec<String>,
    is_service_account: bool,
    prefixes: Vec<String>,
    suffixes: Vec<String>,
}

impl Renamed {
    fn new(resources: &mut Collection, schema: &Schema) -> Result<Self, Exhausted> {
        let budget = resources.budget();
        let found = budget.workers().map(
            resources.contents_mut(),
            || (),
            |(), resource| {
                budget.owe(CANDIDATE_STEPS * resource.history.len());
                Ok::<_, Infallible>(Candidate::new(resource, schema))
            },
        );
        let candidates: Vec<Candidate> = found.done.into_iter().flatten().collect();
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::with_capacity(candidates.len());
        let mut by_original_namespace: HashMap<String, Moved> = HashMap::new();
        for (at, candidate) in candidates.iter().enumerate() {
            budget.owe(CANDIDATE_STEPS * candidate.former_names.len());
            for name in &candidate.former_names {
                let places = by_name.entry(name.clone()).or_default();
                if places.last() != Some(&at) {
                    places.push(at);
                }
            }
            let original = candidate.original_namespace.clone();
            let moved = by_original_namespace.entry(original).or_default();
            let effective = &candidate.effective_namespace;
            if !moved.effective_namespaces.contains(effective) {
                moved.effective_namespaces.insert(effective.clone());
            }
            if candidate.is_service_account && !moved.account_namespaces.contains(&candidate.namespace) {
                moved.account_namespaces.insert(candidate.namespace.clone());
            }
        }
        Ok(Self {
            name_indexes: name_indexes(&by_name, &candidates, &budget)?,
            candidates,
            by_name,
            by_original_namespace,
        })
    }
}

fn name_indexes(
    by_name: &HashMap<String, Vec<usize>>,
    candidates: &[Candidate],
    budget: &Budget,
) -> Result<HashMap<String, NameIndex>, Exhausted> {
    let mut name_indexes: HashMap<String, NameIndex> = HashMap::new();
    for (name, places) in by_name {
        if places.len() <= INDEXED_CANDIDATES_MIN {
            continue;
        }
        let name_index = name_indexes.entry(name.clone()).or_default();
        for at in places {
            let candidate = &candidates[*at];
            // all endings of the affixes are kept
            let kinds = 1 + candidate.former_kinds.len();
            let affixes = candidate.prefixes.len().pow(2) + candidate.suffixes.len().pow(2);
            budget.spend(CANDIDATE_STEPS * kinds * (1 + affixes))?;
            budget.charge(AFFIX_BYTES * kinds * affixes)?;
            name_index.add(
                *at,
                &candidate.effective_namespace,
                &candidate.former_kinds,
                &candidate.prefixes,
                &candidate.suffixes,
            );
        }
    }
    Ok(name_indexes)
}

/// Drops texts equal to their predecessor.
fn without_repeats<'t>(texts: impl Iterator<Item = &'t String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        if found.last() != Some(text) {
            found.push(text.clone());
        }
    }
    found
}

impl Candidate {
    /// `None` for a resource without former names.
    fn new(resource: &Resource, schema: &Schema) -> Option<Self> {
        if resource.history.is_empty() {
            return None;
        }
        let (group, version) = resource.group_version();
        let former_names = resource.history.iter().map(|former| &former.name);
        Some(Self {
            kind: resource.kind().to_owned(),
            name: resource.name().to_owned(),
            namespace: resource.object.namespace().to_owned(),
            effective_namespace: resource.effective_namespace(schema).to_owned(),
            original_namespace: resource.original_namespace(schema).to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            former_names: without_repeats(former_names),
            former_kinds: without_repeats(resource.history.iter().map(|former| &former.kind)),
            is_service_account: resource.kind() == "ServiceAccount",
            prefixes: resource.prefixes.clone(),
            suffixes: resource.suffixes.clone(),
        })
    }

    fn id(&self) -> Id {
        Id {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
        }
    }

    fn was(&self, group: &str, version: &str, kind: &str) -> bool {
        (group.is_empty() || group == self.group)
            && (version.is_empty() || version == self.version)
            && (kind.is_empty() || self.former_kinds.iter().any(|former| former == kind))
    }

    fn is_cluster_scoped(&self) -> bool {
        self.effective_namespace == CLUSTER
    }
}

struct Referrer {
    effective_namespace: String,
    /// In a RoleBinding: the namespaces of its service accounts.
    account_namespaces: HashSet<String>,
    /// In a binding: the kind of its role.
    role: Option<(String, String)>,
    prefixes: Vec<String>,
    suffixes: Vec<String>,
}

impl Referrer {
    fn new(resource: &Resource, schema: &Schema, budget: &Budget) -> Result<Self, Fault> {
        budget.spend(20 + 4 * (resource.prefixes.len() + resource.suffixes.len()))?;
        let mut account_namespaces = HashSet::new();
        if resource.kind() == "RoleBinding" {
            let subjects = resource.object.0.get("subjects").and_then(Value::as_array);
            budget.spend(10 * subjects.map_or(0, Vec::len))?;
            for subject in subjects.into_iter().flatten() {
                let text = |field: &str| subject.get(field).and_then(Value::as_str);
                if text("kind") != Some("ServiceAccount") {
                    continue;
                }
                match subject.get("namespace") {
                    None => {}
                    Some(Value::String(namespace)) => {
                        account_namespaces.insert(namespace.clone());
                    }
                    Some(_) => {
                        let id = resource.id().to_string();
                        return Err(Fault::BlankNamespace { id });
                    }
                }
            }
        }
        let role = resource.object.0.get("roleRef").and_then(|role| {
            let text = |field: &str| role.get(field).and_then(Value::as_str).map(str::to_owned);
            Some((text("apiGroup")?, text("kind")?))
        });
        Ok(Self {
            effective_namespace: resource.effective_namespace(schema).to_owned(),
            account_namespaces,
            role,
            prefixes: resource.prefixes.clone(),
            suffixes: resource.suffixes.clone(),
        })
    }

    fn visible_groups<'c>(&self, name_index: &'c NameIndex, kind: &str) -> Vec<&'c Group> {
        let own = [self.effective_namespace.as_str(), CLUSTER];
        let accounts = self
            .account_namespaces
            .iter()
            .map(|namespace| match namespace.as_str() {
                "" if self.account_namespaces.contains(DEFAULT_NAMESPACE) => CLUSTER,
                "" => DEFAULT_NAMESPACE,
                namespace => namespace,
            });
        let accounts = accounts.filter(|namespace| !own.contains(namespace));
        let namespaces = own.into_iter().chain(accounts);
        namespaces
            .filter_map(|namespace| name_index.group(namespace, kind))
            .collect()
    }

    fn may_name_any(&self, moved: &Moved) -> bool {
        let now = &moved.effective_namespaces;
        self.effective_namespace == CLUSTER
            || now.contains(CLUSTER)
            || now.contains(&self.effective_namespace)
            || !self.account_namespaces.is_disjoint(&moved.account_namespaces)
    }

    fn may_name(&self, candidate: &Candidate) -> bool {
        let cluster_scoped = self.effective_namespace == CLUSTER;
        let visible = cluster_scoped
            || candidate.is_cluster_scoped()
            || candidate.effective_namespace == self.effective_namespace;
        visible || candidate.is_service_account && self.account_namespaces.contains(&candidate.namespace)
    }
}

struct Fixer<'a> {
    renamed: &'a Renamed,
    referrer: &'a Referrer,
    budget: &'a Budget,
}

struct FieldFixer<'a> {
    renamed: &'a Renamed,
    referrer: &'a Referrer,
    budget: &'a Budget,
    target: &'a Reference,
    spec: &'a FieldSpec,
}

enum Problem {
    Field(FieldProblem),
    Ambiguous(String),
    NoName,
}

impl Fixer<'_> {
    fn fix(&self, resource: &mut Resource, fields: &Fields<'_>) -> Result<(), Fault> {
        let Self {
            renamed,
            referrer,
            budget,
        } = *self;
        // the problem of the first specification that has one
        let mut found: Option<(usize, Problem)> = None;
        let visited = fields.spec_tree.visit(
            &mut resource.object,
            Creation::Nothing,
            budget,
            &mut |at, value, _| {
                if found.as_ref().is_some_and(|(first, _)| *first <= at) {
                    return Ok(());
                }
                budget.spend(20)?;
                let field = FieldFixer {
                    renamed,
                    referrer,
                    budget,
                    target: fields.targets[at],
                    spec: fields.spec_tree.spec(at),
                };
                if let Err(problem) = field.fix(value) {
                    found = Some((at, problem));
                }
                Ok(())
            },
        );
        match (visited, found) {
            (Ok(()), None) => Ok(()),
            (Err(wrong), None) => Err(fields.spec_tree.fault(wrong, resource)),
            // an error on the way precedes an error at the field
            (Err(wrong), Some((first, _))) if wrong.at <= first => {
                Err(fields.spec_tree.fault(wrong, resource))
            }
            (_, Some((at, problem))) => {
                let (id, path) = (resource.id().to_string(), fields.spec_tree.spec(at).path.clone());
                Err(match problem {
                    Problem::Field(problem) => Fault::Field { path, id, problem },
                    Problem::Ambiguous(candidates) => Fault::Referrals { id, path, candidates },
                    Problem::NoName => Fault::NoReferenceName { id, path },
                })
            }
        }
    }
}

impl FieldFixer<'_> {
    fn fix(&self, value: &mut Value) -> Result<(), Problem> {
        self.spend(2)?;
        match value {
            Value::Null => Ok(()),
            Value::Array(items) => items.iter_mut().try_for_each(|item| match item {
                Value::Array(_) => Err(Problem::Field(FieldProblem::Reference)),
                item => self.fix(item),
            }),
            Value::Object(_) => self.map(value),
            scalar => self.scalar(scalar),
        }
    }

    fn scalar(&self, value: &mut Value) -> Result<(), Problem> {
        let name = scalar_text(value).unwrap_or_default();
        if let Some(referral) = self.select(&name, None, false)?
            && referral.name != name
        {
            self.charge_referral(referral)?;
            *value = referral.name.clone().into();
        }
        Ok(())
    }

    fn map(&self, value: &mut Value) -> Result<(), Problem> {
        let Value::Object(map) = value else {
            return Ok(());
        };
        let name = map.get("name").and_then(scalar_text).ok_or(Problem::NoName)?;
        let namespace = map.get("namespace").and_then(scalar_text);
        let Some(referral) = self.select(&name, namespace.as_deref(), true)? else {
            return Ok(());
        };
        if referral.name == name && referral.namespace.is_empty() {
            return Ok(());
        }
        self.charge_referral(referral)?;
        map.insert("name".to_owned(), referral.name.clone().into());
        if !referral.namespace.is_empty() {
            map.insert("namespace".to_owned(), referral.namespace.clone().into());
        }
        Ok(())
    }

    fn spend(&self, steps: usize) -> Result<(), Problem> {
        self.budget
            .spend(steps)
            .map_err(|exhausted| Problem::Field(exhausted.into()))
    }

    fn charge_referral(&self, referral: &Candidate) -> Result<(), Problem> {
        let bytes = referral.name.len() + referral.namespace.len();
        self.budget
            .charge(bytes)
            .map_err(|exhausted| Problem::Field(exhausted.into()))
    }

    /// The candidate a name refers to, if there is exactly one.
    fn select(
        &self,
        name: &str,
        namespace: Option<&str>,
        whole: bool,
    ) -> Result<Option<&Candidate>, Problem> {
        let accounts = self.referrer.account_namespaces.len();
        self.spend(10 + 5 * accounts)?;
        let place =
            namespace.map(|namespace| ReferencedNamespace::new(namespace, self.renamed, self.referrer));
        let fits = |candidate: &&Candidate| {
            self.budget.owe(6 + candidate.former_kinds.len());
            self.referrer.may_name(candidate)
                && place.as_ref().is_none_or(|place| place.has(candidate))
                && self.is_meant(candidate)
        };
        let candidate = |at: &usize| &self.renamed.candidates[*at];
        let name_index = self.renamed.name_indexes.get(name);
        let candidates: Vec<&Candidate> =
            match name_index.filter(|_| self.referrer.effective_namespace != CLUSTER) {
                None => {
                    let named = self.renamed.by_name.get(name).into_iter().flatten();
                    named.map(candidate).filter(fits).collect()
                }
                Some(name_index) => {
                    let groups = self.referrer.visible_groups(name_index, &self.target.kind);
                    let all = groups.iter().flat_map(|group| &group.all);
                    let some: Vec<&Candidate> = all.map(candidate).filter(fits).take(2).collect();
                    if some.len() < 2 {
                        some
                    } else {
                        let matching = |group: &&Group| {
                            group.with_matching_affixes(&self.referrer.prefixes, &self.referrer.suffixes)
                        };
                        let mut matching: Vec<usize> = groups.iter().flat_map(matching).collect();
                        self.spend(4 * matching.len())?;
                        matching.sort_unstable();
                        matching.dedup();
                        let matching: Vec<&Candidate> = matching.iter().map(candidate).filter(fits).collect();
                        return self.choose(matching, whole);
                    }
                }
            };
        match candidates[..] {
            [only] => Ok(Some(only)),
            _ => self.choose(candidates, whole),
        }
    }

    fn choose<'c>(
        &self,
        mut candidates: Vec<&'c Candidate>,
        whole: bool,
    ) -> Result<Option<&'c Candidate>, Problem> {
        let affixes = |candidate: &&Candidate| 4 + candidate.prefixes.len() + candidate.suffixes.len();
        self.spend(candidates.iter().map(affixes).sum())?;
        candidates.retain(|candidate| self.same_affixes(candidate, true));
        if candidates.len() > 1 {
            candidates.retain(|candidate| self.same_affixes(candidate, false));
        }
        let Some(first) = candidates.first().copied() else {
            return Ok(None);
        };
        let alike =
            |other: &&Candidate| other.name == first.name && (!whole || other.namespace == first.namespace);
        if candidates.iter().all(alike) {
            return Ok(Some(first));
        }
        let ids: Vec<String> = candidates
            .iter()
            .map(|candidate| candidate.id().to_string())
            .collect();
        Err(Problem::Ambiguous(ids.join(", ")))
    }

    fn is_meant(&self, candidate: &Candidate) -> bool {
        let Reference {
            group,
            version,
            kind,
            fields: _,
        } = self.target;
        let role = match &self.referrer.role {
            Some((group, kind)) if self.spec.path.ends_with("roleRef/name") => candidate.was(group, "", kind),
            _ => true,
        };
        let visible = self.referrer.effective_namespace == CLUSTER
            || candidate.is_cluster_scoped()
            || candidate.is_service_account
            || candidate.effective_namespace == self.referrer.effective_namespace;
        candidate.was(group, version, kind) && role && visible
    }

    fn same_affixes(&self, candidate: &Candidate, allow_empty: bool) -> bool {
        let same = |mine: &[String], theirs: &[String]| {
            allow_empty && (mine.is_empty() || theirs.is_empty()) || same_ending(mine, theirs)
        };
        same(&self.referrer.prefixes, &candidate.prefixes)
            && same(&self.referrer.suffixes, &candidate.suffixes)
    }
}

/// The namespace in a reference: matched against original namespaces, then current ones.
enum ReferencedNamespace<'n> {
    First(&'n str),
    Now(&'n str),
}

impl<'n> ReferencedNamespace<'n> {
    fn new(namespace: &'n str, renamed: &Renamed, referrer: &Referrer) -> Self {
        let moved = renamed.by_original_namespace.get(namespace);
        if namespace != CLUSTER && moved.is_some_and(|moved| referrer.may_name_any(moved)) {
            Self::First(namespace)
        } else {
            Self::Now(namespace)
        }
    }

    fn has(&self, candidate: &Candidate) -> bool {
        match *self {
            Self::First(namespace) => candidate.original_namespace == namespace,
            Self::Now(namespace) => candidate.effective_namespace == namespace && namespace != CLUSTER,
        }
    }
}

/// Whether the shorter list is a suffix of the longer.
fn same_ending(left: &[String], right: &[String]) -> bool {
    let (short, long) = if left.len() < right.len() {
        (left, right)
    } else {
        (right, left)
    };
    if short.is_empty() {
        long.is_empty()
    } else {
        long.ends_with(short)
    }
}
