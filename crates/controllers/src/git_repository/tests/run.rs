//! Whole runs: a real repository, the embedded API, the real store.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use equate_api::meta::{ConditionType, condition};
use equate_api::source::{GitRepository, GitRepositoryStatus};
use equate_git::{Limits, Mirrors};
use equate_source::{Retention, Storage, Tree};
use equate_testkit::cluster::EmbeddedCluster;
use equate_testkit::eventually::eventually;
use equate_testkit::faults::{Death, Faults};
use equate_testkit::git::{Fault, Guard, Repository};
use k8s_openapi::api::core::v1::{Event, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::{GitRepositories, PATIENCE};
use super::object;
use crate::kit::backoff::Jitter;
use crate::kit::queue::Counts;
use crate::kit::tenants::{LABEL, Tenants};
use crate::sources::publisher;
use crate::{ControllerSet, Engine};

/// Long enough for a busy machine.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);
pub(super) const URL: &str = "https://local.invalid/fleet";

/// A cluster, a repository, and a controller that can be restarted.
pub(super) struct Session {
    pub(super) cluster: EmbeddedCluster,
    pub(super) repository: Repository,
    /// Directories that replace other URLs.
    pub(super) others: Vec<(String, PathBuf)>,
    pub(super) tenants: Tenants,
    faults: Faults,
    pub(super) folder: tempfile::TempDir,
}

pub(super) struct Running {
    engine: Engine,
    pub(super) storage: Storage,
}

impl Running {
    pub(super) fn tree(&self, digest: &str) -> Option<Tree> {
        let objects = self.engine.objects::<GitRepository>();
        let mut own = objects
            .iter()
            .filter(|object| object.metadata.name.as_deref() == Some("fleet"));
        let publisher = publisher("GitRepository", &own.next()?.metadata)?;
        self.storage
            .tree(&publisher, digest, &equate_source::Pauses::none())
            .unwrap()
    }
}

impl Session {
    pub(super) async fn start() -> Session {
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
        definitions
            .create(&PostParams::default(), &GitRepository::crd())
            .await
            .unwrap();
        let namespace: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": "flux-system" } })).unwrap();
        Api::all(cluster.client())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        Session {
            cluster,
            repository: Repository::init().unwrap(),
            others: Vec::new(),
            tenants: Tenants::default(),
            faults: Faults::seeded(1),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// The status of the GitRepository; empty before there is one.
    pub(super) async fn status(&self) -> GitRepositoryStatus {
        let own = self.api().get("fleet").await.unwrap();
        own.status.unwrap_or_default()
    }

    pub(super) async fn run(&self) -> Running {
        let client = self.faults.wrap(&self.cluster.client());
        let mirrors = Mirrors::new(self.folder.path().join("git"), Limits::default());
        let mirrors = mirrors.instead_of(URL, self.repository.path());
        let others = self.others.iter();
        let mirrors = others.fold(mirrors, |git, (url, path)| git.instead_of(url, path));
        let storage = Storage::open(self.artifacts(), "http://source:9090", Retention::default()).unwrap();
        let engine = Engine::builder(client)
            .controllers(ControllerSet::new().with::<GitRepositories>())
            .mirrors(mirrors)
            .storage(storage.clone())
            .tenants(self.tenants.clone())
            .jitter(Jitter::none())
            .start()
            .await
            .unwrap();
        Running { engine, storage }
    }

    fn artifacts(&self) -> PathBuf {
        self.folder.path().join("artifacts")
    }

    pub(super) fn api(&self) -> Api<GitRepository> {
        Api::namespaced(self.cluster.client(), "flux-system")
    }

    pub(super) async fn create(&self, spec: Value) {
        self.create_named("fleet", spec).await;
    }

    pub(super) async fn create_named(&self, name: &str, spec: Value) {
        Self::create_at(self.api(), "flux-system", name, spec).await;
    }

    pub(super) async fn create_in(&self, namespace: &str, name: &str, spec: Value) {
        let object: Namespace = serde_json::from_value(json!({ "metadata": { "name": namespace } })).unwrap();
        let namespaces = Api::all(self.cluster.client());
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        let api = Api::namespaced(self.cluster.client(), namespace);
        Self::create_at(api, namespace, name, spec).await;
    }

    async fn create_at(api: Api<GitRepository>, namespace: &str, name: &str, spec: Value) {
        let metadata = json!({ "name": name, "namespace": namespace, "generation": null, "finalizers": [] });
        let mut new = object(metadata, spec);
        new.metadata.generation = None;
        let create = async || api.create(&PostParams::default(), &new).await.map(drop);
        eventually("GitRepositories are served", DEADLINE, create).await;
    }

    pub(super) async fn patch(&self, patch: Value) {
        self.patch_named("fleet", patch).await;
    }

    pub(super) async fn patch_named(&self, name: &str, patch: Value) {
        self.api()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Waits until `Ready` has this reason and message.
    pub(super) async fn ready(&self, reason: &str, message: &str) -> GitRepositoryStatus {
        self.ready_named("fleet", reason, message).await
    }

    pub(super) async fn ready_named(&self, name: &str, reason: &str, message: &str) -> GitRepositoryStatus {
        Self::ready_at(self.api(), name, reason, message).await
    }

    pub(super) async fn ready_in(&self, namespace: &str, name: &str, message: &str) -> GitRepositoryStatus {
        let api = Api::namespaced(self.cluster.client(), namespace);
        Self::ready_at(api, name, "Succeeded", message).await
    }

    async fn ready_at(
        api: Api<GitRepository>,
        name: &str,
        reason: &str,
        message: &str,
    ) -> GitRepositoryStatus {
        eventually(
            &format!("Ready of {name} says {reason} {message}"),
            DEADLINE,
            async || {
                let object = api.get(name).await.map_err(|error| error.to_string())?;
                let status = object.status.unwrap_or_default();
                let ready = condition(&status.conditions, ConditionType::Ready);
                let said = ready.map(|ready| (&*ready.reason, &*ready.message));
                match said {
                    Some((own, text)) if own == reason && text.contains(message) => Ok(status),
                    _ => Err(format!("{said:?}")),
                }
            },
        )
        .await
    }

    pub(super) async fn artifact_of(&self, commit: &str) -> GitRepositoryStatus {
        self.ready(
            "Succeeded",
            &format!("stored artifact for revision 'main@sha1:{commit}'"),
        )
        .await
    }

    pub(super) async fn events(&self) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.cluster.client(), "flux-system");
        let list = events.list(&ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .map(|event| {
                let revision = event.metadata.annotations.unwrap_or_default();
                let revision = revision.get("source.toolkit.fluxcd.io/revision").cloned();
                format!(
                    "{} {} {} {revision:?}",
                    event.type_.unwrap_or_default(),
                    event.reason.unwrap_or_default(),
                    event.message.unwrap_or_default()
                )
            })
            .collect()
    }

    pub(super) async fn event(&self, expected: &str) {
        eventually(&format!("event {expected}"), DEADLINE, async || {
            let events = self.events().await;
            if events.iter().any(|event| event == expected) {
                Ok(())
            } else {
                Err(format!("{events:#?}"))
            }
        })
        .await;
    }
}

impl Running {
    fn counts(&self) -> Counts {
        self.engine.queues().first().unwrap().1
    }

    pub(super) async fn idle(&self) {
        eventually("nothing runs", DEADLINE, async || {
            let counts = self.counts();
            if counts.idle() {
                Ok(())
            } else {
                Err(format!("{counts:?}"))
            }
        })
        .await;
    }

    /// Requests a run and waits for its end.
    pub(super) async fn once_more(&self) {
        self.idle().await;
        let before = self.counts().runs;
        self.engine.wake_sources();
        eventually("another run", DEADLINE, async || {
            let counts = self.counts();
            if counts.runs > before && counts.idle() {
                Ok(())
            } else {
                Err(format!("{counts:?}"))
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_revision_is_shown_while_its_session_goes_on() {
    let session = Session::start().await;
    let commit = |text| session.repository.commit(&[("a.yaml", Some(text))]).unwrap();
    let first = commit("a: 1\n");
    let Some(server) = session.repository.serve_http().unwrap() else {
        return;
    };
    let running = session.run().await;
    session
        .create(json!({ "url": server.url(), "ref": { "branch": "main" }, "interval": "1h" }))
        .await;
    session.artifact_of(&first).await;
    assert_eq!(server.take().len(), 3, "the capabilities, a list of refs, a pack");
    running.once_more().await;
    assert_eq!(server.take().len(), 2);

    let second = commit("a: 2\n");
    server.set(Fault::Delay(PATIENCE * 2));
    running.engine.wake_sources();
    let news = format!("building artifact: new upstream revision 'main@sha1:{second}'");
    eventually("the new revision is shown", DEADLINE, async || {
        let status = session.status().await;
        let shown = condition(&status.conditions, ConditionType::Reconciling);
        let shown = shown.map(|shown| shown.message.clone());
        (shown.as_ref() == Some(&news))
            .then_some(())
            .ok_or(format!("{shown:?}"))
    })
    .await;
    server.set(Fault::None);
    session.artifact_of(&second).await;
    assert_eq!(server.take().len(), 3);

    // only the pack is so long
    let number = (0..4_000_u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let third = commit(&number.map(|number| format!("# {number:x}\n")).collect::<String>());
    server.set(Fault::Cut(4_000));
    running.engine.wake_sources();
    let failed = "failed to checkout and determine revision: cannot fetch from";
    let status = session.ready("GitOperationFailed", failed).await;
    let outdated = condition(&status.conditions, ConditionType::ArtifactOutdated).unwrap();
    assert_eq!(
        outdated.message,
        format!("new upstream revision 'main@sha1:{third}'")
    );
    server.set(Fault::None);
    session.artifact_of(&third).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn platform_and_each_tenant_share_their_mirrors() {
    let mut session = Session::start().await;
    session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let Some(server) = session.repository.serve_http().unwrap() else {
        return;
    };
    session.tenants = Tenants::of_cluster(["flux-system".to_owned(), "ingress".to_owned()]);
    let spec = json!({ "url": server.url(), "ref": { "branch": "main" }, "interval": "1h" });
    let running = session.run().await;
    session.create(spec.clone()).await;
    session.ready("Succeeded", "stored artifact").await;
    let owners = [
        ("ingress", "", 1),
        ("shop-a", "shop", 2),
        ("shop-b", "shop", 2),
        ("team", "", 3),
    ];
    for (namespace, label, mirrors) in owners {
        let object: Namespace = serde_json::from_value(json!({
            "metadata": { "name": namespace, "labels": { LABEL: label } },
        }))
        .unwrap();
        let namespaces = Api::all(session.cluster.client());
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        let known = || session.tenants.of(namespace).to_string();
        eventually("the label is known", DEADLINE, async || {
            let is_known = label.is_empty() || known() == format!("tenant {label}");
            is_known.then_some(()).ok_or_else(known)
        })
        .await;
        let api = Api::namespaced(session.cluster.client(), namespace);
        Session::create_at(api, namespace, "fleet", spec.clone()).await;
        session.ready_in(namespace, "fleet", "stored artifact").await;
        let entries = fs::read_dir(session.folder.path().join("git")).unwrap();
        let found = entries.filter(|entry| entry.as_ref().unwrap().path().is_dir());
        assert_eq!(found.count(), mirrors, "{namespace}");
    }
    drop(running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_artifact_follows_its_repository() {
    let session = Session::start().await;
    let first = session
        .repository
        .commit(&[("app/a.yaml", Some("a: 1\n")), ("logo.png", Some("png"))])
        .unwrap();
    let running = session.run().await;
    session
        .create(json!({ "url": URL, "ref": { "branch": "main" }, "interval": "1h" }))
        .await;

    let status = session.artifact_of(&first).await;
    let artifact = status.artifact.unwrap();
    let path = format!("gitrepository/flux-system/fleet/{first}.tar.gz");
    assert_eq!(
        (&*artifact.path, artifact.url),
        (&*path, format!("http://source:9090/{path}"))
    );
    let tree = running.tree(&artifact.digest).unwrap();
    assert_eq!(tree.read("app/a.yaml").unwrap(), "a: 1\n");
    assert!(tree.entry("logo.png").is_none());
    let archive = fs::metadata(session.artifacts().join(&path)).unwrap();
    assert_eq!(artifact.size, i64::try_from(archive.len()).ok());
    assert_eq!(status.observed_generation, Some(1));
    let own = session.api().get("fleet").await.unwrap();
    assert_eq!(
        own.metadata.finalizers.unwrap_or_default(),
        ["finalizers.fluxcd.io"]
    );
    session
        .event(&format!(
            "Normal NewArtifact stored artifact for commit 'change' Some(\"main@sha1:{first}\")"
        ))
        .await;

    // an unchanged source costs no write
    running.idle().await;
    let writes = session.faults.writes();
    running.once_more().await;
    assert_eq!(session.faults.writes(), writes);

    // a commit wakes it: the interval is an hour
    let second = session
        .repository
        .commit(&[("app/a.yaml", Some("a: 2\n"))])
        .unwrap();
    let status = session.artifact_of(&second).await;
    let tree = running.tree(&status.artifact.unwrap().digest).unwrap();
    assert_eq!(tree.read("app/a.yaml").unwrap(), "a: 2\n");

    // other files of the same commit
    session.patch(json!({ "spec": { "ignore": "*.none" } })).await;
    eventually("the logo is part of the artifact", DEADLINE, async || {
        let status = session.status().await;
        let digest = status
            .artifact
            .map(|artifact| artifact.digest)
            .unwrap_or_default();
        let tree = running.tree(&digest);
        let logo = tree.is_some_and(|tree| tree.entry("logo.png").is_some());
        match (
            logo,
            &*status.observed_ignore.unwrap_or_default(),
            status.observed_generation,
        ) {
            (true, "*.none", Some(2)) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;

    session
        .patch(json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } } }))
        .await;
    eventually("the run is answered", DEADLINE, async || {
        let status = session.status().await;
        match status.last_handled_reconcile_at.as_deref() {
            Some("now") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    session
        .api()
        .delete("fleet", &DeleteParams::default())
        .await
        .unwrap();
    eventually("it is gone", DEADLINE, async || {
        match session.api().get_opt("fleet").await.unwrap() {
            None => Ok(()),
            Some(left) => Err(format!("{:?}", left.metadata)),
        }
    })
    .await;
    assert!(
        !session
            .artifacts()
            .join("gitrepository/flux-system/fleet")
            .exists()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_fetch_keeps_the_artifact() {
    let session = Session::start().await;
    let first = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let running = session.run().await;
    session
        .create(json!({ "url": URL, "ref": { "branch": "main" }, "interval": "1h" }))
        .await;
    let before = session.artifact_of(&first).await;
    let digest = before.artifact.as_ref().unwrap().digest.clone();

    session.repository.set_branch("kept", &first).unwrap();
    session.repository.delete_branch("main").unwrap();
    let status = session
        .ready("GitOperationFailed", "failed to checkout and determine revision")
        .await;
    assert_eq!(status.artifact, before.artifact);
    assert!(running.tree(&digest).is_some());
    let failed = condition(&status.conditions, ConditionType::FetchFailed).unwrap();
    assert!(failed.message.contains("main"), "{}", failed.message);

    session.repository.set_branch("main", &first).unwrap();
    let status = session.artifact_of(&first).await;
    assert_eq!(status.artifact, before.artifact);
    assert!(condition(&status.conditions, ConditionType::FetchFailed).is_none());
    session
        .event(&format!(
            "Normal Succeeded stored artifact for commit 'main@sha1:{first}' Some(\"main@sha1:{first}\")"
        ))
        .await;

    session.patch(json!({ "spec": { "provider": "aws" } })).await;
    let status = session.ready("Unsupported", "spec.provider aws").await;
    assert_eq!(
        (status.artifact, status.observed_generation),
        (before.artifact.clone(), Some(2))
    );
    session
        .patch(json!({ "spec": { "provider": null, "suspend": true } }))
        .await;
    session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    eventually("the suspension is seen", DEADLINE, async || {
        let status = session.status().await;
        match status.observed_generation {
            Some(3) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    running.once_more().await;
    let rested = session.api().get("fleet").await.unwrap().status.unwrap();
    assert_eq!(rested.artifact, before.artifact);

    // without the finalizer its artifacts are removed, too
    session.patch(json!({ "metadata": { "finalizers": null } })).await;
    session
        .api()
        .delete("fleet", &DeleteParams::default())
        .await
        .unwrap();
    eventually("its artifacts are gone", DEADLINE, async || {
        let left = session.artifacts().join("gitrepository/flux-system/fleet");
        if left.exists() {
            Err(left.display().to_string())
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_intact_artifacts() {
    let session = Session::start().await;
    let first = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    session
        .create(json!({ "url": URL, "ref": { "branch": "main" }, "interval": "1h" }))
        .await;
    let running = session.run().await;
    let before = session.artifact_of(&first).await;
    running.idle().await;
    // the event is written concurrently, and would be counted below
    session
        .event(&format!(
            "Normal NewArtifact stored artifact for commit 'change' Some(\"main@sha1:{first}\")"
        ))
        .await;
    drop(running);

    let writes = session.faults.writes();
    let running = session.run().await;
    running.once_more().await;
    assert_eq!(session.faults.writes(), writes, "what is whole is not made again");
    let artifact = before.artifact.clone().unwrap();
    assert!(running.tree(&artifact.digest).is_some());
    drop(running);

    let path = session.artifacts().join(&artifact.path);
    fs::write(&path, "damaged").unwrap();
    let running = session.run().await;
    eventually("the artifact is made again", DEADLINE, async || {
        let length = fs::metadata(&path).map(|file| file.len()).unwrap_or_default();
        let is_known = running.tree(&artifact.digest).is_some();
        if is_known && i64::try_from(length).ok() == artifact.size {
            Ok(())
        } else {
            Err(length)
        }
    })
    .await;
    let after = session.artifact_of(&first).await.artifact.unwrap();
    assert_eq!(
        (after.digest, after.path),
        (artifact.digest.clone(), artifact.path)
    );
}

/// Killed at each of its writes, before the request and after it, on the way to the first artifact and to
/// the next. The next process reaches the same end as without a kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_after_a_kill_converges() {
    for death in [Death::Before, Death::After] {
        let mut session = Session::start().await;
        session
            .create(json!({ "url": URL, "ref": { "branch": "main" }, "interval": "1h" }))
            .await;
        for part in ["fleet", "fleet/status", "fleet/status"] {
            let commit = session.repository.commit(&[("a.yaml", Some("a\n"))]).unwrap();
            session.faults = Faults::seeded(1);
            session.faults.die_when(move |call| {
                (call.is_write() && call.path.ends_with(&format!("/gitrepositories/{part}"))).then_some(death)
            });
            let running = session.run().await;
            tokio::time::timeout(DEADLINE, session.faults.died())
                .await
                .unwrap();
            drop(running);

            session.faults = Faults::seeded(1);
            let running = session.run().await;
            let status = session.artifact_of(&commit).await;
            let digest = status.artifact.unwrap().digest;
            // the status may be that of the killed process
            eventually("the artifact is served", DEADLINE, async || {
                running
                    .tree(&digest)
                    .ok_or_else(|| format!("no tree of {digest}"))
            })
            .await;
            running.once_more().await;
            let names = session
                .api()
                .get("fleet")
                .await
                .unwrap()
                .metadata
                .finalizers
                .unwrap_or_default();
            assert_eq!(names, ["finalizers.fluxcd.io"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_repository_is_opened_by_its_secret() {
    // once per process; another test may have done it
    rustls::crypto::ring::default_provider().install_default().ok();
    let session = Session::start().await;
    let first = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let guard = Guard::Basic("me".to_owned(), "s3cret".to_owned());
    let Some(server) = session.repository.serve(guard, false).unwrap() else {
        return;
    };
    let _running = session.run().await;
    let spec = json!({
        "url": server.url(), "ref": { "branch": "main" }, "interval": "1h", "secretRef": { "name": "key" },
    });
    session.create(spec).await;
    session
        .ready("AuthenticationFailed", "failed to get secret 'flux-system/key'")
        .await;

    let secrets: Api<Secret> = Api::namespaced(session.cluster.client(), "flux-system");
    let secret = |password: &str| -> Secret {
        let data = json!({ "username": "me", "password": password });
        serde_json::from_value(json!({ "metadata": { "name": "key" }, "stringData": data })).unwrap()
    };
    secrets
        .create(&PostParams::default(), &secret("wrong"))
        .await
        .unwrap();
    session
        .ready("GitOperationFailed", "the host refused the credentials")
        .await;
    secrets
        .patch(
            "key",
            &PatchParams::default(),
            &Patch::Merge(json!({ "stringData": { "password": "s3cret" } })),
        )
        .await
        .unwrap();
    session.artifact_of(&first).await;
    let said = format!(
        "{:?} {:?}",
        session.events().await,
        session.api().get("fleet").await.unwrap()
    );
    assert!(!said.contains("s3cret") && !said.contains("wrong"), "{said}");
}
