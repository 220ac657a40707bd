//! Random bytes of the operating system, through the provider of cryptography.

use ring::rand::{SystemRandom, generate};

use crate::status::ApiError;

/// The operating system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the operating system has no random numbers")]
pub struct NoRandomNumbers;

pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], NoRandomNumbers> {
    match generate(&SystemRandom::new()) {
        Ok(bytes) => Ok(bytes.expose()),
        Err(_unspecified) => Err(NoRandomNumbers),
    }
}

impl From<NoRandomNumbers> for ApiError {
    fn from(error: NoRandomNumbers) -> Self {
        ApiError::internal(error.to_string())
    }
}
