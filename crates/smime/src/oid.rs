//! Object identifiers, as the contents of their encoding.

/// id-data (RFC 5652 4).
pub(crate) const DATA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01";
/// id-signedData (RFC 5652 5.1).
pub(crate) const SIGNED_DATA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02";
/// id-envelopedData (RFC 5652 6.1).
pub(crate) const ENVELOPED_DATA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03";
/// id-ct-authEnvelopedData (RFC 5083 2.1).
pub(crate) const AUTH_ENVELOPED_DATA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x17";

/// id-contentType (RFC 5652 11.1).
pub(crate) const CONTENT_TYPE: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x03";
/// id-messageDigest (RFC 5652 11.2).
pub(crate) const MESSAGE_DIGEST: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x04";
/// id-signingTime (RFC 5652 11.3).
pub(crate) const SIGNING_TIME: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x05";
/// smimeCapabilities (RFC 8551 2.5.2).
pub(crate) const CAPABILITIES: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x0f";

pub(crate) const SHA256: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x02\x01";
pub(crate) const SHA512: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x02\x03";

pub(crate) const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
pub(crate) const RSA_SHA256: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b";
pub(crate) const RSA_SHA512: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d";
pub(crate) const EC_PUBLIC_KEY: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
pub(crate) const P256: &[u8] = b"\x2a\x86\x48\xce\x3d\x03\x01\x07";
pub(crate) const ECDSA_SHA256: &[u8] = b"\x2a\x86\x48\xce\x3d\x04\x03\x02";
pub(crate) const ECDSA_SHA512: &[u8] = b"\x2a\x86\x48\xce\x3d\x04\x03\x04";

/// dhSinglePass-stdDH-sha1kdf-scheme (RFC 5753 7.1.4).
pub(crate) const ECDH_SHA1_KDF: &[u8] = b"\x2b\x81\x05\x10\x86\x48\x3f\x00\x02";
/// dhSinglePass-stdDH-sha256kdf-scheme.
pub(crate) const ECDH_SHA256_KDF: &[u8] = b"\x2b\x81\x04\x01\x0b\x01";

pub(crate) const AES_128_CBC: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x01\x02";
pub(crate) const AES_128_WRAP: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x01\x05";
pub(crate) const AES_128_GCM: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x01\x06";
pub(crate) const AES_256_CBC: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x01\x2a";
pub(crate) const AES_256_WRAP: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x01\x2d";
pub(crate) const AES_256_GCM: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x01\x2e";

/// id-ce-subjectKeyIdentifier (RFC 5280 4.2.1.2).
pub(crate) const KEY_ID: &[u8] = b"\x55\x1d\x0e";
/// id-ce-keyUsage (RFC 5280 4.2.1.3).
pub(crate) const KEY_USAGE: &[u8] = b"\x55\x1d\x0f";
/// id-ce-subjectAltName (RFC 5280 4.2.1.6).
pub(crate) const ALT_NAME: &[u8] = b"\x55\x1d\x11";
/// id-ce-basicConstraints (RFC 5280 4.2.1.9).
pub(crate) const BASIC_CONSTRAINTS: &[u8] = b"\x55\x1d\x13";
/// id-ce-extKeyUsage (RFC 5280 4.2.1.12).
pub(crate) const PURPOSES: &[u8] = b"\x55\x1d\x25";
/// id-kp-emailProtection (RFC 8550 4.4.4).
pub(crate) const EMAIL_PROTECTION: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x04";
