// Package conformance pins Kubernetes' own end-to-end tests; `cargo xtask conformance` runs them.
package conformance

import _ "k8s.io/kubernetes/test/e2e"
