//! The CustomResourceDefinitions of our own kinds, generated from their types.

use super::Error;
use equate_manifest::yaml;
use std::path::Path;

/// Writes `crates/api/crds/*.yaml`, or with `check` compares them.
pub(super) fn generate(check: bool) -> Result<(), Error> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/crds");
    for (name, definition) in equate_api::definitions::generate().map_err(Error::Definition)? {
        let path = folder.join(format!("{name}.yaml"));
        let text = yaml::to_string(&definition);
        if !check {
            super::write(&path, text.as_bytes())?;
        } else if std::fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
            return Err(Error::Stale { path });
        }
    }
    Ok(())
}
