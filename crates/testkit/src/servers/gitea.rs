//! Gitea, a forge: git over https and ssh with protected branches, packages of Helm and OCI.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::{Server, listens};
use crate::git::SshKey;

/// Names Gitea for the tests.
pub const GITEA_VARIABLE: &str = "EQUATE_GITEA";
/// Names the folder of Gitea's templates for the tests.
pub const GITEA_FILES_VARIABLE: &str = "EQUATE_GITEA_FILES";

/// The one user, an administrator.
const USER: (&str, &str) = ("mia", "correct-horse-battery");

/// A running forge with TLS and ssh.
#[derive(Debug)]
pub struct GiteaServer {
    server: Server,
    program: PathBuf,
    https: u16,
    ssh: u16,
    certificate: String,
    host: SshKey,
    client: reqwest::Client,
    runtime: tokio::runtime::Runtime,
}

impl GiteaServer {
    /// A forge without repositories. `files` is the folder of the templates.
    ///
    /// # Errors
    /// The program does not start, or cannot make its database or user.
    pub fn start(program: &Path, files: &Path) -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(io::Error::other)?;
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let host = SshKey::ed25519(91);
        let make = |folder: &Path, [https, ssh]: [u16; 2]| {
            let write = |name: &str, text: &str| {
                let path = folder.join(name);
                std::fs::write(&path, text).map(|()| path.display().to_string())
            };
            let config = format!(
                "APP_NAME = forge\nRUN_MODE = prod\nI_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true\nWORK_PATH = {work}\n\
                 [server]\nPROTOCOL = https\nDOMAIN = localhost\nROOT_URL = https://localhost:{https}/\n\
                 HTTP_ADDR = 127.0.0.1\nHTTP_PORT = {https}\nCERT_FILE = {certificate}\nKEY_FILE = {key}\n\
                 STATIC_ROOT_PATH = {files}\nOFFLINE_MODE = true\nLFS_START_SERVER = false\n\
                 START_SSH_SERVER = true\nBUILTIN_SSH_SERVER_USER = git\nSSH_LISTEN_HOST = 127.0.0.1\n\
                 SSH_LISTEN_PORT = {ssh}\nSSH_PORT = {ssh}\nSSH_SERVER_HOST_KEYS = {host}\n\
                 [database]\nDB_TYPE = sqlite3\nPATH = {work}/gitea.db\n\
                 [security]\nINSTALL_LOCK = true\nPASSWORD_HASH_ALGO = pbkdf2_v1\n\
                 [service]\nDISABLE_REGISTRATION = true\n[cron]\nENABLED = false\n[log]\nLEVEL = Warn\n",
                work = folder.display(),
                certificate = write("tls.pem", &certificate)?,
                key = write("tls.key", &key)?,
                files = files.display(),
                host = write("host_key", &host.private())?,
            );
            write("app.ini", &config)?;
            done(&command(program, folder, &["migrate"]).output()?)?;
            let (name, password) = USER;
            let user = [
                "admin",
                "user",
                "create",
                "--admin",
                "--must-change-password=false",
                "--email=mia@example.org",
                "--username",
                name,
                "--password",
                password,
            ];
            done(&command(program, folder, &user).output()?)?;
            Ok(command(program, folder, &["web"]))
        };
        let (server, [https, ssh]) = Server::start(make, |[https, ssh]| listens(https) && listens(ssh))?;
        let trusted = reqwest::Certificate::from_pem(certificate.as_bytes()).map_err(io::Error::other)?;
        // several crates of a test may choose the same provider
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .tls_certs_only([trusted])
            .no_proxy()
            .build()
            .map_err(io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            server,
            program: program.to_owned(),
            https,
            ssh,
            certificate,
            host,
            client,
            runtime,
        })
    }

    /// Name and password of the one user.
    pub fn user(&self) -> (&'static str, &'static str) {
        USER
    }

    /// `localhost:<port>`.
    pub fn authority(&self) -> String {
        format!("localhost:{}", self.https)
    }

    /// The certificate to trust, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The line of the ssh server for `known_hosts`.
    pub fn known_host(&self) -> String {
        format!("[127.0.0.1]:{} {}\n", self.ssh, self.host.public())
    }

    /// The URL of a repository of the user over https.
    pub fn https_url(&self, repository: &str) -> String {
        format!("https://localhost:{}/{}/{repository}.git", self.https, USER.0)
    }

    /// The URL of a repository of the user over ssh.
    pub fn ssh_url(&self, repository: &str) -> String {
        format!("ssh://git@127.0.0.1:{}/{}/{repository}.git", self.ssh, USER.0)
    }

    /// Asks the API as the user, with a path below `/api/v1/`; returns what it answers.
    ///
    /// # Errors
    /// The request fails, or is refused.
    pub fn api(&self, method: http::Method, path: &str, body: Option<&Value>) -> io::Result<Value> {
        let url = format!("https://localhost:{}/api/v1/{path}", self.https);
        let mut request = self.client.request(method, url);
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let text = self.send(request)?;
        match text.is_empty() {
            true => Ok(Value::Null),
            false => serde_json::from_str(&text).map_err(io::Error::other),
        }
    }

    /// Sends bytes to a path of the forge with PUT or POST, as the user: how packages are published.
    ///
    /// # Errors
    /// The request fails, or is refused.
    pub fn upload(&self, method: http::Method, path: &str, bytes: Vec<u8>) -> io::Result<()> {
        let url = format!("https://localhost:{}/{path}", self.https);
        self.send(self.client.request(method, url).body(bytes)).map(drop)
    }

    fn send(&self, request: reqwest::RequestBuilder) -> io::Result<String> {
        let (name, password) = USER;
        let answer = async {
            let answer = request.basic_auth(name, Some(password)).send().await?;
            let status = answer.status();
            reqwest::Result::Ok((status, answer.text().await?))
        };
        match self.runtime.block_on(answer).map_err(io::Error::other)? {
            (status, text) if status.is_success() => Ok(text),
            (status, text) => Err(io::Error::other(format!("the forge answers {status}: {text}"))),
        }
    }

    /// Runs a command of the forge's administrator.
    ///
    /// # Errors
    /// It fails.
    pub fn admin(&self, arguments: &[&str]) -> io::Result<()> {
        done(&command(&self.program, self.server.folder(), arguments).output()?)
    }
}

fn command(program: &Path, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg("--config")
        .arg(folder.join("app.ini"))
        .env("HOME", folder)
        .env("USER", "root")
        .current_dir(folder);
    command
}

fn done(output: &Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "gitea: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )))
}
