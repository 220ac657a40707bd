//! The files of one run: CA, leaf certificates, service account keys, tokens, kubeconfigs.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::{Value, json};

use super::Error;

/// The token of a member of `system:masters`.
pub const ADMIN_TOKEN: &str = "admintoken";

/// The token of `alice` in group `devs`, without permissions.
pub const ALICE_TOKEN: &str = "alicetoken";

/// The administrator's uid.
pub const ADMIN_UID: &str = "00000000-0000-4000-8000-000000000001";

/// Alice's uid.
pub const ALICE_UID: &str = "00000000-0000-4000-8000-000000000002";

pub(super) const NODES: [&str; 2] = ["node-0", "node-1"];

#[derive(Debug)]
pub(super) struct Files {
    pub(super) uri: http::Uri,
    pub(super) ca: PathBuf,
    pub(super) ca_der: Vec<u8>,
    pub(super) ca_key: PathBuf,
    pub(super) server: PathBuf,
    pub(super) server_key: PathBuf,
    pub(super) sa: PathBuf,
    pub(super) sa_key: PathBuf,
    pub(super) tokens: PathBuf,
    pub(super) kubeconfig: PathBuf,
    pub(super) controllers: PathBuf,
    pub(super) scheduler: PathBuf,
    pub(super) kwok: PathBuf,
}

pub(super) fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

impl Files {
    pub(super) fn write(folder: &Path, port: u16) -> Result<Files, Error> {
        let pki = folder.join("pki");
        fs::create_dir_all(&pki).map_err(Error::io("create the PKI's folder"))?;

        let authority = authority()?;
        let ca_der = authority.certificate.der().to_vec();
        let ca_pem = authority.certificate.pem();
        let server = leaf(
            &authority,
            "kube-apiserver",
            None,
            ExtendedKeyUsagePurpose::ServerAuth,
        )?;
        let sa = key("service accounts")?;

        let uri = url(port).parse::<http::Uri>().map_err(|error| Error::Io {
            what: format!("use {} as an address", url(port)),
            source: std::io::Error::other(error),
        })?;
        let files = Files {
            uri,
            ca: secret(&pki, "ca.crt", &ca_pem)?,
            ca_der,
            ca_key: secret(&pki, "ca.key", &authority.issuer.key().serialize_pem())?,
            server: secret(&pki, "apiserver.crt", &server.certificate)?,
            server_key: secret(&pki, "apiserver.key", &server.key)?,
            sa: secret(&pki, "sa.pub", &sa.public_key_pem())?,
            sa_key: secret(&pki, "sa.key", &sa.serialize_pem())?,
            tokens: secret(folder, "tokens.csv", &tokens())?,
            kubeconfig: secret(
                folder,
                "kubeconfig",
                &kubeconfig(port, &ca_pem, &json!({"token": ADMIN_TOKEN})),
            )?,
            controllers: component(
                folder,
                port,
                &authority,
                "controllers",
                "system:kube-controller-manager",
                None,
            )?,
            scheduler: component(
                folder,
                port,
                &authority,
                "scheduler",
                "system:kube-scheduler",
                None,
            )?,
            kwok: component(folder, port, &authority, "kwok", "kwok", Some("system:masters"))?,
        };
        Ok(files)
    }
}

pub(super) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"},
        },
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "1100"},
            "capacity": {"cpu": "32", "memory": "256Gi", "pods": "1100"},
        },
    })
}

/// Lines of `token,user,uid,"groups"`.
fn tokens() -> String {
    format!("{ADMIN_TOKEN},admin,{ADMIN_UID},\"system:masters\"\n{ALICE_TOKEN},alice,{ALICE_UID},\"devs\"\n")
}

fn component(
    folder: &Path,
    port: u16,
    authority: &Authority,
    file: &str,
    user: &'static str,
    group: Option<&str>,
) -> Result<PathBuf, Error> {
    let leaf = leaf(authority, user, group, ExtendedKeyUsagePurpose::ClientAuth)?;
    let user = json!({
        "client-certificate-data": STANDARD.encode(leaf.certificate),
        "client-key-data": STANDARD.encode(leaf.key),
    });
    secret(
        folder,
        &format!("{file}.kubeconfig"),
        &kubeconfig(port, &authority.certificate.pem(), &user),
    )
}

fn kubeconfig(port: u16, ca_pem: &str, user: &Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "clusters": [{"name": "real", "cluster": {
            "server": url(port),
            "certificate-authority-data": STANDARD.encode(ca_pem),
        }}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "user"}}],
        "users": [{"name": "user", "user": user}],
    })
    .to_string()
}

/// Writes a file with mode 0600.
fn secret(folder: &Path, name: &str, text: &str) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(Error::io(format!("create {name}")))?;
    file.write_all(text.as_bytes())
        .map_err(Error::io(format!("write {name}")))?;
    Ok(path)
}

struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

struct Leaf {
    certificate: String,
    key: String,
}

fn authority() -> Result<Authority, Error> {
    let name = "the cluster's CA";
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "equate-real-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let key = key(name)?;
    let certificate = params
        .self_signed(&key)
        .map_err(|source| Error::Certificate { name, source })?;
    Ok(Authority {
        certificate,
        issuer: Issuer::new(params, key),
    })
}

fn leaf(
    authority: &Authority,
    name: &'static str,
    group: Option<&str>,
    usage: ExtendedKeyUsagePurpose,
) -> Result<Leaf, Error> {
    let certificate = |source| Error::Certificate { name, source };
    let key = key(name)?;
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).map_err(certificate)?;
    params
        .subject_alt_names
        .push(SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    let signed = params.signed_by(&key, &authority.issuer).map_err(certificate)?;
    Ok(Leaf {
        certificate: signed.pem(),
        key: key.serialize_pem(),
    })
}

fn key(name: &'static str) -> Result<KeyPair, Error> {
    KeyPair::generate().map_err(|source| Error::Certificate { name, source })
}
