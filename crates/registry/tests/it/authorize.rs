//! Credentials, tokens, certificates, proxies.

use equate_egress::{AddressPolicy, Egress};
use equate_registry::{Access, Credentials, Limits, Proxy, Reason, Registries, Version};
use equate_testkit::git::Proxy as ProxyServer;
use equate_testkit::registry::{RegistryFault, RegistryGuard, RegistryOptions, RegistryServer};

use super::{anonymous, chain, named, open, registries};

fn guarded(guard: RegistryGuard) -> RegistryServer {
    let server = RegistryServer::start(RegistryOptions {
        guard,
        ..RegistryOptions::default()
    })
    .unwrap();
    server.artifact("org/app", "v1", &[("text/plain", b"content")], &[]);
    server.artifact("public/app", "v1", &[("text/plain", b"content")], &[]);
    server
}

fn token() -> RegistryGuard {
    RegistryGuard::Token("me".to_owned(), "secret".to_owned())
}

async fn resolve(server: &RegistryServer, path: &str, access: Access) -> Result<(), String> {
    let remote = open(&registries(), server, path, access);
    let found = remote.resolve(&Version::tag("v1").unwrap()).await;
    found.map(drop).map_err(|error| chain(&error))
}

#[tokio::test]
async fn a_password_is_sent_when_asked_for() {
    let server = guarded(RegistryGuard::Basic("me".to_owned(), "secret".to_owned()));
    resolve(&server, "org/app", named("me", "secret")).await.unwrap();
    let asked = server.take();
    assert!(
        asked[..2].iter().all(|asked| asked.authorization.is_none()),
        "{asked:?}"
    );
    assert_eq!(asked.last().unwrap().status, 200);
    let error = resolve(&server, "org/app", anonymous()).await.unwrap_err();
    assert!(error.contains("requires credentials"), "{error}");
    let error = resolve(&server, "org/app", named("me", "wrong"))
        .await
        .unwrap_err();
    assert!(error.contains("refused the credentials (HTTP 401)"), "{error}");
    assert!(!error.contains("wrong"), "{error}");
}

#[tokio::test]
async fn a_token_is_kept_for_its_repository() {
    let server = guarded(token());
    let registries = registries();
    for _ in 0..2 {
        let remote = open(&registries, &server, "org/app", named("me", "secret"));
        remote.resolve(&Version::tag("v1").unwrap()).await.unwrap();
    }
    let asked = server.take();
    let tokens: Vec<_> = asked
        .iter()
        .filter(|asked| asked.path.starts_with("/token"))
        .collect();
    assert_eq!(tokens.len(), 1, "{asked:?}");
    assert!(
        tokens[0].path.contains("scope=repository%3Aorg%2Fapp%3Apull"),
        "{tokens:?}"
    );
    assert!(tokens[0].path.contains("service=test-registry"), "{tokens:?}");
    assert_eq!(asked.last().unwrap().method, "HEAD");
    // an other namespace or password gets none of it
    let other = Access {
        namespace: "other".to_owned(),
        ..anonymous()
    };
    for access in [other, named("me", "wrong")] {
        let remote = open(&registries, &server, "org/app", access);
        let error = remote.resolve(&Version::tag("v1").unwrap()).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Authentication);
    }
}

#[tokio::test]
async fn tokens_are_for_everyone_and_for_refresh_tokens() {
    let server = guarded(token());
    resolve(&server, "public/app", anonymous()).await.unwrap();
    resolve(&server, "org/app", anonymous()).await.unwrap_err();
    let identity = |token: &str| Access {
        credentials: Some(Credentials::Identity(token.into())),
        ..anonymous()
    };
    server.take();
    resolve(&server, "org/app", identity("secret")).await.unwrap();
    let asked = server.take();
    assert!(
        asked
            .iter()
            .any(|asked| (asked.method.as_str(), asked.path.as_str()) == ("POST", "/token"))
    );
    resolve(&server, "org/app", identity("wrong")).await.unwrap_err();
}

#[tokio::test]
async fn credentials_stay_with_the_registry() {
    let server = guarded(token());
    let cdn = RegistryServer::open().unwrap();
    cdn.blob("text/plain", b"content".to_vec());
    let to = format!("http://{}/elsewhere/{{digest}}", cdn.authority());
    server.fault(RegistryFault::Redirect(to), 1);
    let remote = open(&registries(), &server, "org/app", named("me", "secret"));
    let image = remote.image(&Version::tag("v1").unwrap()).await.unwrap();
    let mut bytes = Vec::new();
    remote
        .blob(&image.manifest.layers()[0], &mut bytes)
        .await
        .unwrap();
    assert_eq!(bytes, b"content");
    let asked = cdn.take();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].authorization, None);
}

#[tokio::test]
async fn certificates_are_checked() {
    let server = RegistryServer::start(RegistryOptions {
        guard: RegistryGuard::Certificate,
        ..RegistryOptions::default()
    })
    .unwrap();
    server.artifact("app", "v1", &[], &[]);
    let ca = server.certificate().map(|pem| pem.as_bytes().to_vec());
    let client = server.client().unwrap();
    let identity = Some(format!("{}\n{}", client.certificate, client.key).into());
    let whole = Access {
        ca: ca.clone(),
        identity: identity.clone(),
        ..anonymous()
    };
    resolve(&server, "app", whole).await.unwrap();
    let without_ca = Access {
        identity,
        ..anonymous()
    };
    let error = resolve(&server, "app", without_ca).await.unwrap_err();
    assert!(error.contains("the connection is not trusted"), "{error}");
    let without_identity = Access { ca, ..anonymous() };
    resolve(&server, "app", without_identity).await.unwrap_err();
    let wrong = Access {
        ca: Some(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".to_vec()),
        ..anonymous()
    };
    let opened = registries().open(super::repository(&server, "app"), wrong);
    assert_eq!(opened.unwrap_err().reason(), Reason::Configuration);
}

#[tokio::test]
async fn insecure_checks_no_certificate() {
    let server = RegistryServer::start(RegistryOptions {
        tls: true,
        ..RegistryOptions::default()
    })
    .unwrap();
    server.artifact("app", "v1", &[], &[]);
    let insecure = Access {
        insecure: true,
        ..anonymous()
    };
    resolve(&server, "app", insecure).await.unwrap();
    resolve(&server, "app", anonymous()).await.unwrap_err();
}

#[tokio::test]
async fn many_first_requests_to_a_registry_without_tls_are_answered() {
    let server = guarded(RegistryGuard::Open);
    server.artifact("app", "v1", &[], &[]);
    let registries = registries();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..24 {
        let remote = open(&registries, &server, "app", anonymous());
        all.spawn(async move { remote.resolve(&Version::tag("v1").unwrap()).await });
    }
    for answer in all.join_all().await {
        answer.unwrap();
    }
}

#[tokio::test]
async fn requests_pass_through_a_proxy() {
    let server = guarded(RegistryGuard::Open);
    let proxy = ProxyServer::to(&server.authority(), "p", "q").unwrap();
    let access = |password: &str| Access {
        proxy: Some(Proxy {
            address: proxy.url(),
            credentials: Some(("p".to_owned(), password.into())),
        }),
        ..anonymous()
    };
    resolve(&server, "org/app", access("q")).await.unwrap();
    assert!(!proxy.heads().is_empty());
    let error = resolve(&server, "org/app", access("wrong")).await.unwrap_err();
    assert!(!error.contains("wrong"), "{error}");
}

#[tokio::test]
async fn refused_addresses_are_not_asked() {
    let server = guarded(token());
    let guarded = Registries::new(Egress::new(AddressPolicy::default()), Limits::default());
    let remote = open(&guarded, &server, "org/app", named("me", "secret"));
    let error = remote.resolve(&Version::tag("v1").unwrap()).await.unwrap_err();
    assert!(chain(&error).contains("--egress-allow"), "{}", chain(&error));
    assert!(server.take().is_empty());
    // a registry cannot redirect to one either
    let exempt = Egress::exempting(AddressPolicy::default(), [("localhost".to_owned(), None)]);
    let exempt = Registries::new(exempt, Limits::default());
    let remote = open(&exempt, &server, "org/app", named("me", "secret"));
    let image = remote.image(&Version::tag("v1").unwrap()).await.unwrap();
    let to = "http://169.254.169.254/elsewhere/{digest}".to_owned();
    server.fault(RegistryFault::Redirect(to), 1);
    let error = remote
        .blob(&image.manifest.layers()[0], &mut Vec::new())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::Refused);
}
