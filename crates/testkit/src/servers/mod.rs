//! Servers of other projects as processes on loopback: a registry, object stores and a forge.
//!
//! `cargo xtask test-peers` names their programs in the environment. Without them a test prints a line and is
//! skipped. Dropping a server ends its process; its data is in a temporary folder.

mod azurite;
mod distribution;
mod gitea;
mod seaweedfs;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::peers::Skip;

pub use azurite::{AZURITE_VARIABLE, AzuriteServer};
pub use distribution::{DistributionAuth, DistributionServer};
pub use gitea::{GITEA_FILES_VARIABLE, GITEA_VARIABLE, GiteaServer};
pub use seaweedfs::{SEAWEEDFS_VARIABLE, SeaweedFsServer};

/// Names the registry of distribution for the tests.
pub const DISTRIBUTION_VARIABLE: &str = "EQUATE_DISTRIBUTION";
/// Names cosign for the tests.
pub const COSIGN_VARIABLE: &str = "EQUATE_COSIGN";
/// Names notation for the tests.
pub const NOTATION_VARIABLE: &str = "EQUATE_NOTATION";

/// Long enough for a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(120);
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// A free port may be taken before the server binds it.
const START_ATTEMPTS: usize = 5;

/// The program that a variable names.
///
/// # Errors
/// The line to print if it names none.
pub fn program(variable: &str) -> Result<PathBuf, Skip> {
    let found = std::env::var_os(variable).filter(|path| !path.is_empty());
    found.map(PathBuf::from).ok_or_else(|| {
        Skip(format!(
            "skipped: {variable} names no program; `cargo xtask test-peers` sets it"
        ))
    })
}

/// A running server; dropping it ends it.
#[derive(Debug)]
struct Server {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts the command that `make` gives for a folder and free ports, and waits until `ready`.
    fn start<const PORTS: usize>(
        make: impl Fn(&Path, [u16; PORTS]) -> io::Result<Command>,
        ready: impl Fn([u16; PORTS]) -> bool,
    ) -> io::Result<(Self, [u16; PORTS])> {
        let mut said = String::new();
        for _ in 0..START_ATTEMPTS {
            let folder = tempfile::tempdir()?;
            let ports = free_ports()?;
            let log = folder.path().join("server.log");
            let output = File::create(&log)?;
            let child = make(folder.path(), ports)?
                .stdin(Stdio::null())
                .stdout(output.try_clone()?)
                .stderr(output)
                .spawn()?;
            let mut server = Self { child, folder };
            let end = Instant::now() + READY_WITHIN;
            while server.child.try_wait()?.is_none() {
                if ready(ports) {
                    return Ok((server, ports));
                }
                if Instant::now() > end {
                    break;
                }
                std::thread::park_timeout(Duration::from_millis(20));
            }
            said = std::fs::read_to_string(&log)?;
        }
        Err(io::Error::other(format!(
            "the server does not become ready:\n{}",
            crate::peers::last_lines(&said)
        )))
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Free ports, different from each other.
fn free_ports<const PORTS: usize>() -> io::Result<[u16; PORTS]> {
    let mut listeners = Vec::new();
    let mut ports = [0; PORTS];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

/// Whether something listens on a port.
fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The status of a GET over plain HTTP, if there is one.
fn status_of(port: u16, path: &str) -> Option<u16> {
    ask(port, "GET", path, b"")
}

/// The status of a request over plain HTTP, if there is one.
fn ask(port: u16, method: &str, path: &str, body: &[u8]) -> Option<u16> {
    ask_with(port, method, path, "", body)
}

/// The same with headers, each with its end of line.
fn ask_with(port: u16, method: &str, path: &str, headers: &str, body: &[u8]) -> Option<u16> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ASK_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(ASK_TIMEOUT)).ok()?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}Content-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    let mut start = [0; 12];
    stream.read_exact(&mut start).ok()?;
    std::str::from_utf8(&start).ok()?.rsplit(' ').next()?.parse().ok()
}

/// A key as the path of a URL.
fn encoded(key: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    key.bytes().map(byte).collect()
}
