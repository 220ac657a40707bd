#!/usr/bin/env bash
# Records the fixtures anew: sealed/ and opened/ from plain/, with the real sops (3.11) and gpg on
# PATH, and the keys in keys/, which were made for these tests and protect nothing.
set -euo pipefail
cd "$(dirname "$0")"
GNUPGHOME=$(mktemp -d)
export GNUPGHOME
trap 'rm -rf "$GNUPGHOME"' EXIT
gpg --quiet --batch --import keys/cv.asc keys/rsa.asc
recipient() { sed -n 's/^# public key: //p' "keys/$1.agekey"; }
fingerprint() { gpg --list-keys --with-colons "$1" | awk -F: '/^fpr/ { print $10; exit }'; }
one=$(recipient one) two=$(recipient two) cv=$(fingerprint cv@example.com) rsa=$(fingerprint rsa@example.com)

seal() { # NAME SOURCE RULE [ARGUMENTS...]
  local name=$1 source=$2 rule=$3
  shift 3
  printf 'creation_rules:\n  - %s\n' "$rule" >"$GNUPGHOME/rules.yaml"
  sops --config "$GNUPGHOME/rules.yaml" encrypt "$@" "plain/$source" >"sealed/$name"
  # comments in lists are in the MAC of 3.11 only when it decrypts, by mistake
  SOPS_AGE_KEY_FILE=keys/one.agekey sops decrypt --ignore-mac "sealed/$name" >"opened/$name"
}

only='"^(data|stringData)$"'
seal everything.yaml everything.yaml "age: $one"
seal secret.yaml secret.yaml "{age: '$one,$two', encrypted_regex: $only}"
seal suffix.yaml secret.yaml "{age: $one, encrypted_suffix: word}"
seal unencrypted_regex.yaml secret.yaml "{age: $one, unencrypted_regex: '^(apiVersion|kind|metadata|type)$'}"
seal mac_only.yaml secret.yaml "{age: $one, encrypted_regex: $only, mac_only_encrypted: true}"
seal comments.yaml comments.yaml "{age: $one, encrypted_comment_regex: 'sops:enc'}"
seal uncommented.yaml comments.yaml "{age: $one, unencrypted_comment_regex: 'sops:enc'}"
seal values.json values.json "age: $one"
seal settings.env settings.env "age: $one"
seal blob.bin blob.bin "age: $one"
seal cv.yaml secret.yaml "pgp: $cv"
seal rsa.yaml secret.yaml "pgp: $rsa"
seal mixed.env settings.env "{pgp: '$rsa,$cv', age: $two}"
seal groups.yaml secret.yaml "{shamir_threshold: 2, key_groups: [{age: [$one]}, {pgp: [$cv]}, {age: [$two]}]}"
seal groups.env settings.env "{shamir_threshold: 2, key_groups: [{age: [$one]}, {pgp: [$cv]}, {age: [$two]}]}"
