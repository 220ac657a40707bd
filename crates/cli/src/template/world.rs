//! Random numbers, the clock and the cluster of a render.

use super::TemplateError;
use super::cluster::Cluster;
use equate_template::{Fault, Map, Seeded, Value, World};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The operating system's random numbers and clock. The time stays.
#[derive(Debug)]
pub(crate) struct SystemWorld {
    random: SystemRandom,
    /// If the operating system has no more.
    spare: Seeded,
    cluster: Option<Cluster>,
}

impl SystemWorld {
    pub(crate) fn new(cluster: Option<Cluster>) -> Result<Self, TemplateError> {
        let random = SystemRandom::new();
        let mut seed = [0; 32];
        random.fill(&mut seed).map_err(|_| TemplateError::NoRandomness)?;
        let now = jiff::Timestamp::now().as_nanosecond();
        Ok(Self {
            random,
            spare: Seeded::new(&seed, now),
            cluster,
        })
    }
}

impl World for SystemWorld {
    fn random(&mut self, bytes: &mut [u8]) {
        if self.random.fill(bytes).is_err() {
            self.spare.random(bytes);
        }
    }

    fn now(&mut self) -> i128 {
        self.spare.now()
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
