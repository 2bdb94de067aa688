//! What is compiled from the protocol's files is here already, so that no build needs a compiler for them; this holds it
//! to the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message as _;
use prost_types::FileDescriptorSet;

const FILES: [&str; 4] = [
    "envoy/service/ratelimit/v3/rls.proto",
    "grpc/health/v1/health.proto",
    "grpc/reflection/v1/reflection.proto",
    "grpc/reflection/v1alpha/reflection.proto",
];

fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn compiled() -> FileDescriptorSet {
    let mut compiler = protox::Compiler::new([home().join("proto")]).unwrap();
    compiler.include_imports(true);
    compiler.open_files(FILES).unwrap();
    compiler.file_descriptor_set()
}

/// Fails if `file` is not `fresh`, and leaves what it should be where it can be copied from.
fn assert_fresh(file: &str, fresh: &[u8]) {
    let known = std::fs::read(home().join(file)).unwrap_or_default();
    if known != fresh {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Path::new(file).file_name().unwrap());
        std::fs::write(&new, fresh).unwrap();
        panic!("{file} is not what the files in `proto` say; copy {} over it", new.display());
    }
}

#[test]
fn the_descriptions_are_those_of_the_files() {
    assert_fresh("proto/descriptors.bin", &compiled().encode_to_vec());
}

#[test]
fn the_messages_of_the_tests_are_those_of_the_files() {
    let set = compiled();
    let module = |name: &str| prost_build::Module::from_protobuf_package_name(name);
    let requests = set.file.into_iter().map(|file| (module(file.package()), file));
    let mut modules = prost_build::Config::new().generate(requests.collect()).unwrap();
    // Those of the protocol's makers have a crate of their own.
    modules.remove(&module("google.protobuf"));
    let written: BTreeMap<Vec<String>, String> =
        modules.drain().map(|(module, code)| (module.parts().map(str::to_owned).collect(), code)).collect();
    let mut text = String::from("// @generated from the files in `proto`; a test holds it to them.\n");
    nest(&written, &[], &mut text);
    assert_fresh("tests/rls/generated.rs", text.as_bytes());
}

/// Writes the modules within `path`, each in that of the package it belongs to.
fn nest(modules: &BTreeMap<Vec<String>, String>, path: &[String], text: &mut String) {
    if let Some(code) = modules.get(path) {
        text.push_str(code);
    }
    let mut names: Vec<&String> =
        modules.keys().filter(|own| own.starts_with(path)).filter_map(|own| own.get(path.len())).collect();
    names.dedup();
    for name in names {
        text.push_str(&format!("pub(crate) mod {name} {{\n"));
        nest(modules, &[path, std::slice::from_ref(name)].concat(), text);
        text.push_str("}\n");
    }
}
