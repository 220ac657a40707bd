//! The kubeconfig of a served cluster.

use crate::auth::Token;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// Writes a kubeconfig of mode 0600 with the CA certificate and the token embedded.
///
/// It is written to a temporary file and renamed, so that a reader never sees half a file.
pub(super) fn write(path: &Path, url: &str, authority_pem: &str, token: &Token) -> std::io::Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "equate", "cluster": {
            "server": url,
            "certificate-authority-data": STANDARD.encode(authority_pem),
        }}],
        "users": [{ "name": "admin", "user": { "token": token.expose() } }],
        "contexts": [{ "name": "equate", "context": { "cluster": "equate", "user": "admin" } }],
        "current-context": "equate",
    });
    let parent = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)?;
    // An unguessable name, mode 0600 from the start: nobody can plant a link in its place.
    let mut file = tempfile::Builder::new()
        .prefix(".kubeconfig-")
        .tempfile_in(parent)?;
    file.write_all(equate_manifest::yaml::to_string(&config).as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}
