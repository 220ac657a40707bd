//! Keys and certificates.
//!
//! Certificates are sprig's: RSA keys of 2048 bits, PKCS #1 in PEM, valid from now, encoded as in Go. Refused:
//! DSA keys, and signing with keys that are not RSA.

mod extensions;
mod issuer;

use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::fault::Fault;
use crate::session::World;
use crate::value::{Host, Value};
use base64::Engine as _;
use crypto_bigint::BoxedUint;
use crypto_bigint::rand_core::{TryCryptoRng, TryRng};
use crypto_primes::hazmat::{SetBits, SmallFactorsSieveFactory};
use crypto_primes::{Flavor, is_prime, sieve_and_find};
use extensions::{Extensions, key_id};
use rcgen::string::{Ia5String, PrintableString};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, Issuer, KeyPair, PKCS_RSA_SHA256, SerialNumber,
};
use rsa::pkcs1::{DecodeRsaPrivateKey as _, EncodeRsaPrivateKey as _, LineEnding};
use rsa::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _};
use rsa::rand_core::{CryptoRng, RngCore};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

pub(super) const FUNCTIONS: &[Function] = table! {
    "genPrivateKey" (Str) "random" => private_key;
    "genCA" (Str, Int) "random" => |call| {
        let key = new_key(call, KEY_BITS)?;
        authority(call, &key)
    };
    "genCAWithKey" (Str, Int, Str) "random" => |call| {
        let pem = call.text(2).into_owned();
        let key = read_key(call, &pem)?;
        authority(call, &key)
    };
    "genSelfSignedCert" (Str, List, List, Int) "random" => |call| {
        let key = new_key(call, KEY_BITS)?;
        self_signed(call, &key)
    };
    "genSelfSignedCertWithKey" (Str, List, List, Int, Str) "random" => |call| {
        let pem = call.text(4).into_owned();
        let key = read_key(call, &pem)?;
        self_signed(call, &key)
    };
    "genSignedCert" (Str, List, List, Int, Certificate) "random" => |call| {
        let key = new_key(call, KEY_BITS)?;
        signed(call, &key)
    };
    "genSignedCertWithKey" (Str, List, List, Int, Certificate, Str) "random" => |call| {
        let pem = call.text(5).into_owned();
        let key = read_key(call, &pem)?;
        signed(call, &key)
    };
    "buildCustomCert" (Str, Str) => custom;
};

const KEY_BITS: usize = 2_048;
const BIG_KEY_BITS: usize = 4_096;
const PUBLIC_EXPONENT: u32 = 65_537;
const NO_KEY: &str = "error generating random key";
/// The cost of finding a key's primes: with the default limits thirty keys can be made.
const KEY_STEPS: u64 = 640_000;
const SIGN_STEPS: u64 = 20_000;
const CURVE_STEPS: u64 = 5_000;
/// The years 0 to 9999, in seconds after 1970: a certificate has four digits for a year.
const FIRST_SECOND: i128 = -62_167_219_200;
const LAST_SECOND: i128 = 253_402_300_799;
/// The cost of parsing a key up to this PEM length.
const READ_STEPS: u64 = 50_000;
const KEY_PEM_BYTES: usize = 2 << 10;

#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    cert: String,
    key: String,
}

impl Host for Certificate {
    fn type_name(&self) -> &'static str {
        "sprig.certificate"
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(self.cert.as_str().into()),
            "Key" => Some(self.key.as_str().into()),
            _ => None,
        }
    }

    fn entries(&self) -> Option<Vec<(Value, Value)>> {
        Some(vec![
            ("Cert".into(), self.cert.as_str().into()),
            ("Key".into(), self.key.as_str().into()),
        ])
    }

    fn to_json(&self) -> Result<serde_json::Value, Fault> {
        Ok(serde_json::json!({"Cert": self.cert, "Key": self.key}))
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

struct WorldRng<'w>(&'w mut dyn World);

impl RngCore for WorldRng<'_> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.0.random(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.random(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.random(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rsa::rand_core::Error> {
        self.0.random(bytes);
        Ok(())
    }
}

impl CryptoRng for WorldRng<'_> {}

impl TryRng for WorldRng<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.random(bytes);
        Ok(())
    }
}

impl TryCryptoRng for WorldRng<'_> {}

fn failed(what: &'static str) -> impl Fn(&dyn std::fmt::Display) -> Fault {
    move |error| Fault::message(format!("{what}: {error}"))
}

fn new_key(call: &mut Call<'_, '_>, bits: usize) -> Result<rsa::RsaPrivateKey, Fault> {
    let larger = (bits / KEY_BITS) as u64;
    call.exec.meter().steps(KEY_STEPS * larger * larger)?;
    let mut rng = WorldRng(&mut *call.exec.session().world);
    let (p, q) = (prime(&mut rng, bits / 2)?, prime(&mut rng, bits / 2)?);
    rsa::RsaPrivateKey::from_p_q(p, q, PUBLIC_EXPONENT.into()).map_err(|error| failed(NO_KEY)(&error))
}

/// A prime of this many bits with the first two set, so that a product of two has twice as many. The prime
/// minus one is coprime to the public exponent, as a key requires.
///
/// The RSA library's own search is nine times slower.
fn prime(rng: &mut WorldRng<'_>, bits: usize) -> Result<rsa::BigUint, Fault> {
    let bits = u32::try_from(bits).map_err(|error| failed(NO_KEY)(&error))?;
    let candidates = SmallFactorsSieveFactory::<BoxedUint>::new(Flavor::Any, bits, SetBits::TwoMsb)
        .map_err(|error| failed(NO_KEY)(&error))?;
    let to_number = |number: &BoxedUint| rsa::BigUint::from_bytes_be(&number.to_be_bytes());
    let found = sieve_and_find(rng, candidates, |_, candidate| {
        is_prime(Flavor::Any, candidate) && to_number(candidate) % PUBLIC_EXPONENT != 1_u32.into()
    });
    let found = found.map_err(|error| failed(NO_KEY)(&error))?;
    let found = found.ok_or_else(|| failed(NO_KEY)(&"no suitable prime found"))?;
    Ok(to_number(&found))
}

/// Parses and checks a key; the time grows with the cube of its length.
fn read_key(call: &mut Call<'_, '_>, pem: &str) -> Result<rsa::RsaPrivateKey, Fault> {
    let larger = 1 + (pem.len() / KEY_PEM_BYTES) as u64;
    call.exec
        .meter()
        .steps(READ_STEPS.saturating_mul(larger.saturating_pow(3)))?;
    rsa::RsaPrivateKey::from_pkcs1_pem(pem)
        .or_else(|_| rsa::RsaPrivateKey::from_pkcs8_pem(pem))
        .map_err(|error| failed("parsing private key: only RSA keys in PEM are supported")(&error))
}

fn to_pem(key: &rsa::RsaPrivateKey) -> Result<String, Fault> {
    let pem = key.to_pkcs1_pem(LineEnding::LF);
    pem.map(|pem| pem.to_string())
        .map_err(|error| failed("error encoding key")(&error))
}

fn signer(key: &rsa::RsaPrivateKey) -> Result<KeyPair, Fault> {
    let der = key
        .to_pkcs8_der()
        .map_err(|error| failed("error encoding key")(&error))?;
    let der = rustls_pki_types::PrivatePkcs8KeyDer::from(der.as_bytes().to_vec());
    KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_RSA_SHA256)
        .map_err(|error| failed("error reading key")(&error))
}

fn private_key(call: &mut Call<'_, '_>) -> Outcome {
    let kind = call.text(0).into_owned();
    match kind.as_str() {
        "" | "rsa" => {
            let key = new_key(call, BIG_KEY_BITS)?;
            call.done(to_pem(&key)?)
        }
        "ecdsa" => {
            call.exec.meter().steps(CURVE_STEPS)?;
            let mut rng = WorldRng(&mut *call.exec.session().world);
            let key = p256::SecretKey::random(&mut rng);
            let pem = key.to_sec1_pem(LineEnding::LF);
            call.done(
                pem.map_err(|error| failed("error encoding key")(&error))?
                    .to_string(),
            )
        }
        "ed25519" => {
            let mut seed = [0; 32];
            call.exec.session().world.random(&mut seed);
            // RFC 8410: the version, the algorithm, and the seed in two wrappers
            const HEAD: [u8; 16] = [
                0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
            ];
            let text = base64::engine::general_purpose::STANDARD.encode([&HEAD[..], &seed].concat());
            call.done(format!(
                "-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"
            ))
        }
        "dsa" => call.fail("genPrivateKey: DSA keys are not supported"),
        other => Ok(format!("Unknown type {other}").into()),
    }
}

fn params(call: &mut Call<'_, '_>, days: i64) -> Result<CertificateParams, Fault> {
    const DAY: i128 = 86_400;
    call.exec.meter().steps(SIGN_STEPS)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let name = call.text(0).into_owned();
    if !name.is_empty() {
        // the string type that Go chooses
        let value = match PrintableString::try_from(name.as_str()) {
            Ok(printable) => DnValue::PrintableString(printable),
            Err(_) => DnValue::Utf8String(name),
        };
        params.distinguished_name.push(DnType::CommonName, value);
    }
    let mut serial = [0; 16];
    let session = call.exec.session();
    session.world.random(&mut serial);
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let now = session.world.now().div_euclid(1_000_000_000);
    let date = |seconds: i128| {
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let distance = u64::try_from(seconds.unsigned_abs()).map(Duration::from_secs);
        match distance {
            Ok(distance) if (0..=LAST_SECOND).contains(&seconds) => Ok(epoch + distance),
            Ok(distance) if (FIRST_SECOND..0).contains(&seconds) => Ok(epoch - distance),
            _ => Err(failed("error in validity")(&"a year is not between 0 and 9999")),
        }
    };
    params.not_before = date(now)?;
    params.not_after = date(now + DAY * i128::from(days))?;
    Ok(params)
}

fn extended(mut params: CertificateParams, mut extensions: Extensions) -> Result<CertificateParams, Fault> {
    extensions.is_nameless = params.distinguished_name.iter().next().is_none();
    let encoded = extensions.encoded();
    params.custom_extensions = encoded.map_err(|error| failed("error creating certificate")(&error))?;
    Ok(params)
}

fn made(certificate: &rcgen::Certificate, key: &rsa::RsaPrivateKey) -> Outcome {
    // line ends as Go's encoder has them
    let cert = certificate.pem().replace("\r\n", "\n");
    Ok(Value::Host(Rc::new(Certificate {
        cert,
        key: to_pem(key)?,
    })))
}

fn authority(call: &mut Call<'_, '_>, key: &rsa::RsaPrivateKey) -> Outcome {
    let days = call.int(1);
    let id = key_id(key).map_err(|error| failed("error encoding key")(&error))?;
    let extensions = Extensions {
        authority: Some(id),
        ..Extensions::default()
    };
    let certificate = extended(params(call, days)?, extensions)?.self_signed(&signer(key)?);
    made(
        &certificate.map_err(|error| failed("error creating certificate")(&error))?,
        key,
    )
}

/// The addresses and names of the second and third argument.
fn named(call: &mut Call<'_, '_>) -> Result<(CertificateParams, Extensions), Fault> {
    let days = call.int(3);
    let params = params(call, days)?;
    let mut extensions = Extensions::default();
    let texts = |index: usize, what: &str| -> Result<Vec<String>, Fault> {
        let Value::List(list) = call.arg(index) else {
            return Ok(Vec::new());
        };
        let texts = list.items().iter().map(|item| match item {
            Value::String(text) => Ok(text.lossy().into_owned()),
            other => {
                let shown = crate::format::plain_text(other, call.exec.limits())?;
                Err(Fault::message(format!("error {what}: {shown} is not a string")))
            }
        });
        texts.collect()
    };
    for text in texts(1, "parsing ip")? {
        let address = text
            .parse()
            .map_err(|_| Fault::message(format!("error parsing ip: {text}")))?;
        extensions.addresses.push(address);
    }
    for text in texts(2, "processing alternate dns name")? {
        let name: Ia5String = text
            .try_into()
            .map_err(|error: rcgen::Error| failed("error in name")(&error))?;
        extensions.dns_names.push(name.as_str().to_owned());
    }
    Ok((params, extensions))
}

fn self_signed(call: &mut Call<'_, '_>, key: &rsa::RsaPrivateKey) -> Outcome {
    let (params, extensions) = named(call)?;
    let certificate = extended(params, extensions)?.self_signed(&signer(key)?);
    made(
        &certificate.map_err(|error| failed("error creating certificate")(&error))?,
        key,
    )
}

fn signed(call: &mut Call<'_, '_>, key: &rsa::RsaPrivateKey) -> Outcome {
    let authority = match call.arg(4) {
        Value::Host(host) => host.as_any().downcast_ref::<Certificate>().cloned(),
        _ => None,
    };
    let Some(authority) = authority else {
        return call.fail("unable to decode certificate");
    };
    let issuer_key = signer(&read_key(call, &authority.key)?)?;
    let read = issuer::read(&authority.cert).map_err(|error| failed("error parsing certificate")(&error))?;
    let (params, extensions) = named(call)?;
    let is_own = params.distinguished_name == read.subject;
    let extensions = Extensions {
        signed_by: read.key_id.filter(|_| !is_own),
        ..extensions
    };
    let mut issuer = CertificateParams::default();
    issuer.distinguished_name = read.subject;
    let issuer = Issuer::new(issuer, issuer_key);
    let certificate = extended(params, extensions)?.signed_by(&signer(key)?, &issuer);
    made(
        &certificate.map_err(|error| failed("error creating certificate")(&error))?,
        key,
    )
}

fn custom(call: &mut Call<'_, '_>) -> Outcome {
    let decoded = |index: usize| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(call.bytes(index));
        let bytes = bytes.map_err(|_| Fault::message("unable to decode base64 certificate"))?;
        String::from_utf8(bytes).map_err(|_| Fault::message("unable to decode certificate"))
    };
    let (cert, key) = (decoded(0)?, decoded(1)?);
    if !cert.contains("-----BEGIN CERTIFICATE-----") {
        return call.fail("unable to decode certificate");
    }
    read_key(call, &key)?;
    Ok(Value::Host(Rc::new(Certificate { cert, key })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Seeded;

    #[test]
    fn product_of_two_primes_has_full_length() {
        let mut world = Seeded::new(b"primes", 0);
        let mut rng = WorldRng(&mut world);
        for _ in 0..3 {
            let (p, q) = (prime(&mut rng, 512).expect("p"), prime(&mut rng, 512).expect("q"));
            assert_eq!((p.bits(), q.bits(), (&p * &q).bits()), (512, 512, 1_024));
            let key = rsa::RsaPrivateKey::from_p_q(p, q, PUBLIC_EXPONENT.into()).expect("a key");
            key.validate().expect("a valid key");
        }
    }
}
