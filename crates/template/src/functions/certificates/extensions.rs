//! The extensions of a certificate, in the order and form of Go's `x509.CreateCertificate`.
//!
//! rcgen has its own order, so all are custom ones.

use std::net::IpAddr;

use rcgen::CustomExtension;
use rsa::pkcs1::EncodeRsaPublicKey as _;
use rsa::pkcs8::der::{Error, Tag};
use sha2::{Digest as _, Sha256};

const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const SUBJECT_KEY_ID: &[u64] = &[2, 5, 29, 14];
const AUTHORITY_KEY_ID: &[u64] = &[2, 5, 29, 35];
const SUBJECT_ALT_NAME: &[u64] = &[2, 5, 29, 17];

/// Digital signature and key encipherment, then also the signing of certificates: unused bits, bits.
const LEAF_USAGE: [u8; 2] = [5, 0xa0];
const AUTHORITY_USAGE: [u8; 2] = [2, 0xa4];
/// `serverAuth` and `clientAuth`: 1.3.6.1.5.5.7.3.1 and .2.
const EXTENDED_USAGES: [u8; 20] = [6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1, 6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 2];

#[derive(Default)]
pub(super) struct Extensions {
    /// The id of its key, if it is an authority.
    pub(super) authority: Option<Vec<u8>>,
    /// The id of the key that signs it, unless it signs itself.
    pub(super) signed_by: Option<Vec<u8>>,
    pub(super) dns_names: Vec<String>,
    pub(super) addresses: Vec<IpAddr>,
    /// Whether the alternative names are its only ones.
    pub(super) is_nameless: bool,
}

/// The id of a key: 20 bytes of the hash of the public key (RFC 7093, method 1), as in Go since 1.25.
pub(super) fn key_id(key: &rsa::RsaPrivateKey) -> Result<Vec<u8>, rsa::pkcs1::Error> {
    let public = key.to_public_key().to_pkcs1_der()?;
    Ok(Sha256::digest(public.as_bytes())[..20].to_vec())
}

impl Extensions {
    pub(super) fn encoded(&self) -> Result<Vec<CustomExtension>, Error> {
        let is_authority = self.authority.is_some();
        let usage = if is_authority { AUTHORITY_USAGE } else { LEAF_USAGE };
        let constraints = if is_authority {
            value(Tag::Boolean, &[0xff])?
        } else {
            Vec::new()
        };
        let mut all = vec![
            extension(KEY_USAGE, true, value(Tag::BitString, &usage)?),
            extension(EXTENDED_KEY_USAGE, false, value(Tag::Sequence, &EXTENDED_USAGES)?),
            extension(BASIC_CONSTRAINTS, true, value(Tag::Sequence, &constraints)?),
        ];
        if let Some(id) = &self.authority {
            all.push(extension(SUBJECT_KEY_ID, false, value(Tag::OctetString, id)?));
        }
        if let Some(id) = &self.signed_by {
            let id = tagged(0x80, id)?;
            all.push(extension(AUTHORITY_KEY_ID, false, value(Tag::Sequence, &id)?));
        }
        let mut names = Vec::new();
        for name in &self.dns_names {
            names.extend(tagged(0x82, name.as_bytes())?);
        }
        for address in &self.addresses {
            names.extend(match address.to_canonical() {
                IpAddr::V4(address) => tagged(0x87, &address.octets())?,
                IpAddr::V6(address) => tagged(0x87, &address.octets())?,
            });
        }
        if !names.is_empty() {
            let names = value(Tag::Sequence, &names)?;
            all.push(extension(SUBJECT_ALT_NAME, self.is_nameless, names));
        }
        Ok(all)
    }
}

fn extension(id: &[u64], critical: bool, content: Vec<u8>) -> CustomExtension {
    let mut extension = CustomExtension::from_oid_content(id, content);
    extension.set_criticality(critical);
    extension
}

fn value(tag: Tag, content: &[u8]) -> Result<Vec<u8>, Error> {
    tagged(tag.octet(), content)
}

/// A value in DER.
fn tagged(tag: u8, content: &[u8]) -> Result<Vec<u8>, Error> {
    let length = rsa::pkcs8::der::Length::try_from(content.len())?;
    let mut all = vec![tag];
    rsa::pkcs8::der::Encode::encode(&length, &mut all)?;
    all.extend(content);
    Ok(all)
}
