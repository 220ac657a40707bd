//! Secrets of GitHub Apps and of proxies, as tables.

use std::collections::BTreeMap;

use equate_git::{GithubApp, Installation, Proxy, Secret};
use k8s_openapi::ByteString;
use serde_json::json;

use super::super::credentials;
use super::declared;
use crate::kit::read::chain;

#[test]
fn git_repository_provider_github_reads_its_keys() {
    let check = |url: &str, secret: Option<&[(&str, &str)]>, expected: Result<GithubApp, &str>| {
        let declared = declared(json!({ "url": url, "provider": "github", "secretRef": { "name": "key" } }));
        let data = secret.map(data_of);
        let opened = credentials::github_app(&declared, data.as_ref())
            .map(Option::unwrap)
            .map_err(|error| {
                format!(
                    "{} {}: {}",
                    error.reason().as_str(),
                    error.is_final(),
                    chain(&error)
                )
            });
        assert_eq!(opened, expected.map_err(str::to_owned), "{secret:?}");
    };
    let app = |installation, base_url: Option<&str>| GithubApp {
        id: 12,
        installation,
        private_key: Secret::new("K"),
        base_url: base_url.map(str::to_owned),
    };
    let https = "https://github.com/o/r";
    let (id, key) = (("githubAppID", "12"), ("githubAppPrivateKey", "K"));
    let (by_id, by_owner) = (
        ("githubAppInstallationID", "34"),
        ("githubAppInstallationOwner", "o"),
    );
    check(
        https,
        Some(&[id, key, by_id]),
        Ok(app(Installation::Id(34), None)),
    );
    check(
        https,
        Some(&[id, key, by_owner, ("githubAppBaseURL", "https://h/api/v3")]),
        Ok(app(Installation::Owner("o".to_owned()), Some("https://h/api/v3"))),
    );
    let missing = "secretRef with github app data must be specified when provider is set to github";
    check(
        https,
        None,
        Err(&format!("InvalidProviderConfiguration true: {missing}")),
    );
    check(
        https,
        Some(&[("username", "me")]),
        Err(&format!("InvalidProviderConfiguration false: {missing}")),
    );
    let wrong = |problem: &str| {
        format!(
            "AuthenticationFailed false: failed to configure authentication options: {problem}: see secret \
             'flux-system/key'"
        )
    };
    check(
        https,
        Some(&[id, key, by_id, by_owner]),
        Err(&wrong(
            "only one of app installation owner or ID must be provided to use github app authentication",
        )),
    );
    check(
        https,
        Some(&[id, key]),
        Err(&wrong(
            "app installation owner or ID must be provided to use github app authentication",
        )),
    );
    check(
        https,
        Some(&[id, by_id]),
        Err(&wrong(
            "private key must be provided to use github app authentication",
        )),
    );
    check(
        https,
        Some(&[("githubAppID", "x"), key, by_id]),
        Err(&wrong("githubAppID is not a number")),
    );
    check(
        "ssh://git@github.com/o/r",
        Some(&[id, key, by_id]),
        Err("InvalidProviderConfiguration true: provider github needs an https URL, not \"ssh\""),
    );
}

#[test]
fn git_repository_proxy_secret_ref_reads_its_keys() {
    let check = |secret: &[(&str, &str)], expected: Result<Proxy, &str>| {
        let read = credentials::proxy("flux-system", "p", &data_of(secret))
            .map_err(|error| format!("{}: {}", error.reason().as_str(), chain(&error)));
        assert_eq!(read, expected.map_err(str::to_owned), "{secret:?}");
    };
    let proxy = |address: &str, username: Option<&str>, password: Option<&str>| {
        Ok(Proxy::new(address, username.map(str::to_owned), password.map(Secret::from)).unwrap())
    };
    let address = ("address", "http://proxy:3128");
    check(&[address], proxy("http://proxy:3128", None, None));
    check(
        &[address, ("username", "me"), ("password", "s3cret")],
        proxy("http://proxy:3128", Some("me"), Some("s3cret")),
    );
    check(
        &[("address", "http://me:s3cret@proxy:3128")],
        proxy("http://proxy:3128", Some("me"), Some("s3cret")),
    );
    let wrong = "AuthenticationFailed: failed to configure proxy options: secret 'flux-system/p': ";
    check(
        &[("username", "me")],
        Err(&format!("{wrong}proxy address is empty: 'address' is required")),
    );
    check(
        &[("address", "s3cret")],
        Err(&format!(
            "{wrong}the proxy's address is malformed: write http://HOST:PORT or socks5://HOST:PORT"
        )),
    );
    check(
        &[("address", "socks4://proxy")],
        Err(&format!(
            "{wrong}a proxy of scheme \"socks4\" is not supported: use http, https or socks5"
        )),
    );
    let shown = format!(
        "{:?}",
        proxy("http://a:s3cret@b", None, None) as Result<Proxy, &str>
    );
    assert!(!shown.contains("s3cret"), "{shown}");
}

fn data_of(data: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
    data.iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
        .collect()
}
