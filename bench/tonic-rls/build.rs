//! Compiles the service from the server's own files.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = "../../crates/threshold-server/proto";
    println!("cargo:rerun-if-changed={folder}");
    let files = protox::compile(["envoy/service/ratelimit/v3/rls.proto"], [folder])?;
    tonic_prost_build::configure().build_client(false).build_transport(false).compile_fds(files)?;
    Ok(())
}
