//! The journal: the newest state of every object, in one redb file.
//!
//! It keeps no history. After a restart, old watches and exact lists are `Expired` and clients list again,
//! as after an etcd compaction. In return a busy Lease or Event is one row, rewritten in place.
//!
//! Refused: files that are no journal, have a newer format, are open elsewhere, or are inconsistent.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
    TableHandle,
};
use serde_json::Value;

use super::state::{FIRST_REVISION, State};
use super::writer::Queue;
use super::{Entry, Key, ResourceId};

/// Increases when an older Equate could misread the file.
const FORMAT: u64 = 1;

/// Group, plural, namespace, name.
pub(super) type Row = (&'static str, &'static str, &'static str, &'static str);
/// To revision and JSON.
pub(super) const OBJECTS: TableDefinition<'_, Row, (u64, &[u8])> = TableDefinition::new("objects");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const META_FORMAT: &str = "format";
const META_REVISION: &str = "revision";

/// An error opening a journal.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is not a journal.
    #[error("{path} is not an Equate journal")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Written by a newer Equate.
    #[error(
        "journal {path} has format {found}, but this Equate reads only up to {supported}; use a newer Equate"
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest supported format.
        supported: u64,
    },
    /// The file is inconsistent or fails its checksums.
    #[error("journal {path} is damaged: {what}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The defect.
        what: String,
    },
    /// Another store has it open.
    #[error("journal {path} is in use by another process or store")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Creating or opening the file failed.
    #[error("cannot open the journal {path}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The database failed.
    #[error("cannot read the journal {path}")]
    Database {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<redb::Error>,
    },
}

pub(super) struct Journal {
    database: Database,
    pub(super) queue: Mutex<Queue>,
}

impl Journal {
    pub(super) fn open(path: &Path) -> Result<(Self, State), StoreError> {
        let failed = |source| StoreError::Open {
            path: path.to_owned(),
            source,
        };
        if !path.try_exists().map_err(failed)? {
            Self::create(path)?;
        }
        let file = options().open(path).map_err(failed)?;
        Self::in_file(path, file)
    }

    /// Creates an empty journal under a temporary name: the database needs several writes, and a crash
    /// between them would leave an invalid file.
    fn create(path: &Path) -> Result<(), StoreError> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", uuid::Uuid::new_v4().simple()));
        let draft = PathBuf::from(draft);
        let failed = |source| StoreError::Open {
            path: path.to_owned(),
            source,
        };
        let file = options().create_new(true).open(&draft).map_err(failed)?;
        let placed = Self::in_file(path, file).and_then(|(journal, _)| {
            drop(journal);
            // unlike a rename, a link replaces nothing: if two start at once, one wins
            match fs::hard_link(&draft, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked.and_then(|()| sync_directory(path)).map_err(failed),
            }
        });
        fs::remove_file(&draft).map_err(failed)?;
        placed
    }

    fn in_file(path: &Path, file: File) -> Result<(Self, State), StoreError> {
        let backend = FileBackend::new(file).map_err(|error| database_error(path, error))?;
        Self::on(path, backend)
    }

    /// The path is for errors.
    pub(super) fn on(path: &Path, backend: impl StorageBackend) -> Result<(Self, State), StoreError> {
        let database = Database::builder()
            // everything is read below anyway, so check every page
            .set_check_integrity_on_open(true)
            .create_with_backend(backend)
            .map_err(|error| database_error(path, error))?;
        let failed = |error: redb::Error| storage_error(path, error);
        if is_new(&database).map_err(failed)? {
            create(&database).map_err(failed)?;
        }
        let state = load(path, &database)?;
        let journal = Self {
            database,
            queue: Mutex::default(),
        };
        Ok((journal, state))
    }

    /// Writes the state's revision and these keys. Durable on return.
    pub(super) fn write(&self, state: &State, keys: &BTreeSet<Key>) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for key in keys {
                let row = (
                    key.resource.group(),
                    key.resource.plural(),
                    &*key.namespace,
                    &*key.name,
                );
                match state.get(key) {
                    Some(entry) => objects.insert(row, (entry.revision, &*entry.encoded()))?,
                    None => objects.remove(row)?,
                };
            }
            transaction
                .open_table(META)?
                .insert(META_REVISION, state.revision)?;
        }
        transaction.commit()?;
        Ok(())
    }
}

/// Mode 0600, because it will contain Secrets.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a new file's name survive a power cut.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    // elsewhere a directory cannot be opened, and need not be
    if cfg!(unix) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

fn is_new(database: &Database) -> Result<bool, redb::Error> {
    let transaction = database.begin_read()?;
    let tables = transaction.list_tables()?.count() + transaction.list_multimap_tables()?.count();
    Ok(tables == 0)
}

fn create(database: &Database) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    {
        transaction.open_table(OBJECTS)?;
        let mut meta = transaction.open_table(META)?;
        meta.insert(META_FORMAT, FORMAT)?;
        meta.insert(META_REVISION, FIRST_REVISION)?;
    }
    transaction.commit()?;
    Ok(())
}

fn load(path: &Path, database: &Database) -> Result<State, StoreError> {
    let failed = |error: redb::Error| storage_error(path, error);
    let foreign = || StoreError::Foreign {
        path: path.to_owned(),
    };
    let corrupt = |what: String| StoreError::Corrupt {
        path: path.to_owned(),
        what,
    };

    let transaction = database.begin_read().map_err(|error| failed(error.into()))?;
    let tables: BTreeSet<String> = transaction
        .list_tables()
        .map_err(|error| failed(error.into()))?
        .map(|table| table.name().to_owned())
        .collect();
    if !tables.contains(META.name()) {
        return Err(foreign());
    }
    let meta = transaction
        .open_table(META)
        .map_err(|error| table_error(path, error))?;
    let number = |name: &str| match meta.get(name) {
        Ok(value) => Ok(value.map(|value| value.value())),
        Err(error) => Err(failed(error.into())),
    };
    let format = number(META_FORMAT)?.ok_or_else(foreign)?;
    if format > FORMAT {
        return Err(StoreError::NewerFormat {
            path: path.to_owned(),
            found: format,
            supported: FORMAT,
        });
    }
    if format != FORMAT {
        return Err(corrupt(format!("there is no journal format {format}")));
    }
    let revision = number(META_REVISION)?.ok_or_else(|| corrupt("it has no revision".to_owned()))?;
    if revision < FIRST_REVISION {
        return Err(corrupt(format!("its revision is {revision}")));
    }

    let table = transaction
        .open_table(OBJECTS)
        .map_err(|error| table_error(path, error))?;
    let mut objects = Vec::new();
    // rows are sorted by resource: one id for all of its keys
    let mut resource = ResourceId::new("", "");
    for row in table.iter().map_err(|error| failed(error.into()))? {
        let (key, value) = row.map_err(|error| failed(error.into()))?;
        let (group, plural, namespace, name) = key.value();
        if (resource.group(), resource.plural()) != (group, plural) {
            resource = ResourceId::new(group, plural);
        }
        let key = Key::new(&resource, namespace, name);
        let (at, json) = value.value();
        if at > revision {
            return Err(corrupt(format!(
                "{key} is at revision {at}, the journal at {revision}"
            )));
        }
        let object: Value =
            serde_json::from_slice(json).map_err(|error| corrupt(format!("{key} is not JSON: {error}")))?;
        let stamped = object
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str);
        if stamped != Some(at.to_string().as_str()) {
            return Err(corrupt(format!("{key} is not the object of revision {at}")));
        }
        let entry = Entry::stamp(object, at).ok_or_else(|| corrupt(format!("{key} is not an object")))?;
        objects.push((key, entry));
    }
    Ok(State::restored(revision, objects))
}

fn database_error(path: &Path, error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => StoreError::InUse {
            path: path.to_owned(),
        },
        other => storage_error(path, other.into()),
    }
}

/// A table of our name but another type belongs to another program.
fn table_error(path: &Path, error: redb::TableError) -> StoreError {
    match error {
        redb::TableError::Storage(error) => storage_error(path, error.into()),
        redb::TableError::TableDoesNotExist(table) => StoreError::Corrupt {
            path: path.to_owned(),
            what: format!("it has no table {table}"),
        },
        _ => StoreError::Foreign {
            path: path.to_owned(),
        },
    }
}

fn storage_error(path: &Path, error: redb::Error) -> StoreError {
    let path = path.to_owned();
    match error {
        redb::Error::Corrupted(what) => StoreError::Corrupt { path, what },
        // redb's error for a file without its header
        redb::Error::Io(source) if source.kind() == io::ErrorKind::InvalidData => {
            StoreError::Foreign { path }
        }
        redb::Error::Io(source) if source.kind() == io::ErrorKind::UnexpectedEof => StoreError::Corrupt {
            path,
            what: "it ends early".to_owned(),
        },
        other => StoreError::Database {
            path,
            source: Box::new(other),
        },
    }
}
