//! The address of Vault or OpenBao, from the environment variables of their own programs.

use equate_controllers::TransitSettings;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[error("could not read {}, set by VAULT_CACERT", path.display())]
pub(crate) struct CertificatesError {
    path: PathBuf,
    source: std::io::Error,
}

/// Reads `VAULT_ADDR`, one or several comma-separated addresses, and `VAULT_CACERT`.
pub(crate) fn settings() -> Result<TransitSettings, CertificatesError> {
    read(|name| std::env::var_os(name))
}

fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<TransitSettings, CertificatesError> {
    let addresses = variable("VAULT_ADDR").unwrap_or_default();
    let addresses = addresses.to_string_lossy();
    let addresses = addresses
        .split(',')
        .map(str::trim)
        .filter(|address| !address.is_empty());
    let path = variable("VAULT_CACERT")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let ca = path.map(|path| match std::fs::read(&path) {
        Ok(pem) => Ok(pem),
        Err(source) => Err(CertificatesError { path, source }),
    });
    Ok(TransitSettings {
        addresses: addresses.map(str::to_owned).collect(),
        ca: ca.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_from_the_environment() {
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            read(move |name| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(with(&[]).unwrap(), TransitSettings::default());
        let two = with(&[("VAULT_ADDR", "https://a:8200, http://b,"), ("VAULT_CACERT", "")]).unwrap();
        assert_eq!(two.addresses, ["https://a:8200", "http://b"]);
        let error = with(&[("VAULT_CACERT", "/nowhere/ca.pem")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not read /nowhere/ca.pem, set by VAULT_CACERT"
        );
    }
}
