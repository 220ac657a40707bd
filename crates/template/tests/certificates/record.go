// Records what Go makes of the certificates in tests/it/certificates.rs:
//
//	GODEBUG=x509sha256skid=1 go run record.go > expected.pem
//
// The template is that of sprig, and the serial numbers are those of the test's seed. Go 1.25 or later has the
// hash of Helm's build.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

var used uint64

func serial() *big.Int {
	seed := sha256.Sum256([]byte("one"))
	block := sha256.Sum256(binary.BigEndian.AppendUint64(seed[:], used))
	used++
	block[0] &= 0x7f
	return new(big.Int).SetBytes(block[:16])
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func template(name string, days int, ips []net.IP, names []string) *x509.Certificate {
	from := time.Unix(1_700_000_000, 0)
	return &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: name},
		IPAddresses:           ips,
		DNSNames:              names,
		NotBefore:             from,
		NotAfter:              from.Add(time.Hour * 24 * time.Duration(days)),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
}

func main() {
	block, _ := pem.Decode(must(os.ReadFile("key.pem")))
	key := must(x509.ParsePKCS1PrivateKey(block.Bytes))
	sign := func(of, by *x509.Certificate) *x509.Certificate {
		der := must(x509.CreateCertificate(rand.Reader, of, by, key.Public().(*rsa.PublicKey), key))
		pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: der})
		return must(x509.ParseCertificate(der))
	}
	ca := template("ca", 365, nil, nil)
	ca.KeyUsage |= x509.KeyUsageCertSign
	ca.IsCA = true
	authority := sign(ca, ca)
	ips := []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("::1"), net.ParseIP("::ffff:10.0.0.2")}
	sign(template("x.y", 30, ips, []string{"a.b", "*.c"}), authority)
	sign(template("", 30, nil, []string{"a.b"}), authority)
	// the name of the authority
	sign(template("ca", 30, nil, nil), authority)
	self := template("*.käse", 30, ips[:1], nil)
	sign(self, self)
}
