//! The places that set the versions of a service.
//!
//! A place sets a version if the build has another one when the place has another one. A file may name a
//! version that an overlay replaces, so the text alone does not tell.

use super::{EditError, Edited, Guess, Scope, target};
use crate::artifact::{Subject, Version};
use crate::config::Config;
use crate::fleet::{Built, Fleet, Unit};
use crate::overlay::{Files, Overlay};
use crate::site::Site;
use equate_kustomize::Tree;

/// A version that no file has.
const PROBE: &str = "0.0.0-equate-probe";

/// A subject with the places that set its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setter {
    /// The subject.
    pub subject: Subject,
    /// Its versions.
    pub versions: Vec<Version>,
    /// The files and lines, `apps/dev/cart/kustomization.yaml:7`. Empty if no file has it in a form that
    /// equate reads.
    pub places: Vec<String>,
}

/// The versions of a service in an environment with the places that set them.
///
/// # Errors
/// The service is not there, or does not build.
pub fn setters(
    tree: &dyn Tree,
    config: &Config,
    fleet: &Fleet,
    (environment, service): (&str, &str),
) -> Result<Vec<Setter>, EditError> {
    let (at, built) = target(fleet, environment, service)?;
    let scope = Scope {
        tree,
        config,
        fleet,
        at,
        unit: &fleet.units[at],
        built,
        service,
    };
    let artifact = built.artifact(service);
    let found = artifact.subjects().map(|subject| Setter {
        subject: subject.clone(),
        versions: artifact.of(subject).to_vec(),
        places: scope.places(subject),
    });
    Ok(found.collect())
}

impl Scope<'_> {
    fn places(&self, subject: &Subject) -> Vec<String> {
        let sites = self.sites(subject, &Files::new());
        let reaching = sites.iter().filter(|site| self.reaches(site, subject));
        let mut places: Vec<String> = reaching.map(place).collect();
        if places.is_empty() {
            // forms that cannot be edited cannot be tried: the same version is the next best sign
            let current = self.built.artifact(self.service);
            let same = sites
                .iter()
                .filter(|site| current.of(subject).contains(&site.version));
            places = same.map(place).collect();
        }
        places.sort();
        places.dedup();
        places
    }

    /// Whether the service gets another version if the site has another one.
    fn reaches(&self, site: &Site, subject: &Subject) -> bool {
        let probe = Version {
            tag: PROBE.to_owned(),
            digest: site.version.digest.clone(),
        };
        let mut trial = Edited::default();
        if self
            .write(&Guess::Sites(vec![site]), subject, &probe, &mut trial)
            .is_err()
        {
            return false;
        }
        let tree = Overlay::new(self.tree, &trial.files);
        let unit = Unit::build(&tree, self.config, self.unit.place.clone());
        let of_service = |built: &Built| -> Vec<Version> {
            let members = built.services.get(self.service).into_iter().flatten();
            members.map(|member| member.field.version.clone()).collect()
        };
        unit.state
            .is_ok_and(|built| of_service(&built) != of_service(self.built))
    }
}

fn place(site: &Site) -> String {
    format!("{}:{}", site.path, site.line)
}

#[cfg(test)]
mod tests {
    use super::setters;
    use crate::config::Config;
    use crate::fleet::Fleet;
    use crate::overlay::Memory;

    const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: cart}
spec:
  template:
    spec:
      containers:
      - {name: cart, image: 'example/cart:1'}
      - {name: proxy, image: 'proxy:3'}
";

    #[test]
    fn places_that_an_overlay_replaces_set_nothing() {
        let text = "version: 1\nenvironments: [dev]\nservices: apps/{environment}/{service}\n";
        let config = Config::parse("equate.yaml", text).unwrap();
        let tree = Memory::default()
            .with("base/kustomization.yaml", "resources: [deployment.yaml]\n")
            .with("base/deployment.yaml", DEPLOYMENT)
            .with(
                "apps/dev/cart/kustomization.yaml",
                "resources: [../../../base]\nimages:\n- name: example/cart\n  newTag: '2'\n",
            );
        let fleet = Fleet::build(&tree, &config);
        let found = setters(&tree, &config, &fleet, ("dev", "cart")).unwrap();
        let lines: Vec<String> = found
            .iter()
            .map(|setter| {
                format!(
                    "{} {} {}",
                    setter.subject,
                    setter.versions[0],
                    setter.places.join(" ")
                )
            })
            .collect();
        assert_eq!(
            lines,
            [
                "image example/cart 2 apps/dev/cart/kustomization.yaml:4",
                "image proxy 3 base/deployment.yaml:9",
            ]
        );
    }
}
