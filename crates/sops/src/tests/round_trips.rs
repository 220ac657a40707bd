//! Round trips of formats, values and key shares.

use proptest::prelude::{any, prop_assert_eq, proptest};
use zeroize::Zeroizing;

use super::encrypt::{Order, encrypt, split};
use super::{decrypted, keys};
use crate::shamir;
use crate::tree::{Entry, Node};
use crate::{Decrypter, Format};

fn document(key: &str, text: &str) -> Vec<Entry> {
    vec![Entry::Pair {
        key: key.to_owned(),
        value: Node::Text(text.into()),
    }]
}

proptest! {
    #[test]
    fn texts_round_trip_in_every_format(key in "[a-zA-Z:# \n'\"-]{1,12}", text in "[\\x20-\\x7e\n\té🎉\u{1}\u{2028}]{0,60}") {
        for format in [Format::Yaml, Format::Json] {
            let document = document(&key, &text);
            let written = format.write(std::slice::from_ref(&document)).unwrap();
            let read = format.read_plain(&written);
            prop_assert_eq!(read, Ok(vec![document]), "{}", String::from_utf8_lossy(&written));
        }
    }

    #[test]
    fn bytes_round_trip(plain in proptest::collection::vec(any::<u8>(), 1..200)) {
        let keys = keys(&["one.agekey"]);
        let order = Order {
            format: Format::Binary,
            rule: None,
            mac_only_encrypted: false,
            groups: vec![keys.age.clone()],
            threshold: 1,
        };
        // JSON cannot carry bytes that are not UTF-8, before encryption or after decryption
        let sealed = encrypt(&plain, &order);
        prop_assert_eq!(decrypted(&Decrypter::new(&keys), &sealed, Format::Binary), Ok(plain));
    }

    #[test]
    fn shares_combine_to_the_key(secret in proptest::collection::vec(any::<u8>(), 1..40), groups in 2..9_usize, threshold in 2..9_usize) {
        let threshold = threshold.min(groups);
        let mut shares: Vec<_> = split(&secret, groups, threshold)
            .into_iter()
            .map(Zeroizing::new)
            .collect();
        shares.reverse();
        prop_assert_eq!(&*shamir::combine(&shares[..threshold]).unwrap(), &secret);
        prop_assert_eq!(&*shamir::combine(&shares).unwrap(), &secret);
    }
}

#[test]
fn invalid_shares_are_refused() {
    let shares = |all: &[&[u8]]| {
        let all: Vec<_> = all.iter().map(|share| Zeroizing::new(share.to_vec())).collect();
        shamir::combine(&all).map_err(|error| error.to_string())
    };
    for (all, expected) in [
        (
            &[&[1_u8, 1][..]][..],
            "a key shared among groups needs at least two shares",
        ),
        (&[&[1, 1], &[1, 2, 3]], "the groups' shares differ in length"),
        (&[&[1], &[2]], "the groups' shares differ in length"),
        (&[&[1, 7], &[2, 7]], "two groups have the same share"),
    ] {
        assert_eq!(shares(all), Err(expected.to_owned()));
    }
}
