//! Combines the shares of key groups: Shamir's scheme over GF(2^8), per byte, as in Vault. A share's last
//! byte is its point.

use zeroize::Zeroizing;

/// The reason why shares cannot be combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShamirError {
    /// There are fewer than two shares.
    #[error("a key shared among groups needs at least two shares")]
    TooFew,
    /// Shares are empty or differ in length.
    #[error("the groups' shares differ in length")]
    Lengths,
    /// Two shares have the same point.
    #[error("two groups have the same share")]
    Repeated,
}

/// The work to combine them, in steps of ten nanoseconds.
pub(crate) fn steps(shares: &[Zeroizing<Vec<u8>>]) -> u64 {
    let points = shares.len().saturating_mul(shares.len()).saturating_mul(500);
    let bytes: usize = shares.iter().map(|share| share.len()).sum();
    points.saturating_add(bytes.saturating_mul(4)) as u64
}

pub(crate) fn combine(shares: &[Zeroizing<Vec<u8>>]) -> Result<Zeroizing<Vec<u8>>, ShamirError> {
    let [first, second, ..] = shares else {
        return Err(ShamirError::TooFew);
    };
    let length = first.len();
    if second.len() < 2 || shares.iter().any(|share| share.len() != length) {
        return Err(ShamirError::Lengths);
    }
    let points: Vec<u8> = shares.iter().filter_map(|share| share.last().copied()).collect();
    let weights = weights(&points)?;
    let secret = (0..length - 1)
        .map(|at| {
            let terms = shares.iter().zip(&weights);
            terms.fold(0, |sum, (share, weight)| sum ^ times(share[at], *weight))
        })
        .collect();
    Ok(Zeroizing::new(secret))
}

/// Lagrange's basis at zero, where the secret is. Minus equals plus.
fn weights(points: &[u8]) -> Result<Vec<u8>, ShamirError> {
    let mut weights = Vec::with_capacity(points.len());
    for (at, point) in points.iter().enumerate() {
        let mut weight = 1;
        for (other_at, other) in points.iter().enumerate() {
            if at == other_at {
                continue;
            }
            if point == other {
                return Err(ShamirError::Repeated);
            }
            weight = times(weight, times(*other, inverse(point ^ other)));
        }
        weights.push(weight);
    }
    Ok(weights)
}

/// The product modulo x^8 + x^4 + x^3 + x + 1, without branches on secrets.
pub(crate) fn times(left: u8, right: u8) -> u8 {
    let (mut left, mut product) = (left, 0);
    for bit in 0..8 {
        product ^= left & 0u8.wrapping_sub((right >> bit) & 1);
        left = (left << 1) ^ (0x1b & 0u8.wrapping_sub(left >> 7));
    }
    product
}

/// The 254th power, the inverse of a number other than zero.
fn inverse(number: u8) -> u8 {
    (0..253).fold(number, |power, _| times(power, number))
}
