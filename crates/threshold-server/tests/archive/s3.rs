//! An S3 server of somebody else's, and a door before it that can be shut.

use std::net::{SocketAddr, TcpListener as Port};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use threshold_testkit::folder::Folder;
use tokio::net::{TcpListener, TcpStream};

use super::programs::{python, until};

pub(super) const BUCKET: &str = "observatory";
pub(super) const CREDENTIALS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_SESSION_TOKEN", "token")];

/// moto, with one bucket; ended when it is dropped.
pub(super) struct S3 {
    child: Child,
    pub(super) address: SocketAddr,
}

impl S3 {
    pub(super) async fn start() -> Self {
        let port = Port::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(python());
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let s3 = Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        until("moto listens", || std::net::TcpStream::connect(s3.address).is_ok()).await;
        s3.python("s3.create_bucket(Bucket=bucket)");
        s3
    }

    /// Runs a line of Python with `s3`, `bucket` and `folder`, and gives what it prints.
    fn run(&self, line: &str, folder: &Path) -> String {
        let script = format!(
            "import boto3, os, sys\n\
             s3 = boto3.client('s3', endpoint_url='http://{}', region_name='us-east-1', aws_access_key_id='key', \
             aws_secret_access_key='secret')\nbucket, folder = '{BUCKET}', sys.argv[1]\n{line}\n",
            self.address
        );
        let ran = Command::new(python()).args(["-c", &script]).arg(folder).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    fn python(&self, line: &str) -> String {
        self.run(line, Path::new("."))
    }

    /// Puts an object of a few bytes at `key`.
    pub(super) fn put(&self, key: &str) {
        self.python(&format!("s3.put_object(Bucket=bucket, Key='{key}', Body=b'bytes')"));
    }

    /// All keys of the bucket.
    pub(super) fn keys(&self) -> Vec<String> {
        let listed =
            self.python("for o in s3.list_objects_v2(Bucket=bucket).get('Contents', []): print(o['Key'])");
        listed.lines().map(str::to_owned).collect()
    }

    /// All objects, as files of a folder.
    pub(super) fn objects(&self) -> Folder {
        let folder = Folder::new();
        self.run(
            "for o in s3.list_objects_v2(Bucket=bucket).get('Contents', []):\n \
             p = os.path.join(folder, o['Key']); os.makedirs(os.path.dirname(p), exist_ok=True)\n \
             s3.download_file(bucket, o['Key'], p)",
            folder.path(),
        );
        folder
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A door before a server: shut, nobody comes through, and whoever was on the way is cut off.
pub(super) struct Door {
    pub(super) address: SocketAddr,
    open: Arc<AtomicBool>,
}

impl Door {
    pub(super) async fn before(server: SocketAddr, open: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = Self { address: listener.local_addr().unwrap(), open: Arc::new(AtomicBool::new(open)) };
        let is_open = Arc::clone(&door.open);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if !is_open.load(Ordering::Acquire) {
                    continue;
                }
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(server).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        door
    }

    pub(super) fn set(&self, open: bool) {
        self.open.store(open, Ordering::Release);
    }
}
