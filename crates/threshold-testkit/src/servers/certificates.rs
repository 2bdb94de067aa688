//! Certificates for servers that speak TLS.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority of its own, and a certificate of `localhost` and `127.0.0.1` that it signed, as files.
#[derive(Clone, Debug)]
pub struct Certificates {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificates {
    /// Makes them in a folder.
    ///
    /// # Panics
    ///
    /// If they cannot be made there.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let named = |name: &str, names: &[String]| {
            let mut params = CertificateParams::new(names).expect("the names are well formed");
            params.distinguished_name.push(DnType::CommonName, name);
            (params, KeyPair::generate().expect("a key can be made"))
        };
        let (mut authority, authority_key) = named("threshold tests", &[]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let signed = authority.self_signed(&authority_key).expect("a key signs");
        let issuer = Issuer::new(authority, authority_key);
        let (params, key) = named("localhost", &["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let certificate = params.signed_by(&key, &issuer).expect("a key signs");
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("the folder is writable");
            path
        };
        Self {
            authority: write("authority.pem", signed.pem()),
            certificate: write("certificate.pem", certificate.pem()),
            key: write("key.pem", key.serialize_pem()),
        }
    }

    /// Whom a client has to trust.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// What the server shows.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// What it proves it with.
    #[must_use]
    pub fn key(&self) -> &Path {
        &self.key
    }
}
