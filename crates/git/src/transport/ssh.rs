//! SSH by the `ssh` program, which takes nothing from anyone but us.
//!
//! No configuration file, no agent, no other key, no known hosts but those given, no question to
//! a terminal, no forwarding. Key and known hosts lie in a private temporary directory for the
//! length of the call; nothing secret is in the arguments. The path is quoted for the shell on
//! the other side.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use gix::protocol::transport::{
    Protocol,
    client::{blocking_io::Transport, git::ConnectMode, git::blocking_io::Connection},
};

use super::{Failure, Shared, private_directory};
use crate::{
    kind::Kind,
    remote::{Credentials, Endpoint},
    secret::Secret,
};

/// What is kept of what `ssh` says: enough for its last words.
const STDERR_BYTES_MAX: u64 = 16 << 10;

const NOT_INSTALLED: &str = "the program ssh is not installed";

/// A running `ssh`; killed and waited for when the last owner goes.
#[derive(Debug, Clone)]
pub(super) struct Process(Arc<Mutex<Child>>);

impl Process {
    /// Ends it at once; whoever waits for its output sees the end of it.
    pub(super) fn kill(&self) {
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Fails only when it has ended already.
        child.kill().ok();
    }
}

/// Ends the process with the conversation, and takes its files along.
struct Guard {
    process: Process,
    _directory: tempfile::TempDir,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.process.kill();
        let mut child = self.process.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Reaps it; it was killed, so this does not wait.
        child.wait().ok();
    }
}

pub(super) fn connect(
    endpoint: &Endpoint,
    credentials: &Credentials,
    shared: &Shared,
) -> Result<(Box<dyn Transport + Send>, Process), Failure> {
    let Credentials::Ssh {
        identity,
        known_hosts,
        passphrase,
    } = credentials
    else {
        return Err(Failure::new(Kind::Authentication, "ssh needs a key"));
    };
    let unwritable =
        |error| Failure::new(Kind::Storage, "the files for ssh cannot be written").because(error);
    let directory = private_directory().map_err(unwritable)?;
    write_files(directory.path(), identity, known_hosts, passphrase.as_ref()).map_err(unwritable)?;
    let program = program().ok_or_else(|| Failure::new(Kind::Storage, NOT_INSTALLED))?;
    let mut command = command(&program, endpoint, directory.path(), shared, passphrase.is_some());
    let mut child = command
        .spawn()
        .map_err(|error| Failure::new(Kind::Storage, "the program ssh cannot be started").because(error))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let process = Process(Arc::new(Mutex::new(child)));
    let guard = Arc::new(Guard {
        process: process.clone(),
        _directory: directory,
    });
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(Failure::new(Kind::Storage, "ssh has no pipes"));
    };
    let said = listen(stderr)
        .map_err(|error| Failure::new(Kind::Storage, "no thread to listen to ssh").because(error))?;
    let reader = Reader {
        stdout,
        said: Mutex::new(Some(said)),
        shared: shared.clone(),
        began: false,
        _guard: guard,
    };
    let connection = Connection::new(
        reader,
        Writer(stdin),
        Protocol::V2,
        endpoint.decoded_path().as_str(),
        None::<(&str, Option<u16>)>,
        ConnectMode::Process,
        false,
    )
    .custom_url(Some(endpoint.to_string().into()));
    Ok((Box::new(connection), process))
}

fn write_files(
    directory: &Path,
    identity: &Secret,
    known_hosts: &[u8],
    passphrase: Option<&Secret>,
) -> io::Result<()> {
    // ssh refuses a key without its last line break.
    let mut key = identity.expose().to_vec();
    if key.last() != Some(&b'\n') {
        key.push(b'\n');
    }
    private_file(&directory.join("identity"), &key, 0o600)?;
    private_file(&directory.join("known_hosts"), known_hosts, 0o600)?;
    if let Some(passphrase) = passphrase {
        private_file(&directory.join("passphrase"), passphrase.expose(), 0o600)?;
        private_file(
            &directory.join("ask"),
            b"#!/bin/sh\nexec cat \"$EQUATE_PASSPHRASE\"\n",
            0o700,
        )?;
    }
    Ok(())
}

fn private_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    options.open(path)?.write_all(content)
}

/// `ssh` by its full path. By name, with an environment of its own, it would be started by `fork`,
/// which copies the page tables of a process that may be large.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join("ssh"))
        .find(|ssh| ssh.is_file())
}

fn command(
    program: &Path,
    endpoint: &Endpoint,
    directory: &Path,
    shared: &Shared,
    passphrase: bool,
) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("LC_ALL", "C")
        .env("GIT_PROTOCOL", "version=2");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    if passphrase {
        command
            .env("SSH_ASKPASS", directory.join("ask"))
            .env("SSH_ASKPASS_REQUIRE", "force")
            .env("EQUATE_PASSPHRASE", directory.join("passphrase"));
    }
    command
        .args(["-F", "/dev/null", "-T", "-i"])
        .arg(directory.join("identity"));
    let seconds = shared.timeout.as_secs().clamp(1, 20);
    // A passphrase is asked for by our own program; BatchMode would forbid that too.
    let batch = if passphrase {
        "BatchMode=no"
    } else {
        "BatchMode=yes"
    };
    let fixed = [
        batch,
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        "StrictHostKeyChecking=yes",
        "GlobalKnownHostsFile=/dev/null",
        "UpdateHostKeys=no",
        "PreferredAuthentications=publickey",
        "PasswordAuthentication=no",
        "KbdInteractiveAuthentication=no",
        "NumberOfPasswordPrompts=1",
        "ClearAllForwardings=yes",
        "ForwardAgent=no",
        "PermitLocalCommand=no",
        "ControlMaster=no",
        "ControlPath=none",
        "LogLevel=ERROR",
        "SendEnv=GIT_PROTOCOL",
    ];
    for option in fixed {
        command.args(["-o", option]);
    }
    command
        .arg("-o")
        .arg(option("UserKnownHostsFile=", &directory.join("known_hosts")));
    command.arg("-o").arg(format!("ConnectTimeout={seconds}"));
    if let Some(port) = endpoint.port {
        command.arg("-p").arg(port.to_string());
    }
    if let Some(user) = &endpoint.user {
        command.arg("-l").arg(user);
    }
    command.arg("--").arg(endpoint.host.trim_matches(['[', ']']));
    command.arg(format!("git-upload-pack {}", quoted(&remote_path(endpoint))));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(name);
    option.push(path);
    option
}

/// `/~user/x` means the home directory, as git reads it.
fn remote_path(endpoint: &Endpoint) -> String {
    let path = endpoint.decoded_path();
    match path.strip_prefix('/') {
        Some(rest) if rest.starts_with('~') => rest.to_owned(),
        _ => path,
    }
}

/// One word for a POSIX shell. `!` too, for shells that expand it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '!' => {
                quoted.push_str("'\\");
                quoted.push(c);
                quoted.push('\'');
            }
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

type Said = std::thread::JoinHandle<Vec<u8>>;

fn listen(mut stderr: impl Read + Send + 'static) -> io::Result<Said> {
    std::thread::Builder::new()
        .name("git-ssh".to_owned())
        .spawn(move || {
            let mut said = Vec::new();
            // What was read before an error is what there is to say.
            stderr.by_ref().take(STDERR_BYTES_MAX).read_to_end(&mut said).ok();
            // Past the ceiling it is read and forgotten, or ssh would wait for us.
            io::copy(&mut stderr, &mut io::sink()).ok();
            said
        })
}

struct Writer(ChildStdin);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

struct Reader {
    stdout: ChildStdout,
    said: Mutex<Option<Said>>,
    shared: Shared,
    began: bool,
    _guard: Arc<Guard>,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stdout.read(buffer)?;
        self.shared.count(read)?;
        if read > 0 || buffer.is_empty() {
            self.began = true;
            return Ok(read);
        }
        if self.shared.is_over() {
            return Err(self.shared.timed_out());
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The pipe ended, so ssh has; its last words are complete.
        let words = said.and_then(|said| said.join().ok()).unwrap_or_default();
        if !self.began || !words.is_empty() {
            return Err(self.shared.fail(classify(&words)));
        }
        Ok(0)
    }
}

/// `ssh` has one exit code for everything, so its words have to be read here.
fn classify(words: &[u8]) -> Failure {
    let words = String::from_utf8_lossy(words);
    let last: String = words
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .unwrap_or("it closed the connection")
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect();
    let any = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
    if any(&[
        "Host key verification failed",
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "host key is known for",
    ]) {
        let problem = "the host's key is not in known_hosts, or another one is";
        return Failure::new(Kind::Authentication, problem).because(Words(last));
    }
    if any(&[
        "Permission denied",
        "Load key",
        "Too many authentication failures",
        "no mutual signature",
    ]) {
        return Failure::new(Kind::Authentication, "the host refused the key").because(Words(last));
    }
    if any(&[
        "Could not resolve",
        "Connection refused",
        "No route to host",
        "Network is unreachable",
    ]) {
        return Failure::new(Kind::Unreachable, "no connection").because(Words(last));
    }
    if any(&["Connection timed out", "Operation timed out"]) {
        return Failure::new(Kind::Timeout, "no connection in time").because(Words(last));
    }
    if any(&[
        "does not appear to be a git repository",
        "epository not found",
        "could not be found",
    ]) {
        return Failure::new(Kind::RepositoryNotFound, "no such repository").because(Words(last));
    }
    Failure::new(Kind::RemoteFailure, "the host ended the conversation").because(Words(last))
}

/// The last line `ssh` or the other side wrote.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Words(String);

#[cfg(test)]
mod tests {
    use super::{classify, quoted};

    #[test]
    fn paths_are_one_word() {
        assert_eq!(quoted("/a b/$(id)`id`"), "'/a b/$(id)`id`'");
        assert_eq!(quoted("/it's!"), r"'/it'\''s'\!''");
    }

    #[test]
    fn last_words() {
        #[track_caller]
        fn check(words: &str, want: &str) {
            let failure = classify(words.as_bytes());
            assert_eq!(format!("{:?}: {}", failure.kind, failure.problem), want);
        }
        check(
            "git@h: Permission denied (publickey).\r\n",
            "Authentication: the host refused the key",
        );
        check(
            "No ED25519 host key is known for h and you have requested strict checking.\nHost key verification failed.\n",
            "Authentication: the host's key is not in known_hosts, or another one is",
        );
        check(
            "ssh: Could not resolve hostname h: Name or service not known\n",
            "Unreachable: no connection",
        );
        check(
            "ssh: connect to host h port 22: Connection timed out",
            "Timeout: no connection in time",
        );
        check(
            "ERROR: Repository not found.\n",
            "RepositoryNotFound: no such repository",
        );
        check("", "RemoteFailure: the host ended the conversation");
    }
}
