//! The real cluster of a test, or the reason to skip it.

use equate_testkit::cluster::{self, Cluster};
use equate_testkit::{peers, real};

/// Starts a real cluster; `None` skips the test, with a printed line.
pub(crate) async fn real_cluster() -> Option<Cluster> {
    if let Err(skip) = peers::wanted() {
        println!("{}", skip.0);
        return None;
    }
    let mut progress = |line: &str| println!("peers: {line}");
    match Cluster::named("real", &mut progress).await {
        Ok(cluster) => Some(cluster),
        Err(cluster::Error::Real(real::Error::Peers(error))) => match peers::available::<Cluster>(Err(error))
        {
            Ok(Ok(cluster)) => Some(cluster),
            Ok(Err(skip)) => {
                println!("{}", skip.0);
                None
            }
            Err(error) => panic!("{error}"),
        },
        Err(error) => panic!("{error:?}"),
    }
}
