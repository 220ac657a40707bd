//! Cluster facts for a chart: the Kubernetes version and the served API versions.
//!
//! Without a cluster, the defaults are those of the Helm version we follow and its client library.

use std::fmt;

/// The Helm version we follow, as in `.Capabilities.HelmVersion.Version`.
pub const HELM_VERSION: &str = "v4.2";

const KUBERNETES_DEFAULT: &str = "v1.36.0";

const API_VERSIONS_DEFAULT: [&str; 55] = [
    "v1",
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "batch/v1beta1",
    "certificates.k8s.io/v1",
    "certificates.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha2",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1beta1",
    "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1",
    "storagemigration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];

/// The cluster a chart is rendered for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The version of Kubernetes.
    pub kube_version: KubeVersion,
    /// The API versions served: `apps/v1`, and with a cluster also `apps/v1/Deployment`.
    pub api_versions: Vec<String>,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            kube_version: KubeVersion::default(),
            api_versions: API_VERSIONS_DEFAULT.map(str::to_owned).to_vec(),
        }
    }
}

/// A Kubernetes version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeVersion {
    /// As the cluster reports it: `v1.33.4-gke.1245000`.
    pub version: String,
    /// The numbers alone, which charts compare: `v1.33.4`.
    pub normalized: String,
    /// The major version.
    pub major: String,
    /// The minor version.
    pub minor: String,
}

impl Default for KubeVersion {
    fn default() -> Self {
        Self {
            version: KUBERNETES_DEFAULT.to_owned(),
            normalized: KUBERNETES_DEFAULT.to_owned(),
            major: "1".to_owned(),
            minor: "36".to_owned(),
        }
    }
}

impl fmt::Display for KubeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.normalized)
    }
}

/// The text is not a Kubernetes version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeVersionError {
    /// It does not start with a number.
    #[error("could not parse {0:?} as version")]
    Unreadable(String),
    /// The minor version is missing, or a number is too large.
    #[error("illegal version string {0:?}")]
    Illegal(String),
    /// A leading zero makes it look octal.
    #[error("illegal zero-prefixed version component {0:?} in {1:?}")]
    Zero(String, String),
    /// A number is too large.
    #[error(
        "illegal non-numeric version component {0:?} in {1:?}: strconv.ParseUint: parsing {0:?}: value out of range"
    )]
    Large(String, String),
}

impl std::str::FromStr for KubeVersion {
    type Err = KubeVersionError;

    /// Parses `v1.29`, `1.29.3` and vendors' forms such as `v1.33.4-gke.1245000`.
    fn from_str(text: &str) -> Result<Self, KubeVersionError> {
        let trimmed = text.trim_start();
        let bare = trimmed.strip_prefix('v').unwrap_or(trimmed);
        let end = bare
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(bare.len());
        let numbers = bare[..end].trim_end_matches('.');
        if !numbers.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(KubeVersionError::Unreadable(text.to_owned()));
        }
        // after an empty number everything belongs to the suffix
        let numbers = numbers.split("..").next().unwrap_or(numbers);
        let mut parts = Vec::new();
        for part in numbers.split('.') {
            // leading zeros are skipped in all numbers but the first
            if parts.is_empty() && part.len() > 1 && part.starts_with('0') {
                return Err(KubeVersionError::Zero(part.to_owned(), text.to_owned()));
            }
            match part.parse::<u64>() {
                Ok(number) => parts.push(number.to_string()),
                Err(_) if part.is_empty() => return Err(KubeVersionError::Illegal(text.to_owned())),
                Err(_) => return Err(KubeVersionError::Large(part.to_owned(), text.to_owned())),
            }
        }
        let [major, minor, ..] = parts.as_slice() else {
            return Err(KubeVersionError::Illegal(text.to_owned()));
        };
        let version = if text.starts_with('v') {
            text.to_owned()
        } else {
            format!("v{text}")
        };
        Ok(Self {
            version,
            normalized: format!("v{}", parts.join(".")),
            major: major.clone(),
            minor: minor.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::KubeVersion;

    #[test]
    fn versions_are_read_as_helm_reads_them() {
        #[track_caller]
        fn check(text: &str, want: &str) {
            let got = match text.parse::<KubeVersion>() {
                Ok(version) => format!("{version} {} {}", version.major, version.minor),
                Err(error) => error.to_string(),
            };
            assert_eq!(got, want);
        }
        check("v1.29", "v1.29 1 29");
        check("1.29.3-gke.1", "v1.29.3 1 29");
        check("v1.30.0+k3s1", "v1.30.0 1 30");
        check("1.2.3.4", "v1.2.3.4 1 2");
        check("1", r#"illegal version string "1""#);
        check("abc", r#"could not parse "abc" as version"#);
        check("", r#"could not parse "" as version"#);
        check(
            "01.2.3",
            r#"illegal zero-prefixed version component "01" in "01.2.3""#,
        );
    }
}
