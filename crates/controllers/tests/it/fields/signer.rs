//! Signatures of cosign.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_testkit::registry::RegistryServer;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;

/// A key of cosign.
pub(super) struct Signer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    pub(super) fn new() -> Signer {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Signer {
            pair: EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap(),
            random,
        }
    }

    /// PEM of the SubjectPublicKeyInfo (RFC 5480).
    pub(super) fn public(&self) -> String {
        const HEAD: [u8; 26] = [
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
            0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ];
        let key = STANDARD.encode([&HEAD[..], self.pair.public_key().as_ref()].concat());
        format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n")
    }

    /// Signs a manifest of a repository as cosign 2 does: another manifest at a tag.
    pub(super) fn sign(&self, server: &RegistryServer, repository: &str, digest: &str) {
        let payload = json!({
            "critical": {
                "identity": { "docker-reference": format!("{}/{repository}", server.url()) },
                "image": { "docker-manifest-digest": digest },
                "type": "cosign container image signature",
            },
            "optional": null,
        })
        .to_string();
        let signature = self.pair.sign(&self.random, payload.as_bytes()).unwrap();
        let mut layer = server.blob("application/vnd.dev.cosign.simplesigning.v1+json", payload);
        layer["annotations"] =
            json!({ "dev.cosignproject.cosign/signature": STANDARD.encode(signature.as_ref()) });
        let config = server.blob("application/vnd.oci.image.config.v1+json", "{}");
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
        let tag = format!("{}.sig", digest.replace(':', "-"));
        server.manifest(repository, Some(&tag), &manifest);
    }
}
