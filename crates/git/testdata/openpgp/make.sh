#!/usr/bin/env bash
# Records the keys and signatures here anew, with the real gpg on PATH. The keys were made for these
# tests, protect nothing, and are not kept.
set -euo pipefail
cd "$(dirname "$0")"
GNUPGHOME=$(mktemp -d /tmp/gpgXXXX)
export GNUPGHOME
trap 'gpgconf --kill gpg-agent; rm -rf "$GNUPGHOME"' EXIT
at() { # TIME ARGUMENTS...: gpg at a time
  local time=$1
  shift
  gpg --batch --yes --quiet --pinentry-mode loopback --passphrase '' --faked-system-time "$time!" "$@"
}
edit() { # TIME KEY COMMANDS...
  local time=$1 key=$2
  shift 2
  printf '%s\n' "$@" | gpg --no-tty --yes --quiet --pinentry-mode loopback --passphrase '' \
    --faked-system-time "$time!" --command-fd 0 --status-fd 2 --edit-key "$key" 2>/dev/null
}
fingerprints() { gpg --quiet --with-colons --list-keys "$1" | awk -F: '/^fpr/ { print $10 }'; }
primary() { fingerprints "$1" | sed -n 1p; }
subkey() { fingerprints "$1" | sed -n 2p; }
sign() { # NAME TIME ARGUMENTS...
  local name=$1 time=$2
  shift 2
  at "$time" --armor "$@" --output "$name.sig" --detach-sign payload
}
ring() { gpg --quiet --armor --export "$1" >"$2.asc"; }
begin=20260101T000000 signed=20260102T000000 later=20260103T000000

for name in alice bob single expiring; do at $begin --quick-generate-key $name ed25519 sign never; done
sign two $signed -u alice -u bob
ring alice alice
ring bob bob
cat alice.asc bob.asc >both.asc
sign short $signed --default-sig-expire 10d -u alice

for name in subkey revoked expired unflagged; do
  at $begin --quick-generate-key $name ed25519 cert never
  at $begin --quick-add-key "$(primary $name)" ed25519 sign "$([ $name = expired ] && echo 10d || echo never)"
  sign $name $signed -u "$(subkey $name)!"
done
ring subkey subkey
ring expired expired
ring revoked before
edit $later revoked 'key 1' revkey y 0 '' y save
ring revoked revoked
edit $later unflagged 'key 1' change-usage S A Q save
ring unflagged unflagged

sign certifies $signed -u single
edit $later single change-usage S Q save
ring single certifies

sign disowned $signed -u expiring
at $later --quick-add-uid "$(primary expiring)" second
at $later --quick-revoke-uid "$(primary expiring)" expiring
at $later --quick-revoke-uid "$(primary expiring)" second || true
ring expiring disowned
