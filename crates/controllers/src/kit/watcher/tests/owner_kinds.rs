//! Owners of two kinds, with one namespace and name, and the same kind of objects.

use super::*;
use crate::object_ref::tests::HELM_RELEASE;

fn release() -> Owner {
    Owner::new(&HELM_RELEASE, "default", "app")
}

impl World {
    async fn both_listed(&self) {
        assert_eq!(self.follow("app"), ["ConfigMap Starting(None)"]);
        assert_eq!(self.follow_as(&release()), ["ConfigMap Starting(None)"]);
        let listed = ["app ConfigMap Listed", "HelmRelease/app ConfigMap Listed"];
        self.expect_wakes("the lists", &listed).await;
    }

    fn owner_seen_by(&self, by: &'static OwnerKind, name: &str) -> Option<Owner> {
        match self.watcher.get(by, &id(name)) {
            Presence::Present(observed) => observed.owner.clone(),
            Presence::Absent | Presence::Unknown => None,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn owners_of_two_kinds_do_not_overwrite_each_other_s_watches() {
    let world = World::new().await;
    world.both_listed().await;
    assert_eq!(world.watcher.counts().kinds, 2, "one feed for each kind of owner");
    world.apply("a", "app", "1").await;
    world.expect_wakes("its object", &["app a Appeared"]).await;
    world.apply_as(&HELM_RELEASE, "b", "app", "1").await;
    world
        .expect_wakes("its object", &["HelmRelease/app b Appeared"])
        .await;
    assert_eq!(world.watcher.get(&HELM_RELEASE, &id("a")), Presence::Absent);
    assert_eq!(world.watcher.get(&KUSTOMIZATION, &id("b")), Presence::Absent);

    // one of them goes, and the other follows the same objects
    world.watcher.forget(&owner("app"));
    assert_eq!(world.watcher.counts().kinds, 1);
    assert_eq!(world.watcher.get(&KUSTOMIZATION, &id("a")), Presence::Unknown);
    world.drift("b", "2").await;
    world.expect_wakes("drift", &["HelmRelease/app b Changed"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_with_both_label_sets_wakes_both_owners() {
    let world = World::new().await;
    world.both_listed().await;
    world.apply("a", "app", "1").await;
    world.expect_wakes("one owner", &["app a Appeared"]).await;
    world.apply_as(&HELM_RELEASE, "a", "app", "1").await;
    world
        .expect_wakes("the other owner", &["HelmRelease/app a Appeared"])
        .await;
    assert_eq!(world.owner_seen_by(&KUSTOMIZATION, "a"), Some(owner("app")));
    assert_eq!(world.owner_seen_by(&HELM_RELEASE, "a"), Some(release()));
    world.drift("a", "2").await;
    let drift = ["app a Changed", "HelmRelease/app a Changed"];
    world.expect_wakes("drift, to both", &drift).await;
    world.delete("a").await;
    let gone = ["app a Gone", "HelmRelease/app a Gone"];
    world.expect_wakes("the end, to both", &gone).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_write_is_noted_for_the_kind_that_wrote() {
    let world = World::new().await;
    world.both_listed().await;
    let answer = world.apply_as(&HELM_RELEASE, "a", "app", "1").await;
    assert!(world.watcher.note(&id("a"), answer));
    assert_eq!(world.owner_seen_by(&HELM_RELEASE, "a"), Some(release()));
    assert_eq!(world.watcher.get(&KUSTOMIZATION, &id("a")), Presence::Absent);
}

#[tokio::test(start_paused = true)]
async fn a_single_object_is_judged_for_each_kind_that_waits_for_it() {
    let world = World::new().await;
    let stranger = ObjectId::new("", "ConfigMap", "default", "a");
    let interest = Interest {
        kinds: Vec::new(),
        objects: vec![(ApiResource::erase::<ConfigMap>(&()), stranger)],
    };
    world.watcher.follow(&owner("app"), &interest);
    world.watcher.follow(&release(), &interest);
    world.apply("a", "other", "1").await;
    let appeared = ["app a Appeared", "HelmRelease/app a Appeared"];
    world.expect_wakes("the object, to both", &appeared).await;
    let other = Some(owner("other"));
    assert_eq!(world.owner_seen_by(&KUSTOMIZATION, "a"), other);
    assert_eq!(world.owner_seen_by(&HELM_RELEASE, "a"), None);
    world.watcher.forget(&owner("app"));
    world.delete("a").await;
    world
        .expect_wakes("its end, to whoever waits", &["HelmRelease/app a Gone"])
        .await;
}
