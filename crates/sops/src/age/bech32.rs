//! Bech32 (BIP 173) as age writes keys: in lower case and without the length limit.

use zeroize::Zeroizing;

const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
const CHECKSUM: usize = 6;

const CHARS_MAX: usize = 8 << 10;

pub(super) fn decode(prefix: &str, text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let rest = text.strip_prefix(prefix)?.strip_prefix('1')?;
    if rest.len() < CHECKSUM || rest.len() > CHARS_MAX {
        return None;
    }
    let digits: Option<Vec<u8>> = rest
        .bytes()
        .map(|byte| {
            let digit = ALPHABET.iter().position(|letter| *letter == byte)?;
            u8::try_from(digit).ok()
        })
        .collect();
    let digits = Zeroizing::new(digits?);
    if checksum(prefix, &digits) != 1 {
        return None;
    }
    regroup(&digits[..digits.len() - CHECKSUM], 5, 8, false)
}

pub(super) fn encode(prefix: &str, bytes: &[u8]) -> String {
    let mut digits = regroup(bytes, 8, 5, true).unwrap_or_default();
    let data = digits.len();
    digits.extend([0; CHECKSUM]);
    let sum = checksum(prefix, &digits) ^ 1;
    for at in 0..CHECKSUM {
        digits[data + at] = ((sum >> (5 * (CHECKSUM - 1 - at))) & 31) as u8;
    }
    let letters = digits
        .iter()
        .map(|digit| char::from(ALPHABET[usize::from(*digit)]));
    prefix.chars().chain(['1']).chain(letters).collect()
}

/// Returns 1 if the last six digits are the right checksum.
fn checksum(prefix: &str, digits: &[u8]) -> u32 {
    let high = prefix.bytes().map(|byte| byte >> 5);
    let low = prefix.bytes().map(|byte| byte & 31);
    let all = high.chain([0]).chain(low).chain(digits.iter().copied());
    all.fold(1, |sum: u32, value| {
        let top = sum >> 25;
        let shifted = ((sum & 0x1ff_ffff) << 5) ^ u32::from(value);
        let terms = GENERATOR.iter().enumerate();
        terms.fold(
            shifted,
            |sum, (bit, term)| {
                if (top >> bit) & 1 == 1 { sum ^ term } else { sum }
            },
        )
    })
}

/// Without padding, the remainder must be zeros and shorter than a group.
fn regroup(groups: &[u8], from: u32, to: u32, pad: bool) -> Option<Zeroizing<Vec<u8>>> {
    let mut out = Zeroizing::new(Vec::with_capacity(groups.len() * from as usize / to as usize + 1));
    let (mut bits, mut kept) = (0u32, 0u32);
    for group in groups {
        kept = ((kept << from) | u32::from(*group)) & 0xfff;
        bits += from;
        while bits >= to {
            bits -= to;
            out.push(((kept >> bits) & ((1 << to) - 1)) as u8);
        }
    }
    let rest = kept & ((1 << bits) - 1);
    if pad && bits > 0 {
        out.push((rest << (to - bits)) as u8);
    } else if !pad && (bits >= from || rest != 0) {
        return None;
    }
    Some(out)
}
