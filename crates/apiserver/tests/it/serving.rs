//! The served port, with a client of its own.

use equate_apiserver::EmbeddedCluster;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

async fn connect(cluster: &EmbeddedCluster, address: std::net::SocketAddr) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(cluster.certificate_authority().as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

#[tokio::test]
async fn stopped_server_ends_its_watches() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let serving = cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut stream = connect(&cluster, serving.address()).await;
    let request = format!(
        "GET /api/v1/namespaces?watch=true HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        cluster.admin_token().expose()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while !seen.contains("\"ADDED\"") {
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the watch ended early: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    assert!(seen.starts_with("HTTP/1.1 200 OK\r\n"), "{seen}");
    serving.stop().await;
    let end = async {
        // TLS reports an abrupt end as an error: either way it is the end.
        while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    };
    tokio::time::timeout(crate::DEADLINE, end).await.unwrap();
}
