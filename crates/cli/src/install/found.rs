//! Finds Flux in the cluster, and decides whether Equate may be installed.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::apply::InstallError;
use super::manifests::Settings;

/// The CRD whose labels tell Flux's own tools who manages the installation.
const DEFINITION: &str = "gitrepositories.source.toolkit.fluxcd.io";
const OWNER_LABELS: [&str; 2] = [
    "kustomize.toolkit.fluxcd.io/namespace",
    "kustomize.toolkit.fluxcd.io/name",
];
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

#[derive(Debug, Default)]
pub(super) struct Found {
    defined: bool,
    /// The manager that would revert changes of Flux's objects.
    managed_by: Option<String>,
    account: bool,
    /// Namespace and name of running Flux controllers that Equate replaces.
    running: Vec<(String, String)>,
}

pub(super) async fn find_flux(client: &Client, settings: &Settings) -> Result<Found, InstallError> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = read(DEFINITION, definitions.get_opt(DEFINITION).await)?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &settings.namespace);
    let account = settings.runs_as();
    let account = read(account, accounts.get_opt(account).await)?;
    let deployments: Api<Deployment> = Api::all(client.clone());
    let of_flux = ListParams::default().labels("app.kubernetes.io/part-of=flux");
    let deployments = read("the Deployments of Flux", deployments.list(&of_flux).await)?;
    let components = settings.components();
    let runs = |deployment: &Deployment| {
        components.contains(&&*deployment.name_any()) && deployment.spec.replicas != Some(0)
    };
    Ok(Found {
        defined: definition.is_some(),
        managed_by: definition.as_ref().and_then(manager),
        account: account.is_some(),
        running: deployments
            .items
            .iter()
            .filter(|deployment| runs(deployment))
            .map(|deployment| (deployment.namespace().unwrap_or_default(), deployment.name_any()))
            .collect(),
    })
}

fn read<T>(what: &str, answer: kube::Result<T>) -> Result<T, InstallError> {
    answer.map_err(|source| InstallError::Inspect {
        what: what.to_owned(),
        source: Box::new(source),
    })
}

/// The manager of Flux's CRDs, by their labels.
fn manager(definition: &CustomResourceDefinition) -> Option<String> {
    let labels = definition.labels();
    let owner: Vec<&str> = OWNER_LABELS
        .iter()
        .filter_map(|label| Some(labels.get(*label)?.as_str()))
        .collect();
    if let [namespace, name] = owner[..] {
        return Some(format!("git, by the Kustomization {namespace}/{name}"));
    }
    let tool = labels.get(MANAGED_BY)?;
    (tool != "flux").then(|| tool.clone())
}

impl Found {
    /// Decides whether Equate may be installed; `force` ignores other managers and namespaces.
    pub(super) fn allow(&self, settings: &Settings, force: bool) -> Result<(), InstallError> {
        if settings.beside_flux && !(self.defined && self.account) {
            return Err(InstallError::NoFlux {
                namespace: settings.namespace.clone(),
                account: settings.runs_as(),
            });
        }
        if force {
            return Ok(());
        }
        if let Some(manager) = self.managed_by.clone().filter(|_| !settings.beside_flux) {
            return Err(InstallError::ManagedByOther { manager });
        }
        let elsewhere = self
            .running
            .iter()
            .find(|(namespace, _)| *namespace != settings.namespace);
        match elsewhere {
            Some((namespace, name)) => Err(InstallError::Elsewhere {
                name: name.clone(),
                namespace: namespace.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Actions of the user that are needed before Equate starts to work.
    pub(super) fn advice(&self, settings: &Settings) -> Vec<String> {
        let here = self
            .running
            .iter()
            .filter(|(namespace, _)| *namespace == settings.namespace);
        here.map(|(namespace, name)| {
            format!(
                "Flux's {name} is running, and Equate waits until it stops; scale it down, in git if git manages it: \
                kubectl -n {namespace} scale deployment {name} --replicas=0"
            )
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::tests::settings;
    use serde_json::json;

    fn labelled(labels: &[(&str, &str)]) -> CustomResourceDefinition {
        let mut definition = CustomResourceDefinition::default();
        for (key, value) in labels {
            definition
                .labels_mut()
                .insert((*key).to_owned(), (*value).to_owned());
        }
        definition
    }

    #[test]
    fn manager_is_read_from_the_labels() {
        let check = |labels: &[(&str, &str)], expected: Option<&str>| {
            assert_eq!(manager(&labelled(labels)).as_deref(), expected);
        };
        check(&[], None);
        check(&[("app.kubernetes.io/part-of", "flux")], None);
        check(&[(MANAGED_BY, "flux")], None);
        check(&[(MANAGED_BY, "Helm")], Some("Helm"));
        check(
            &[(OWNER_LABELS[0], "flux-system"), (OWNER_LABELS[1], "root")],
            Some("git, by the Kustomization flux-system/root"),
        );
    }

    #[test]
    fn installation_beside_flux_is_checked() {
        let running = |namespace: &str| vec![(namespace.to_owned(), "source-controller".to_owned())];
        let flux = || Found {
            defined: true,
            managed_by: Some("Helm".to_owned()),
            account: true,
            running: running("flux-system"),
        };
        let check = |found: &Found, beside_flux: bool, force: bool, expected: &str| {
            let settings = Settings {
                beside_flux,
                ..settings()
            };
            let result = match found.allow(&settings, force) {
                Ok(()) => json!(found.advice(&settings).len()).to_string(),
                Err(error) => error.to_string(),
            };
            assert!(result.starts_with(expected), "{result}");
        };
        check(&Found::default(), false, false, "0");
        check(
            &Found::default(),
            true,
            true,
            "Flux is not installed in namespace flux-system",
        );
        check(&flux(), false, false, "Flux is managed by Helm");
        check(&flux(), false, true, "1");
        check(&flux(), true, false, "1");
        let elsewhere = Found {
            running: running("other"),
            ..flux()
        };
        check(
            &elsewhere,
            true,
            false,
            "Flux's source-controller runs in namespace other",
        );
        check(&elsewhere, true, true, "0");
    }
}
