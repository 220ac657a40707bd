//! A data key from the shares of several key groups: Shamir's scheme over GF(2^8), byte for byte,
//! as Vault has it. A share's last byte says at which point it was taken.

use zeroize::Zeroizing;

/// Why shares do not give a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShamirError {
    /// One share is no share.
    #[error("a key shared among groups needs at least two shares")]
    TooFew,
    /// Shares of different lengths, or empty ones.
    #[error("the groups' shares differ in length")]
    Lengths,
    /// Two shares of the same point.
    #[error("two groups have the same share")]
    Repeated,
}

/// The secret that the shares are of.
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

/// What each share counts at zero, where the secret is: Lagrange's basis, in which plus is minus.
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

/// The product modulo x^8 + x^4 + x^3 + x + 1, without branches on what is secret.
pub(crate) fn times(left: u8, right: u8) -> u8 {
    let (mut left, mut product) = (left, 0);
    for bit in 0..8 {
        product ^= left & 0u8.wrapping_sub((right >> bit) & 1);
        left = (left << 1) ^ (0x1b & 0u8.wrapping_sub(left >> 7));
    }
    product
}

/// The 254th power, which is the inverse of what is not zero.
fn inverse(number: u8) -> u8 {
    (0..253).fold(number, |power, _| times(power, number))
}
