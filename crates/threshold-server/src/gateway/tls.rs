//! TLS to clients: a certificate and its key, read again when they change.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use threshold::policy::Tls;

/// What TLS is spoken by.
pub(super) fn config(tls: &Tls) -> Result<Arc<ServerConfig>, String> {
    let certificates = certificates(Path::new(&tls.certificate.value))?;
    let key = key(Path::new(&tls.key.value))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be spoken ({error}); see whether the build is whole"))?;
    let mut config = builder.with_no_client_auth().with_single_cert(certificates, key).map_err(|error| {
        let (certificate, key) = (&tls.certificate.value, &tls.key.value);
        format!("{certificate} and {key} do not belong together ({error}); give the key of the certificate")
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(format!("{}: there is no certificate in it; give a PEM file", file.display())),
        Err(error) => Err(unreadable(file, "certificate", &error)),
    }
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| unreadable(file, "key", &error))
}

fn unreadable(file: &Path, what: &str, error: &pem::Error) -> String {
    format!(
        "{}: the {what} cannot be read ({error}); give a PEM file that this user may read",
        file.display()
    )
}
