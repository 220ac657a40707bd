//! The file that lets kubectl and others in.

use crate::auth::Token;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// Writes a kubeconfig of mode 0600 with the authority and the token embedded.
///
/// It is written beside its place and moved there, so that a reader never sees half a file.
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
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", uuid::Uuid::new_v4().simple()));
    let beside = parent.join(name);
    let mut options = std::fs::OpenOptions::new();
    // A new file only: one that somebody put there first would keep its mode, or be a link elsewhere.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    let moved = file
        .write_all(equate_manifest::yaml::to_string(&config).as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&beside, path));
    if moved.is_err() {
        // The first error is the one to tell; what stays behind is readable by its owner only.
        std::fs::remove_file(&beside).ok();
    }
    moved
}
