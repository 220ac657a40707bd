# Equate and nothing else: no shell, no libraries, no user but an unprivileged one.
# `cargo xtask image` puts both files into the context and builds this.
FROM scratch
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --chmod=0755 equate /equate
USER 65532:65532
ENTRYPOINT ["/equate"]
