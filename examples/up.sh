#!/usr/bin/env bash
# Makes a git repository of examples/fleet and keeps an embedded cluster equal to it.
# usage: examples/up.sh [arguments of `equate up`, such as --once or --path clusters/production]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fleet=target/example/fleet

if [ ! -d "$fleet/.git" ]; then
  rm -rf "$fleet"
  mkdir -p "$fleet"
  cp -R examples/fleet/. "$fleet"
  git -C "$fleet" init --quiet --initial-branch main
  git -C "$fleet" config user.name you
  git -C "$fleet" config user.email you@example.org
  git -C "$fleet" config commit.gpgsign false
  git -C "$fleet" add --all
  git -C "$fleet" commit --quiet --message 'A fleet of one app in two environments'
fi

# without optimisation: ready in a third of the time. `cargo build --release` is for daily use
echo 'Building Equate; the first time takes about 5 minutes.' >&2
cargo build -p equate-cli
case " $* " in
  *" --path"*) ;;
  *) set -- --path clusters/dev "$@" ;;
esac
cd "$fleet"
exec ../../debug/equate up "$@"
