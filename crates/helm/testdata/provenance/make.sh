#!/usr/bin/env bash
# Records the keys, the signed charts and what helm says of them anew, with the real gpg and helm on PATH.
# The keys were made for these tests and protect nothing.
set -euo pipefail
cd "$(dirname "$0")"
shopt -s extglob
rm -rf !(make.sh)
work=$(mktemp -d /tmp/provXXXX)
export GNUPGHOME=$work/gpg HOME=$work
mkdir -m 700 "$GNUPGHOME" "$work/other"
trap 'gpgconf --kill gpg-agent; rm -rf "$work"' EXIT
at() { # TIME ARGUMENTS...: gpg at a time
  local time=$1
  shift
  gpg --batch --yes --quiet --pinentry-mode loopback --passphrase '' --faked-system-time "$time!" "$@"
}
fingerprints() { gpg --quiet --with-colons --list-keys "$1" | awk -F: '/^fpr/ { print $10 }'; }
primary() { fingerprints "$1" | sed -n 1p; }
subkey() { fingerprints "$1" | sed -n 2p; }
ring() { gpg --quiet --armor --export "$1" >"$1.asc"; }
begin=20260101T000000 signed=20260102T000000 future=20350101T000000
archive=small-1.0.0.tgz

for name in alice bob revoked; do at $begin --quick-generate-key "$name <$name@example.com>" ed25519 sign never; done
at $begin --quick-generate-key 'expired <expired@example.com>' ed25519 sign 10d
at $begin --quick-generate-key 'rsa <rsa@example.com>' rsa2048 sign never
for name in subkey lapsed; do
  at $begin --quick-generate-key "$name <$name@example.com>" ed25519 cert never
  at $begin --quick-add-key "$(primary $name)" ed25519 sign "$([ $name = lapsed ] && echo 10d || echo never)"
done
for name in alice bob expired rsa subkey lapsed; do ring $name; done
cat bob.asc alice.asc >both.asc
gpg --quiet --export alice >alice.gpg
gpg --quiet --export-secret-keys --batch --pinentry-mode loopback --passphrase '' alice >secret.gpg
GNUPGHOME=$work/other gpg --quiet --no-default-keyring --keyring "gnupg-ring:$PWD/legacy.gpg" --import both.asc
GNUPGHOME=$work/other gpg --quiet --no-default-keyring --keyring "gnupg-kbx:$PWD/both.kbx" --import both.asc
rm -f ./*~
chmod 644 ./*.gpg ./*.kbx

mkdir -p "$work/small/templates"
cat >"$work/small/Chart.yaml" <<YAML
apiVersion: v2
name: small
version: 1.0.0
description: A <small> chart
keywords: [a, '- b']
YAML
echo '{}' >"$work/small/values.yaml"
helm package "$work/small" --sign --key alice --keyring secret.gpg -d . >/dev/null
mv $archive.prov good.prov
{ cat $archive; echo x; } >changed.tgz

# the text that helm signed, for gpg to sign
awk '/^-----BEGIN PGP SIGNATURE/ { exit } body { sub(/^- /, ""); print } /^$/ { body = 1 }' good.prov >"$work/text"
sign() { # NAME TIME ARGUMENTS...
  local name=$1 time=$2
  shift 2
  at "$time" "$@" --output "$name.prov" --clearsign "${text-$work/text}"
}
for name in bob revoked expired rsa; do sign $name $signed -u $name; done
for name in subkey lapsed; do sign $name $signed -u "$(subkey $name)!"; done
sign two $signed -u bob -u alice
sign sha1 $signed --digest-algo SHA1 -u rsa
sign future $future -u alice
sed "s/^:-/-/" "$GNUPGHOME/openpgp-revocs.d/$(primary revoked).rev" | gpg --batch --quiet --import 2>/dev/null
ring revoked

printf 'name: small\n' >"$work/one"
text=$work/one sign one-part $signed -u alice
printf 'name: small\n...\nimages: {}\n' >"$work/none"
text=$work/none sign no-files $signed -u alice
printf 'name: small\n...\nfiles: []\n' >"$work/list"
text=$work/list sign files-list $signed -u alice
printf 'name: small\n...\n{\n' >"$work/broken"
text=$work/broken sign broken-sums $signed -u alice
: >"$work/nothing"
text=$work/nothing sign nothing $signed -u alice

sed 's/A <small> chart/A large chart/' good.prov >changed.prov
sed 's/$/\r/' good.prov >crlf.prov
sed 's/^name: small$/name: small  \t/' good.prov >blanks.prov
{ echo 'Dear reader,'; echo; cat good.prov; echo 'Yours.'; } >around.prov
cat bob.prov good.prov >bob-first.prov
cat good.prov bob.prov >alice-first.prov
head -n 8 good.prov >cut.prov
head -n -3 good.prov >cut-armor.prov
sed 's/^Hash: .*/Comment: x/' good.prov >header.prov
at $signed -u alice --armor --output detached.prov --detach-sign "$work/text"
echo 'no signature' >garbage.prov
: >empty.prov
head -c 100 both.kbx >cut.kbx
echo 'no key' >garbage.gpg
: >empty.gpg
printf -- '-----BEGIN PGP PUBLIC KEY BLOCK-----\n' >cut.asc

# what helm says: PROVENANCE RING [ARCHIVE [NAME]]
while read -r prov keys from name; do
  from=${from:-$archive} name=${name:-$archive}
  rm -rf "$work/case" && mkdir "$work/case"
  cp "$from" "$work/case/$name"
  cp "$prov.prov" "$work/case/$name.prov"
  said=$(helm verify "$work/case/$name" --keyring "$keys" 2>&1) || true
  said=${said//$work\/case\//}
  said=${said//"failed to load keyring: open "/}
  jq -cn --arg prov "$prov" --arg ring "$keys" --arg archive "$from" --arg name "$name" --arg said "$said" \
    --argjson at "$(date +%s)" '{$prov, $ring, $archive, $name, $at, $said}'
done >verdicts.jsonl <<'CASES'
good alice.asc
good alice.gpg
good both.asc
good both.kbx
good legacy.gpg
good secret.gpg
good bob.asc
good alice.asc changed.tgz
good alice.asc small-1.0.0.tgz other-1.0.0.tgz
bob alice.asc
bob both.asc
revoked revoked.asc
expired expired.asc
rsa rsa.asc
sha1 rsa.asc
subkey subkey.asc
lapsed lapsed.asc
two alice.asc
two bob.asc
two rsa.asc
future alice.asc
one-part alice.asc
no-files alice.asc
files-list alice.asc
broken-sums alice.asc
nothing alice.asc
changed alice.asc
crlf alice.asc
blanks alice.asc
around alice.asc
bob-first alice.asc
alice-first alice.asc
cut alice.asc
cut-armor alice.asc
header alice.asc
detached alice.asc
garbage alice.asc
empty alice.asc
good cut.kbx
good garbage.gpg
good empty.gpg
good cut.asc
CASES
