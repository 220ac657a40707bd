//! TLS for test servers: a self-signed certificate and, where required, a client certificate.

use std::{io, net::SocketAddr, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// A certificate and its key, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

pub(crate) struct Server {
    pub(crate) certificate: String,
    pub(crate) client: Option<Identity>,
    pub(crate) acceptor: tokio_rustls::TlsAcceptor,
}

/// For `localhost`; `clients` requires a client certificate.
pub(crate) fn server(clients: bool) -> io::Result<Server> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(io::Error::other)?;
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let (config, client) = match clients {
        false => (config.with_no_client_auth(), None),
        true => {
            let (authority, client) = client().map_err(io::Error::other)?;
            let mut roots = RootCertStore::empty();
            roots.add(authority).map_err(io::Error::other)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(io::Error::other)?;
            (config.with_client_cert_verifier(verifier), Some(client))
        }
    };
    let config = config
        .with_single_cert(vec![made.cert.der().clone()], key)
        .map_err(io::Error::other)?;
    Ok(Server {
        certificate: made.cert.pem(),
        client,
        acceptor: tokio_rustls::TlsAcceptor::from(Arc::new(config)),
    })
}

fn client() -> Result<(rustls::pki_types::CertificateDer<'static>, Identity), rcgen::Error> {
    let named = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let (mut authority, key) = (named("callers"), KeyPair::generate()?);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&key)?.der().clone();
    let issuer = Issuer::new(authority, key);
    let (mut caller, key) = (named("caller"), KeyPair::generate()?);
    caller.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let identity = Identity {
        certificate: caller.signed_by(&key, &issuer)?.pem(),
        key: key.serialize_pem(),
    };
    Ok((root, identity))
}

pub(crate) struct Listener {
    pub(crate) listener: tokio::net::TcpListener,
    pub(crate) acceptor: tokio_rustls::TlsAcceptor,
}

impl axum::serve::Listener for Listener {
    type Io = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;
    type Addr = SocketAddr;

    /// A failed handshake is the client's business.
    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, address)) = self.listener.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
