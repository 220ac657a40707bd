//! SeaweedFS, a store that speaks S3 and checks its signatures.

use std::io;
use std::path::Path;
use std::process::Command;

use super::{Server, ask, encoded, listens, status_of};

/// Names SeaweedFS for the tests.
pub const SEAWEEDFS_VARIABLE: &str = "EQUATE_SEAWEEDFS";

/// Its parts, each with a port for HTTP and one for gRPC.
const PART_NAMES: [&str; PARTS] = ["s3", "filer", "master", "volume", "admin"];
const PARTS: usize = 5;

/// The key pair that may read and write everything.
const ADMIN: (&str, &str) = ("admin-key", "admin-secret");
/// The key pair that may read and list one bucket.
const READER: (&str, &str) = ("reader-key", "reader-secret");

/// A running store.
#[derive(Debug)]
pub struct SeaweedFsServer {
    port: u16,
    /// The port of its files, which needs no credentials.
    files: u16,
    /// Ends it.
    _server: Server,
}

impl SeaweedFsServer {
    /// An empty store; `bucket` is the one that the reader may read.
    ///
    /// # Errors
    /// The program does not start.
    pub fn start(program: &Path, bucket: &str) -> io::Result<Self> {
        let identity = |(access, secret): (&str, &str), name: &str, actions: &[String]| {
            serde_json::json!({
                "name": name,
                "credentials": [{ "accessKey": access, "secretKey": secret }],
                "actions": actions,
            })
        };
        let all = ["Admin", "Read", "List", "Tagging", "Write"].map(str::to_owned);
        let some = [format!("Read:{bucket}"), format!("List:{bucket}")];
        let identities = serde_json::json!({
            "identities": [identity(ADMIN, "admin", &all), identity(READER, "reader", &some)],
        });
        let make = |folder: &Path, ports: [u16; PARTS * 2]| {
            let config = folder.join("s3.json");
            std::fs::write(&config, identities.to_string())?;
            let data = folder.join("data");
            std::fs::create_dir(&data)?;
            let mut command = Command::new(program);
            command
                .args(["mini", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"])
                .arg(format!("-dir={}", data.display()))
                .arg(format!("-s3.config={}", config.display()))
                .arg(format!("-s3.localSocket={}", folder.join("s3.sock").display()))
                .args(["-master.telemetry=false", "-admin.ui=false", "-webdav=false"])
                .args(["-s3.port.iceberg=0", "-s3.port.lance=0"])
                .arg(format!(
                    "-filer.localSocket={}",
                    folder.join("filer.sock").display()
                ))
                .current_dir(folder);
            // the default of a gRPC port is ten thousand more, which may be no port
            for (part, [http, grpc]) in PART_NAMES.iter().zip(ports.as_chunks::<2>().0) {
                command.arg(format!("-{part}.port={http}"));
                command.arg(format!("-{part}.port.grpc={grpc}"));
            }
            Ok(command)
        };
        let ready = |[s3, _, filer, ..]: [u16; PARTS * 2]| listens(filer) && status_of(s3, "/").is_some();
        let (server, [port, _, files, ..]) = Server::start(make, ready)?;
        Ok(Self {
            port,
            files,
            _server: server,
        })
    }

    /// `127.0.0.1:<port>`.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Writes an object; the bucket appears with its first one.
    ///
    /// # Errors
    /// The store refuses it.
    pub fn put(&self, bucket: &str, key: &str, bytes: &[u8]) -> io::Result<()> {
        let path = format!("/buckets/{bucket}/{}", encoded(key));
        match ask(self.files, "PUT", &path, bytes) {
            Some(200..300) => Ok(()),
            status => Err(io::Error::other(format!("PUT {path}: {status:?}"))),
        }
    }

    /// Access key and secret key of who may do everything.
    pub fn admin(&self) -> (&'static str, &'static str) {
        ADMIN
    }

    /// Access key and secret key of who may read and list the bucket.
    pub fn reader(&self) -> (&'static str, &'static str) {
        READER
    }
}
