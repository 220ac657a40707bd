//! The repositories of a process: a bare mirror per URL, credential and tenant, or a local directory in place
//! of a URL.
//!
//! Content fetched with one credential is never served to another, or to none. The directory's name is a
//! keyed hash of URL, credential and tenant, none of which is stored.

use std::{
    collections::HashMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use equate_egress::{Egress, Substitutes};
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

use crate::{
    commit::Commit,
    fetch::{self, FetchError, Job},
    github::{self, GithubApp, GithubError, Tokens},
    kind::Kind,
    limits::Limits,
    mirror::{self, Mirror},
    own::OwnCredentials,
    reference::{Reference, Revision, Target},
    remote::{Credentials, Endpoint, Remote},
    resolve::{self, LocalRefs, ResolveError},
    signature::Tag,
    store::Store,
    transport::{Clients, Session, SshAlgorithms},
};

const UNUSED_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Between two searches for unused mirrors.
const SEARCH_PAUSE: Duration = Duration::from_secs(10 * 60);

/// All repositories of one process. Clones share everything.
///
/// Calls block on the network, on disks and on other calls for the same mirror. Do not make them from an
/// asynchronous task.
#[derive(Debug, Clone)]
pub struct Mirrors {
    shared: Arc<Shared>,
    substitutes: Substitutes,
    own: Option<Arc<OwnCredentials>>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    limits: Arc<Limits>,
    clients: Clients,
    // held for a map operation, or a rename
    mirrors: Mutex<HashMap<PathBuf, Arc<Mirror>>>,
    /// The last search for unused mirrors.
    searched: Mutex<Option<Instant>>,
    tokens: Tokens,
}

impl Mirrors {
    /// Keeps mirrors below `root`, which is created with the first one.
    pub fn new(root: impl Into<PathBuf>, limits: Limits) -> Self {
        Self::with_ssh(root, limits, SshAlgorithms::default())
    }

    /// Like [`Mirrors::new`], with these ssh algorithms.
    pub fn with_ssh(root: impl Into<PathBuf>, limits: Limits, ssh: SshAlgorithms) -> Self {
        Self::with_egress(root, limits, ssh, Egress::default())
    }

    /// Like [`Mirrors::with_ssh`]; all connections are made by `egress`, whose directories stand for URLs.
    pub fn with_egress(root: impl Into<PathBuf>, limits: Limits, ssh: SshAlgorithms, egress: Egress) -> Self {
        let substitutes = egress.substitutes().clone();
        let shared = Shared {
            root: root.into(),
            limits: Arc::new(limits),
            clients: Clients::new(ssh, egress),
            mirrors: Mutex::new(HashMap::new()),
            searched: Mutex::default(),
            tokens: Tokens::default(),
        };
        Self {
            shared: Arc::new(shared),
            substitutes,
            own: None,
        }
    }

    /// Reads a local repository in place of a URL, or those below a directory in place of the URLs below it
    /// ([`Substitutes`]). It is opened in place and never written.
    #[must_use]
    pub fn instead_of(self, url: &str, path: &Path) -> Self {
        Self {
            substitutes: self.substitutes.instead_of(url, path),
            ..self
        }
    }

    /// Uses the user's own credentials for remotes without any.
    #[must_use]
    pub fn with_own_credentials(self, own: OwnCredentials) -> Self {
        Self {
            own: Some(Arc::new(own)),
            ..self
        }
    }

    /// Whether a remote may have the user's own credentials, so that it needs no others.
    pub fn has_own_credentials(&self, url: &str) -> bool {
        self.own.as_ref().is_some_and(|own| own.covers(url))
    }

    /// The way to allow them for a remote that may not have them; none outside `equate up`.
    pub fn own_credentials_advice(&self, url: &str) -> Option<String> {
        self.own.as_ref()?.advice_to_allow(url)
    }

    pub(crate) fn parts(&self) -> (&Clients, &Limits) {
        (&self.shared.clients, &self.shared.limits)
    }

    pub(crate) fn own(&self) -> Option<&OwnCredentials> {
        self.own.as_deref()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// The directory that replaces a URL.
    pub fn substitute(&self, url: &str) -> Option<PathBuf> {
        Some(self.substitutes.find(url)?.path())
    }

    /// Resolves a reference to a revision. It lists the remote's refs and fetches nothing; an exact commit
    /// needs no request.
    pub fn resolve(&self, remote: &Remote, reference: &Reference) -> Result<Revision, ResolveError> {
        let (revision, _) = self.resolve_in_session(remote, reference)?;
        Ok(revision)
    }

    /// Resolves a reference, and fetches the commit of a new revision in the same session and timeout. With the user's
    /// own credentials there are two of each.
    ///
    /// # Errors
    /// The reference cannot be resolved. The fetch has an error of its own.
    pub fn resolve_and_fetch(
        &self,
        remote: &Remote,
        reference: &Reference,
        is_new: impl FnOnce(&Revision) -> bool,
    ) -> Result<(Revision, Option<Result<Commit, FetchError>>), ResolveError> {
        let (revision, session) = self.resolve_in_session(remote, reference)?;
        if !is_new(&revision) {
            return Ok((revision, None));
        }
        let fetched = match session {
            Some(session) => {
                let fetched = self.fetched(remote, &revision, Some(session));
                fetched.inspect_err(|error| self.drop_refused_token(remote, error.kind()))
            }
            None => self.fetch(remote, &revision),
        };
        Ok((revision, Some(fetched)))
    }

    /// The session is still open, if there is one for these credentials.
    fn resolve_in_session(
        &self,
        remote: &Remote,
        reference: &Reference,
    ) -> Result<(Revision, Option<Session>), ResolveError> {
        let resolved = match &self.own {
            Some(own) if self.substitute(&remote.url).is_none() => own
                .attempt(
                    remote,
                    |remote| self.resolved(remote, reference),
                    ResolveError::kind,
                    ResolveError::advised,
                )
                // it may have other credentials
                .map(|(revision, _)| (revision, None)),
            _ => self.resolved(remote, reference),
        };
        resolved.inspect_err(|error| self.drop_refused_token(remote, error.kind()))
    }

    fn resolved(
        &self,
        remote: &Remote,
        reference: &Reference,
    ) -> Result<(Revision, Option<Session>), ResolveError> {
        let target = reference.target()?;
        if let Some(path) = self.substitute(&remote.url) {
            let store = Store::open(&path, None)?;
            let mut refs = LocalRefs {
                store: &store,
                place: path.display().to_string(),
            };
            return Ok((resolve::choose(&mut refs, &target)?, None));
        }
        let endpoint = Endpoint::parse(&remote.url)?;
        let credentials = endpoint.credentials(&remote.credentials)?;
        if let Target::Commit { id, branch } = target {
            let revision = Revision {
                reference: branch,
                absolute: false,
                id,
            };
            return Ok((revision, None));
        }
        let deadline = Instant::now() + remote.timeout;
        let Shared { clients, limits, .. } = &*self.shared;
        let mut session = Session::open(clients, remote, &endpoint, &credentials, limits, deadline)?;
        Ok((resolve::choose(&mut session, &target)?, Some(session)))
    }

    /// Fetches the commit of a revision, shallow and incremental. Makes no request when its objects are
    /// there.
    pub fn fetch(&self, remote: &Remote, revision: &Revision) -> Result<Commit, FetchError> {
        let fetched = match &self.own {
            Some(own) if self.substitute(&remote.url).is_none() => own.attempt(
                remote,
                |remote| self.fetched(remote, revision, None),
                FetchError::kind,
                FetchError::advised,
            ),
            _ => self.fetched(remote, revision, None),
        };
        fetched.inspect_err(|error| self.drop_refused_token(remote, error.kind()))
    }

    fn drop_refused_token(&self, remote: &Remote, kind: Kind) {
        if let (Kind::Authentication, Some(principal), Credentials::Basic { password, .. }) =
            (kind, &remote.principal, &remote.credentials)
        {
            self.shared.tokens.refused(principal, password);
        }
    }

    fn fetched(
        &self,
        remote: &Remote,
        revision: &Revision,
        session: Option<Session>,
    ) -> Result<Commit, FetchError> {
        let limits = &self.shared.limits;
        if let Some(path) = self.substitute(&remote.url) {
            let store = Arc::new(Store::open(&path, None)?);
            let place = path.display().to_string();
            return Commit::read(&store, revision, limits).map_err(|source| FetchError::Absent {
                commit: revision.commit(),
                place,
                source,
            });
        }
        let endpoint = Endpoint::parse(&remote.url)?;
        let credentials = endpoint.credentials(&remote.credentials)?;
        let mirror = self.mirror(&endpoint, &credentials, remote)?;
        let clients = &self.shared.clients;
        let job = Job::new(clients, limits, remote, &endpoint, &credentials, revision);
        let job = match session {
            Some(session) => job.within(session),
            None => job,
        };
        fetch::fetch(&mirror, &job)
    }

    /// Authenticates a remote with a token of a GitHub App installation. The token is requested once and
    /// reused until shortly before it expires.
    ///
    /// # Errors
    /// The app's description is incomplete, or its host issues no token.
    pub fn with_github_app(&self, remote: Remote, app: &GithubApp) -> Result<Remote, GithubError> {
        let token = self.shared.tokens.get(&self.shared.clients, &remote, app)?;
        Ok(Remote {
            credentials: Credentials::Basic {
                username: github::USERNAME.to_owned(),
                password: token,
            },
            principal: Some(app.principal()),
            ..remote
        })
    }

    /// Returns the tag that a commit of [`Mirrors::fetch`] was found at, with its tag object if it has one.
    /// Returns `None` if the revision's ref is not a tag.
    ///
    /// # Errors
    /// The remote cannot be asked, or the tag now points to another commit.
    pub fn tag(&self, remote: &Remote, commit: &Commit) -> Result<Option<Tag>, FetchError> {
        let revision = commit.revision();
        let Some(name) = revision.tag() else {
            return Ok(None);
        };
        let known = self.own.as_ref().map(|own| own.known(remote));
        let remote = known.as_ref().unwrap_or(remote);
        let found = match self.substitute(&remote.url) {
            Some(path) => fetch::local_tag(commit, &path)?,
            None => {
                let endpoint = Endpoint::parse(&remote.url)?;
                let credentials = endpoint.credentials(&remote.credentials)?;
                let mirror = self.mirror(&endpoint, &credentials, remote)?;
                let Shared { clients, limits, .. } = &*self.shared;
                let job = Job::new(clients, limits, remote, &endpoint, &credentials, revision);
                fetch::tag(&mirror, &job, commit)?
            }
        };
        let tree = commit.tree().clone();
        Ok(Some(Tag::new(name.to_owned(), found, revision.id, tree)))
    }

    fn mirror(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
        remote: &Remote,
    ) -> Result<Arc<Mirror>, FetchError> {
        let root = &self.shared.root;
        let prepared = prepare(root).and_then(|()| key(root));
        let key = prepared.map_err(|source| FetchError::Root {
            root: root.clone(),
            source,
        })?;
        let directory = root.join(name(&key, endpoint, credentials, remote));
        let mirror = self.opened(directory);
        self.remove_unused();
        Ok(mirror)
    }

    fn opened(&self, directory: PathBuf) -> Arc<Mirror> {
        let mut mirrors = self.shared.mirrors();
        if let Some(mirror) = mirrors.get(&directory) {
            return Arc::clone(mirror);
        }
        let mirror = Arc::new(Mirror::new(directory.clone()));
        mirrors.insert(directory, Arc::clone(&mirror));
        // While the map is locked, no call can start to use one of these.
        mirrors.retain(|_, mirror| is_in_use(mirror));
        mirror
    }

    /// Hourly renewed credentials leave a mirror each, as do former tenants. No call waits for the disk.
    fn remove_unused(&self) {
        let mut searched = self
            .shared
            .searched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if searched.is_some_and(|last| last.elapsed() < SEARCH_PAUSE) {
            return;
        }
        *searched = Some(Instant::now());
        drop(searched);
        let shared = Arc::clone(&self.shared);
        let removing = thread::Builder::new().name("git-remove".to_owned());
        if let Err(error) = removing.spawn(move || shared.remove_unused(mirror::removed)) {
            tracing::warn!(%error, "cannot start a thread to remove unused mirrors");
        }
    }
}

impl Shared {
    fn mirrors(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Mirror>>> {
        self.mirrors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes mirrors unused for a day.
    fn remove_unused(&self, remove: impl Fn(&Path) -> io::Result<()>) {
        let Ok(entries) = fs::read_dir(&self.root) else {
            return;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            let set_aside = match mirror::is_set_aside(&path) {
                // by a process that was killed
                true => Ok(Some(path)),
                false if mirror::is_unused(&path, UNUSED_MAX) => self.set_aside(&path),
                false => continue,
            };
            let removed = set_aside.and_then(|path| path.map_or(Ok(()), |path| remove(&path)));
            if let Err(error) = removed {
                tracing::warn!(%error, "cannot remove an unused mirror");
            }
        }
    }

    fn set_aside(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let mut mirrors = self.mirrors();
        if mirrors.get(path).is_some_and(is_in_use) {
            return Ok(None);
        }
        mirrors.remove(path);
        mirror::set_aside(path, UNUSED_MAX)
    }
}

fn is_in_use(mirror: &Arc<Mirror>) -> bool {
    Arc::strong_count(mirror) > 1 || !mirror.is_idle()
}

fn prepare(root: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(root)
}

/// Without a random key, directory names would allow guessing passwords.
fn key(root: &Path) -> io::Result<[u8; 32]> {
    let path = root.join("key");
    let mut key = [0; 32];
    match fs::File::open(&path) {
        Ok(mut file) => {
            file.read_exact(&mut key)?;
            return Ok(key);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    SystemRandom::new()
        .fill(&mut key)
        .map_err(|_| io::Error::other("the operating system has no random numbers"))?;
    // A temporary file has mode 0600, and persisting it never overwrites another process's key.
    let mut file = tempfile::NamedTempFile::new_in(root)?;
    io::Write::write_all(&mut file, &key)?;
    match file.persist_noclobber(&path) {
        Ok(_) => Ok(key),
        Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
            fs::File::open(&path)?.read_exact(&mut key)?;
            Ok(key)
        }
        Err(refused) => Err(refused.error),
    }
}

/// Length prefixes keep field lists from colliding.
fn name(key: &[u8; 32], endpoint: &Endpoint, credentials: &Credentials, remote: &Remote) -> String {
    let url = endpoint.normal();
    let mut fields: Vec<&[u8]> = vec![url.as_bytes()];
    match credentials {
        _ if remote.principal.is_some() => {
            let principal = remote.principal.as_ref().map(crate::secret::Secret::expose);
            fields.extend([b"principal".as_slice(), principal.unwrap_or_default()]);
        }
        Credentials::None => fields.push(b"none"),
        Credentials::Basic { username, password } => {
            fields.extend([b"basic".as_slice(), username.as_bytes(), password.expose()]);
        }
        Credentials::Bearer(token) => fields.extend([b"bearer".as_slice(), token.expose()]),
        Credentials::Ssh {
            identity,
            known_hosts,
            passphrase: _,
        } => {
            fields.extend([b"ssh".as_slice(), identity.expose(), known_hosts]);
        }
        Credentials::SshAgent { socket, known_hosts } => {
            let socket = socket.as_os_str().as_encoded_bytes();
            fields.extend([b"ssh agent".as_slice(), socket, known_hosts]);
        }
    }
    fields.extend([
        remote.ca.as_deref().unwrap_or_default(),
        remote
            .client_certificate
            .as_ref()
            .map(crate::secret::Secret::expose)
            .unwrap_or_default(),
    ]);
    // a proxy may grant access, so content fetched through it has its own mirror
    if let Some(proxy) = &remote.proxy {
        fields.extend(proxy.fields());
    }
    if let Some(tenant) = &remote.tenant {
        fields.extend([b"tenant".as_slice(), tenant.as_bytes()]);
    }
    let mut hash = Sha256::new_with_prefix(key);
    for field in fields {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    }
    // The key is on both sides: with a prefix alone the hash could be extended.
    hash.update(key);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        sync::Mutex,
        time::{Duration, Instant, SystemTime},
    };

    use super::{Limits, Mirrors, UNUSED_MAX, key, mirror, name, prepare};
    use crate::mirror::Generation;
    use crate::remote::{Credentials, Endpoint, Remote};

    #[test]
    fn unused_mirrors_are_removed_while_they_are_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let mirrors = Mirrors::new(directory.path().join("m"), Limits::default());
        let shared = &mirrors.shared;
        // no search besides those of this test
        *shared.searched.lock().unwrap() = Some(Instant::now());
        let open = |url: &str| {
            let (remote, endpoint) = (Remote::new(url), Endpoint::parse(url).unwrap());
            let mirror = mirrors.mirror(&endpoint, &Credentials::None, &remote).unwrap();
            let deadline = Instant::now() + Duration::from_secs(60);
            let held = mirror.lock(deadline).unwrap().unwrap();
            held.generation().unwrap()
        };
        let old = SystemTime::now() - UNUSED_MAX - Duration::from_secs(60);
        let age = |generation: &Generation| {
            let lock = generation.directory().with_file_name("lock");
            let lock = fs::File::options().write(true).open(lock).unwrap();
            lock.set_modified(old).unwrap();
        };
        let read = open("https://h/read");
        let unused = open("https://h/unused");
        let fresh = open("https://h/fresh").directory().to_owned();
        age(&read);
        age(&unused);
        let before = unused.directory().to_owned();
        fs::write(before.join("old"), "").unwrap();
        drop(unused);
        let leftover = shared.root.join("0.unused");
        fs::create_dir(&leftover).unwrap();
        let removed = Mutex::new(BTreeSet::new());
        shared.remove_unused(|path| {
            // others open mirrors meanwhile, also this one
            assert!(shared.mirrors.try_lock().is_ok());
            if path != leftover {
                assert_eq!(open("https://h/unused").directory(), before);
            }
            removed.lock().unwrap().insert(path.to_owned());
            mirror::removed(path)
        });
        assert_eq!(removed.into_inner().unwrap().len(), 2);
        assert!(before.join("HEAD").exists() && !before.join("old").exists());
        assert!(read.directory().exists() && fresh.exists() && !leftover.exists());
    }

    #[test]
    fn each_fetch_may_search_for_unused_mirrors() {
        let directory = tempfile::tempdir().unwrap();
        let mirrors = Mirrors::new(directory.path().join("m"), Limits::default());
        let open = || {
            let (remote, endpoint) = (
                Remote::new("https://h/x"),
                Endpoint::parse("https://h/x").unwrap(),
            );
            mirrors.mirror(&endpoint, &Credentials::None, &remote).unwrap()
        };
        let searched = || *mirrors.shared.searched.lock().unwrap();
        let mirror = open();
        let first = searched().unwrap();
        open();
        assert_eq!(searched(), Some(first), "it waits between two searches");
        *mirrors.shared.searched.lock().unwrap() = None;
        assert!(std::sync::Arc::ptr_eq(&mirror, &open()));
        assert!(searched().is_some());
    }

    #[test]
    fn mirror_that_another_process_removed_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let process = || {
            let mirrors = Mirrors::new(directory.path().join("m"), Limits::default());
            *mirrors.shared.searched.lock().unwrap() = Some(Instant::now());
            mirrors
        };
        let (own, other) = (process(), process());
        let open = |mirrors: &Mirrors| {
            let (remote, endpoint) = (
                Remote::new("https://h/x"),
                Endpoint::parse("https://h/x").unwrap(),
            );
            let mirror = mirrors.mirror(&endpoint, &Credentials::None, &remote).unwrap();
            let held = mirror.lock(Instant::now() + Duration::from_secs(60));
            held.unwrap().unwrap().generation().unwrap()
        };
        let remove = || {
            let lock = open(&own).directory().with_file_name("lock");
            let lock = fs::File::options().write(true).open(lock).unwrap();
            lock.set_modified(SystemTime::now() - UNUSED_MAX * 2).unwrap();
            let removed = Mutex::new(0);
            other.shared.remove_unused(|path| {
                *removed.lock().unwrap() += 1;
                mirror::removed(path)
            });
            assert_eq!(removed.into_inner().unwrap(), 1);
        };
        let commit = gix::ObjectId::null(gix::hash::Kind::Sha1);
        open(&own).set_last("main", commit);
        assert_eq!(open(&own).last("main"), Some(commit));
        remove();
        let again = open(&own);
        assert!(again.directory().join("HEAD").is_file());
        assert_eq!(again.last("main"), None);
        drop(again);

        open(&own).set_last("main", commit);
        remove();
        let theirs = open(&other);
        fs::write(theirs.directory().join("theirs"), "").unwrap();
        assert_eq!(open(&own).last("main"), None);
        assert!(theirs.directory().join("theirs").is_file());
    }

    #[test]
    fn urls_are_substituted_in_any_spelling() {
        let directory = tempfile::tempdir().unwrap();
        let mirrors = Mirrors::new(directory.path().join("m"), Limits::default())
            .instead_of("https://Example.org/fleet.git", directory.path());
        for url in [
            "https://example.org/fleet",
            "https://example.org:443/fleet/",
            "https://EXAMPLE.org/fleet.git",
        ] {
            assert_eq!(
                mirrors.substitute(url).as_deref(),
                Some(directory.path()),
                "{url}"
            );
        }
        for url in [
            "http://example.org/fleet",
            "ssh://git@example.org/fleet",
            "https://example.org/Fleet",
        ] {
            assert_eq!(mirrors.substitute(url), None, "{url}");
        }
    }

    #[test]
    fn mirrors_differ_by_url_and_credential() {
        let directory = tempfile::tempdir().unwrap();
        prepare(&directory.path().join("m")).unwrap();
        let key = key(&directory.path().join("m")).unwrap();
        let named = |url: &str, credentials: &Credentials| {
            name(
                &key,
                &Endpoint::parse(url).unwrap(),
                credentials,
                &Remote::new(url),
            )
        };
        let basic = |username: &str, password: &str| Credentials::Basic {
            username: username.to_owned(),
            password: password.into(),
        };
        let all = [
            named("https://h/x", &Credentials::None),
            named("https://h/y", &Credentials::None),
            named("https://h/x", &basic("ab", "c")),
            named("https://h/x", &basic("a", "bc")),
            named("https://h/x", &Credentials::Bearer("c".into())),
        ];
        let url = "https://h/x";
        let through = |address: &str, username: Option<&str>| {
            let proxy = crate::remote::Proxy::new(address, username.map(str::to_owned), None).unwrap();
            let remote = Remote {
                proxy: Some(proxy),
                ..Remote::new(url)
            };
            let endpoint = Endpoint::parse(url).unwrap();
            name(&key, &endpoint, &Credentials::None, &remote)
        };
        let proxied = [
            through("http://p:1", None),
            through("http://p:2", None),
            through("http://p:1", Some("a")),
        ];
        let of_tenant = |tenant: &str| {
            let remote = Remote {
                tenant: Some(tenant.to_owned()),
                ..Remote::new(url)
            };
            let endpoint = Endpoint::parse(url).unwrap();
            name(&key, &endpoint, &Credentials::None, &remote)
        };
        let tenants = [of_tenant("a"), of_tenant("b")];
        let names: Vec<&String> = all.iter().chain(&proxied).chain(&tenants).collect();
        let distinct: std::collections::HashSet<&String> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len());
        assert_eq!(all[0], named("https://H/x.git/", &Credentials::None));
        let again = super::key(&directory.path().join("m")).unwrap();
        assert_eq!(key, again, "the key outlives the process");
    }
}
