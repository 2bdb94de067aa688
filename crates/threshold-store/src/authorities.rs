//! Whom to trust when a server shows its certificate.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The authorities in the file `roots`, or else this machine's. Errors name the `option` by which the file is given.
pub(crate) fn authorities(roots: Option<&Path>, option: &str) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(path) => {
            let wrong = |error: &dyn std::fmt::Display| format!("{option} {}: {error}", path.display());
            let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| wrong(&error))?;
                store.add(certificate).map_err(|error| wrong(&error))?;
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if store.is_empty() {
        return Err(format!("no authority is trusted; name a file of certificates by {option}"));
    }
    Ok(store)
}
