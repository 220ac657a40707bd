use super::distinguished_name::DistinguishedName;
use super::*;
use crate::verify::chain_text;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;

const RECORDED: &str = include_str!("../../../testdata/verify/notation.json");
const NOW: Timestamp = Timestamp::constant(1_795_700_000, 0);
const REFERENCE: &str = "registry.example.com/org/app@sha256:00";

struct Recorded {
    target: Target,
    signatures: Vec<(String, String, NotationSignature)>,
}

fn recorded() -> Recorded {
    let all: Value = serde_json::from_str(RECORDED).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let signatures = all["vectors"].as_array().unwrap().iter().map(|vector| {
        let signature = NotationSignature {
            digest: "sha256:11".to_owned(),
            media_type: text(&vector["mediaType"]),
            envelope: STANDARD.decode(vector["envelope"].as_str().unwrap()).unwrap(),
        };
        (text(&vector["name"]), text(&vector["root"]), signature)
    });
    Recorded {
        target: Target {
            media_type: text(&all["target"]["mediaType"]),
            digest: text(&all["target"]["digest"]),
            size: all["target"]["size"].as_u64().unwrap(),
        },
        signatures: signatures.collect(),
    }
}

fn policy(verification: &str, stores: &str, identities: &str) -> TrustPolicy {
    let text = format!(
        r#"{{"version":"1.0","trustPolicies":[{{"name":"app","registryScopes":["*"],
        "signatureVerification":{verification},"trustStores":{stores},"trustedIdentities":{identities}}}]}}"#
    );
    TrustPolicy::parse(text.as_bytes()).unwrap()
}

fn strict() -> TrustPolicy {
    policy(r#"{"level":"strict"}"#, r#"["ca:certs"]"#, r#"["*"]"#)
}

fn store(pem: &str) -> TrustStore {
    TrustStore::new([("ca.crt", pem.as_bytes())]).unwrap()
}

impl Recorded {
    fn get(&self, name: &str) -> (&str, &NotationSignature) {
        let found = self.signatures.iter().find(|(other, _, _)| other == name);
        let (_, root, signature) = found.unwrap();
        (root, signature)
    }

    fn verify(&self, name: &str, policy: &TrustPolicy) -> Result<Outcome, String> {
        let (root, signature) = self.get(name);
        self.verify_with(policy, &store(root), signature)
    }

    fn verify_with(
        &self,
        policy: &TrustPolicy,
        store: &TrustStore,
        signature: &NotationSignature,
    ) -> Result<Outcome, String> {
        let signatures = std::slice::from_ref(signature);
        let result = verify(policy, store, REFERENCE, &self.target, signatures, NOW);
        result.map_err(|error| {
            let text = chain_text(&error);
            let prefix = "signature verification failed\nfailed to verify signature with digest sha256:11, ";
            text.strip_prefix(prefix).unwrap_or(&text).to_owned()
        })
    }
}

#[test]
fn signatures_of_notation_verify_in_both_formats() {
    let recorded = recorded();
    for name in [
        "jws p256",
        "jws p384",
        "jws rsa2048",
        "jws rsa3072",
        "jws rsa4096",
        "cose p256",
        "cose p384",
        "cose rsa2048",
        "jws self-signed",
    ] {
        assert_eq!(
            recorded.verify(name, &strict()),
            Ok(Outcome::Verified(Vec::new())),
            "{name}"
        );
    }
    let (root, signature) = recorded.get("jws p521");
    let p521 = "keys of the algorithm ECDSA P-521 are not supported";
    let error = TrustStore::new([("ca.crt", root.as_bytes())]).unwrap_err();
    assert!(chain_text(&error).contains(p521), "{error}");
    let error = recorded
        .verify_with(&strict(), &TrustStore::default(), signature)
        .unwrap_err();
    assert!(error.contains(p521), "{error}");
}

#[test]
fn enforced_checks_refuse_a_signature() {
    let recorded = recorded();
    let check = |name: &str, policy: &TrustPolicy, expected: &str| {
        let error = recorded.verify(name, policy).unwrap_err();
        assert!(error.starts_with(expected), "{name}: {error}");
    };
    check("jws expiry", &strict(), "digital signature has expired on \"20");
    check("cose expiry", &strict(), "digital signature has expired on \"20");
    check("jws other artifact", &strict(), "content descriptor mismatch");
    check(
        "jws expired certificate",
        &strict(),
        "verification time is after certificate \"CN=signer p256,O=Notary,L=Seattle,ST=WA,C=US\" validity period",
    );
    check(
        "jws revocable",
        &strict(),
        "signing certificate with subject \"CN=signer p256,O=Notary,L=Seattle,ST=WA,C=US\" revocation status is \
         unknown: equate does not ask OCSP servers",
    );
    check(
        "jws p256",
        &policy(r#"{"level":"strict"}"#, r#"["tsa:times","ca:certs"]"#, r#"["*"]"#),
        "timestamp countersignatures are not supported",
    );
    check(
        "jws p256",
        &policy(
            r#"{"level":"strict"}"#,
            r#"["signingAuthority:certs"]"#,
            r#"["*"]"#,
        ),
        "no trusted certificates are found to verify authenticity",
    );
    check(
        "jws p256",
        &policy(
            r#"{"level":"strict"}"#,
            r#"["ca:certs"]"#,
            r#"["x509.subject:C=US,ST=WA,O=Other"]"#,
        ),
        "signing certificate from the digital signature does not match the X.509 trusted identities",
    );
}

#[test]
fn logged_checks_do_not_refuse_a_signature() {
    let recorded = recorded();
    let permissive = policy(r#"{"level":"permissive"}"#, r#"["ca:certs"]"#, r#"["*"]"#);
    for name in ["jws expiry", "jws expired certificate", "jws revocable"] {
        let Ok(Outcome::Verified(logged)) = recorded.verify(name, &permissive) else {
            panic!("{name} is not verified");
        };
        assert_eq!(logged.len(), 1, "{name}: {logged:?}");
    }
    let without = policy(
        r#"{"level":"strict","override":{"revocation":"skip"}}"#,
        r#"["ca:certs"]"#,
        r#"["x509.subject: C=US, S=WA, O=Notary"]"#,
    );
    let verified = recorded.verify("jws revocable", &without);
    assert_eq!(verified, Ok(Outcome::Verified(Vec::new())));
    let after = r#"{"level":"strict","verifyTimestamp":"afterCertExpiry"}"#;
    let after = policy(after, r#"["ca:certs","tsa:times"]"#, r#"["*"]"#);
    assert_eq!(
        recorded.verify("jws p256", &after),
        Ok(Outcome::Verified(Vec::new()))
    );
}

#[test]
fn untrusted_signer_is_refused_or_ignored_by_level() {
    let recorded = recorded();
    let (_, signature) = recorded.get("jws p256");
    let (other, _) = recorded.get("jws p384");
    let untrusted = "the signature's certificate chain does not contain any trusted certificate";
    let result = recorded.verify_with(&strict(), &store(other), signature);
    assert_eq!(result, Err(untrusted.to_owned()));
    let audit = policy(r#"{"level":"audit"}"#, r#"["ca:certs"]"#, r#"["*"]"#);
    let result = recorded.verify_with(&audit, &store(other), signature);
    assert_eq!(result, Ok(Outcome::Ignored(vec![untrusted.to_owned()])));
    let skip = policy(r#"{"level":"skip"}"#, "[]", "[]");
    let result = recorded.verify_with(&skip, &store(other), signature);
    assert_eq!(result, Ok(Outcome::Skipped));
}

#[test]
fn at_most_three_signatures_are_tried() {
    let recorded = recorded();
    let (root, good) = recorded.get("jws p256");
    let (_, bad) = recorded.get("jws p384");
    let run = |signatures: &[NotationSignature]| {
        let result = verify(
            &strict(),
            &store(root),
            REFERENCE,
            &recorded.target,
            signatures,
            NOW,
        );
        result.map_err(|error| error.to_string())
    };
    let bad = bad.clone();
    assert!(run(&[bad.clone(), bad.clone(), good.clone()]).is_ok());
    let error = run(&[bad.clone(), bad.clone(), bad, good.clone()]).unwrap_err();
    let expected =
        "signature evaluation stopped. The configured limit of 3 signatures to verify per artifact exceeded";
    assert!(error.starts_with(expected), "{error}");
    let error = run(&[]).unwrap_err();
    let expected = format!(
        "no signature is associated with \"{REFERENCE}\", make sure the artifact was signed successfully"
    );
    assert_eq!(error, expected);
}

/// An envelope in JWS with one part changed.
fn changed(signature: &NotationSignature, change: impl FnOnce(&mut Value)) -> NotationSignature {
    let mut envelope: Value = serde_json::from_slice(&signature.envelope).unwrap();
    change(&mut envelope);
    NotationSignature {
        envelope: envelope.to_string().into_bytes(),
        ..signature.clone()
    }
}

fn encoded(text: &str) -> Value {
    URL_SAFE_NO_PAD.encode(text).into()
}

#[test]
fn changed_envelopes_are_refused() {
    let recorded = recorded();
    let (root, jws) = recorded.get("jws p256");
    let check = |signature: NotationSignature, expected: &str| {
        let error = recorded
            .verify_with(&strict(), &store(root), &signature)
            .unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    };
    let invalid = "signature is invalid";
    check(changed(jws, |all| all["payload"] = encoded("{}")), invalid);
    check(
        changed(jws, |all| {
            let protected = URL_SAFE_NO_PAD
                .decode(all["protected"].as_str().unwrap())
                .unwrap();
            let protected = String::from_utf8(protected).unwrap().replacen("20", "21", 1);
            all["protected"] = encoded(&protected);
        }),
        invalid,
    );
    check(changed(jws, |all| all["signature"] = encoded("short")), invalid);
    let (_, p384) = recorded.get("jws p384");
    let other: Value = serde_json::from_slice(&p384.envelope).unwrap();
    check(
        changed(jws, |all| all["header"] = other["header"].clone()),
        "mismatch between signature algorithm derived from signing certificate",
    );
    check(
        changed(jws, |all| {
            all["header"]["x5c"].as_array_mut().unwrap().remove(1);
        }),
        "certificate-chain is invalid: invalid self-signed certificate",
    );
    check(
        changed(jws, |all| all["header"]["x5c"] = Value::Array(Vec::new())),
        "unable to parse the digital signature, error : certificate chain is not present",
    );
    check(
        changed(jws, |all| all["protected"] = encoded("{\"alg\":\"none\"}")),
        "unable to parse the digital signature, error : signature algorithm \"none\" is not supported",
    );
    check(
        NotationSignature {
            media_type: "application/json".to_owned(),
            ..jws.clone()
        },
        "unable to parse the digital signature, error : signature envelope format with media type",
    );
    let (root, cose) = recorded.get("cose p256");
    for at in 0..cose.envelope.len() {
        let mut envelope = cose.envelope.clone();
        envelope[at] ^= 1;
        let signature = NotationSignature {
            envelope,
            ..cose.clone()
        };
        let result = recorded.verify_with(&strict(), &store(root), &signature);
        // the agent's name and its key are not signed
        let agent = b"io.cncf.notary.signingAgent";
        let start = cose.envelope.windows(agent.len()).position(|text| text == agent);
        let start = start.unwrap();
        if !(start..start + 60).contains(&at) {
            assert!(result.is_err(), "byte {at}");
        }
    }
}

#[test]
fn broken_policies_are_refused() {
    let check = |text: &str, expected: &str| {
        let error = TrustPolicy::parse(text.as_bytes()).unwrap_err();
        let error = chain_text(&error);
        assert!(error.starts_with(expected), "{text}: {error}");
    };
    let statement = |change: &str, to: &str| {
        let text = r#"{"version":"1.0","trustPolicies":[{"name":"app","registryScopes":["a.com/app"],
            "signatureVerification":{"level":"strict"},"trustStores":["ca:certs"],"trustedIdentities":["*"]}]}"#;
        assert!(text.contains(change), "{change}");
        text.replacen(change, to, 1)
    };
    check("[", "error occurred while parsing trustpolicy.json");
    check(
        "{}",
        "trust policy document has empty version, version must be specified",
    );
    check(
        &statement("1.0", "2.0"),
        "trust policy document uses unsupported version \"2.0\"",
    );
    check(
        r#"{"version":"1.0"}"#,
        "trust policy document can not have zero trust policy statements",
    );
    check(
        &statement("\"app\"", "\"\""),
        "trust policy: a trust policy statement is missing a name",
    );
    check(
        &statement("strict", "loose"),
        "trust policy: trust policy statement \"app\" has invalid signatureVerification: invalid signature \
         verification level \"loose\"",
    );
    check(
        &statement("\"strict\"", "\"strict\",\"override\":{\"integrity\":\"log\"}"),
        "trust policy: trust policy statement \"app\" has invalid signatureVerification: \"integrity\" \
         verification can not be overridden",
    );
    check(
        &statement("\"strict\"", "\"strict\",\"override\":{\"expiry\":\"skip\"}"),
        "trust policy: trust policy statement \"app\" has invalid signatureVerification: \"expiry\" \
         verification can not be skipped",
    );
    check(
        &statement("[\"ca:certs\"]", "[]"),
        "trust policy: trust policy statement \"app\" is either missing trust stores or trusted identities",
    );
    check(
        &statement("ca:certs", "certs"),
        "trust policy: trust policy statement \"app\" has malformed trust store value \"certs\"",
    );
    check(
        &statement("ca:certs", "file:certs"),
        "trust policy: trust policy statement \"app\" uses an unsupported trust store type \"file\"",
    );
    check(
        &statement("ca:certs", "ca:a b"),
        "trust policy: trust policy statement \"app\" uses an unsupported trust store name \"a b\"",
    );
    check(
        &statement("[\"*\"]", "[\"x509.subject:C=US,O=Notary\"]"),
        "trust policy: trust policy statement \"app\" has trusted identity \"x509.subject:C=US,O=Notary\" with invalid \
         identity value: distinguished name (DN) \"C=US,O=Notary\" has no mandatory RDN attribute for \"ST\"",
    );
    check(
        &statement(
            "[\"*\"]",
            "[\"x509.subject:C=US,ST=WA,O=N\",\"x509.subject:C=US,ST=WA,O=N,CN=a\"]",
        ),
        "trust policy: trust policy statement \"app\" has overlapping x509 trustedIdentities",
    );
    check(
        &statement("[\"*\"]", "[\"*\",\"x509.subject:C=US,ST=WA,O=N\"]"),
        "trust policy: trust policy statement \"app\" uses a wildcard trusted identity '*'",
    );
    check(
        &statement("a.com/app", "https://a.com/app"),
        "registry scope \"https://a.com/app\" is not valid",
    );
    check(
        &statement("a.com/app", "app"),
        "registry scope \"app\" is not valid",
    );
    check(
        &statement("a.com/app", "a.com/App"),
        "registry scope \"a.com/App\" is not valid",
    );
    check(
        &statement("[\"a.com/app\"]", "[\"*\",\"a.com/app\"]"),
        "trust policy statement \"app\" uses wildcard registry scope '*'",
    );
}

#[test]
fn exact_scope_wins_over_the_wildcard() {
    let policy = TrustPolicy::parse(
        br#"{"version":"1.0","trustPolicies":[
        {"name":"all","registryScopes":["*"],"signatureVerification":{"level":"strict"},
         "trustStores":["ca:certs"],"trustedIdentities":["*"]},
        {"name":"app","registryScopes":["a.com:5000/org/app"],"signatureVerification":{"level":"skip"},
         "trustStores":["ca:certs"]}]}"#,
    );
    let policy = policy.unwrap();
    assert!(policy.skips("a.com:5000/org/app@sha256:00").unwrap());
    assert!(!policy.skips("a.com:5000/org/other@sha256:00").unwrap());
    assert!(policy.skips("a.com:5000/org/app:v1").is_err());
    let one = r#"{"version":"1.0","trustPolicies":[{"name":"app","registryScopes":["a.com/app"],
        "signatureVerification":{"level":"skip"}}]}"#;
    let one = TrustPolicy::parse(one.as_bytes()).unwrap();
    let error = one.skips("b.com/app@sha256:00").unwrap_err().to_string();
    let expected = "artifact \"b.com/app@sha256:00\" has no applicable trust policy statement";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn distinguished_names_are_read_as_rfc_4514_says() {
    let check = |text: &str, same: Option<&str>| {
        let parsed = DistinguishedName::parse(text).ok();
        let same = same.map(|same| DistinguishedName::parse(same).unwrap());
        assert_eq!(parsed, same, "{text}");
    };
    let plain = Some("C=US,ST=WA,O=Notary");
    check("C=US, ST = WA ,O= Notary ", plain);
    check("O=Notary;S=WA;C=US", plain);
    check(r"C=US,ST=WA,O=N\6ftary", plain);
    check(r"C=US,ST=WA,O=a\,b", Some(r"C=US,ST=WA,O=a\2cb"));
    check("C=US,ST=WA", None);
    check("C=US,ST=WA,O=", None);
    check("C=US,ST=WA,O=a,O=b", None);
    check("C=US,ST=WA,O=a+OU=b", None);
    check("C=US,ST=WA,O=#0c01", None);
    check("C=US,ST=WA,O", None);
    check(r"C=US,ST=WA,O=a\", None);
    check(r"C=US,ST=WA,O=a\6", None);
}
