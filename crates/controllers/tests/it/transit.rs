//! Data keys in a real OpenBao, of files that the real sops encrypted; skipped with a line where these
//! programs are missing (`EQUATE_SOPS`, `EQUATE_BAO`, which `cargo xtask test-peers` sets, or the `PATH`).

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::session::{DEADLINE, HOME, Session};

/// The decrypted text, which must not leak.
const HIDDEN: &str = "correct-horse";

fn program(variable: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = named
        .into_iter()
        .chain(std::env::split_paths(&path).map(|folder| folder.join(name)));
    let found = all.find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: there is no {name}, neither in {variable} nor on the PATH");
    }
    found
}

/// The number of tries to find a free port.
const PORT_ATTEMPTS: usize = 3;

/// OpenBao, in memory, with two keys.
struct Bao {
    child: Mutex<Child>,
    host: String,
}

impl Drop for Bao {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _killed = child.kill();
        let _ended = child.wait();
    }
}

impl Bao {
    async fn start(program: &Path, folder: &Path) -> Self {
        // another process may bind the free port first
        for _ in 1..PORT_ATTEMPTS {
            if let Some(bao) = Self::started(program, folder).await {
                return bao;
            }
        }
        Self::started(program, folder).await.unwrap()
    }

    /// With its keys; `None` where it has ended instead.
    async fn started(program: &Path, folder: &Path) -> Option<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let host = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new(program)
            .args(["server", "-dev", "-dev-no-store-token", "-dev-root-token-id=root"])
            .arg(format!("-dev-listen-address={host}"))
            .env("HOME", folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let bao = Self {
            child: Mutex::new(child),
            host,
        };
        let mounts = async || match bao.child.lock().unwrap().try_wait().unwrap() {
            Some(_) => Ok(false),
            None => bao
                .call("sys/mounts/sops", r#"{"type":"transit"}"#)
                .map(|()| true),
        };
        if !eventually("OpenBao answers", DEADLINE, mounts).await {
            return None;
        }
        for key in ["first", "second"] {
            bao.call(&format!("sops/keys/{key}"), "{}").unwrap();
        }
        Some(bao)
    }

    fn call(&self, path: &str, body: &str) -> Result<(), String> {
        let exchange = || {
            let mut stream = TcpStream::connect(&self.host)?;
            write!(
                stream,
                "POST /v1/{path} HTTP/1.0\r\nHost: {}\r\nX-Vault-Token: root\r\nContent-Length: {}\r\n\r\n{body}",
                self.host,
                body.len()
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = exchange().map_err(|error| error.to_string())?;
        match answer.get(9..10) {
            Some("2") => Ok(()),
            _ => Err(answer),
        }
    }

    fn seal(&self, sops: &Path, folder: &Path, key: &str, name: &str, plain: &str, more: &[&str]) -> String {
        let file = folder.join(name);
        std::fs::write(&file, plain).unwrap();
        let uri = format!("http://{}/v1/sops/keys/{key}", self.host);
        let output = Command::new(sops)
            .args(["--config", "/dev/null", "encrypt", "--hc-vault-transit", &uri])
            .args(more)
            .arg(&file)
            .current_dir(folder)
            .env("VAULT_TOKEN", "root")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kustomization_decryption_with_a_transit_engine() {
    let Some(sops) = program("EQUATE_SOPS", "sops") else {
        return;
    };
    let Some(bao) = program("EQUATE_BAO", "bao") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let bao = Bao::start(&bao, folder.path()).await;
    let manifest = format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n    name: opened\n    namespace: default\nstringData:\n    a: {HIDDEN}\n"
    );
    let only = ["--encrypted-regex", "^(data|stringData)$"];
    let manifest = bao.seal(&sops, folder.path(), "first", "a.yaml", &manifest, &only);
    let settings = format!("A={HIDDEN}\n");
    let settings = bao.seal(&sops, folder.path(), "second", "s.env", &settings, &[]);
    let session = Session::start(&[
        (
            "apps/kustomization.yaml",
            "namespace: default\nresources: [a.yaml]\nsecretGenerator:\n- {name: made, envs: [s.env], options: \
             {disableNameSuffixHash: true}}\n",
        ),
        ("apps/a.yaml", &manifest),
        ("apps/s.env", &settings),
    ])
    .await;
    let secrets: Api<Secret> = Api::namespaced(session.client.clone(), HOME);
    let keys = |token: &str| {
        let address = format!("http://{}\n", bao.host);
        let object = json!({
            "metadata": {
                "name": "keys",
                "namespace": HOME,
                "labels": { "reconcile.fluxcd.io/watch": "Enabled" },
            },
            "stringData": { "sops.vault-token": token, "sops.vault-address": address },
        });
        serde_json::from_value(object).unwrap()
    };
    secrets
        .create(&PostParams::default(), &keys("wrong"))
        .await
        .unwrap();
    let spec = json!({ "decryption": { "provider": "sops", "secretRef": { "name": "keys" } } });
    session.kustomize("apps", "apps", spec).await;
    let message = session.fails("apps", "BuildFailed").await;
    assert!(message.contains("it answers 403: permission denied"), "{message}");

    let right = json!({ "data": { "sops.vault-token": STANDARD.encode("root") } });
    session.merge::<Secret>(HOME, "keys", right).await;
    for (name, entry) in [("opened", "a"), ("made", "A")] {
        let look = async || {
            let found: Option<Secret> = session.get("default", name).await;
            let value = found.and_then(|secret| secret.data?.remove(entry));
            match value {
                Some(value) if value.0 == HIDDEN.as_bytes() => Ok(()),
                _ => Err("another value, or none"),
            }
        };
        eventually(&format!("Secret {name} is decrypted"), DEADLINE, look).await;
    }
    session.end().await;
}
