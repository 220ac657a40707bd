use std::io::Write as _;

use bytes::Bytes;
use sha2::{Digest as _, Sha256, Sha512};

use super::*;
use crate::storage::Place;
use crate::tree::Building;

fn archive(content: &str) -> Vec<u8> {
    let limits = Limits::default();
    let mut building = Building::new(&limits);
    building
        .file("app/a.yaml", Bytes::from(content.to_owned()), false)
        .unwrap();
    building.file("app/empty", Bytes::new(), true).unwrap();
    let mut out = Vec::new();
    building.finish().write_archive(&mut out, &limits).unwrap();
    out
}

fn sha256(bytes: &[u8]) -> Digest {
    let hex: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    Digest::parse(&hex).unwrap()
}

fn of(namespace: &str, name: &str, uid: &str, digest: &Digest) -> CacheKey {
    let place = Place::new("Bucket", namespace, name).unwrap();
    CacheKey::new(&Publisher::new(place, uid), digest.clone())
}

fn key(digest: &Digest) -> CacheKey {
    of("team-a", "app", "1", digest)
}

fn receive(cache: &Cache, digest: &Digest, bytes: &[u8]) -> Result<Tree, ReceiveError> {
    let mut receiving = cache.receive(&key(digest))?;
    for chunk in bytes.chunks(7) {
        receiving.write(chunk)?;
    }
    receiving.finish()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn matching_archives_become_trees_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path().join("c")).unwrap();
    let bytes = archive("a: 1\n");
    let digest = sha256(&bytes);
    let tree = receive(&cache, &digest, &bytes).unwrap();
    // equal to a tree read into memory: ids, contents, modes
    assert_eq!(tree, Tree::from_archive(&bytes[..], &Limits::default()).unwrap());
    assert_eq!(tree.read("app/a.yaml").unwrap(), "a: 1\n");
    assert_eq!(tree.read("app/empty").unwrap(), "");
    // only the archive has a name
    assert_eq!(names(&folder.path().join("c")), [key(&digest).file_name()]);

    let again = Cache::open(folder.path().join("c")).unwrap();
    assert_eq!(again.load(&key(&digest)).unwrap(), tree);
    again.forget(&key(&digest));
    assert!(again.load(&key(&digest)).is_none());
    assert_eq!(names(&folder.path().join("c")), Vec::<String>::new());
    assert_eq!(
        tree.read("app/a.yaml").unwrap(),
        "a: 1\n",
        "a tree outlives its archive"
    );
}

#[test]
fn other_archives_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        archive_bytes_max: 1000,
        ..Limits::default()
    };
    let cache = Cache::with(folder.path().to_owned(), limits, 1 << 20).unwrap();
    let check = |digest: &Digest, bytes: &[u8], expected: &str| {
        let error = receive(&cache, digest, bytes).unwrap_err();
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        assert_eq!(format!("{error}{}", cause.unwrap_or_default()), expected);
        assert_eq!(names(folder.path()), Vec::<String>::new());
    };
    let (good, other) = (archive("a"), archive("b"));
    let wanted = sha256(&good);
    check(
        &wanted,
        &other,
        &format!("computed digest doesn't match provided '{wanted}'"),
    );
    check(
        &wanted,
        &good[..20],
        &format!("computed digest doesn't match provided '{wanted}'"),
    );
    check(
        &sha256(b"x"),
        b"x",
        "failed to extract archive: not a complete tar.gz archive",
    );
    check(&wanted, &[0; 1001], "an archive larger than 1000 bytes");
}

#[test]
fn damaged_and_partial_archives_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = archive("a");
    let digest = sha256(&bytes);
    let cache = Cache::open(folder.path().to_owned()).unwrap();
    receive(&cache, &digest, &bytes).unwrap();
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(cache.path(&key(&digest)))
        .unwrap();
    file.write_all(b"more").unwrap();
    fs::write(folder.path().join(format!("{ARRIVING}x")), "half").unwrap();
    let again = Cache::open(folder.path().to_owned()).unwrap();
    assert_eq!(names(folder.path()), [key(&digest).file_name()]);
    assert!(again.load(&key(&digest)).is_none());
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn unused_archives_make_room_and_used_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let archives: Vec<Vec<u8>> = ["a", "b", "c"].map(archive).into();
    let digests: Vec<Digest> = archives.iter().map(|bytes| sha256(bytes)).collect();
    let two = (archives[0].len() + archives[1].len() + archives[2].len() - 1) as u64;
    let open = || Cache::with(folder.path().to_owned(), Limits::default(), two).unwrap();
    let cache = open();
    for (digest, bytes) in digests.iter().zip(&archives) {
        receive(&cache, digest, bytes).unwrap();
    }
    // all three are in use: the last has a tree but is not kept on disk
    assert_eq!(cache.kept().len(), 2);
    assert_eq!(cache.sweep(), 0);

    let cache = open();
    cache.load(&key(&digests[0])).unwrap();
    receive(&cache, &digests[2], &archives[2]).unwrap();
    let mut kept: Vec<CacheKey> = cache.kept().into_iter().map(|(key, ..)| key).collect();
    kept.sort();
    let mut expected = [key(&digests[0]), key(&digests[2])];
    expected.sort();
    assert_eq!(kept, expected);

    let cache = open();
    cache.load(&key(&digests[2])).unwrap();
    assert_eq!(cache.sweep(), 1);
    assert_eq!(names(folder.path()), [key(&digests[2]).file_name()]);
}

#[test]
fn every_digest_algorithm_of_flux_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path().to_owned()).unwrap();
    let bytes = archive("a");
    let hex: String = Sha512::digest(&bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let blake = blake3::hash(&bytes).to_hex();
    for text in [format!("sha512:{hex}"), format!("blake3:{blake}")] {
        let digest = Digest::parse(&text).unwrap();
        receive(&cache, &digest, &bytes).unwrap();
        assert!(cache.load(&key(&digest)).is_some(), "{text}");
    }
}

#[test]
fn an_archive_is_given_only_to_readers_of_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path().to_owned()).unwrap();
    let bytes = archive("a");
    let digest = sha256(&bytes);
    receive(&cache, &digest, &bytes).unwrap();
    let others = [
        of("team-a", "other", "1", &digest),
        of("team-a", "app", "2", &digest),
        of("team-b", "app", "1", &digest),
    ];
    for again in [cache, Cache::open(folder.path().to_owned()).unwrap()] {
        for other in &others {
            assert!(again.load(other).is_none(), "{other:?}");
        }
        assert!(again.load(&key(&digest)).is_some());
    }
}

#[test]
fn archives_without_a_source_are_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = archive("a");
    let digest = sha256(&bytes);
    fs::write(folder.path().join(digest.file_name()), &bytes).unwrap();
    let cache = Cache::open(folder.path().to_owned()).unwrap();
    assert!(cache.load(&key(&digest)).is_none());
    assert_eq!(names(folder.path()), Vec::<String>::new());
}
