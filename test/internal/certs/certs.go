// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package certs makes an authority and certificates that it signed.
package certs // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/certs"

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority signs certificates for this machine.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  crypto.Signer
	// Dir has tls.crt, tls.key and ca.crt of a server, named as in a Kubernetes secret.
	Dir string
	// Pool trusts the authority.
	Pool *x509.CertPool
}

// New makes an authority and a server's files.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, Dir: t.TempDir(), Pool: x509.NewCertPool()}
	a.key = newKey(t)
	template := a.template("authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.Pool.AddCert(a.cert)
	a.write("ca.crt", "CERTIFICATE", der)
	server := a.Certificate("server")
	key, err := x509.MarshalPKCS8PrivateKey(server.PrivateKey)
	require.NoError(t, err)
	a.write("tls.crt", "CERTIFICATE", server.Certificate[0])
	a.write("tls.key", "PRIVATE KEY", key)
	return a
}

// Certificate signs one that serves for a server and for a client.
func (a *Authority) Certificate(name string) tls.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, a.template(name), a.cert, key.Public(), a.key)
	require.NoError(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Client is the settings of a client that trusts the authority; with a certificate
// of signer if that is not nil.
func (a *Authority) Client(signer *Authority) *tls.Config {
	a.t.Helper()
	c := &tls.Config{RootCAs: a.Pool, MinVersion: tls.VersionTLS12}
	if signer != nil {
		cert := signer.Certificate("client")
		// Whatever authorities the server names: a stranger tries.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	return c
}

func (a *Authority) template(name string) *x509.Certificate {
	a.t.Helper()
	const bits, validity = 64, time.Hour
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
	require.NoError(a.t, err)
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-validity), NotAfter: time.Now().Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func (a *Authority) write(name, kind string, der []byte) {
	a.t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	require.NoError(a.t, os.WriteFile(filepath.Join(a.Dir, name), text, 0o600))
}
