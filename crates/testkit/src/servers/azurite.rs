//! Azurite, which has the API of Azure Blob Storage and checks keys and shared access signatures.

use std::io;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use super::{Server, ask_with, encoded, status_of};

/// Names the script of Azurite's blob server for the tests.
pub const AZURITE_VARIABLE: &str = "EQUATE_AZURITE";

const ACCOUNT: &str = "equate";
const KEY: &str = "dGhlIGtleSBvZiBhbiBhY2NvdW50IGZvciB0ZXN0cyE=";
const VERSION: &str = "2021-12-02";
const END: &str = "2099-01-01T00:00:00Z";

/// A running store with one account.
#[derive(Debug)]
pub struct AzuriteServer {
    port: u16,
    /// Ends it.
    _server: Server,
}

impl AzuriteServer {
    /// An empty store.
    ///
    /// # Errors
    /// The script does not start.
    pub fn start(script: &Path) -> io::Result<Self> {
        let make = |folder: &Path, [port]: [u16; 1]| {
            let mut command = Command::new("node");
            command
                .arg(script)
                .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()])
                .arg("--location")
                .arg(folder)
                .args(["--silent", "--disableTelemetry"])
                .env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{KEY}"))
                .current_dir(folder);
            Ok(command)
        };
        let ready = |[port]: [u16; 1]| status_of(port, "/").is_some();
        let (server, [port]) = Server::start(make, ready)?;
        Ok(Self {
            port,
            _server: server,
        })
    }

    /// `127.0.0.1:<port>`. The account is the first part of the host, so requests for [`Self::endpoint`] come through
    /// a proxy.
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of the account.
    pub fn endpoint(&self) -> String {
        format!("http://{ACCOUNT}.blob.core.windows.net")
    }

    /// The key of the account, in base64.
    pub fn key(&self) -> &'static str {
        KEY
    }

    /// A shared access signature of the account with these permissions (`rl`: read and list).
    pub fn sas(&self, permissions: &str) -> String {
        let text = format!("{ACCOUNT}\n{permissions}\nb\nsco\n\n{END}\n\n\n{VERSION}\n\n");
        let key = STANDARD.decode(KEY).unwrap_or_default();
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes());
        let signature = encoded(&STANDARD.encode(tag)).replace('/', "%2F");
        format!("sv={VERSION}&ss=b&srt=sco&sp={permissions}&se={END}&sig={signature}")
    }

    /// Makes a container.
    ///
    /// # Errors
    /// The store refuses it.
    pub fn create(&self, container: &str) -> io::Result<()> {
        self.put_at(&format!("/{ACCOUNT}/{container}?restype=container"), b"")
    }

    /// Writes an object.
    ///
    /// # Errors
    /// The store refuses it.
    pub fn put(&self, container: &str, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.put_at(&format!("/{ACCOUNT}/{container}/{}?", encoded(key)), bytes)
    }

    fn put_at(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let path = format!("{path}&{}", self.sas("rwlc")).replace("?&", "?");
        let headers = format!("x-ms-version: {VERSION}\r\nx-ms-blob-type: BlockBlob\r\n");
        match ask_with(self.port, "PUT", &path, &headers, bytes) {
            Some(200..300) => Ok(()),
            status => Err(io::Error::other(format!("PUT of an object: {status:?}"))),
        }
    }
}
