//! Random numbers, the clock and the cluster of a render.

use super::TemplateError;
use super::cluster::Cluster;
use equate_template::{Fault, Map, Seeded, Value, World};

/// The operating system's random seed and clock. The time does not change during a render.
#[derive(Debug)]
pub(crate) struct SystemWorld {
    chance: Seeded,
    cluster: Option<Cluster>,
}

impl SystemWorld {
    pub(crate) fn new(cluster: Option<Cluster>) -> Result<Self, TemplateError> {
        use ring::rand::{SecureRandom, SystemRandom};
        let mut seed = [0; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_| TemplateError::NoRandomness)?;
        let now = jiff::Timestamp::now().as_nanosecond();
        Ok(Self {
            chance: Seeded::new(&seed, now),
            cluster,
        })
    }
}

impl World for SystemWorld {
    fn random(&mut self, bytes: &mut [u8]) {
        self.chance.random(bytes);
    }

    fn now(&mut self) -> i128 {
        self.chance.now()
    }

    fn zone(&self) -> String {
        let zone = jiff::tz::TimeZone::system();
        zone.iana_name().unwrap_or("UTC").to_owned()
    }

    fn lookup(&mut self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, Fault> {
        match &mut self.cluster {
            None => Ok(Map::new().into()),
            Some(cluster) => cluster.lookup(api_version, kind, namespace, name),
        }
    }
}
