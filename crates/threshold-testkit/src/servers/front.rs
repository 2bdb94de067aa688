//! A front that speaks TLS and HTTP/2, as the ones in front of Workers do.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use super::certificates::Certificates;
use super::process::{Process, Program, free_port, started};
use super::wait_until;
use crate::folder::Folder;

/// An nginx between a client and a server that speaks plain HTTP/1.1.
#[derive(Debug)]
pub struct Front {
    // Before the folder: fields are dropped in order, and the server writes there.
    process: Process,
    folder: Folder,
    certificates: Certificates,
    port: u16,
}

impl Front {
    /// Starts one before the server at a port of this machine. It speaks HTTP/2, or, if that is not wanted, HTTP/1.1.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn before(behind: u16, http2: bool) -> Self {
        started("nginx", || Self::attempt(behind, http2))
    }

    fn attempt(behind: u16, http2: bool) -> Result<Self, String> {
        let (folder, port) = (Folder::new(), free_port());
        let certificates = Certificates::new(folder.path());
        let text = configuration(folder.path(), &certificates, (port, behind), http2);
        std::fs::write(folder.path().join("nginx.conf"), text).expect("the folder is writable");
        let here = folder.path().display().to_string();
        let words = ["nginx", "-p", &here, "-c", "nginx.conf", "-e", "log"].map(str::to_owned).to_vec();
        let process = Process::start(&Program { folder: folder.path(), owner: None, signal: "KILL", words });
        let front = Self { process, folder, certificates, port };
        let answers = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        let came = wait_until(|| !front.process.is_running() || answers());
        if came && front.process.is_running() { Ok(front) } else { Err(front.process.log()) }
    }

    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whom a client has to trust.
    #[must_use]
    pub fn authority(&self) -> &Path {
        self.certificates.authority()
    }

    /// What was spoken, request by request: the connection's number and the protocol.
    #[must_use]
    pub fn spoken(&self) -> Vec<(u64, String)> {
        let log = std::fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        let line = |line: &str| {
            let (connection, protocol) = line.split_once(' ')?;
            Some((connection.parse().ok()?, protocol.to_owned()))
        };
        log.lines().filter_map(line).collect()
    }
}

fn configuration(folder: &Path, tls: &Certificates, (port, behind): (u16, u16), http2: bool) -> String {
    let (here, http2) = (folder.display(), if http2 { "http2" } else { "" });
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {here}/{name};"))
        .join("\n");
    format!(
        "daemon off; master_process off; pid {here}/pid;\nevents {{}}\nhttp {{\n{paths}\n\
         log_format spoken '$connection $server_protocol'; access_log {here}/access.log spoken;\n\
         upstream behind {{ server 127.0.0.1:{behind}; keepalive 64; }}\n\
         server {{ listen 127.0.0.1:{port} ssl {http2};\n\
         ssl_certificate {}; ssl_certificate_key {}; client_max_body_size 4m; keepalive_requests 1000000;\n\
         location / {{ proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ''; }} }} }}\n",
        tls.certificate().display(),
        tls.key().display(),
    )
}
