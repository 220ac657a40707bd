//! The certificate of a service principal of Azure, and assertions that a key signs; pure.
//!
//! Microsoft's document is "Application authentication certificate credentials", Flux's client `azidentity`.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{RSA_PSS_SHA256, RsaEncoding, RsaKeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// As that of Microsoft's libraries.
const ASSERTION_SECONDS: i64 = 600;
const CERTIFICATES_MAX: usize = 16;

/// A certificate with its key. `Debug` shows no secret.
#[derive(Clone)]
pub struct ClientCertificate {
    key: Arc<RsaKeyPair>,
    /// In DER: the certificate of the key, then the others.
    chain: Vec<Vec<u8>>,
    sends_chain: bool,
    /// Of its text.
    hash: [u8; 32],
}

/// The text is no certificate with its key. The message has nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientCertificateError {
    /// No private key.
    #[error("it has no RSA key in PEM of 2048 bits or more; PKCS #12 is not supported")]
    Key,
    /// No certificate.
    #[error("it has no certificate in PEM for its key")]
    Certificate,
}

impl ClientCertificate {
    /// Reads PEM with a key and its certificate. `sends_chain`: whether assertions contain all certificates.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn parse(pem: &[u8], sends_chain: bool) -> Result<Self, ClientCertificateError> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| ClientCertificateError::Key)?;
        let key = match der {
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            _ => return Err(ClientCertificateError::Key),
        };
        let key = key.map_err(|_| ClientCertificateError::Key)?;
        let certificates = CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX);
        let chain: Result<Vec<Vec<u8>>, _> = certificates
            .map(|certificate| certificate.map(|der| der.to_vec()))
            .collect();
        let mut chain = chain.map_err(|_| ClientCertificateError::Certificate)?;
        // a certificate contains the public key as it is
        let public = key.public().as_ref();
        let contains = |der: &Vec<u8>| der.windows(public.len()).any(|part| part == public);
        let own = chain.iter().position(contains);
        let own = chain.remove(own.ok_or(ClientCertificateError::Certificate)?);
        chain.insert(0, own);
        Ok(Self {
            key: Arc::new(key),
            chain,
            sends_chain,
            hash: Sha256::digest(pem).into(),
        })
    }

    pub(crate) fn hash(&self) -> &[u8] {
        &self.hash
    }

    /// An assertion that the client is meant, for the token service at `url`. `None` if the key cannot sign.
    pub(crate) fn assertion(&self, client: &str, url: &str, now: Timestamp) -> Option<String> {
        let mut id = [0; 16];
        SystemRandom::new().fill(&mut id).ok()?;
        let own = self.chain.first()?;
        let mut header = json!({
            "alg": "PS256", "typ": "JWT", "x5t#S256": URL_SAFE_NO_PAD.encode(Sha256::digest(own)),
        });
        if self.sends_chain {
            header["x5c"] = self.chain.iter().map(|der| STANDARD.encode(der)).collect();
        }
        let begin = now.as_second();
        let claims = json!({
            "aud": url, "iss": client, "sub": client, "jti": URL_SAFE_NO_PAD.encode(id),
            "nbf": begin, "iat": begin, "exp": begin + ASSERTION_SECONDS,
        });
        let (header, claims) = (header.to_string(), claims.to_string());
        signed(&self.key, &RSA_PSS_SHA256, header.as_bytes(), claims.as_bytes())
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// A JSON Web Signature in compact form (RFC 7515).
pub(crate) fn signed(
    key: &RsaKeyPair,
    algorithm: &'static dyn RsaEncoding,
    header: &[u8],
    payload: &[u8],
) -> Option<String> {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let text = format!("{}.{}", encode(header), encode(payload));
    let mut signature = vec![0; key.public().modulus_len()];
    let made = key.sign(algorithm, &SystemRandom::new(), text.as_bytes(), &mut signature);
    made.ok()?;
    Some(format!("{text}.{}", encode(&signature)))
}

#[cfg(test)]
mod tests {
    use equate_testkit::bucket::{BucketOptions, BucketServer, client_certificate};
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_assertion_names_the_certificate_and_the_service() {
        let pem = client_certificate();
        let read = |sends_chain| ClientCertificate::parse(pem.as_bytes(), sends_chain).unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let parts = |sends_chain| {
            let assertion = read(sends_chain)
                .assertion("c", "https://login.example/t", now)
                .unwrap();
            let parts = assertion.split('.').map(str::to_owned).collect::<Vec<_>>();
            let json = |text: &str| -> Value {
                serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
            };
            (json(&parts[0]), json(&parts[1]))
        };
        let (header, claims) = parts(false);
        assert_eq!((&header["alg"], &header["x5c"]), (&json!("PS256"), &Value::Null));
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let thumbprint = URL_SAFE_NO_PAD.encode(Sha256::digest(&der));
        assert_eq!(header["x5t#S256"], thumbprint);
        assert_eq!(claims["aud"], "https://login.example/t");
        assert_eq!((&claims["iss"], &claims["sub"]), (&json!("c"), &json!("c")));
        assert_eq!(claims["exp"], claims["nbf"].as_i64().unwrap() + 600);
        let (header, other) = parts(true);
        assert_eq!(header["x5c"], json!([STANDARD.encode(&der)]));
        assert_ne!(claims["jti"], other["jti"]);
        assert_eq!(format!("{:?}", read(true)), "ClientCertificate { .. }");
    }

    #[test]
    fn texts_that_are_no_certificate_with_a_key_are_refused() {
        let pem = client_certificate();
        let end = pem.find("-----BEGIN PRIVATE KEY").unwrap();
        let (certificate, key) = pem.split_at(end);
        let parse = |text: &str| ClientCertificate::parse(text.as_bytes(), false).unwrap_err();
        assert_eq!(parse(certificate), ClientCertificateError::Key);
        assert_eq!(parse(key), ClientCertificateError::Certificate);
        assert_eq!(parse("0\u{82}"), ClientCertificateError::Key);
        let options = BucketOptions {
            tls: true,
            ..BucketOptions::default()
        };
        let server = BucketServer::start(options).unwrap();
        let other = server.certificate().unwrap();
        let stranger = format!("{other}\n{key}");
        assert_eq!(parse(&stranger), ClientCertificateError::Certificate);
        assert!(ClientCertificate::parse(format!("{key}\n{other}\n{certificate}").as_bytes(), true).is_ok());
    }
}
