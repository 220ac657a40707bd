//! The registry of the distribution project.

use std::io;
use std::path::Path;
use std::process::Command;

use super::{Server, status_of};

/// The required credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DistributionAuth<'a> {
    /// None.
    Open,
    /// The content of an htpasswd file, with bcrypt.
    Basic(&'a str),
    /// Tokens that somebody else signs.
    Token {
        /// The URL of the token server.
        realm: &'a str,
        /// The name of the signer.
        issuer: &'a str,
        /// The certificate of the signing key, PEM.
        certificate: &'a str,
    },
}

/// A running registry without TLS.
#[derive(Debug)]
pub struct DistributionServer {
    port: u16,
    /// Ends it.
    _server: Server,
}

impl DistributionServer {
    /// An empty registry.
    ///
    /// # Errors
    /// The program does not start.
    pub fn start(program: &Path, auth: DistributionAuth<'_>) -> io::Result<Self> {
        let make = |folder: &Path, [port]: [u16; 1]| {
            let write = |name: &str, text: &str| {
                let path = folder.join(name);
                std::fs::write(&path, text).map(|()| path.display().to_string())
            };
            let auth = match auth {
                DistributionAuth::Open => String::new(),
                DistributionAuth::Basic(users) => {
                    let path = write("htpasswd", users)?;
                    format!("auth: {{htpasswd: {{realm: test, path: \"{path}\"}}}}\n")
                }
                DistributionAuth::Token {
                    realm,
                    issuer,
                    certificate,
                } => {
                    let path = write("issuer.pem", certificate)?;
                    format!(
                        "auth: {{token: {{realm: \"{realm}\", service: test, issuer: \"{issuer}\", rootcertbundle: \
                         \"{path}\"}}}}\n"
                    )
                }
            };
            let data = folder.join("data").display().to_string();
            let config = write(
                "config.yaml",
                &format!(
                    "version: 0.1\nlog: {{level: warn, accesslog: {{disabled: true}}}}\n\
                     storage: {{filesystem: {{rootdirectory: \"{data}\"}}, delete: {{enabled: true}}}}\n\
                     http: {{addr: \"127.0.0.1:{port}\", secret: of-a-test}}\n{auth}"
                ),
            )?;
            let mut command = Command::new(program);
            command.args(["serve", &config]);
            Ok(command)
        };
        let (server, [port]) = Server::start(make, |[port]| status_of(port, "/v2/").is_some())?;
        Ok(Self {
            port,
            _server: server,
        })
    }

    /// `127.0.0.1:<port>`.
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}
